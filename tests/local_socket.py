"""A real server on a local socket, which does with a connection whatever a test tells it to."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

Serve: TypeAlias = "Callable[[bytes, Line], None]"


class Line:
    """One connection. `over` is set when the test ends, for who waits."""

    def __init__(self, channel: socket.socket, over: threading.Event) -> None:
        self.channel = channel
        self.over = over

    def say(self, *pieces: bytes, pause_s: float = 0.0) -> None:
        for piece in pieces:
            self.channel.sendall(piece)
            if self.over.wait(pause_s):
                return

    def hang(self) -> None:
        self.over.wait(30)


class LocalServer:
    """Hands each request, head and body as they came, to `serve`, and closes the connection after that."""

    def __init__(self, path: Path, serve: Serve) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self._serve = serve
        self._over = threading.Event()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(0.02)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                channel, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._answer, args=(channel,)))
                self._threads[-1].start()

    def _answer(self, channel: socket.socket) -> None:
        with channel, suppress(OSError):  # the client has given up
            request = _request(channel)
            self.requests.append(request)
            self._serve(request, Line(channel, self._over))


def _request(channel: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request or len(request) < _length(request):
        piece = channel.recv(1 << 16)
        if not piece:
            break
        request += piece
    return request


def _length(request: bytes) -> int:
    head, mark, _ = request.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return len(head) + len(mark) + int(fields.get(b"content-length", 0))


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


def asked_json(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2])
