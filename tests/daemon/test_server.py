"""Clients that begin and never end are cut off; whoever gets on is served, and whoever is served is not hurried."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daemon_process import Served
from vademecum.daemon import control
from vademecum.daemon.server import build_server

TERM_S = 0.5
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body, late when asked to."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    if scope["path"] == "/late":
        await asyncio.sleep(3 * TERM_S)
    said = str(size).encode()
    headers = [(b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture
def connect() -> Iterator[Callable[[], socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    begun: list[Any] = []
    ready = threading.Event()

    async def run() -> None:
        server = build_server(app, head_s=TERM_S, body_s=TERM_S)
        begun.append((asyncio.get_running_loop(), server))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(20)
    channels: list[socket.socket] = []

    def open_one() -> socket.socket:
        channels.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        return channels[-1]

    yield open_one
    for channel in channels:
        channel.close()
    loop, server = begun[0]
    loop.call_soon_threadsafe(server.end)
    thread.join(20)
    assert not thread.is_alive()


def cut_off_after(channel: socket.socket, *pieces: bytes, pause_s: float = 0.0) -> tuple[bytes, float]:
    """Send the pieces, then read to the end: what came, and after how long."""
    started = time.monotonic()
    try:
        for piece in pieces:
            channel.sendall(piece)
            time.sleep(pause_s)
        return b"".join(iter(lambda: channel.recv(1 << 16), b"")), time.monotonic() - started
    except ConnectionError:
        return b"", time.monotonic() - started


def body_of(channel: socket.socket) -> bytes:
    """The body of the next answer, of one byte."""
    said = b""
    while not said.partition(b"\r\n\r\n")[2]:
        piece = channel.recv(1 << 16)
        assert piece, "cut off"
        said += piece
    return said.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET",
        HEAD,
        HEAD + b"Content-Length: 10\r\n\r\n",
        HEAD + b"Content-Length: 10\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT",
    ],
)
def test_what_is_begun_and_not_ended_is_cut_off(connect: Callable[[], socket.socket], sent: bytes) -> None:
    _, took_s = cut_off_after(connect(), sent)
    assert TERM_S * 0.9 <= took_s < 15  # between two requests the server itself waits for 5 s


def test_a_head_that_drips_has_one_term_as_a_whole(connect: Callable[[], socket.socket]) -> None:
    drops = [b"GET / HTTP/1.1\r\n", *[b"X-A: b\r\n"] * 200]
    said, took_s = cut_off_after(connect(), *drops, pause_s=TERM_S / 4)
    assert said == b""
    assert took_s < 15


def test_a_body_that_gets_on_may_take_longer_than_its_term(connect: Callable[[], socket.socket]) -> None:
    channel = connect()
    channel.sendall(HEAD + b"Content-Length: 8\r\n\r\n")
    for _ in range(8):
        time.sleep(TERM_S / 3)
        channel.sendall(b"x")
    assert body_of(channel) == b"8"


def test_whoever_waits_for_a_slow_answer_is_not_cut_off(connect: Callable[[], socket.socket]) -> None:
    channel = connect()
    channel.sendall(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
    assert body_of(channel) == b"0"


def test_one_connection_serves_request_after_request(connect: Callable[[], socket.socket]) -> None:
    channel = connect()
    for _ in range(4):
        channel.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert body_of(channel) == b"2"
        time.sleep(TERM_S / 2)


def test_a_stop_that_meets_unfinished_requests_logs_no_traceback(served: Served) -> None:
    head = f"POST /api/recall HTTP/1.1\r\nHost: 127.0.0.1:{served.running.port}\r\n"
    head += f"Authorization: Bearer {served.token}\r\nContent-Type: application/json\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            channel = stack.enter_context(socket.create_connection(("127.0.0.1", served.running.port)))
            channel.sendall((head + "Content-Length: 100\r\n\r\n{").encode())
        time.sleep(0.5)
        assert served.end() == 0
    text = control.log_file(served.settings).read_text()
    assert "Traceback" not in text
    assert len([line for line in text.splitlines() if "uvicorn" in line]) <= 1, text
