"""The routes of memories: every one of them, what it refuses, and that a source is none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from daemon_process import Launch, Served, wait_until

WriteTree = Callable[..., Path]


@pytest.fixture
def daemon(launch: Launch) -> Iterator[Served]:
    yield launch()


def remember(daemon: Served, content: str, **said: Any) -> dict[str, Any]:
    status, answer = daemon.ask("POST", "/api/memory/remember", {"content": content, **said})
    assert status == 200, answer
    return dict(answer)


def of(path: str, rest: str = "") -> str:
    return f"/api/memory/{quote(path)}{rest}"


def test_a_memory_is_kept_read_changed_forgotten_and_recovered(daemon: Served) -> None:
    kept = remember(daemon, "critical: [deploy]: never run migrations on Friday", project="kestrel")
    assert (kept["written"], kept["pinned"], kept["tags"], kept["projects"]) == (True, True, ["deploy"], ["kestrel"])
    path = kept["path"]
    assert remember(daemon, "never run migrations on Friday", project="kestrel")["corroborated_now"]
    status, listed = daemon.ask("GET", "/api/memories?type=rule&tag=deploy&pinned=true")
    assert (status, listed["total"], listed["stats"]) == (200, 1, {"total": 1, "critical": 1})
    version = daemon.ask("GET", of(path))[1]["memory"]["version"]
    status, changed = daemon.ask("PATCH", of(path), {"reason": "theirs", "projects": ["heron"], "if_version": version})
    assert (status, changed["memory"]["projects"]) == (200, ["heron"])
    status, late = daemon.ask("PATCH", of(path), {"reason": "late", "type": "fact", "if_version": version})
    assert (status, late["error"]["code"]) == (409, "memory_changed")
    assert daemon.ask("DELETE", of(path))[1]["error"]["code"] == "memory_pinned"
    assert daemon.ask("DELETE", of(path, "?force=true&reason=done"))[0] == 200
    assert daemon.ask("DELETE", of(path, "?force=true"))[1]["error"]["code"] == "memory_forgotten"
    assert daemon.ask("GET", of(path))[0] == 404
    assert daemon.ask("GET", "/api/memories/forgotten")[1]["forgotten"][0]["id"] == path
    assert daemon.ask("POST", of(path, "/recover"))[0] == 200
    assert daemon.ask("POST", of(path, "/recover"))[1]["error"]["code"] == "memory_not_forgotten"
    status, history = daemon.ask("GET", of(path, "/history?limit=3"))
    assert [change["event"] for change in history["changes"]] == ["modified", "forgotten", "restored"]
    assert daemon.ask("GET", of(path, "/history"))[1]["changes"][0]["event"] == "created"


def test_it_is_recalled_beside_notes_and_filtered_for(daemon: Served, write_tree: WriteTree) -> None:
    daemon.connect(write_tree({"a.md": "# Wombats\n\nWombats dig."}))
    remember(daemon, "wombats must never be fed")
    status, answer = daemon.ask("POST", "/api/memory/recall", {"query": "wombats"})
    assert (status, len(answer["results"])) == (200, 2)
    assert {hit["source"] for hit in answer["hits"]} == {"memory", "source_folder"}
    for narrowed in ({"type": "rule"}, {"scope": "general"}, {"pinned": False}, {"include": "memories"}):
        hits = daemon.ask("POST", "/api/recall", {"query": "wombats", **narrowed})[1]["hits"]
        assert [hit["type"] for hit in hits] == ["memory"], narrowed
    assert len(daemon.ask("POST", "/api/recall", {"query": "wombats", "include": "sources"})[1]["hits"]) == 1


def test_a_memory_of_another_process_is_embedded_and_found(daemon: Served, vade: Any) -> None:
    assert vade("remember", "quartz is hard").rc == 0
    wait_until(lambda: daemon.found("quartz") != [])


def test_what_is_refused_names_every_reason(daemon: Served) -> None:
    status, answer = daemon.ask("POST", "/api/memory/remember", {"title": "x" * 300, "body": "b", "scope": "platform"})
    assert (status, answer["error"]["code"]) == (400, "memory_refused")
    assert "title" in answer["error"]["message"] and "platform" in answer["error"]["message"]
    assert daemon.ask("POST", "/api/memory/remember", {})[0] == 400
    assert daemon.ask("POST", "/api/memory/remember", {"content": 7})[1]["error"]["code"] == "bad_request"
    assert daemon.ask("POST", "/api/memory/remember", {"content": "x", "more": 1})[1]["error"]["code"] == "bad_request"
    dry = remember(daemon, "only a try", dry_run=True)
    assert (dry["written"], "only a try" in dry["text"]) == (False, True)
    remember(daemon, "the first of two sentences that say the same thing to whoever reads")
    twin = {"content": "the first of two sentences that say the same things to whoever reads it"}
    assert daemon.ask("POST", "/api/memory/remember", twin)[0] in (200, 409)


@pytest.mark.parametrize("what", ["obsidian:0123456789abcdef:a.md", "folder:0123456789abcdef:a.md#k"])
def test_a_hit_of_a_source_is_no_memory(daemon: Served, what: str) -> None:
    remember(daemon, "something")
    for method, target, body in (
        ("GET", of(what), None),
        ("GET", of(what, "/history"), None),
        ("PATCH", of(what), {"reason": "x", "type": "rule"}),
        ("DELETE", of(what), None),
        ("POST", of(what, "/recover"), None),
        ("POST", of(what, "/promote"), {"note": "a#b"}),
    ):
        status, answer = daemon.ask(method, target, body)
        assert (status, answer["error"]["code"]) == (400, "source_read_only"), (method, target)
        assert "edit the file" in answer["error"]["hint"]
    for target in ("/api/memory/forget", "/api/memory/modify"):
        body = {"ids": [what], "mode": "execute"} if "forget" in target else {"patches": [{"id": what, "reason": "x"}]}
        body = body if "forget" in target else {"patches": [{"id": what, "reason": "x", "type": "rule"}]}
        (one,) = daemon.ask("POST", target, body)[1]["results"]
        assert one["error"]["code"] == "source_read_only"


def test_several_are_forgotten_after_a_look_at_them(daemon: Served) -> None:
    words = [f"lesson{i}" for i in range(27)]
    paths = [remember(daemon, f"{word} {word * 2} stands alone")["path"] for word in words]
    status, look = daemon.ask("POST", "/api/memory/forget", {"ids": paths})
    assert (status, look["mode"], len(look["results"])) == (200, "preview", 27)
    act = {"ids": paths, "mode": "execute", "reason": "spring"}
    assert daemon.ask("POST", "/api/memory/forget", act)[0] == 400
    status, done = daemon.ask("POST", "/api/memory/forget", {**act, "confirm_token": look["confirm_token"]})
    assert (status, all(one["ok"] for one in done["results"])) == (200, True)
    assert daemon.ask("GET", "/api/memories")[1]["total"] == 0
    few = daemon.ask("POST", "/api/memory/forget", {"ids": [paths[0], "nothing"], "mode": "execute"})[1]["results"]
    assert [one["error"]["code"] for one in few] == ["memory_forgotten", "memory_not_found"]


def test_several_are_changed_each_by_itself(daemon: Served) -> None:
    first, second = remember(daemon, "quartz is hard")["path"], remember(daemon, "talc is soft")["path"]
    patches = [
        {"id": first, "reason": "so", "importance": 0.9},
        {"id": second, "reason": " ", "type": "rule"},
        {"id": "none", "reason": "so", "type": "rule"},
    ]
    results = daemon.ask("POST", "/api/memory/modify", {"patches": patches})[1]["results"]
    assert [one["ok"] for one in results] == [True, False, False]
    assert daemon.ask("GET", of(first))[1]["memory"]["importance"] == 0.9


def test_the_vault_the_inbox_a_promotion_and_a_record_of_work(daemon: Served) -> None:
    path = remember(daemon, "never run migrations on Friday")["path"]
    status, vault = daemon.ask("GET", "/api/vault")
    assert (status, vault["memories"], vault["memory_root"]) == (200, 1, "memories")
    assert daemon.ask("GET", "/api/memories/inbox")[1]["count"] == 1
    note = Path(vault["path"]) / "brain/Gotchas.md"
    note.parent.mkdir()
    note.write_text("# Gotchas\n\nMondays only. ^om-1a2b3c\n")
    status, told = daemon.ask("POST", of(path, "/promote"), {"note": "brain/Gotchas#^om-1a2b3c"})
    assert (status, told["promotion"]["status"]) == (200, "served"), told
    assert "Mondays only" in daemon.ask("GET", of(path))[1]["memory"]["content"]
    assert daemon.ask("GET", "/api/memories/inbox")[1]["count"] == 0
    body = {"title": "Moved the budget", "summary": "From the client to the queue, which does not restart."}
    status, work = daemon.ask("POST", "/api/memory/record-work", {**body, "project": "kestrel"})
    assert (status, work["routing"], work["written"]) == (200, "fallback", True)
    assert daemon.ask("POST", "/api/memory/record-work", {**body, "folder": "../x"})[1]["error"]["code"] == (
        "memory_refused"
    )


def test_the_home_vault_is_not_removed(daemon: Served) -> None:
    remember(daemon, "something")
    (source,) = daemon.ask("GET", "/api/sources")[1]["sources"]
    status, answer = daemon.ask("DELETE", f"/api/sources/{source['id']}")
    assert (status, answer["error"]["code"]) == (409, "source_is_home")
    assert daemon.ask("GET", "/api/memories")[1]["total"] == 1
