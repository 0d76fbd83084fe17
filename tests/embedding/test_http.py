"""A server that embeds: nothing leaves this machine unasked, and nothing but good vectors comes in."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopback import LoopbackServer, Reply, Request, Serve
from process import offline_prefix, run_python
from vademecum.config import Settings
from vademecum.embedding import Embedder, open_embedder
from vademecum.errors import ConfigError, ConsentMissing, EmbedderDown, ModelError, ModelUnknown, TextRefused

MakeSettings = Callable[..., Settings]
KEY = "sk-very-secret-key"
SECRET_TEXT = "the text of a private note"
QUICK = {"embedding.timeout_s": 1.0, "embedding.query_timeout_s": 1.0}


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, -2.0]


def ollama(request: Request) -> Reply:
    if request.path == "/api/tags":
        listed = [{"name": "other:latest", "digest": "0" * 64}, {"name": "model:latest", "digest": "ab12" * 16}]
        return Reply(body=json.dumps({"models": listed}).encode())
    assert request.path == "/api/embed"
    return Reply(body=json.dumps({"embeddings": [vector(text) for text in request.json["input"]]}).encode())


def openai(request: Request) -> Reply:
    assert request.path == "/v1/embeddings"
    data = [{"index": i, "embedding": vector(text)} for i, text in enumerate(request.json["input"])]
    return Reply(body=json.dumps({"data": data[::-1]}).encode())


class Turning:
    """A good server until `bad` is set: the embedder is opened on the first and used on the second."""

    def __init__(self, serve: Serve) -> None:
        self.bad: Callable[[Request], Reply | None] | None = None
        self.server: LoopbackServer = serve(lambda request: (self.bad or ollama)(request))


@pytest.fixture
def turning(serve: Serve) -> Turning:
    return Turning(serve)


@pytest.fixture
def embedder(turning: Turning, make_settings: MakeSettings) -> Embedder:
    return open_embedder(make_settings({"embedding.url": turning.server.url, **QUICK}), "ollama:model")


def unit(text: str) -> np.ndarray:
    return np.array(vector(text)) / np.linalg.norm(vector(text))


@contextmanager
def says(error: type[ModelError], *words: str) -> Iterator[None]:
    with pytest.raises(error) as raised:
        yield
    told = f"{raised.value.message} {raised.value.hint}"
    assert all(word in told for word in words), told
    assert SECRET_TEXT not in told
    assert KEY not in told


# ── what goes out and comes back


def test_ollama_is_asked_and_its_vectors_are_normalised(embedder: Embedder, turning: Turning) -> None:
    vectors = embedder.embed_documents(["one", "three"])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [unit("one"), unit("three")], atol=1e-6)
    assert np.allclose(embedder.embed_query("why"), unit("why"), atol=1e-6)
    assert embedder.dimensions == 3
    assert (embedder.unread("x"), embedder.embed_documents([]).shape) == (0, (0, 3))
    assert turning.server.requests[-1].json == {"model": "model", "input": ["why"], "truncate": False}
    assert all("authorization" not in map(str.lower, request.headers) for request in turning.server.requests)


def test_the_identity_tells_model_digest_prompts_and_dimensions(embedder: Embedder) -> None:
    assert embedder.name == "ollama:model"
    assert embedder.identity.startswith("ollama:model@ab12ab12ab12+plain-")
    assert embedder.identity.endswith("+3")


def test_the_length_of_a_vector_is_asked_once(embedder: Embedder, turning: Turning) -> None:
    before = len(turning.server.requests)
    assert (embedder.dimensions, embedder.dimensions, embedder.identity) == (3, 3, embedder.identity)
    embedder.embed_query("why")
    assert len(turning.server.requests) == before + 1


def test_openai_is_asked_with_the_key_and_its_vectors_are_put_in_order(
    serve: Serve, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    server = serve(openai)
    settings = make_settings({"embedding.url": f"{server.url}/v1/", "embedding.key_variable": "MY_KEY"})
    embedder = open_embedder(settings, "openai:text-model")
    texts = ["x" * n for n in range(1, 40)]
    assert np.allclose(embedder.embed_documents(texts), [unit(text) for text in texts], atol=1e-6)
    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert KEY not in embedder.identity
    assert server.url.removeprefix("http://") in embedder.identity


def test_texts_are_sent_with_the_words_their_model_expects(serve: Serve, make_settings: MakeSettings) -> None:
    server = serve(ollama)
    embedder = open_embedder(make_settings({"embedding.url": server.url}), "ollama:nomic-embed-text")
    embedder.embed_query("why")
    assert server.requests[-1].json["input"] == ["search_query: why"]
    embedder.embed_documents(["because"])
    assert server.requests[-1].json["input"] == ["search_document: because"]
    assert "+nomic-" in embedder.identity


@pytest.mark.parametrize("text", ["", "\ud800", "a\0b", "\U0001f680", "a" * 1_000_000])
def test_strange_texts_are_sent(embedder: Embedder, text: str) -> None:
    assert embedder.embed_documents([text]).shape == (1, 3)


def test_tiny_and_huge_numbers_are_normalised(embedder: Embedder, turning: Turning) -> None:
    for scale in (1e-300, 1e300):
        body = json.dumps({"embeddings": [[scale, scale, 0]]}).encode()
        turning.bad = lambda _, body=body: Reply(body=body)
        assert np.allclose(embedder.embed_query("x"), [0.5**0.5, 0.5**0.5, 0])


# ── what is wrong with a server


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, TextRefused, "too long"),
        (413, TextRefused, "too long"),
        (422, TextRefused, "too long"),
        (401, EmbedderDown, "OPENAI_API_KEY"),
        (403, EmbedderDown, "OPENAI_API_KEY"),
        (404, EmbedderDown, "Give model to the server"),
        (429, EmbedderDown, "Wait a while"),
        (500, EmbedderDown, "Look at the server's log"),
        (503, EmbedderDown, "Look at the server's log"),
        (204, EmbedderDown, "status 204"),
    ],
)
def test_a_status_says_whose_fault_it_is(
    embedder: Embedder, turning: Turning, status: int, error: type[ModelError], words: str
) -> None:
    turning.bad = lambda request: Reply(status, request.body)
    with says(error, words):
        embedder.embed_documents([SECRET_TEXT])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", EmbedderDown),
        (b"<html>", EmbedderDown),
        (b"\xff\xfe", EmbedderDown),
        (b"[" * 100_000, EmbedderDown),
        (b"[]", EmbedderDown),
        (b"{}", EmbedderDown),
        (b'{"embeddings": 3}', EmbedderDown),
        (b'{"embeddings": []}', TextRefused),
        (b'{"embeddings": [[1, 2, 3], [1, 2, 3]]}', TextRefused),
        (b'{"embeddings": [null]}', TextRefused),
        (b'{"embeddings": [[]]}', TextRefused),
        (b'{"embeddings": [[1, 2, "3"]]}', TextRefused),
        (b'{"embeddings": [[1, 2, true]]}', TextRefused),
        (b'{"embeddings": [[1, 2, [3]]]}', TextRefused),
        (b'{"embeddings": [[1, 2, NaN]]}', TextRefused),
        (b'{"embeddings": [[1, 2, Infinity]]}', TextRefused),
        (b'{"embeddings": [[1, 2, 1e999]]}', TextRefused),
        (b'{"embeddings": [[1, 2, 1' + b"0" * 400 + b"]]}", TextRefused),
        (b'{"embeddings": [[0, 0, -0.0]]}', TextRefused),
        (b'{"embeddings": [[1, 2]]}', EmbedderDown),
        (b'{"embeddings": [[1, 2, 3, 4]]}', EmbedderDown),
    ],
)
def test_an_answer_without_good_vectors_is_refused(
    embedder: Embedder, turning: Turning, body: bytes, error: type[ModelError]
) -> None:
    turning.bad = lambda _: Reply(body=body)
    with says(error):
        embedder.embed_documents([SECRET_TEXT])


@pytest.mark.parametrize(
    "indexes", [(0, 0), (0, 2), (-1, 0), (0, "1"), (0, None), (0, True), (0, 1.0)], ids=lambda pair: str(pair)
)
def test_vectors_that_belong_to_no_text_are_refused(
    serve: Serve, make_settings: MakeSettings, indexes: tuple[Any, Any]
) -> None:
    def answer(request: Request) -> Reply:
        given = indexes if len(request.json["input"]) == 2 else (0,)
        return Reply(body=json.dumps({"data": [{"index": i, "embedding": [1, 2]} for i in given]}).encode())

    embedder = open_embedder(make_settings({"embedding.url": serve(answer).url}), "openai:model")
    with says(TextRefused):
        embedder.embed_documents([SECRET_TEXT, "other"])


def test_an_answer_without_end_is_cut_off(
    embedder: Embedder, turning: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vademecum.embedding.http.MOST_BYTES", 1 << 20)

    def endless(request: Request) -> None:
        request.out.write(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            request.out.write(b" " * (1 << 16))

    turning.bad = endless
    with says(EmbedderDown, "the answer is over 1 MB"):
        embedder.embed_query(SECRET_TEXT)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.0 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_server_that_drips_cannot_stretch_the_deadline(embedder: Embedder, turning: Turning, head: bytes) -> None:
    cut_off = []

    def drip(request: Request) -> None:
        request.out.write(head)
        try:
            for _ in range(400):
                time.sleep(0.05)
                request.out.write(b" ")
        except OSError:
            cut_off.append(time.monotonic())

    turning.bad = drip
    began = time.monotonic()
    with says(EmbedderDown, "no answer within 1 s"):
        embedder.embed_query(SECRET_TEXT)
    assert time.monotonic() - began < 2
    while not cut_off and time.monotonic() - began < 5:
        time.sleep(0.02)
    assert cut_off, "the connection went on behind our back"


def test_a_question_and_a_text_have_deadlines_of_their_own(turning: Turning, make_settings: MakeSettings) -> None:
    def slow(request: Request) -> Reply:
        time.sleep(0.8)
        return ollama(request)

    values = {"embedding.timeout_s": 20.0, "embedding.query_timeout_s": 0.4}
    embedder = open_embedder(make_settings({"embedding.url": turning.server.url, **values}), "ollama:model")
    turning.bad = slow
    assert embedder.embed_documents(["a"]).shape == (1, 3)
    with says(EmbedderDown, "within 0.4 s"):
        embedder.embed_query(SECRET_TEXT)


@pytest.mark.parametrize("said", [b"", b"garbage\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{}"])
def test_a_broken_answer_is_our_error(embedder: Embedder, turning: Turning, said: bytes) -> None:
    turning.bad = lambda request: request.out.write(said) and None
    with says(EmbedderDown):
        embedder.embed_query(SECRET_TEXT)


def test_a_server_that_is_not_there_says_what_to_do(make_settings: MakeSettings) -> None:
    with says(EmbedderDown, "127.0.0.1", "the connection was refused", "Start the server"):
        open_embedder(make_settings({"embedding.url": "http://127.0.0.1:9"}), "ollama:model")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(embedder: Embedder, turning: Turning, serve: Serve, status: int) -> None:
    elsewhere = serve(ollama)
    turning.bad = lambda request: Reply(status, headers={"Location": elsewhere.url + request.path})
    with says(EmbedderDown, "sends us elsewhere"):
        embedder.embed_query(SECRET_TEXT)
    assert elsewhere.requests == []


def test_no_proxy_stands_between_us_and_this_machine(
    serve: Serve, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(lambda _: Reply(500))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv("no_proxy", "")
    open_embedder(make_settings({"embedding.url": serve(ollama).url}), "ollama:model").embed_query("x")
    assert proxy.requests == []


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_server_that_fails_at_the_first_try_is_down(serve: Serve, make_settings: MakeSettings, status: int) -> None:
    server = serve(lambda _: Reply(status))
    with says(EmbedderDown, f"status {status}"):
        open_embedder(make_settings({"embedding.url": server.url}), "ollama:model")


def test_a_server_without_a_list_of_models_still_embeds(serve: Serve, make_settings: MakeSettings) -> None:
    def answer(request: Request) -> Reply:
        return Reply(404) if request.path == "/api/tags" else ollama(request)

    embedder = open_embedder(make_settings({"embedding.url": serve(answer).url}), "ollama:model")
    assert embedder.identity.startswith("ollama:model@unknown+")


# ── consent, addresses, the key


@pytest.mark.parametrize(
    "url",
    [
        "http://203.0.113.1:11434",
        "https://vade.example/v1",
        "http://127.0.0.1.vade.example",
        "http://localhost.vade.example",
        "http://[2001:db8::1]:11434",
        "http://0x7f000001:11434",
        "http://2130706433:11434",
        "http://10.0.0.1",
    ],
)
@pytest.mark.parametrize("allowed", ["", "other.example", "example"])
def test_no_text_goes_to_a_host_that_nobody_agreed_to(make_settings: MakeSettings, url: str, allowed: str) -> None:
    """The guard of the tests fails this one if as much as a name is looked up."""
    values = {"embedding.url": url, "embedding.allow_host": allowed}
    with says(ConsentMissing, "`vade config set embedding.allow_host ", "leave this machine"):
        open_embedder(make_settings(values), "ollama:model")


def test_the_usual_host_of_openai_needs_consent_as_well(make_settings: MakeSettings) -> None:
    with says(ConsentMissing, "`vade config set embedding.allow_host api.openai.com`"):
        open_embedder(make_settings(), "openai:text-embedding-3-small")


def test_a_host_that_was_agreed_to_is_asked(vade_home: Path) -> None:
    """In a child without a network: what it meets there is no longer our refusal."""
    if not offline_prefix():
        pytest.skip("only root may start a child without a network")
    vade_home.mkdir()
    (vade_home / "config.toml").write_text('[embedding]\nurl = "http://203.0.113.1:9"\nallow_host = "203.0.113.1"\n')
    code = (
        "from vademecum import config; from vademecum.embedding import open_embedder\n"
        "from vademecum.errors import VadeError\n"
        "try: open_embedder(config.load(), 'ollama:model')\n"
        "except VadeError as exc: print(exc.code, exc.message)"
    )
    child = run_python(["-c", code], env={"VADE_HOME": str(vade_home)})
    assert child.out == "embedder_down 203.0.113.1 cannot embed: Network is unreachable\n"


@pytest.mark.parametrize("url", ["http://localhost:{port}", "http://127.0.0.1:{port}/"])
def test_this_machine_needs_no_consent(serve: Serve, make_settings: MakeSettings, url: str) -> None:
    port = serve(ollama).url.rpartition(":")[2]
    embedder = open_embedder(make_settings({"embedding.url": url.format(port=port)}), "ollama:model")
    assert embedder.dimensions == 3


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "127.0.0.1:11434",
        "http://",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://user:hunter2@127.0.0.1",
        "http://hunter2@127.0.0.1",
        "http://127.0.0.1/?key=hunter2",
        "http://127.0.0.1/#x",
        "http://127.0.0.1/a b",
        "http://127.0.0.1\r\nX: y",
    ],
)
def test_an_address_that_is_none_is_a_wrong_setting(make_settings: MakeSettings, url: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        open_embedder(make_settings({"embedding.url": url}), "ollama:model")
    assert "hunter2" not in wrong.value.message + wrong.value.hint


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_the_key_is_in_no_error(
    serve: Serve, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = serve(lambda request: Reply(status, request.headers["Authorization"].encode()))
    with says(EmbedderDown):
        open_embedder(make_settings({"embedding.url": server.url}), "openai:model")


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Other: y", f"{KEY}é", f"{KEY}\x07"])
def test_a_key_that_could_be_none_is_refused_without_quoting_it(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError) as wrong:
        open_embedder(make_settings({"embedding.url": "http://127.0.0.1:9"}), "openai:model")
    assert KEY not in wrong.value.message + wrong.value.hint


def test_a_name_without_a_model_is_unknown(make_settings: MakeSettings) -> None:
    for name in ("ollama:", "openai: ", "other:model"):
        with pytest.raises(ModelUnknown):
            open_embedder(make_settings(), name)
