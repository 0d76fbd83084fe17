"""What stands before every route: who may ask, from where, and how much they may send.

A web page can reach a port of this machine, by a plain form as well as by a name that it has resolved to 127.0.0.1.
So nothing is routed before the Host, the Origin, the token and the body have been looked at, and a route cannot
forget a check, since none makes one itself.

Over the daemon's socket the permissions of its file have authenticated the caller already; there only the rules about
bodies hold. What tells the two apart is the address that was listened on, never a word of the caller (`by_socket`).
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from vademecum.config import file_lock, replace_file
from vademecum.errors import (
    BadRequest,
    BodyTooLarge,
    HostRefused,
    MethodRefused,
    NotJson,
    OriginRefused,
    RequestError,
    RouteNotFound,
    StateReadOnly,
    TokenMissing,
)

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

STATUS: Final[Mapping[type[RequestError], int]] = {
    RequestError: 400,
    BadRequest: 400,
    TokenMissing: 401,
    HostRefused: 403,
    OriginRefused: 403,
    RouteNotFound: 404,
    MethodRefused: 405,
    BodyTooLarge: 413,
    NotJson: 415,
}
"""The HTTP status of each error that refuses a request."""

COOKIE: Final = "vade_session"
LOGIN_PATH: Final = "/login"
MAX_BODY: Final = 1 << 20

_OPEN_PATHS: Final = frozenset({"/", "/health", "/health/ready"})
_OPEN_FOLDER: Final = "/static/"
_SAFE_SITES: Final = frozenset({b"same-origin", b"none"})
_TOKEN: Final = re.compile(rb"[0-9a-f]{64}")
# int() refuses thousands of digits with an error of its own; this many are beyond any body that may come.
_MOST_DIGITS: Final = 18
_MOST_SHOWN: Final = 60
_POLICY_VIOLATION: Final = 1008

_CACHE_HEADER: Final = (b"cache-control", b"no-store")
_CHALLENGE: Final = (b"www-authenticate", b"Bearer")
_FIXED_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_FIXED_NAMES: Final = frozenset(name for name, _ in _FIXED_HEADERS)
_LOGIN_FAILED: Final = b"This link has been used, or is older than a minute. `vade login` makes a new one.\n"


class Logins:
    """Codes that let a browser in once, and the sessions that came of them. Both end with the process.

    A browser must not learn the token, which outlives the daemon: a code in an address lands in its history. Any
    thread may call this.
    """

    VALID_S: Final = 60.0
    MOST_CODES: Final = 16
    MOST_SESSIONS: Final = 64

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._codes: dict[str, float] = {}
        self._sessions: list[str] = []

    def issue(self) -> str:
        """A new code, good for one `redeem` within a minute. The oldest gives way when too many are out."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._codes[code] = self._clock() + self.VALID_S
            while len(self._codes) > self.MOST_CODES:
                del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> str | None:
        """The value of a new session's cookie; None when the code is unknown, used or too old.

        The oldest session gives way when there are too many.
        """
        with self._lock:
            until = self._codes.pop(code, None)
            if until is None or self._clock() >= until:
                return None
            self._sessions.append(secrets.token_urlsafe(32))
            del self._sessions[: -self.MOST_SESSIONS]
            return self._sessions[-1]

    def knows(self, session: bytes) -> bool:
        """Whether this is the cookie's value of a session that lives."""
        with self._lock:
            known = list(self._sessions)
        return any(hmac.compare_digest(one.encode("ascii"), session) for one in known)


class Guard:
    """Lets a request reach the application when it may, and answers it here when not.

    `hosts` gives what the Host header may say, in lower case and with the port, which is known only after binding.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Callable[[], frozenset[str]],
        logins: Logins,
        max_body: int = MAX_BODY,
    ) -> None:
        if not token:
            raise ValueError("an empty token would let everybody in")
        self._app = app
        self._token = token.encode("ascii")
        self._hosts = hosts
        self._logins = logins
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI; a websocket is closed before it opens, since nothing here needs one."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send)
        is_login = scope["method"] == "GET" and scope["path"] == LOGIN_PATH
        try:
            if not by_socket(scope):
                self._check_caller(scope, needs_token=not is_login and not _is_open(scope))
            exchange.limit = _body_limit(scope, self._max_body)
        except RequestError as refused:
            await exchange.refuse(refused)
            return
        if is_login:
            await self._log_in(scope, exchange.send)
            return
        if scope["method"] == "HEAD":  # what GET would say, without its body
            exchange.is_head = True
            scope = {**scope, "method": "GET"}
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except BodyTooLarge:
            # Returning with an answer that has no end makes the server cut the connection.
            if not exchange.overflowed:
                raise

    def _check_caller(self, scope: Scope, *, needs_token: bool) -> None:
        hosts = self._hosts()
        _check_host(_values(scope, b"host"), hosts)
        _check_origin(_values(scope, b"origin"), _values(scope, b"sec-fetch-site"), hosts)
        if needs_token and not self._has_token(scope) and not self._has_session(scope):
            raise TokenMissing("the request carries no valid token")

    def _has_token(self, scope: Scope) -> bool:
        values = _values(scope, b"authorization")
        if len(values) != 1:
            return False
        scheme, _, credentials = values[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(credentials.strip(), self._token)

    def _has_session(self, scope: Scope) -> bool:
        # Cookies do not know ports: another server of this machine may have set one of the same name.
        pairs = [pair.partition(b"=") for value in _values(scope, b"cookie") for pair in value.split(b";")]
        ours = [value.strip() for name, _, value in pairs if name.strip() == COOKIE.encode("ascii")]
        return any(self._logins.knows(value) for value in ours)

    async def _log_in(self, scope: Scope, send: Send) -> None:
        name, _, code = scope["query_string"].partition(b"=")
        session = self._logins.redeem(code.decode("latin-1")) if name == b"code" else None
        if session is None:
            plain = (b"content-type", b"text/plain; charset=utf-8")
            await _send_answer(send, STATUS[TokenMissing], [plain, _CHALLENGE], _LOGIN_FAILED)
            return
        cookie = f"{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/".encode("ascii")
        await _send_answer(send, 303, [(b"location", b"/"), (b"set-cookie", cookie)], b"")


def by_socket(scope: Scope) -> bool:
    """Whether the request came over the daemon's unix socket, whose file only the owner may open.

    uvicorn's `server` is what getsockname() says of the connection: (path, None) for a unix socket, (address, port)
    for TCP, and nothing that is sent can change it. Its `client` proves nothing: it is None for a unix socket, but
    also for a TCP connection whose peer has gone, and X-Forwarded-For may have written it.
    """
    server = scope.get("server")
    return server is not None and server[1] is None and str(server[0]).startswith("/")


def read_or_make_token(path: Path) -> str:
    """The token in this file, which is made when it is missing or malformed: 64 hexadecimal digits, mode 0600.

    A file that others may read holds a secret no longer, so it gets a new token. Processes that ask at once get the
    same one. Raises StateReadOnly or StateBusy.
    """
    with file_lock(path.with_name(f"{path.name}.lock"), wait_s=5, what="the token"):
        token = _read_token(path)
        if token is None:
            token = secrets.token_hex(32)
            replace_file(path, f"{token}\n".encode("ascii"))
        return token


def keep_token(path: Path, token: str) -> None:
    """Write the token that the daemon takes into its file again, where that was deleted."""
    if not path.exists():
        with suppress(StateReadOnly):
            replace_file(path, f"{token}\n".encode("ascii"))


def _read_token(path: Path) -> str | None:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o077:
            return None
        content = path.read_bytes().strip()
    except OSError:
        return None  # what cannot be read is made anew, and that says why it cannot
    return content.decode("ascii") if _TOKEN.fullmatch(content) else None


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]


def _is_open(scope: Scope) -> bool:
    if scope["method"] not in {"GET", "HEAD"}:
        return False
    path = scope["path"]
    if path in _OPEN_PATHS:
        return True
    # Nothing that something behind us might normalize into another path is open.
    parts = path.removeprefix(_OPEN_FOLDER).split("/")
    is_plain = not {"", ".", ".."} & set(parts) and not set("\\%\0") & set(path)
    return path.startswith(_OPEN_FOLDER) and is_plain


def _check_host(values: list[bytes], hosts: frozenset[str]) -> None:
    if len(values) != 1:
        raise HostRefused("the request must name one host")
    if values[0].decode("latin-1").lower() not in hosts:
        raise HostRefused(f"the host {_shown(values[0])} is not this daemon")


def _check_origin(origins: list[bytes], sites: list[bytes], hosts: frozenset[str]) -> None:
    if len(origins) > 1 or len(sites) > 1:
        raise OriginRefused("the request names more than one origin")
    ours = {f"http://{host}" for host in hosts}
    if origins and origins[0].decode("latin-1").lower() not in ours:
        raise OriginRefused(f"a page of the origin {_shown(origins[0])} made the request")
    if sites and sites[0].lower() not in _SAFE_SITES:
        raise OriginRefused("a page of another site made the request")


def _body_limit(scope: Scope, max_body: int) -> int:
    """How many bytes of a body may come: none when none is announced."""
    lengths, encodings = _values(scope, b"content-length"), _values(scope, b"transfer-encoding")
    if len(lengths) + len(encodings) > 1:
        raise BadRequest("the request says more than once how long its body is")
    length = _parse_length(lengths[0]) if lengths else 0
    if not length and not encodings:
        return 0
    types = [value.partition(b";")[0].strip().lower() for value in _values(scope, b"content-type")]
    if types != [b"application/json"]:
        raise NotJson("the body is not declared as application/json")
    if length > max_body:
        raise _too_large(max_body)
    return max_body


def _parse_length(value: bytes) -> int:
    if not value.isdigit():
        raise BadRequest(f"{_shown(value)} is no Content-Length")
    return int(value.lstrip(b"0")[:_MOST_DIGITS] or b"0")


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes", hint="Send less at once.")


def _shown(value: bytes) -> str:
    """What a header said, short and in ASCII: the answer must not become a place to put text in."""
    return ascii(value[:_MOST_SHOWN].decode("latin-1"))


class _Exchange:
    """One request and its answer: counts what comes in, and dresses what goes out."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.limit = 0
        self.overflowed = False
        self.is_head = False
        self._receive = receive
        self._send = send
        self._received = 0
        self._started = False

    async def receive(self) -> Message:
        """Raises BodyTooLarge, and has answered so, when more came than may. The application never sees a cut body."""
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > self.limit:
            error = _too_large(self.limit)
            if not self._started:
                await self.refuse(error)
            self.overflowed = True
            raise error
        return message

    async def send(self, message: Message) -> None:
        """Pass it on. After the refusal of a body nothing is: an application may have made the error its own."""
        if self.overflowed or (self.is_head and self._started):
            return
        if message["type"] == "http.response.start":
            self._started = True
            message = {**message, "headers": _dressed(message.get("headers", ()))}
        await self._send(message)
        if self.is_head and message["type"] == "http.response.start":  # a stream would never come to its end
            await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, error: RequestError) -> None:
        shown = {"code": error.code, "message": error.message, "hint": error.hint}
        headers: Headers = [(b"content-type", b"application/json")]
        if isinstance(error, TokenMissing):
            headers.append(_CHALLENGE)
        await _send_answer(self.send, STATUS[type(error)], headers, json.dumps({"error": shown}).encode("ascii"))


def _dressed(headers: Any) -> Headers:
    given = [(bytes(name).lower(), bytes(value)) for name, value in headers]
    kept = [(name, value) for name, value in given if name not in _FIXED_NAMES]
    kept = [(name, value) for name, value in kept if not name.startswith(b"access-control-")]
    if all(name != b"cache-control" for name, _ in kept):
        kept.append(_CACHE_HEADER)
    return kept + list(_FIXED_HEADERS)


async def _send_answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
