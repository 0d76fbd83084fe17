"""The page at /: small, of our own, and open, since it says no more than /health; and HEAD where GET is allowed."""

import http.client
import re

import pytest

from daemon_process import Served
from vademecum import __version__


def ask(served: Served, method: str, target: str, *, token: bool = False) -> tuple[int, dict[str, str], bytes]:
    channel = http.client.HTTPConnection("127.0.0.1", served.running.port, timeout=30)
    try:
        channel.request(method, target, headers={"Authorization": f"Bearer {served.token}"} if token else {})
        answer = channel.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        channel.close()


def test_the_front_page_says_that_the_daemon_runs_and_loads_nothing_from_elsewhere(served: Served) -> None:
    status, headers, body = ask(served, "GET", "/")
    page = body.decode()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert __version__ in page and "/api/openapi.json" in page
    assert "<script" not in page and "style=" not in page and "<style" not in page
    assert headers["content-security-policy"].startswith("default-src 'self'")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(link.startswith("/") and not link.startswith("//") for link in loaded)
    assert served.running.instance not in page and str(served.settings.home) not in page
    status, headers, style = ask(served, "GET", "/static/front.css")
    assert (status, headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert b"prefers-color-scheme: dark" in style and b"url(" not in style


def test_a_login_leads_to_the_front_page(served: Served) -> None:
    link = served.ask("POST", "/api/login-link", {})[1]["url"]
    status, headers, _ = ask(served, "GET", link[link.index("/login") :])
    assert (status, headers["location"]) == (303, "/")
    assert ask(served, "GET", headers["location"])[0] == 200


@pytest.mark.parametrize("target", ["/", "/health", "/api/status", "/metrics", "/api/openapi.json"])
def test_head_answers_as_get_does_without_its_body(served: Served, target: str) -> None:
    got, asked = ask(served, "GET", target, token=True), ask(served, "HEAD", target, token=True)
    assert asked[0] == got[0] == 200
    assert asked[2] == b""
    assert asked[1]["content-type"] == got[1]["content-type"]
    assert asked[1].keys() == got[1].keys()


def test_head_of_a_stream_ends(served: Served) -> None:
    assert ask(served, "HEAD", "/api/events", token=True)[0] == 200
    assert served.end() == 0


def test_head_changes_nothing_and_needs_the_token(served: Served) -> None:
    assert ask(served, "HEAD", "/api/login-link", token=True)[0] == 405
    assert ask(served, "HEAD", "/api/status")[0] == 401
