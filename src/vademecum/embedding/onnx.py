"""Models that run on this machine: the embedder and the reranker, by onnxruntime.

Two failures shape it. A file with one wrong bit still embeds, only wrongly: so both files are hashed at every load,
which takes 25 ms. And activations of an int8 model are scaled over the whole batch: so texts are run one at a time,
and the same text gives the same bytes in any company.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vademecum.config import Settings
from vademecum.embedding.models import DEFAULT, RERANKER, Model, ModelFile, model_folder
from vademecum.embedding.prompts import prompt_for, readable
from vademecum.errors import EmbedderDown, ModelDamaged, ModelMissing

if TYPE_CHECKING:
    from vademecum.embedding import Vectors

MOST_TOKENS: Final = 512
WINDOW: Final = MOST_TOKENS - 2  # beside the two marks at the ends
MOST_WINDOWS: Final = 32
# A question leaves at least half of what the reranker reads to the passage.
MOST_QUERY_TOKENS: Final = 254

_PROVIDERS: Final = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "directml": "DmlExecutionProvider",
}
_CPU: Final = _PROVIDERS["cpu"]


class OnnxEmbedder:
    """An embedding model of the catalogue. Loading checks every byte of its files.

    `remarks` says in sentences what is other than the settings wished, such as a device that is not there. Raises
    ModelMissing, ModelDamaged.
    """

    def __init__(self, settings: Settings, model: Model = DEFAULT) -> None:
        self._network = _Network(settings, model)
        self._prompt = prompt_for(model.name)
        self.name = model.name
        self.identity = model.identity
        self.dimensions = model.dimensions
        self.batch = 1
        self.host = ""
        self.remarks = self._network.remarks

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of notes: float32 [len(texts), dimensions], unit rows. Raises EmbedderDown."""
        import numpy as np

        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._embed(self._prompt.document + text)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Embed a question: float32 [dimensions], of unit length. Raises EmbedderDown."""
        return self._embed(self._prompt.query + text)

    def unread(self, text: str) -> int:
        """How many tokens of a text lie beyond the last window that is read."""
        # A token has a character at least: most texts are short enough to say so without tokenizing them again.
        if len(text) <= WINDOW * MOST_WINDOWS:
            return 0
        return max(0, len(self._network.tokens(self._prompt.document + text)) - WINDOW * MOST_WINDOWS)

    def _embed(self, text: str) -> Vectors:
        """The vector of a text; of one longer than the model reads, the mean over its windows."""
        import numpy as np

        tokens = self._network.tokens(text)[: WINDOW * MOST_WINDOWS]
        if len(tokens) <= WINDOW:
            return self._embed_window(tokens)
        windows = [self._embed_window(tokens[i : i + WINDOW]) for i in range(0, len(tokens), WINDOW)]
        return _unit(np.mean(windows, axis=0, dtype=np.float32))

    def _embed_window(self, tokens: Sequence[int]) -> Vectors:
        states = self._network.run([self._network.start, *tokens, self._network.end])
        return _unit(states[0, 0])  # what the mark at the start has gathered


class CrossEncoder:
    """The reranker: reads a question and a text together, and says how well one answers the other.

    Slower than comparing vectors by far, so it is for the best hits alone. Loads and raises as OnnxEmbedder does.
    """

    def __init__(self, settings: Settings, model: Model = RERANKER) -> None:
        self._network = _Network(settings, model)
        self.name = model.name
        self.identity = model.identity
        self.remarks = self._network.remarks

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, from 0 to 1, in the order given. Raises EmbedderDown.

        Of a long text the model reads what fits into 512 tokens beside the query.
        """
        asked = self._network.tokens(query)[:MOST_QUERY_TOKENS]
        return [self._score(asked, self._network.tokens(text)) for text in texts]

    def _score(self, asked: list[int], told: list[int]) -> float:
        network = self._network
        first = [network.start, *asked, network.end]
        second = [*told[: MOST_TOKENS - len(first) - 1], network.end]
        logit = float(network.run(first + second, second=len(second))[0, 0])
        return 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - 1 / (1 + math.exp(logit))


class _Network:
    """A model's tokenizer and its network, verified and loaded."""

    def __init__(self, settings: Settings, model: Model) -> None:
        runtime, tokenizer = _libraries()
        folder = model_folder(settings, model)
        network_file, tokens_file = model.files
        vocabulary, network = _verified(folder, tokens_file, model), _verified(folder, network_file, model)
        try:
            self._tokenizer = tokenizer.from_buffer(vocabulary.read_bytes())
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            self._session, self.remarks = _open_session(runtime, settings, network)
        except _faults() as exc:
            raise ModelDamaged(
                f"{model.name} cannot be loaded: {_short(exc)}",
                hint="Its bytes are right: another version of onnxruntime may read them.",
            ) from exc
        self._inputs = frozenset(each.name for each in self._session.get_inputs())
        self.start: int = self._tokenizer.token_to_id("[CLS]")
        self.end: int = self._tokenizer.token_to_id("[SEP]")

    def tokens(self, text: str) -> list[int]:
        """The text's tokens, without marks, however many there are."""
        ids: list[int] = self._tokenizer.encode(readable(text), add_special_tokens=False).ids
        return ids

    def run(self, tokens: Sequence[int], *, second: int = 0) -> Any:
        """What the network makes of one row of tokens, of which the last `second` are a text of their own."""
        import numpy as np

        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if "token_type_ids" in self._inputs:
            feeds["token_type_ids"] = np.zeros_like(ids)
            feeds["token_type_ids"][0, len(tokens) - second :] = 1
        try:
            return self._session.run(None, feeds)[0]
        except _faults() as exc:
            hint = "Set embedding.device to cpu if it is another, or choose another model with `vade models use`."
            raise EmbedderDown(f"onnxruntime failed: {_short(exc)}", hint=hint) from exc


def _libraries() -> tuple[Any, Any]:
    """onnxruntime and the tokenizer's class. Raises ModelMissing when one is not installed."""
    # From its import on it would keep an id of this machine below the user's home, to report its use by.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import numpy  # noqa: F401 - onnxruntime says less clearly that it is missing
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as exc:
        raise ModelMissing(
            f"a library that runs local models cannot be loaded: {_short(exc)}",
            hint="Install numpy, onnxruntime and tokenizers beside vademecum, or choose ollama:NAME or openai:NAME.",
        ) from exc
    onnxruntime.set_default_logger_severity(4)  # it would write to our stderr
    return onnxruntime, Tokenizer


def _faults() -> tuple[type[Exception], ...]:
    """What the two libraries raise: onnxruntime has classes of its own, without a base that they share."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    own = (kind for kind in vars(native).values() if isinstance(kind, type) and issubclass(kind, Exception))
    return (*own, RuntimeError, ValueError, OSError)


def _verified(folder: Path, file: ModelFile, model: Model) -> Path:
    """The file's path, once every byte of it was hashed."""
    path = folder / file.name
    try:
        if not path.exists():
            raise ModelMissing(f"{model.name} is not on this machine: {file.name} is missing", hint=_pull_hint(model))
        if not path.is_file() or path.stat().st_size != file.size:
            raise ModelDamaged(f"{path} does not have the size of the model's file", hint=_pull_hint(model))
        with open(path, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as exc:
        hint = "Check the permissions of the state folder."
        raise ModelMissing(f"{path} cannot be read: {exc.strerror}", hint=hint) from exc
    if digest != file.sha256:
        raise ModelDamaged(f"{path} has other bytes than the model's file", hint=_pull_hint(model))
    return path


def _pull_hint(model: Model) -> str:
    return f"`vade models pull {model.name}` fetches it."


def _open_session(runtime: Any, settings: Settings, network: Path) -> tuple[Any, tuple[str, ...]]:
    """A session on the device that the settings name, or on the processor and a note that says why."""
    path = str(network)  # not the bytes: a session keeps those beside what it makes of them, 35 MB more
    device = str(settings.values["embedding.device"]).strip()
    provider = _PROVIDERS.get(device.lower(), device)
    options = _session_options(runtime, int(settings.values["embedding.threads"]))
    if provider != _CPU and provider in runtime.get_available_providers():
        try:
            session = runtime.InferenceSession(path, options, providers=[provider, _CPU])
            if provider in session.get_providers():
                return session, ()
            why = f"onnxruntime cannot start {device}"
        except _faults() as exc:  # a device that fails is no reason to do without the model
            why = f"{device} failed ({_short(exc)})"
    else:
        why = f"onnxruntime does not offer {device} here"
    notes = () if provider == _CPU else (f"{why}, so the processor is used.",)
    return runtime.InferenceSession(path, options, providers=[_CPU]), notes


def _session_options(runtime: Any, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = threads
    # With the arena and without a plan for each length of text, memory stays at half of what either alone costs, and
    # the vectors are the same (decision 0010).
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting must not cost a core
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def _unit(vector: Any) -> Vectors:
    """The vector at unit length. Raises EmbedderDown for one that has no direction."""
    import numpy as np

    length = float(np.linalg.norm(vector))
    if not math.isfinite(length) or length == 0:
        raise EmbedderDown("the model gave a vector without a direction", hint="Try embedding.device = cpu.")
    unit: Vectors = (vector / length).astype(np.float32, copy=False)
    return unit


def _short(exc: BaseException) -> str:
    """A foreign error's text on one line, which may be pages long."""
    return " ".join(str(exc).split())[:300] or type(exc).__name__
