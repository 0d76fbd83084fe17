"""`vade doctor --attack` sees a daemon that refuses, and sees one that does not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from served_app import serving
from vademecum.daemon.attack import Outcome, attacks
from vademecum.daemon.guard import Guard, Logins

TOKEN = "fedcba9876543210" * 4
CHANGES = ("/api/sources/obsidian", "/api/login-link")


class Routes:
    """An application that serves whatever it is asked, and counts what would have changed something."""

    def __init__(self, *, changed_by: str = "POST") -> None:
        self.changed_by = changed_by
        self.changes = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status = 200
        if scope["path"] in CHANGES:
            status = (400 if body.strip() in {b"", b"{}"} else 200) if scope["method"] == "POST" else 405
            status = 200 if scope["method"] == self.changed_by == "GET" else status
            self.changes += status == 200 and scope["method"] == "POST"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})


def blind(name: str, shown: Callable[[int], str | None]) -> Callable[[Any, int], Any]:
    """A guard that has forgotten one rule: it is shown a good header, or none, in place of what came."""

    def wrap(guard: Any, port: int) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            kept = [pair for pair in scope["headers"] if pair[0] != name.encode()]
            value = shown(port)
            kept += [] if value is None else [(name.encode(), value.encode())]
            await guard({**scope, "headers": kept}, receive, send)

        return app

    return wrap


def generous(guard: Any, port: int) -> Any:
    """A guard behind which somebody opens the daemon to every origin."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def opened(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"Access-Control-Allow-Origin", b"*")]}
            await send(message)

        await guard(scope, receive, opened)

    return app


def guarded(app: Any, port: int, **changes: Any) -> Guard:
    hosts = frozenset({f"127.0.0.1:{port}"})
    return Guard(app, **{"token": TOKEN, "hosts": lambda: hosts, "logins": Logins(), **changes})


def through(outcomes: list[Outcome]) -> set[str]:
    return {outcome.name for outcome in outcomes if not outcome.refused}


def test_a_guarded_daemon_refuses_every_attack_and_nothing_changes() -> None:
    routes = Routes()
    with serving(lambda port: guarded(routes, port)) as port:
        outcomes = attacks(port, TOKEN)
    assert [outcome for outcome in outcomes if not outcome.refused] == []
    assert len(outcomes) == len({outcome.name for outcome in outcomes}) > 40
    assert all(outcome.status is not None and str(outcome.status) in outcome.detail for outcome in outcomes)
    assert routes.changes == 0


def test_without_the_guard_all_get_through_but_what_the_server_itself_refuses() -> None:
    routes = Routes()
    with serving(lambda _: routes) as port:
        outcomes = attacks(port, TOKEN, patience_s=1)
    refused = {outcome.name for outcome in outcomes if outcome.refused}
    assert refused == {"two lengths", "GET on a route that changes things"}
    assert routes.changes == 0  # an attack that gets through does no harm


BROKEN = {
    "host": (
        blind("host", "127.0.0.1:{}".format),
        {"a foreign Host (DNS rebinding)", "the Host of another port", "no Host"},
    ),
    "origin": (
        blind("origin", lambda _: None),
        {
            "a foreign Origin",
            "the Origin null (a sandboxed frame)",
            "a CORS preflight",
            "a websocket from a foreign page",
        },
    ),
    "site": (blind("sec-fetch-site", lambda _: None), {"a cross-site fetch", "a fetch from another port"}),
    "type": (
        blind("content-type", lambda _: "application/json"),
        {"a text/plain form", "an urlencoded form", "a multipart form", "a body without a type"},
    ),
    "encoding": (blind("transfer-encoding", lambda _: None), {"a length and chunks"}),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_named(rule: str) -> None:
    wrap, expected = BROKEN[rule]
    with serving(lambda port: wrap(guarded(Routes(), port), port)) as port:
        assert through(attacks(port, TOKEN)) == expected


def test_a_guard_that_opens_the_token_is_seen() -> None:
    wrap = blind("authorization", lambda _: f"Bearer {TOKEN}")
    with serving(lambda port: wrap(guarded(Routes(), port), port)) as port:
        got = through(attacks(port, TOKEN))
    assert {"no token", "no token, by HEAD", "a wrong token", "an invented session", "the path //health"} <= got
    assert not {"a foreign Origin", "a text/plain form", "an invented login code"} & got


def test_a_guard_without_a_limit_is_seen() -> None:
    with serving(lambda port: guarded(Routes(), port, max_body=1 << 50)) as port:
        outcomes = attacks(port, TOKEN, patience_s=2)
    assert through(outcomes) == {"a body announced as too large", "a chunked body without end"}
    [waiting] = [outcome for outcome in outcomes if not outcome.refused and outcome.status is None]
    assert "waits" in waiting.detail


def test_a_route_that_changes_things_on_get_is_seen() -> None:
    with serving(lambda port: guarded(Routes(changed_by="GET"), port)) as port:
        assert through(attacks(port, TOKEN)) == {"GET on a route that changes things"}


def test_an_answer_that_opens_the_daemon_to_other_origins_is_no_refusal() -> None:
    with serving(lambda port: generous(guarded(Routes(), port), port)) as port:
        outcomes = attacks(port, TOKEN)
    assert all("other origins" in outcome.detail for outcome in outcomes if outcome.name != "two lengths")


def test_a_daemon_that_refuses_for_want_of_its_token_does_not_pass() -> None:
    with serving(lambda port: guarded(Routes(), port)) as port:
        got = through(attacks(port, "0" * 64))
    assert {"a text/plain form", "a body announced as too large"} <= got


# ── servers that are hostile, or dead


@contextmanager
def raw_server(answer: Callable[[socket.socket, bytes], None], lives: int = 1000) -> Iterator[int]:
    """One that answers /health as it should, so many times, and everything else as it likes."""
    healthy = iter(range(lives))
    with socket.socket() as listened:
        listened.bind(("127.0.0.1", 0))
        listened.listen()
        listened.settimeout(0.05)
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                try:
                    channel, _ = listened.accept()
                except TimeoutError:
                    continue
                with channel:
                    try:
                        channel.settimeout(5)
                        request = channel.recv(1 << 16)
                        if request.startswith(b"GET /health HTTP") and next(healthy, None) is not None:
                            channel.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                        else:
                            answer(channel, request)
                    except OSError:  # the attacker has seen enough
                        pass

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listened.getsockname()[1]
        finally:
            ended.set()
            thread.join()


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        outcomes = attacks(bound.getsockname()[1], TOKEN)
    assert {(outcome.refused, outcome.status) for outcome in outcomes} == {(False, None)}


def test_a_connection_that_breaks_is_a_refusal_while_the_daemon_lives() -> None:
    with raw_server(lambda channel, request: None) as port:
        outcomes = attacks(port, TOKEN)
    assert {(outcome.refused, outcome.status) for outcome in outcomes} == {(True, None)}


def test_a_connection_that_breaks_because_the_daemon_died_is_none() -> None:
    with raw_server(lambda channel, request: None, lives=1) as port:
        outcomes = attacks(port, TOKEN)
    assert {outcome.refused for outcome in outcomes} == {False}


@pytest.mark.parametrize(
    "answer", [b"\0" * 100_000, b"HTTP/1.1 \xff\xff\xff\r\n\r\n", b"HTTP/1.1", b"HTTP/1.1 4030 x\r\n\r\n", b"\r\n\r\n"]
)
def test_an_answer_that_is_no_http_is_no_refusal(answer: bytes) -> None:
    with raw_server(lambda channel, _: channel.sendall(answer)) as port:
        outcomes = attacks(port, TOKEN)
    assert not any(outcome.refused and outcome.status is not None for outcome in outcomes)


def test_a_server_that_drips_is_given_up() -> None:
    def drip(channel: socket.socket, request: bytes) -> None:
        for _ in range(100):
            channel.sendall(b"x")
            time.sleep(0.02)

    began = time.monotonic()
    with raw_server(drip) as port:
        outcomes = attacks(port, TOKEN, patience_s=0.1)
    assert not any(outcome.refused for outcome in outcomes)
    assert time.monotonic() - began < 30
