"""What a hostile web page or a stranger on this machine would try against the daemon, tried for real.

`vade doctor --attack` shows with it that the running daemon refuses, which no reading of the code shows. Each attempt
is a good request but for one point, so that the one rule about that point has to refuse it: a daemon that turns all
down for another reason does not pass. None changes anything, even where it gets through: those that aim at a route
which changes things lack what that route needs.

Raw sockets, since an HTTP library would correct half of these before they leave.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from vademecum.daemon.control import authority, reached
from vademecum.daemon.guard import COOKIE, LOGIN_PATH, MAX_BODY

_MOST_HEAD: Final = 1 << 16
_PIECE: Final = 1 << 15
_READS: Final = "/api/status"
_CHANGES: Final = "/api/sources/obsidian"
# Of the routes that change something this one has no other method on its path.
_ONLY_POST: Final = "/api/login-link"
_EVIL: Final = "http://evil.example"
_BROKEN: Final = "the connection was closed without an answer"
_SILENT: Final = "no answer in time: the daemon took the request and waits for more"

# Spellings that something between us and the routes might take for an open path, or for one below it.
_PATH_TRICKS: Final = (
    "//health",
    "/health/",
    "/HEALTH",
    "/health/../api/status",
    "/health/%2e%2e/api/status",
    "/health%2f..%2fapi%2fstatus",
    "/health;/api/status",
    "/health%00/api/status",
    "/login/../api/status",
    "/static/../api/status",
    "/static/%2e%2e/api/status",
    "/static/..%5capi/status",
    "//api/status",
    "http://evil.example/api/status",
)

_Pieces: TypeAlias = Iterator[bytes]


class Outcome(NamedTuple):
    """How one attack went. `status` is that of the answer, None when there was none."""

    name: str
    refused: bool
    detail: str
    status: int | None


class _Attack(NamedTuple):
    """One attempt: what is sent, and the statuses that mean that the rule in question refused it."""

    name: str
    statuses: frozenset[int]
    pieces: Callable[[], _Pieces]


class _Answer(NamedTuple):
    """What came back. `silence` says why there is no status, and is empty when there is one."""

    status: int | None
    head: bytes = b""
    silence: str = ""


class _Sender:
    """Writes requests that the daemon would serve, but for what an attack changes in them, and sends them."""

    def __init__(self, host: str, port: int, token: str, patience_s: float) -> None:
        self.host = reached(host)
        self.port = port
        self.token = token
        self.patience_s = patience_s

    def head(
        self, method: str = "GET", target: str = _READS, *, version: str = "1.1", **headers: str | list[str] | None
    ) -> bytes:
        """The head of a request. A header that is given replaces the good one; None drops it, a list repeats it."""
        values: dict[str, str | list[str] | None] = {
            "Host": authority(self.host, self.port),
            "Authorization": f"Bearer {self.token}",
            "Connection": "close",
        }
        values.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = [f"{method} {target} HTTP/{version}"]
        for name, value in values.items():
            given = [] if value is None else value if isinstance(value, list) else [value]
            lines += [f"{name}: {one}" for one in given]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def attack(self, name: str, status: int | tuple[int, ...], request: bytes) -> _Attack:
        """An attack that is one piece of bytes."""
        statuses = (status,) if isinstance(status, int) else status
        return _Attack(name, frozenset(statuses), lambda: iter([request]))

    def exchange(self, pieces: _Pieces) -> _Answer:
        """Send this over a connection of its own, and read the head of the answer."""
        deadline = time.monotonic() + self.patience_s
        try:
            channel = socket.create_connection((self.host, self.port), timeout=self.patience_s)
        except OSError as exc:
            return _Answer(None, silence=f"no connection: {exc.strerror or type(exc).__name__}")
        with channel:
            _send(channel, pieces, deadline)
            return _receive(channel, deadline)


def attacks(port: int, token: str, *, host: str = "127.0.0.1", patience_s: float = 3.0) -> list[Outcome]:
    """Try every attack on the daemon that listens there, one after the other. Never raises.

    A connection that breaks without an answer counts as refused only while the daemon still serves others; one that
    stays silent for `patience_s` does not.
    """
    sender = _Sender(host, port, token, patience_s)
    tried = [*_by_pages(sender), *_by_strangers(sender), *_by_bodies(sender), *_by_smuggling(sender)]
    if not _is_alive(sender):
        return [Outcome(attack.name, False, "the daemon does not answer", None) for attack in tried]
    return [_judge(attack, sender) for attack in tried]


def _by_pages(sender: _Sender) -> list[_Attack]:
    """What a page in the user's browser can send. It carries the token here, as a cookie would be sent along."""
    head, attack = sender.head, sender.attack
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type"}
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    key = "MDEyMzQ1Njc4OWFiY2RlZg=="
    return [
        attack("a foreign Host (DNS rebinding)", 403, head(Host=f"evil.example:{sender.port}")),
        attack("the Host of another port", 403, head(Host=authority(sender.host, 1))),
        attack("no Host", 403, head(version="1.0", Host=None)),
        attack("a foreign Origin", 403, head(Origin=_EVIL)),
        attack("the Origin null (a sandboxed frame)", 403, head(Origin="null")),
        attack("a cross-site fetch", 403, head(Sec_Fetch_Site="cross-site")),
        attack("a fetch from another port", 403, head(Sec_Fetch_Site="same-site")),
        attack("a CORS preflight", 403, head("OPTIONS", _CHANGES, Authorization=None, Origin=_EVIL, **asked)),
        attack("a websocket from a foreign page", 403, head(Origin=_EVIL, Sec_WebSocket_Key=key, **upgrade)),
        attack("GET on a route that changes things", (404, 405), head(target=_ONLY_POST)),
    ]


def _by_strangers(sender: _Sender) -> list[_Attack]:
    """What another user of this machine can send, who has no token."""
    head, attack, token = sender.head, sender.attack, sender.token
    invented = secrets.token_urlsafe(32)
    login = head(target=f"{LOGIN_PATH}?code={invented}", Authorization=None)
    return [
        attack("no token", 401, head(Authorization=None)),
        attack("no token, by HEAD", 401, head("HEAD", Authorization=None)),
        attack("a wrong token", 401, head(Authorization=f"Bearer {secrets.token_hex(32)}")),
        attack("a token cut short", 401, head(Authorization=f"Bearer {token[:-1]}")),
        attack("an empty token", 401, head(Authorization="Bearer ")),
        attack("a token that is no ASCII", 401, head(Authorization="Bearer \xff\xfe")),
        attack("the token in the address", 401, head(target=f"{_READS}?token={token}", Authorization=None)),
        attack("an invented session", 401, head(Authorization=None, Cookie=f"{COOKIE}={invented}")),
        attack("the token as a session", 401, head(Authorization=None, Cookie=f"{COOKIE}={token}")),
        attack("an invented login code", 401, login),
        attack("the same login code again", 401, login),
        *[attack(f"the path {path}", 401, head(target=path, Authorization=None)) for path in _PATH_TRICKS],
    ]


def _by_bodies(sender: _Sender) -> list[_Attack]:
    """Bodies that a form can send without asking, and bodies without end."""
    forms = {
        "a text/plain form": "text/plain",
        "an urlencoded form": "application/x-www-form-urlencoded",
        "a multipart form": "multipart/form-data; boundary=x",
        "a body without a type": None,
    }

    def post(kind: str | None = "application/json", **length: str) -> bytes:
        return sender.head("POST", _CHANGES, Content_Type=kind, **length)

    def endless() -> _Pieces:
        yield post(Transfer_Encoding="chunked")
        for _ in range(2 * MAX_BODY // _PIECE):
            yield b"%x\r\n%s\r\n" % (_PIECE, b" " * _PIECE)
        yield b"2\r\n{}\r\n0\r\n\r\n"

    return [
        *[sender.attack(name, 415, post(kind, Content_Length="2") + b"{}") for name, kind in forms.items()],
        sender.attack("a body announced as too large", 413, post(Content_Length=str(1 << 40)) + b"{}"),
        _Attack("a chunked body without end", frozenset({413}), endless),
    ]


def _by_smuggling(sender: _Sender) -> list[_Attack]:
    """Requests of which two readers could disagree where they end."""
    both = sender.head(Content_Length="3", Transfer_Encoding="chunked", Content_Type="application/json")
    return [
        sender.attack("two lengths", 400, sender.head(Content_Length=["2", "3"]) + b"{}"),
        sender.attack("a length and chunks", 400, both + b"0\r\n\r\n"),
    ]


def _judge(attack: _Attack, sender: _Sender) -> Outcome:
    answer = sender.exchange(attack.pieces())
    if answer.status is None:
        refused = answer.silence == _BROKEN and _is_alive(sender)
        return Outcome(attack.name, refused, answer.silence, None)
    if b"\naccess-control-allow" in answer.head.lower():
        return Outcome(attack.name, False, "the answer opens the daemon to other origins", answer.status)
    if b"\nset-cookie:" in answer.head.lower():
        return Outcome(attack.name, False, "the answer sets a cookie", answer.status)
    refused = answer.status in attack.statuses
    wanted = " or ".join(str(status) for status in sorted(attack.statuses))
    detail = f"answered {answer.status}" if refused else f"answered {answer.status} instead of {wanted}"
    return Outcome(attack.name, refused, detail, answer.status)


def _is_alive(sender: _Sender) -> bool:
    return sender.exchange(iter([sender.head(target="/health", Authorization=None)])).status == 200


def _send(channel: socket.socket, pieces: _Pieces, deadline: float) -> None:
    """Send until an answer is there: a daemon that has refused need not read the rest."""
    try:
        for piece in pieces:
            if time.monotonic() > deadline or select.select([channel], [], [], 0)[0]:
                return
            channel.sendall(piece)
    except (OSError, ValueError):
        return  # an answer may have come before the connection broke


def _receive(channel: socket.socket, deadline: float) -> _Answer:
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            piece = channel.recv(1 << 12)
            if not piece:
                break
            head += piece
    except TimeoutError:
        return _Answer(None, silence=_SILENT)
    except OSError:
        pass  # reset, perhaps after the answer
    return _parse(head)


def _parse(head: bytes) -> _Answer:
    if not head:
        return _Answer(None, silence=_BROKEN)
    head = head.partition(b"\r\n\r\n")[0]
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit() or len(words[1]) != 3:
        return _Answer(None, silence="the answer is no HTTP")
    return _Answer(int(words[1]), head)
