"""One request over HTTP with an end: bounded in bytes, and in time as a whole.

urllib's own time limit counts from the last byte, so a server that sends one now and then holds its client for ever.
Here the connection is cut at the deadline, whatever it is doing.
"""

from __future__ import annotations

import http.client
import queue
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

CHUNK_BYTES: Final = 1 << 16
# One wait for one part of a download; the whole has its own limit.
_SILENCE_S: Final = 30.0

_FAULTS: Final = (OSError, http.client.HTTPException, ValueError)


class Unanswered(Exception):
    """The server gave no answer; the text says why and quotes nothing that was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said: any status, and the whole body."""

    status: int
    body: bytes


def ask(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float,
    most_bytes: int,
    direct: bool,
) -> Answer:
    """Send one request and read the whole answer; POST where there is a body, GET else.

    `direct` goes round every proxy. No redirect is followed: its target was not agreed to. Raises Unanswered.
    """
    line = _Line()
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))  # noqa: S310 - the caller checked the scheme
    results: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(_exchange(_opener(line, direct=direct, redirects=False), request, timeout_s, most_bytes))
        except (Unanswered, *_FAULTS) as exc:
            results.put(exc)

    # A thread, since nothing else ends the wait for a name server.
    threading.Thread(target=work, name="vade-http", daemon=True).start()
    try:
        result = results.get(timeout=timeout_s)
    except queue.Empty:
        line.cut()
        raise Unanswered(f"no answer within {timeout_s:g} s") from None
    if isinstance(result, Answer):
        return result
    raise Unanswered(_reason(result, timeout_s)) from result


def download(url: str, *, most_bytes: int, timeout_s: float) -> Iterator[bytes]:
    """The body of a page in chunks, at most `most_bytes` of it; redirects lead to HTTPS only.

    Raises Unanswered, also between two chunks.
    """
    line, left = _Line(), most_bytes
    with _cut_after(line, timeout_s):
        try:
            opener = _opener(line, direct=_is_loopback_url(url), redirects=True)
            with opener.open(url, timeout=min(_SILENCE_S, timeout_s)) as response:
                while left > 0 and (chunk := response.read1(min(CHUNK_BYTES, left))):
                    left -= len(chunk)
                    yield chunk
        except urllib.error.HTTPError as exc:
            with exc:
                raise Unanswered(f"status {exc.code}") from exc
        except _FAULTS as exc:
            raise Unanswered(_reason(exc, timeout_s, late=line.was_cut)) from exc
        if line.was_cut:  # a cut connection can look like the end of the body
            raise Unanswered(f"not finished within {timeout_s:g} s")


class _Line:
    """The connection that a request uses, so that another thread can cut it."""

    def __init__(self) -> None:
        self.was_cut = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def use(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected
            if self.was_cut:
                self._shut(connected)

    def cut(self) -> None:
        with self._lock:
            self.was_cut = True
            if self._socket is not None:
                self._shut(self._socket)

    @staticmethod
    def _shut(connected: socket.socket) -> None:
        with suppress(OSError):  # closed in the meantime
            # Not the method of a TLS socket, which would take the cipher away from under the reading thread.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


@contextmanager
def _cut_after(line: _Line, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, line.cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _exchange(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, timeout_s: float, most_bytes: int
) -> Answer:
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return Answer(response.status, _bounded(response, most_bytes))
    except urllib.error.HTTPError as exc:
        with exc:
            return Answer(exc.code, b"")


def _bounded(response: Any, most_bytes: int) -> bytes:
    body: bytes = response.read(most_bytes + 1)
    if len(body) > most_bytes:
        raise Unanswered(f"the answer is over {most_bytes >> 20} MB")
    return body


def _reason(exc: Exception, timeout_s: float, *, late: bool = False) -> str:
    """Why there was no answer, without quoting the exception where it may hold what was sent."""
    cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    if isinstance(cause, Unanswered):
        return str(cause)
    if late or isinstance(cause, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(cause, socket.gaierror):
        return "the name cannot be looked up"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return f"the answer broke off ({type(cause).__name__})"


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows to HTTPS only, so that nobody on the way can answer instead."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The request that follows."""
        if not newurl.startswith("https://"):
            raise Unanswered("a redirect to something other than HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(line: _Line, *, direct: bool, redirects: bool) -> urllib.request.OpenerDirector:
    """An opener for HTTP and HTTPS alone, whose connections the line knows."""
    opener = urllib.request.OpenerDirector()
    proxies = urllib.request.ProxyHandler({} if direct else None)
    for handler in (
        proxies,
        _handler(urllib.request.HTTPHandler, http.client.HTTPConnection, line),
        _handler(urllib.request.HTTPSHandler, http.client.HTTPSConnection, line),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        *([_SafeRedirects()] if redirects else []),
    ):
        opener.add_handler(handler)
    return opener


def _handler(kind: Any, connection: Any, line: _Line) -> Any:
    """urllib's handler of one scheme, with connections that hand their socket to the line."""

    class Kept(connection):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            line.use(self.sock)

    class Handler(kind):  # type: ignore[misc]
        def do_open(self, _: Any, request: Any, **arguments: Any) -> Any:
            return super().do_open(Kept, request, **arguments)

    return Handler()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name: a literal address, or localhost; nothing is looked up."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_loopback_url(url: str) -> bool:
    from urllib.parse import urlsplit

    return is_loopback(urlsplit(url).hostname or "")
