"""A question's vector is the same whether the daemon gives it or this process makes it, and comes within a moment."""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local_socket import Line, LocalServer, Serve, asked_json, http
from process import run_python
from vademecum import config
from vademecum.config import Settings
from vademecum.embedding import Embedder, Models, open_embedder
from vademecum.embedding.models import DEFAULT
from vademecum.errors import ModelDamaged, ModelMissing, ModelUnknown

MakeSettings = Callable[..., Settings]
Listen = Callable[[Settings, Serve], LocalServer]

DOCUMENTS = ["A wombat digs burrows at night.", "Rust borrows, it does not dig.", "Invoices are paid within 30 days."]
UNIT = [1.0] + [0.0] * 383


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Start what listens where the daemon of these settings would."""
    started: list[LocalServer] = []

    def start(settings: Settings, serve: Serve) -> LocalServer:
        started.append(LocalServer(config.socket_folder(settings) / "http.sock", serve))
        return started[-1]

    yield start
    for server in started:
        server.stop()
        shutil.rmtree(server.path.parent)


@pytest.fixture
def hollow(make_settings: MakeSettings) -> Settings:
    """Settings with a model that looks installed and cannot be opened: who falls back to it raises ModelDamaged."""
    settings = make_settings()
    folder = settings.models_dir / DEFAULT.name
    folder.mkdir(parents=True)
    for file in DEFAULT.files:
        with open(folder / file.name, "wb") as made:
            made.truncate(file.size)
    return settings


def reply(answer: object, status: int = 200) -> Serve:
    return lambda _, line: line.say(http(json.dumps(answer).encode(), status))


def good(vector: list[Any]) -> dict[str, Any]:
    return {"identity": DEFAULT.identity, "vector": vector}


def embedding_by(model: Embedder) -> Serve:
    """What a daemon with this model answers."""

    def serve(request: bytes, line: Line) -> None:
        vector = model.embed_query(asked_json(request)["text"]).tolist()
        line.say(http(json.dumps({"identity": model.identity, "vector": vector}).encode()))

    return serve


def hang(_: bytes, line: Line) -> None:
    line.hang()


# ── the same answer


@pytest.mark.parametrize("question", ["which animal digs?", "naïve Ünïcödé 文 \U0001f43b \ud83d", "", "long " * 1200])
def test_the_vector_is_the_same_from_either(
    real_models: MakeSettings, listen: Listen, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = real_models()
    here = open_embedder(settings)
    monkeypatch.setattr("vademecum.embedding.daemon.TIMEOUT_S", 60.0)  # a slow machine is not what this is about
    server = listen(settings, embedding_by(here))
    asking = Models(settings, ask_daemon=True).embedder()
    asked, own = asking.embed_query(question), here.embed_query(question)
    assert len(server.requests) == 1
    assert asked.dtype == own.dtype and asked.tobytes() == own.tobytes()
    documents = asking.embed_documents(DOCUMENTS)
    assert np.argsort(documents @ asked).tolist() == np.argsort(documents @ own).tolist()


def test_who_it_is_shows_without_opening_anything(hollow: Settings, listen: Listen) -> None:
    server = listen(hollow, hang)
    embedder = Models(hollow, ask_daemon=True).embedder()
    assert (embedder.name, embedder.identity, embedder.dimensions) == (DEFAULT.name, DEFAULT.identity, 384)
    assert server.requests == []


def test_the_request_carries_the_question_and_the_model(hollow: Settings, listen: Listen) -> None:
    server = listen(hollow, reply(good(UNIT)))
    vector = Models(hollow, ask_daemon=True).embedder().embed_query("which animal digs?")
    assert vector.tolist() == UNIT
    assert server.requests[0].startswith(b"POST /api/embed HTTP/1.0\r\n")
    assert asked_json(server.requests[0]) == {"text": "which animal digs?", "identity": DEFAULT.identity}


def test_everything_but_a_question_stays_here(real_models: MakeSettings, listen: Listen) -> None:
    settings = real_models()
    server = listen(settings, reply(good(UNIT)))
    asking, here = Models(settings, ask_daemon=True).embedder(), open_embedder(settings)
    assert asking.embed_documents(DOCUMENTS).tobytes() == here.embed_documents(DOCUMENTS).tobytes()
    long = "wombat " * 20_000
    assert asking.unread(long) == here.unread(long) > 0
    assert (asking.batch, asking.host, asking.remarks) == (here.batch, here.host, here.remarks)
    # The model is open by now, so there is nobody to ask.
    assert asking.embed_query("which?").tobytes() == here.embed_query("which?").tobytes()
    assert server.requests == []


# ── falling back

BAD: dict[str, Serve] = {
    "another identity": reply({"identity": "other@1+plain+384", "vector": UNIT}),
    "no identity": reply({"vector": UNIT}),
    "no vector": reply({"identity": DEFAULT.identity}),
    "too short": reply(good(UNIT[1:])),
    "too long": reply(good([*UNIT, 0.0])),
    "nothing in it": reply(good([])),
    "NaN": reply(good([math.nan, *UNIT[1:]])),
    "infinity": reply(good([math.inf, *UNIT[1:]])),
    "not a number": reply(good([True, *UNIT[1:]])),
    "text": reply(good(["1.0", *UNIT[1:]])),
    "too large a number": reply(good([10**400, *UNIT[1:]])),
    "zeros": reply(good([0.0] * 384)),
    "not of unit length": reply(good([1.01, *UNIT[1:]])),
    "a mapping for a vector": reply({"identity": DEFAULT.identity, "vector": dict.fromkeys(map(str, range(384)), 1)}),
    "a list": reply([good(UNIT)]),
    "an error": reply(good(UNIT), status=503),
    "no such route": reply({"error": {"code": "route_not_found"}}, status=404),
    "no JSON": lambda _, line: line.say(http(b"<html>")),
    "no UTF-8": lambda _, line: line.say(http(b"\xff\xfe\xfd")),
    "deep JSON": lambda _, line: line.say(http(b"[" * 10_000)),
    "no HTTP": lambda _, line: line.say(b"hello"),
    "broken off": lambda _, line: line.say(http(json.dumps(good(UNIT)).encode())[:-1]),
    "huge": lambda _, line: line.say(http(json.dumps(good(UNIT)).encode() + b" " * (1 << 20))),
    "closed": lambda _, line: None,
    "hang": hang,
    "drip": lambda _, line: line.say(*[b"HTTP"] * 500, pause_s=0.02),
}


@pytest.mark.parametrize("serve", BAD.values(), ids=BAD)
def test_whatever_is_no_vector_of_the_model_has_the_model_opened_here(
    hollow: Settings, listen: Listen, serve: Serve
) -> None:
    server = listen(hollow, serve)
    embedder, started = Models(hollow, ask_daemon=True).embedder(), time.monotonic()
    with pytest.raises(ModelDamaged):
        embedder.embed_query("which animal digs?")
    assert time.monotonic() - started < 3
    with pytest.raises(ModelDamaged):
        embedder.embed_query("and which climbs?")
    assert len(server.requests) == 1, "asked again after it was asked in vain"


def test_a_hung_daemon_costs_a_moment_and_not_the_answer(real_models: MakeSettings, listen: Listen) -> None:
    settings = real_models()
    listen(settings, hang)
    asked = Models(settings, ask_daemon=True).embedder().embed_query("which animal digs?")
    assert asked.tobytes() == open_embedder(settings).embed_query("which animal digs?").tobytes()


def test_a_daemon_that_has_gone_leaves_a_socket_and_no_harm(real_models: MakeSettings, listen: Listen) -> None:
    settings = real_models()
    server = listen(settings, hang)
    models = Models(settings, ask_daemon=True)
    embedder = models.embedder()
    server.stop()
    server.path.touch()
    assert embedder.embed_query("which animal digs?").shape == (384,)


# ── who asks at all


def test_only_who_says_so_asks(hollow: Settings, listen: Listen) -> None:
    server = listen(hollow, reply(good(UNIT)))
    with pytest.raises(ModelDamaged):
        Models(hollow).embedder()
    assert server.requests == []


def test_without_a_socket_the_model_is_opened_at_once(hollow: Settings) -> None:
    with pytest.raises(ModelDamaged):
        Models(hollow, ask_daemon=True).embedder()


def test_a_model_that_is_not_installed_here_is_missing_whatever_the_daemon_has(
    make_settings: MakeSettings, listen: Listen
) -> None:
    server = listen(make_settings(), reply(good(UNIT)))
    with pytest.raises(ModelMissing, match="not on this machine"):
        Models(make_settings(), ask_daemon=True).embedder()
    assert server.requests == []


@pytest.mark.parametrize(
    ("name", "error"), [("none", ModelMissing), ("no-such", ModelUnknown), ("ms-marco-minilm-l12", ModelUnknown)]
)
def test_a_name_that_means_no_embedder_is_the_error_that_it_was(
    hollow: Settings, listen: Listen, name: str, error: type[Exception]
) -> None:
    listen(hollow, hang)
    with pytest.raises(error):
        Models(hollow, ask_daemon=True).embedder(name)


def test_hashing_and_servers_are_not_the_daemons_matter(make_settings: MakeSettings, listen: Listen) -> None:
    server = listen(make_settings(), hang)
    assert Models(make_settings(), ask_daemon=True).embedder("hashing").embed_query("a").shape == (256,)
    assert server.requests == []


def test_a_question_that_the_daemon_embeds_loads_no_model_and_no_http(
    hollow: Settings, listen: Listen, vade_home: Path
) -> None:
    listen(hollow, reply(good(UNIT)))
    code = """
import sys
from vademecum import config
from vademecum.embedding import Models
embedder = Models(config.load(), ask_daemon=True).embedder()
before = "numpy" in sys.modules
print(embedder.embed_query("which animal digs?").shape, before, file=sys.stderr)
print(*sys.modules)
"""
    child = run_python(["-P", "-c", code], env={"VADE_HOME": str(vade_home)})
    assert child.err == "(384,) False\n"
    unwanted = {"onnxruntime", "tokenizers", "http", "http.client", "asyncio", "vademecum.embedding.onnx"}
    assert unwanted & set(child.out.split()) == set()
