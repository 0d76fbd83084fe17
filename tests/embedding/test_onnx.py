"""The same text gives the same unit vector, whatever it stands among; and wrong bytes are never run."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from process import run_python
from vademecum.config import Settings
from vademecum.embedding import open_embedder, open_reranker
from vademecum.embedding.models import DEFAULT, MODELS, Model, ModelFile
from vademecum.embedding.onnx import MOST_WINDOWS, WINDOW, CrossEncoder, OnnxEmbedder
from vademecum.errors import ModelDamaged, ModelMissing

RealModels = Callable[..., Settings]


@pytest.fixture
def embedder(real_models: RealModels) -> OnnxEmbedder:
    made = open_embedder(real_models())
    assert isinstance(made, OnnxEmbedder)
    return made


@pytest.fixture
def reranker(real_models: RealModels) -> CrossEncoder:
    return open_reranker(real_models())


# ── wrong files


def model_of(content: dict[str, bytes]) -> Model:
    files = tuple(ModelFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items())
    return replace(DEFAULT, files=files)


CONTENT = {"model.onnx": b"no network " * 50, "tokenizer.json": b"no tokenizer " * 50}


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("damage", [lambda data: b"M" + data[1:], lambda data: data[:-1], lambda data: b""])
def test_a_damaged_file_is_named_and_not_loaded(
    make_settings: Callable[..., Settings],
    write_tree: Callable[..., Path],
    file: str,
    damage: Callable[[bytes], bytes],
) -> None:
    settings = make_settings()
    write_tree({**CONTENT, file: damage(CONTENT[file])}, settings.models_dir / DEFAULT.name)
    with pytest.raises(ModelDamaged) as damaged:
        OnnxEmbedder(settings, model_of(CONTENT))
    assert str(settings.models_dir / DEFAULT.name / file) in damaged.value.message
    assert "vade models pull" in damaged.value.hint


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named_with_what_to_do(
    make_settings: Callable[..., Settings], write_tree: Callable[..., Path], file: str
) -> None:
    settings = make_settings()
    kept = {name: data for name, data in CONTENT.items() if name != file}
    write_tree(kept, settings.models_dir / DEFAULT.name)
    with pytest.raises(ModelMissing) as missing:
        OnnxEmbedder(settings, model_of(CONTENT))
    assert file in missing.value.message
    assert missing.value.hint == "`vade models pull bge-small-en-v1.5` fetches it."


def test_right_bytes_that_no_library_can_read_are_our_error(
    make_settings: Callable[..., Settings], write_tree: Callable[..., Path]
) -> None:
    settings = make_settings()
    write_tree(CONTENT, settings.models_dir / DEFAULT.name)
    with pytest.raises(ModelDamaged, match="cannot be loaded"):
        OnnxEmbedder(settings, model_of(CONTENT))


def test_a_network_that_is_none_is_our_error(real_models: RealModels, write_tree: Callable[..., Path]) -> None:
    real = real_models().models_dir / DEFAULT.name / "tokenizer.json"
    content = {"model.onnx": b"no network " * 50, "tokenizer.json": real.read_bytes()}
    settings = Settings(home=write_tree({}) / "other", values=real_models().values)
    write_tree(content, settings.models_dir / DEFAULT.name)
    with pytest.raises(ModelDamaged, match="cannot be loaded"):
        OnnxEmbedder(settings, model_of(content))


def test_one_flipped_bit_of_the_real_model_is_seen(real_models: RealModels, tmp_path: Path) -> None:
    content = {file.name: (real_models().models_dir / DEFAULT.name / file.name).read_bytes() for file in DEFAULT.files}
    network = bytearray(content["model.onnx"])
    network[20_000_000] ^= 1
    settings = Settings(home=tmp_path / "other", values=real_models().values)
    folder = settings.models_dir / DEFAULT.name
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(network)
    (folder / "tokenizer.json").write_bytes(content["tokenizer.json"])
    with pytest.raises(ModelDamaged, match=r"model\.onnx has other bytes"):
        OnnxEmbedder(settings)


@pytest.mark.parametrize("library", ["numpy", "onnxruntime", "tokenizers"])
def test_a_library_that_is_not_installed_is_our_error(vade_home: Path, library: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
from vademecum import config
from vademecum.embedding import open_embedder
from vademecum.errors import ModelMissing
try:
    open_embedder(config.load())
except ModelMissing as exc:
    print(exc.message, exc.hint)
"""
    child = run_python(["-c", code], env={"VADE_HOME": str(vade_home)})
    assert library in child.out
    assert "Install numpy, onnxruntime and tokenizers" in child.out


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = (
        "import sys, vademecum.embedding.onnx, vademecum.embedding.http, vademecum.embedding.models\n"
        "import vademecum.embedding.hashing\n"
        "print(*{'numpy', 'onnxruntime', 'tokenizers', 'urllib.request', 'http.client'} & set(sys.modules))"
    )
    assert run_python(["-c", code]).out.strip() in {"", "urllib.request http.client", "http.client urllib.request"}


# ── vectors


TEXTS = (
    "The cache was replaced, since its memory cost too much.",
    "Bananas are yellow. " * 40,
    "x",
    "",
    "Ein Satz auf Deutsch, mit Umlauten: äöü.",
)


def test_vectors_are_float32_of_unit_length_in_order(embedder: OnnxEmbedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-6
    query = embedder.embed_query("why")
    assert query.shape == (384,)
    assert query.dtype == np.float32
    assert abs(np.linalg.norm(query) - 1) < 1e-6
    assert embedder.embed_documents([]).shape == (0, 384)


def test_a_text_has_the_same_bytes_alone_and_in_any_company(embedder: OnnxEmbedder, real_models: RealModels) -> None:
    together = embedder.embed_documents(TEXTS)
    backwards = embedder.embed_documents(TEXTS[::-1])[::-1]
    alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
    again = open_embedder(real_models()).embed_documents(TEXTS)
    assert together.tobytes() == backwards.tobytes() == alone.tobytes() == again.tobytes()


def test_a_paraphrase_without_a_shared_word_is_closer_than_an_unrelated_text(embedder: OnnxEmbedder) -> None:
    query = embedder.embed_query("why did we stop using that expensive key-value store")
    paraphrase, unrelated = embedder.embed_documents(
        ["Redis was dropped: memory costs had grown too high.", "The office plants get water on Mondays."]
    )
    assert query @ paraphrase > query @ unrelated + 0.1


def test_a_question_is_read_with_the_words_its_model_expects(embedder: OnnxEmbedder) -> None:
    said = "Represent this sentence for searching relevant passages: redis"
    assert embedder.embed_query("redis").tobytes() == embedder.embed_documents([said])[0].tobytes()


def words(number: int, word: str = "house") -> str:
    return " ".join([word] * number)


def test_the_end_of_a_long_text_counts(embedder: OnnxEmbedder) -> None:
    long = words(WINDOW) + " " + words(WINDOW, "banana")
    start, end, whole = embedder.embed_documents([words(WINDOW), words(WINDOW, "banana"), long])
    mean = (start + end) / np.linalg.norm(start + end)
    assert np.abs(mean - whole).max() < 1e-6


def test_what_lies_beyond_the_last_window_is_counted(embedder: OnnxEmbedder) -> None:
    most = WINDOW * MOST_WINDOWS
    assert embedder.unread(words(most)) == 0
    assert embedder.unread(words(most + 7)) == 7
    assert embedder.unread("short") == 0
    assert embedder.unread("") == 0


@pytest.mark.parametrize(
    "text",
    ["", " \n\t ", "\0", "a\0b", "\ud800", "x\udfffy", "\U0001f9d1‍\U0001f680" * 300, "a" * 1_000_000, "é́́"],
    ids=["empty", "blank", "nul", "nul inside", "surrogate", "surrogate inside", "emoji", "one word of 1 MB", "marks"],
)
def test_no_text_is_too_strange(embedder: OnnxEmbedder, reranker: CrossEncoder, text: str) -> None:
    assert abs(np.linalg.norm(embedder.embed_documents([text])[0]) - 1) < 1e-6
    assert abs(np.linalg.norm(embedder.embed_query(text)) - 1) < 1e-6
    assert embedder.unread(text) >= 0
    assert all(0 <= score <= 1 for score in reranker.score(text, [text, "redis"]))


def test_the_identity_is_known_without_loading(embedder: OnnxEmbedder) -> None:
    assert embedder.identity == DEFAULT.identity
    assert (embedder.name, embedder.dimensions) == ("bge-small-en-v1.5", 384)


# ── devices and threads


@pytest.mark.parametrize("device", ["cuda", "CoreMLExecutionProvider", "teapot"])
def test_a_device_that_is_not_there_falls_back_and_says_so(real_models: RealModels, device: str) -> None:
    import onnxruntime

    if device == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("there is such a device here")
    plain = OnnxEmbedder(real_models())
    other = OnnxEmbedder(real_models({"embedding.device": device}))
    assert plain.remarks == ()
    assert other.remarks == (f"onnxruntime does not offer {device} here, so the processor is used.",)
    assert other.embed_query("redis").tobytes() == plain.embed_query("redis").tobytes()


def test_the_processor_may_be_named_in_either_way(real_models: RealModels) -> None:
    for device in ("cpu", "CPU", "CPUExecutionProvider"):
        assert OnnxEmbedder(real_models({"embedding.device": device})).remarks == ()


def test_one_thread_is_used_unless_more_are_allowed(real_models: RealModels, tmp_path: Path) -> None:
    """The threads of the process are counted, since that is what another program on the machine feels."""
    code = (
        "import os, sys; from vademecum import config; from vademecum.embedding import open_embedder\n"
        "import numpy, onnxruntime, tokenizers; before = len(os.listdir('/proc/self/task'))\n"
        "opened = open_embedder(config.load()); opened.embed_query('redis')\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    home = real_models().home
    environment = {"VADE_HOME": str(home)}
    assert int(run_python(["-c", code], env=environment).out) == 0
    (home / "config.toml").write_text("[embedding]\nthreads = 3\n")
    assert int(run_python(["-c", code], env=environment).out) == 2


# ── the reranker


def test_the_text_that_answers_scores_higher(reranker: CrossEncoder) -> None:
    answer, other = reranker.score(
        "why did we drop redis", ["We dropped Redis because memory became too expensive.", "Bananas are yellow."]
    )
    assert 0 <= other < 0.1 < 0.9 < answer <= 1


def test_scores_depend_on_no_other_text(reranker: CrossEncoder) -> None:
    together = reranker.score("redis", list(TEXTS))
    assert together == [reranker.score("redis", [text])[0] for text in TEXTS]
    assert reranker.score("redis", []) == []


def test_a_long_question_leaves_room_for_the_text(reranker: CrossEncoder) -> None:
    question = "why did we drop redis " + words(2_000, "please")
    answer, other = reranker.score(question, ["We dropped Redis for its memory cost.", "Bananas are yellow."])
    assert answer != other


def test_the_reranker_has_a_name_and_an_identity(reranker: CrossEncoder) -> None:
    assert reranker.name == MODELS[1].name
    assert reranker.identity.startswith("ms-marco-minilm-l12@1225ccd6afd0+")


def test_question_and_text_are_told_apart_as_the_model_was_trained(
    reranker: CrossEncoder, real_models: RealModels
) -> None:
    """Against the tokenizer's own way to encode a pair."""
    import onnxruntime
    from tokenizers import Tokenizer

    folder = real_models().models_dir / MODELS[1].name
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    pair = tokenizer.encode("why redis", "It was quick. " * 400)
    feeds = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    logit = session.run(None, {name: np.array([row], dtype=np.int64) for name, row in feeds.items()})[0][0, 0]
    assert reranker.score("why redis", ["It was quick. " * 400]) == pytest.approx([1 / (1 + np.exp(-logit))], abs=1e-4)


def test_a_model_leaves_nothing_in_the_users_home(real_models: RealModels, tmp_path: Path) -> None:
    """The library that runs it would keep an id of this machine there, to report its use by."""
    settings, home = real_models(), tmp_path / "users-home"
    home.mkdir()
    code = "from vademecum import config, embedding as e; print(e.open_embedder(config.load()).embed_query('x').size)"
    done = run_python(["-c", code], env={"HOME": str(home), "VADE_HOME": str(settings.home)})
    assert (done.out, list(home.rglob("*"))) == ("384\n", [])
