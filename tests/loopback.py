"""A real HTTP server on loopback, which answers as a test tells it to."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias


@dataclass
class Request:
    """What a client sent, and the stream on which the answer goes out."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    out: Any

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Answers: TypeAlias = Callable[[Request], "Reply | None"]


class LoopbackServer:
    """An HTTP server of this process. `answer` gives a reply, or writes on the stream itself and gives None."""

    def __init__(self, answer: Answers) -> None:
        self.requests: list[Request] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(self.command, self.path, dict(self.headers), self.rfile.read(length), self.wfile)
                outer.requests.append(request)
                try:
                    reply = answer(request)
                    if reply is not None:
                        self.send_response(reply.status)
                        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                            self.send_header(name, value)
                        self.end_headers()
                        self.wfile.write(reply.body)
                except OSError:  # the client has given up
                    pass
                self.close_connection = True

            do_POST = do_GET

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()


Serve: TypeAlias = Callable[[Answers], LoopbackServer]
