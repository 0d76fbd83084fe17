"""An answer over the socket is whole, in time and of bounded size, or there is none."""

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_socket import Line, LocalServer, Serve, http
from process import NOBODY, run_python
from vademecum.pump import Unanswered, ask

Listen = Callable[[Serve], LocalServer]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: those of pytest may be longer than a socket's can be."""
    made = Path(tempfile.mkdtemp(prefix="vade-test-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def listen(folder: Path) -> Iterator[Listen]:
    started: list[LocalServer] = []

    def start(serve: Serve) -> LocalServer:
        started.append(LocalServer(folder / "http.sock", serve))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def saying(*pieces: bytes, pause_s: float = 0.0) -> Serve:
    return lambda _, line: line.say(*pieces, pause_s=pause_s)


def hang(_: bytes, line: Line) -> None:
    line.hang()


def test_a_request_arrives_as_it_was_given_and_its_answer_comes_back(listen: Listen) -> None:
    server = listen(saying(http(b'{"a": 1}', status=404)))
    assert ask(str(server.path), "POST", "/api/x?y=1", b'{"q": 2}', timeout_s=5) == (404, b'{"a": 1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /api/x?y=1 HTTP/1.0"
    assert {b"Host: localhost", b"Content-Type: application/json", b"Content-Length: 8"} <= set(lines)
    assert body == b'{"q": 2}'


def test_a_request_without_a_body_declares_none(listen: Listen) -> None:
    server = listen(saying(http(b"")))
    assert ask(str(server.path), "GET", "/health", timeout_s=5) == (200, b"")
    assert b"content" not in server.requests[0].lower()


def test_an_answer_in_pieces_is_put_together(listen: Listen) -> None:
    whole = http(b"wombat " * 50_000)
    server = listen(saying(*(whole[i : i + 60_000] for i in range(0, len(whole), 60_000))))
    assert ask(str(server.path), "GET", "/", timeout_s=5)[1] == b"wombat " * 50_000


def test_an_answer_of_no_declared_length_ends_with_the_connection(listen: Listen) -> None:
    server = listen(saying(b"HTTP/1.0 200 OK\r\n\r\n", b"all"))
    assert ask(str(server.path), "GET", "/", timeout_s=5) == (200, b"all")


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (saying(), "no HTTP"),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n"), "no HTTP"),
        (saying(b"\r\n\r\n"), "no HTTP"),
        (saying(b"HTTP/1.1 \r\n\r\n"), "no HTTP"),
        (saying(b"HTTP/1.1 fine\r\n\r\n"), "no HTTP"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), "no HTTP"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), "broke off"),
        (saying(b"HTTP/1.1 " + b"9" * 5000 + b"\r\n\r\n"), "digits"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"), "digits"),
    ],
)
def test_what_is_no_whole_answer_is_none(listen: Listen, serve: Serve, why: str) -> None:
    server = listen(serve)
    with pytest.raises(Unanswered, match=why):
        ask(str(server.path), "GET", "/", timeout_s=5)


def test_a_server_that_hangs_is_given_up(listen: Listen) -> None:
    server, started = listen(hang), time.monotonic()
    with pytest.raises(Unanswered):
        ask(str(server.path), "GET", "/", timeout_s=0.2)
    assert 0.15 < time.monotonic() - started < 1


def test_a_server_that_drips_is_given_up_just_as_soon(listen: Listen) -> None:
    server, started = listen(saying(*[b"HTTP"] * 1000, pause_s=0.02)), time.monotonic()
    with pytest.raises(Unanswered):
        ask(str(server.path), "GET", "/", timeout_s=0.2)
    assert 0.15 < time.monotonic() - started < 1


def test_a_server_that_does_not_read_is_given_up(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "http.sock"))
        listener.listen(1)
        started = time.monotonic()
        with pytest.raises(Unanswered):
            ask(str(folder / "http.sock"), "POST", "/", b"x" * (8 << 20), timeout_s=0.2)
        assert time.monotonic() - started < 1


def test_an_answer_that_is_too_large_is_not_kept(listen: Listen) -> None:
    server = listen(saying(*[http(b"x" * 1000)] * 100))
    with pytest.raises(Unanswered, match="more than 2,000 bytes"):
        ask(str(server.path), "GET", "/", timeout_s=5, most=2000)
    exactly = http(b"x" * 1000)
    server.stop()
    assert ask(str(listen(saying(exactly)).path), "GET", "/", timeout_s=5, most=len(exactly))[0] == 200


def test_without_a_server_there_is_no_answer(folder: Path) -> None:
    with pytest.raises(Unanswered, match="No such file"):
        ask(str(folder / "http.sock"), "GET", "/", timeout_s=5)
    with pytest.raises(Unanswered, match="No such file"):
        ask(str(folder / "gone" / "http.sock"), "GET", "/", timeout_s=5)
    (folder / "http.sock").write_text("a file")
    with pytest.raises(Unanswered, match="refused"):
        ask(str(folder / "http.sock"), "GET", "/", timeout_s=5)


def test_a_path_that_no_socket_can_have_has_no_answer(folder: Path) -> None:
    (folder / ("long" * 30)).mkdir()
    for name in ("long" * 30 + "/http.sock", "nul\0.sock"):
        with pytest.raises(Unanswered):
            ask(str(folder / name), "GET", "/", timeout_s=5)


def test_nothing_is_sent_into_the_folder_of_another_user(listen: Listen, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder away")
    server = listen(saying(http(b"")))
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(Unanswered, match="somebody else"):
        ask(str(server.path), "GET", "/", timeout_s=5)
    assert server.requests == []


def test_asking_loads_next_to_nothing() -> None:
    child = run_python(["-P", "-c", "import sys, vademecum.pump; print(*sys.modules)"])
    bare = run_python(["-P", "-c", "import sys, os, socket, time, __future__; print(*sys.modules)"])
    assert set(child.out.split()) - set(bare.out.split()) == {"vademecum", "vademecum.pump"}
    assert not [name for name in child.out.split() if re.match(r"http|json|asyncio|typing", name)]
