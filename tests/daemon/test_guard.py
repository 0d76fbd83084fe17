"""Nothing reaches a route but what this machine's owner asked for, whatever a web page or a stranger sends."""

import asyncio
import http.client
import json
import re
import socket
import stat
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served_app import serving
from vademecum import errors
from vademecum.daemon.guard import STATUS, Guard, Logins, by_socket, read_or_make_token
from vademecum.errors import RequestError

TOKEN = "0123456789abcdef" * 4
PORT = 8233
HOSTS = frozenset({"127.0.0.1:8233", "localhost:8233", "[::1]:8233"})
OPEN = ["/health", "/health/ready", "/static/app.js", "/static/icons/note.svg"]


class Recorder:
    """The application behind the guard. It reads the whole body, and keeps what it was asked."""

    def __init__(self, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        self.reached: list[tuple[str, str, bytes]] = []
        self.headers = headers or []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.reached.append((scope["method"], scope["path"], body))
        await send(
            {"type": "http.response.start", "status": 200, "headers": [*self.headers, (b"content-length", b"2")]}
        )
        await send({"type": "http.response.body", "body": b"{}"})


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> Any:
        return json.loads(self.body)["error"]["code"]


class Served(NamedTuple):
    """A real server: the application behind its guard, on a port and on a socket."""

    app: Recorder
    logins: Logins
    port: int
    socket_path: str

    def ask(self, method: str = "GET", path: str = "/api/status", body: Any = None, **headers: str | None) -> Answer:
        """A request of a client that holds the token, but for the headers that are given; None leaves one out."""
        plain: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}"}
        if body is not None:
            plain["Content-Type"] = "application/json"
        plain.update({name.replace("_", "-"): value for name, value in headers.items()})
        return exchange(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10), method, path, body, plain)

    def ask_socket(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        connection = http.client.HTTPConnection("nowhere.example", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(10)
        connection.sock.connect(self.socket_path)
        return exchange(connection, method, path, body, {name.replace("_", "-"): v for name, v in headers.items()})

    def send_raw(self, content: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as channel:
            channel.sendall(content)
            return b"".join(iter(lambda: channel.recv(1 << 16), b""))


def exchange(connection: Any, method: str, path: str, body: Any, headers: dict[str, str | None]) -> Answer:
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        if isinstance(body, bytes) and "Content-Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body, encode_chunked=isinstance(body, list))
        reply = connection.getresponse()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def hosts_of(port: int) -> frozenset[str]:
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    app, logins, path = Recorder(), Logins(), str(tmp_path_factory.mktemp("run") / "http.sock")

    def make(port: int) -> Guard:
        return Guard(app, token=TOKEN, hosts=lambda: hosts_of(port), logins=logins, max_body=1000)

    with serving(make, path) as port:
        yield Served(app, logins, port, path)


@pytest.fixture
def served(server: Served) -> Served:
    """The one server of this module, with an application that has been asked nothing yet."""
    server.app.reached.clear()
    server.app.headers = []
    return server


def call(guard: Guard, scope: Any, messages: list[Any] | None = None) -> list[Any]:
    """What the guard sends for one ASGI scope, without a server."""
    waiting = list(messages or [{"type": "http.request", "body": b"", "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))  # type: ignore[arg-type]
    return sent


def http_scope(headers: list[tuple[bytes, bytes]], **changes: Any) -> dict[str, Any]:
    plain = {"type": "http", "method": "GET", "path": "/api/status", "query_string": b"", "headers": headers}
    return {**plain, "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 40_000), **changes}


def guarded(app: Any, **changes: Any) -> Guard:
    return Guard(app, **{"token": TOKEN, "hosts": lambda: HOSTS, "logins": Logins(), **changes})


GOOD = [(b"host", b"127.0.0.1:8233"), (b"authorization", f"Bearer {TOKEN}".encode())]


# ── who may ask


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LocalHost:{}", "[::1]:{}"])
def test_the_names_of_this_daemon_are_served(served: Served, host: str) -> None:
    assert served.ask(Host=host.format(served.port)).status == 200
    assert served.app.reached == [("GET", "/api/status", b"")]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.:{}",
        "localhost.evil.example:{}",
        "evil.example#localhost:{}",
        "user@127.0.0.1:{}",
        "0.0.0.0:{}",
        "127.1:{}",
        "",
        "x" * 5000,
    ],
)
def test_a_foreign_host_is_refused_and_not_echoed_at_length(served: Served, host: str) -> None:
    answer = served.ask(Host=host.format(served.port))
    assert (answer.status, answer.code) == (403, "host_refused")
    assert len(answer.body) < 400
    assert served.app.reached == []


def test_a_request_without_a_host_or_with_two_is_refused(served: Served) -> None:
    bearer = f"Authorization: Bearer {TOKEN}\r\n"
    assert b"403" in served.send_raw(f"GET /api/status HTTP/1.0\r\n{bearer}\r\n".encode()).splitlines()[0]
    host = f"Host: 127.0.0.1:{served.port}\r\n"
    assert b"400" in served.send_raw(f"GET / HTTP/1.0\r\n{host}{host}{bearer}\r\n".encode()).splitlines()[0]
    assert served.app.reached == []
    app = Recorder()
    assert call(guarded(app), http_scope([GOOD[0], *GOOD]))[0]["status"] == 403  # a server that lets both through
    assert app.reached == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://127.0.0.1:{}"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:{}.evil.example"},
        {"Origin": "http://127.0.0.1:{}/"},
        {"Origin": "file://"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": ""},
        {"Origin": "http://127.0.0.1:{}", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "same-origin"},
    ],
)
@pytest.mark.parametrize("path", ["/api/status", "/health", "/login", "/static/app.js"])
def test_a_page_of_another_origin_is_refused_everywhere(served: Served, path: str, headers: dict[str, str]) -> None:
    answer = served.ask(path=path, **{name: value.format(served.port) for name, value in headers.items()})
    assert (answer.status, answer.code) == (403, "origin_refused")
    assert served.app.reached == []


def test_a_page_of_the_daemon_is_served(served: Served) -> None:
    assert served.ask(Origin=f"http://localhost:{served.port}", Sec_Fetch_Site="same-origin").status == 200
    assert served.ask(Sec_Fetch_Site="none").status == 200


def test_a_doubled_origin_is_refused(served: Served) -> None:
    ours = (b"origin", b"http://127.0.0.1:8233")
    site = (b"sec-fetch-site", b"none")
    app = Recorder()
    for doubled in (ours, site):
        assert call(guarded(app), http_scope([*GOOD, doubled, doubled]))[0]["status"] == 403
    assert app.reached == []


def test_a_header_counts_however_its_name_is_written() -> None:
    app = Recorder()
    for name in (b"Host", b"ORIGIN", b"Sec-Fetch-Site"):
        assert call(guarded(app), http_scope([*GOOD, (name, b"evil.example")]))[0]["status"] == 403
    assert app.reached == []


# ── the token


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Basic {TOKEN}",
        "Bearer \xff\xfe",
    ],
)
def test_without_the_token_nothing_but_the_open_paths_answers(served: Served, value: str | None) -> None:
    answer = served.ask(Authorization=value)
    assert (answer.status, answer.code) == (401, "token_missing")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert served.ask("HEAD", Authorization=value).status == 401
    assert served.app.reached == []
    assert [served.ask(path=path, Authorization=value).status for path in OPEN] == [200] * len(OPEN)
    assert served.ask("HEAD", "/health", Authorization=value).status == 200


def test_the_scheme_is_read_in_any_case_and_the_header_once(served: Served) -> None:
    assert served.ask(Authorization=f"bearer  {TOKEN}").status == 200
    assert call(guarded(Recorder()), http_scope([*GOOD, GOOD[1]]))[0]["status"] == 401


@pytest.mark.parametrize(
    "path",
    [
        "//health",
        "/health/",
        "/Health",
        "/HEALTH",
        "/health/../api/status",
        "/health/%2e%2e/api/status",
        "/health%2f..%2fapi",
        "/health/ready/",
        "/health%00",
        "/health;x",
        "/health%3fx",
        "/login/",
        "/login/../api/status",
        "/static",
        "/static/",
        "/static//x",
        "/static/../api/status",
        "/static/%2e%2e/api/status",
        "/static/%252e%252e/api/status",
        "/static/..%5capi",
        "/static/./x",
        "/Static/app.js",
        "/statics/app.js",
        "/api/status?x=/health",
        "http://127.0.0.1/health",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_spelling_of_an_open_path_opens_another(served: Served, method: str, path: str) -> None:
    assert served.ask(method, path, Authorization=None).status == 401
    assert served.app.reached == []


@pytest.mark.parametrize("path", [*OPEN, "/login"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PUT"])
def test_an_open_path_is_open_for_reading_only(served: Served, method: str, path: str) -> None:
    assert served.ask(method, path, Authorization=None).status == 401


# ── bodies


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
        "application/json, text/plain",
    ],
)
def test_a_body_that_is_not_json_is_refused(served: Served, method: str, kind: str | None) -> None:
    for body in (b"{}", [b"{}"]):
        chunked = {"Transfer_Encoding": "chunked"} if isinstance(body, list) else {}
        answer = served.ask(method, body=body, Content_Type=kind, **chunked)
        assert (answer.status, answer.code) == (415, "not_json")
    assert served.app.reached == []


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_a_json_body_arrives_whole(served: Served, kind: str) -> None:
    assert served.ask("POST", body=b'{"a": 1}', Content_Type=kind).status == 200
    assert served.ask("POST", body=[b'{"a"', b": 2}"], Content_Type=kind, Transfer_Encoding="chunked").status == 200
    assert [body for _, _, body in served.app.reached] == [b'{"a": 1}', b'{"a": 2}']


def test_a_post_without_a_body_needs_no_type(served: Served) -> None:
    assert served.ask("POST").status == 200
    assert served.ask("POST", Content_Length="0", Content_Type="text/plain").status == 200


def test_the_largest_body_passes_and_a_larger_one_does_not(served: Served) -> None:
    assert served.ask("POST", body=b"x" * 1000).status == 200
    answer = served.ask("POST", body=b"x" * 1001)
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert len(served.app.reached) == 1


@pytest.mark.parametrize("length", ["1001", "9" * 18, "9" * 5000, "0" * 30 + "1001"])
def test_an_announced_length_is_refused_before_a_byte_of_it_came(length: str) -> None:
    app = Recorder()
    announced = [*GOOD, (b"content-length", length.encode()), (b"content-type", b"application/json")]
    sent = call(guarded(app, max_body=1000), http_scope(announced, method="POST"))
    assert (sent[0]["status"], app.reached) == (413, [])


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1_0", b" ", b"", b"0x10", b"5, 5", "\u0665".encode()])
def test_a_length_that_is_no_number_is_a_bad_request(length: bytes) -> None:
    app = Recorder()
    headers = [*GOOD, (b"content-length", length), (b"content-type", b"application/json")]
    sent = call(guarded(app), http_scope(headers, method="POST"))
    assert (sent[0]["status"], app.reached) == (400, [])


def test_a_request_that_says_twice_how_long_it_is_is_refused(served: Served) -> None:
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 2\r\n"
    both = served.send_raw(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
    twice = served.send_raw(f"{head}Content-Length: 3\r\n\r\n{{}}".encode())
    assert both.startswith(b"HTTP/1.1 400")
    assert b"bad_request" in both
    assert twice.startswith(b"HTTP/1.1 400")
    assert served.app.reached == []


def test_a_body_that_grows_beyond_the_limit_is_stopped(served: Served) -> None:
    answer = served.ask("POST", body=[b"x" * 600, b"x" * 401], Transfer_Encoding="chunked")
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert served.app.reached == []
    assert served.ask("POST", body=[b"x" * 600, b"x" * 400], Transfer_Encoding="chunked").status == 200


def test_an_application_that_makes_the_error_its_own_cannot_answer_otherwise(tmp_path: Path) -> None:
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
        except errors.BodyTooLarge:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"as you wish"})

    chunks = [{"type": "http.request", "body": b"x" * 600, "more_body": True}] * 3
    headers = [*GOOD, (b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    sent = call(guarded(stubborn, max_body=1000), http_scope(headers, method="POST"), chunks)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 413


def test_an_answer_that_has_begun_is_cut_off(tmp_path: Path) -> None:
    async def eager(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.body", "body": b"done"})

    path = str(tmp_path / "http.sock")
    chunk = b"258\r\n" + b"x" * 600 + b"\r\n"
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        serving(lambda port: guarded(eager, hosts=lambda: hosts_of(port), max_body=1000), path),
        socket.socket(socket.AF_UNIX) as channel,
    ):
        channel.settimeout(20)
        channel.connect(path)
        channel.sendall(head + chunk * 2)  # in one go, so that the cut cannot come before
        said = b"".join(iter(lambda: channel.recv(1 << 16), b""))
    assert said.startswith(b"HTTP/1.1 200")
    assert said.endswith(b"\r\n\r\nbegun")


def test_a_body_that_nobody_announced_is_not_read() -> None:
    app = Recorder()
    sent = call(guarded(app), http_scope(GOOD), [{"type": "http.request", "body": b"{}", "more_body": False}])
    assert (sent[0]["status"], app.reached) == (413, [])


# ── the socket


def test_over_the_socket_the_file_is_the_authentication(served: Served) -> None:
    assert served.ask_socket("GET", "/api/status", Host="anything").status == 200
    assert served.ask_socket("GET", "/api/status").status == 400  # HTTP/1.1 wants a Host; the server says so
    foreign = {"Host": "x", "Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"}
    assert served.ask_socket("GET", "/api/status", **foreign).status == 200
    assert len(served.app.reached) == 2


def test_over_the_socket_the_rules_about_bodies_hold(served: Served) -> None:
    assert served.ask_socket("POST", "/", b"{}", Host="x", Content_Type="text/plain").status == 415
    assert served.ask_socket("POST", "/", b"x" * 1001, Host="x", Content_Type="application/json").status == 413
    assert served.app.reached == []


def test_what_the_server_says_of_a_connection_tells_the_two_apart(tmp_path: Path) -> None:
    scopes: list[Any] = []

    async def note(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await Recorder()(scope, receive, send)

    path = str(tmp_path / "http.sock")
    with serving(lambda _: note, path) as port:
        served = Served(Recorder(), Logins(), port, path)
        served.ask_socket("GET", "/", Host="x", X_Forwarded_For="9.9.9.9")
        served.ask(X_Forwarded_For="", Forwarded="for=unix:", X_Real_IP=path)
    assert (scopes[0]["server"], by_socket(scopes[0])) == ((path, None), True)
    assert (scopes[1]["server"], by_socket(scopes[1])) == (("127.0.0.1", port), False)


@pytest.mark.parametrize("server", [("127.0.0.1", PORT), ("::1", PORT), ("/run/http.sock", PORT), None, ("", None)])
def test_a_tcp_caller_who_has_gone_is_not_taken_for_the_socket(server: Any) -> None:
    """uvicorn then has no `client`, just as for a socket."""
    app = Recorder()
    assert call(guarded(app), http_scope([GOOD[0]], server=server, client=None))[0]["status"] == 401
    assert app.reached == []


def test_a_connection_that_is_reset_at_once_reaches_nothing(served: Served) -> None:
    for _ in range(50):
        channel = socket.create_connection(("127.0.0.1", served.port))
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        channel.sendall(b"GET /api/status HTTP/1.0\r\n\r\n")
        channel.close()
    assert served.ask().status == 200
    assert len(served.app.reached) == 1


# ── browsers


def test_a_code_lets_a_browser_in_once(served: Served) -> None:
    code = served.logins.issue()
    answer = served.ask(path=f"/login?code={code}", Authorization=None, Sec_Fetch_Site="none")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    session, _, attributes = rest.partition("; ")
    assert (name, attributes) == ("vade_session", "HttpOnly; SameSite=Strict; Path=/")
    assert TOKEN not in answer.headers["set-cookie"]
    assert code != session
    for cookie in (f"vade_session={session}", f"a=b; vade_session=x; vade_session={session};c"):
        assert served.ask(Authorization=None, Cookie=cookie).status == 200
    again = served.ask(path=f"/login?code={code}", Authorization=None)
    assert (again.status, "set-cookie" in again.headers) == (401, False)
    assert again.headers["content-type"].startswith("text/plain")
    assert b"vade login" in again.body
    assert [path for _, path, _ in served.app.reached] == ["/api/status"] * 2  # /login is the guard's own


@pytest.mark.parametrize("query", ["", "?", "?code", "?code=", "?code=x", "?kode={}", "?code={}x", "?x=1&code={}"])
def test_anything_but_a_code_is_no_login(served: Served, query: str) -> None:
    code = served.logins.issue()
    answer = served.ask(path="/login" + query.format(code), Authorization=None)
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert served.logins.redeem(code) is not None  # a wrong guess costs nobody their code


@pytest.mark.parametrize(
    "cookie", ["vade_session=", f"vade_session={TOKEN}", "vade_session", "vade_session=\xff", "x=vade_session=y", ";;="]
)
def test_an_invented_session_is_none(served: Served, cookie: str) -> None:
    assert served.ask(Authorization=None, Cookie=cookie).status == 401


def test_codes_end_after_a_minute() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    first, second = logins.issue(), logins.issue()
    now[0] = 59.9
    assert logins.redeem(first) is not None
    now[0] = 60.0
    assert logins.redeem(second) is None


def test_the_oldest_code_and_the_oldest_session_give_way() -> None:
    logins = Logins()
    codes = [logins.issue() for _ in range(17)]
    assert [logins.redeem(code) is None for code in codes] == [True] + [False] * 16
    sessions = [logins.redeem(logins.issue()) or "" for _ in range(65)]
    assert [logins.knows(session.encode()) for session in sessions] == [False] + [True] * 64


def test_of_many_threads_with_one_code_one_is_let_in() -> None:
    logins = Logins()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            found = list(pool.map(logins.redeem, [logins.issue()] * 8))
            assert sum(session is not None for session in found) == 1


# ── what goes out


FIXED = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


def test_every_answer_is_dressed_and_none_opens_cors(served: Served) -> None:
    served.app.headers = [(b"Access-Control-Allow-Origin", b"*"), (b"X-Frame-Options", b"SAMEORIGIN")]
    preflight = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    answers = [
        served.ask(),
        served.ask(path="/health", Authorization=None),
        served.ask(Authorization=None),
        served.ask(Host="evil.example"),
        served.ask("OPTIONS", **preflight),
        served.ask("POST", body=b"x", Content_Type="text/plain"),
        served.ask("POST", body=b"x" * 1001),
        served.ask(path="/login?code=x"),
        served.ask(path=f"/login?code={served.logins.issue()}"),
        served.ask_socket("GET", "/", Host="x"),
    ]
    assert {answer.status for answer in answers} == {200, 303, 401, 403, 413, 415}
    for answer in answers:
        assert FIXED.items() <= answer.headers.items()
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_an_application_may_say_how_long_its_answer_keeps(served: Served) -> None:
    served.app.headers = [(b"Cache-Control", b"max-age=60")]
    assert served.ask(path="/static/app.js").headers["cache-control"] == "max-age=60"


def test_a_refusal_says_what_to_do(served: Served) -> None:
    body = json.loads(served.ask(Authorization=None).body)
    assert body["error"].keys() == {"code", "message", "hint"}
    assert "run/token" in body["error"]["hint"]


def test_every_error_of_a_request_has_a_status() -> None:
    of_requests = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, RequestError)}
    assert set(STATUS) == of_requests
    assert all(400 <= status < 500 for status in STATUS.values())


# ── what is no request


def test_a_websocket_is_closed_and_the_lifespan_passes() -> None:
    kinds: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        kinds.append(scope["type"])

    sent = call(guarded(app), {**http_scope(GOOD), "type": "websocket"}, [{"type": "websocket.connect"}])
    assert [message["type"] for message in sent] == ["websocket.close"]
    call(guarded(app), {"type": "lifespan"})
    assert kinds == ["lifespan"]


def test_a_guard_without_a_token_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="token"):
        guarded(Recorder(), token="")


# ── all of it together


def header(name: bytes, *values: bytes) -> Any:
    """No such header, one, or two."""
    return st.lists(st.sampled_from(values), max_size=2).map(lambda chosen: [(name, value) for value in chosen])


HEADERS = st.tuples(
    header(b"host", b"127.0.0.1:8233", b"127.0.0.1:8233", b"LOCALHOST:8233", b"evil.example:8233"),
    header(b"origin", b"http://localhost:8233", b"http://evil.example", b"null") | st.just([]),
    header(b"sec-fetch-site", b"same-origin", b"none", b"cross-site") | st.just([]),
    header(b"authorization", f"Bearer {TOKEN}".encode(), b"Bearer x", b"\xff") | st.just([GOOD[1]]),
    header(b"cookie", b"a=b", b"vade_session=%s", b"vade_session=x"),
    header(b"content-type", b"application/json", b"application/json;charset=utf-8", b"text/plain"),
    header(b"content-length", b"0", b"2", b"1001", b"x") | st.just([]),
    header(b"transfer-encoding", b"chunked") | st.just([]),
).flatmap(lambda groups: st.permutations([pair for group in groups for pair in group]))
PATHS = st.sampled_from(["/api/status", "/", "/health", "/health/", "/static/x", "/static/../x", "//health"])


def may_pass(method: str, path: str, headers: list[tuple[bytes, bytes]], session: bytes, over_tcp: bool) -> bool:
    """The rule, said again in another way: over the text of the head."""
    text = "".join(f"\n{name.decode()}: {value.decode('latin-1')}" for name, value in sorted(headers)) + "\n"

    def count(pattern: str) -> int:
        return len(re.findall(rf"(?im)^{pattern}", text))

    if over_tcp:
        if count("host:") != 1 or not count(r"host: (127\.0\.0\.1|localhost):8233$"):
            return False
        if count("origin:") > 1 or count("origin:") != count("origin: http://localhost:8233$"):
            return False
        if count("sec-fetch-site:") > 1 or count("sec-fetch-site: cross"):
            return False
        bearer = count("authorization:") == 1 and count(f"authorization: bearer {TOKEN}$")
        is_open = method in {"GET", "HEAD"} and path in {"/", "/health", "/static/x"}
        if not (bearer or is_open or session.decode() in text):
            return False
    if count("(content-length|transfer-encoding):") > 1 or count("content-length: x"):
        return False
    if count("content-length: [1-9]") or count("transfer-encoding:"):
        return not count("content-length: 1001") and count("content-type:") == count("content-type: app") == 1
    return True


@settings(max_examples=500, deadline=None)
@given(headers=HEADERS, path=PATHS, method=st.sampled_from(["GET", "HEAD", "POST", "DELETE"]), over_tcp=st.booleans())
def test_the_application_is_reached_exactly_when_the_rule_says_so(
    headers: list[tuple[bytes, bytes]], path: str, method: str, over_tcp: bool
) -> None:
    app, logins = Recorder(), Logins()
    session = (logins.redeem(logins.issue()) or "").encode()
    headers = [(name, value.replace(b"%s", session)) for name, value in headers]
    server = ("127.0.0.1", PORT) if over_tcp else ("/run/user/0/http.sock", None)
    sent = call(
        guarded(app, logins=logins, max_body=1000), http_scope(headers, path=path, method=method, server=server)
    )
    assert bool(app.reached) == may_pass(method, path, headers, session, over_tcp)
    assert (sent[0]["status"] == 200) == bool(app.reached)
    assert FIXED.items() <= {name.decode(): value.decode() for name, value in sent[0]["headers"]}.items()


# ── the file of the token


def test_the_token_is_made_once_and_is_the_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_or_make_token(path)
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (path.read_text().strip(), read_or_make_token(path)) == (token, token)


@pytest.mark.parametrize("content", [b"", b"\n", b"abc", TOKEN.upper().encode(), TOKEN.encode() + b"0", b"\xff" * 64])
def test_a_malformed_token_is_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    token = read_or_make_token(path)
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert path.read_text().strip() == token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_token_that_others_could_read_is_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)
    assert read_or_make_token(path) != TOKEN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_the_token_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(TOKEN)
    elsewhere.chmod(0o600)
    (tmp_path / "token").symlink_to(elsewhere)
    assert read_or_make_token(tmp_path / "token") != TOKEN
    assert (elsewhere.read_text(), (tmp_path / "token").is_symlink()) == (TOKEN, False)


def test_a_place_where_no_token_can_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(errors.StateReadOnly):
        read_or_make_token(tmp_path / "token")


def test_all_who_ask_at_once_get_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(read_or_make_token, [tmp_path / "token"] * 16))
    assert tokens == {(tmp_path / "token").read_text().strip()}
