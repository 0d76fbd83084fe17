"""The journeys of a vault through the daemon: files, the process, HTTP, the command; and what sources must keep.

The numbers are those of the acceptance list of spec/sources.md, section 13.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from daemon_process import Configure, Launch, Served, wait_until
from embedder import Ollama
from loopback import Answers, LoopbackServer, Reply
from process import Finished
from workbench import Workbench, content, counts, files_with, live_documents, selected, settle

Vade = Callable[..., Finished]
WriteTree = Callable[..., Path]
Serve = Callable[[Answers], LoopbackServer]
ADR = "Decisions/ADR-0007 Drop Redis for the session cache.md"
MANY = 2500


@pytest.fixture
def many(write_tree: WriteTree, tmp_path: Path) -> Path:
    """A vault that takes a second or two to index."""
    tree = {f"f{i % 20}/n{i}.md": f"# Note {i}\n\npelican number{i} [[n{i + 1}]] #bird\n" for i in range(MANY)}
    return write_tree(tree, tmp_path / "many")


@pytest.fixture
def embedding_server(serve: Serve, configure: Configure) -> tuple[Ollama, LoopbackServer]:
    """A server that embeds, and settings that name it."""
    model = Ollama()
    server = serve(model)
    configure({"embedding.model": f"ollama:{model.model}", "embedding.url": server.url})
    return model, server


def rows(served: Served) -> Mapping[str, int]:
    return counts(served.settings)


def paths(served: Served) -> set[str]:
    return {row["path"] for row in live_documents(served.settings)}


def source_of(served: Served, source_id: str) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("GET", f"/api/sources/{source_id}")[1]["source"]
    return found


def sync(served: Served, source_id: str, **how: bool) -> dict[str, Any]:
    status, answer = served.ask("POST", f"/api/sources/{source_id}/sync", how)
    assert status == 202, answer
    return served.job_ended(answer["job"])


def begin(served: Served, root: Path) -> dict[str, Any]:
    """Connect a folder, and wait until its notes begin to be found: what was answered."""
    status, answer = served.ask("POST", "/api/sources/folder", {"path": str(root)})
    assert status == 202, answer
    source_id = answer["source"]["id"]
    wait_until(lambda: source_of(served, source_id)["documents"] > 0)
    assert source_of(served, source_id)["job"]["status"] == "running"
    return dict(answer)


def wait_found(served: Served, words: str, *paths: str) -> None:
    wait_until(lambda: served.found(words) == list(paths))


# ── the paths through the house


def test_a_a_note_changes_and_every_way_of_asking_finds_it(served: Served, vade: Vade, example_vault: Path) -> None:
    served.connect(example_vault, kind="obsidian")
    text = (example_vault / ADR).read_text(encoding="utf-8")
    (example_vault / ADR).write_text(text + "\nThe quokkas agreed unanimously.\n", encoding="utf-8")
    (example_vault / "Fresh note.md").write_text("A numbat came to the review.\n", encoding="utf-8")
    wait_found(served, "quokkas", ADR)
    wait_found(served, "numbat", "Fresh note.md")
    assert vade("recall", "quokkas", "--json").json["hits"][0]["path"] == ADR
    asked = json.dumps({"query": "numbat"}).encode()
    assert served.over_tcp("POST", "/api/recall", asked)[1]["hits"][0]["path"] == "Fresh note.md"
    _, note = served.ask("GET", "/api/notes/read?address=Fresh%20note.md")
    assert "numbat" in note["text"]


def test_b_a_recall_over_http_and_on_the_command_line_give_one_answer(
    served: Served, vade: Vade, example_vault: Path
) -> None:
    served.connect(example_vault, kind="obsidian")
    _, over_http = served.ask("POST", "/api/recall", {"query": "why did we drop redis"})
    typed = vade("recall", "why did we drop redis", "--json").json
    assert over_http["hits"] == typed["hits"]
    first = over_http["hits"][0]
    assert (first["path"], first["source"], first["type"]) == (ADR, "source_obsidian", "source_obsidian_chunk")
    assert Path(first["source_path"]).is_file()
    assert over_http["receipt"]["searched"] == typed["receipt"]["searched"]
    assert over_http["receipt"]["searched"][0]["documents"] == 33


def test_e_a_delete_takes_the_entry_and_every_row_and_proves_it(served: Served, example_vault: Path) -> None:
    source_id = served.connect(example_vault, kind="obsidian")
    held = rows(served)
    assert files_with(served.settings.home, "Failover lost sessions")
    status, answer = served.over_tcp("DELETE", f"/api/sources/{source_id}")
    assert (status, answer["source"]["id"]) == (200, source_id)
    assert answer["purged"] > 0
    assert answer["purged_rows"]["documents"] == held["document"]
    assert answer["purged_rows"]["chunks"] == held["chunk"]
    assert answer["files_modified"] == 0
    assert (answer["proof"]["clean"], answer["proof"]["residue"]) == (True, [])
    assert answer["proof"]["passages"] > 0
    assert files_with(served.settings.home, "Failover lost sessions", "Marchetti", "webhook") == []
    assert served.ask("GET", "/api/sources")[1]["sources"] == []
    assert served.found("redis") == []
    assert served.ask("DELETE", f"/api/sources/{source_id}")[0] == 404
    assert served.ask("GET", "/api/diagnostics")[1]["status"] == "healthy"


# ── section 13


def test_13_1_no_byte_time_or_mode_of_a_vault_changes(
    configure: Configure, launch: Launch, example_vault: Path, vault_bytes: Callable[[Path], object]
) -> None:
    configure({"embedding.model": "hashing"})
    untouched = vault_bytes(example_vault)
    served = launch()
    source_id = served.connect(example_vault, kind="obsidian")
    wait_until(lambda: rows(served)["vector"] == rows(served)["content"])
    sync(served, source_id, force=True)
    served.found("redis")
    for target in ("artifacts", "graph", "health"):
        assert served.ask("GET", f"/api/sources/{source_id}/{target}")[0] == 200
    assert served.ask("GET", "/api/notes/expand?address=Home.md")[0] in (200, 404)
    assert served.ask("DELETE", f"/api/sources/{source_id}")[0] == 200
    served.end()
    assert vault_bytes(example_vault) == untouched


def test_13_2_a_connection_is_accepted_at_once_and_its_job_counts_every_note(
    served: Served, example_vault: Path
) -> None:
    body = {"path": str(example_vault)}
    eligible = served.ask("POST", "/api/sources/preview", body)[1]["files"]
    status, answer = served.ask("POST", "/api/sources/obsidian", body)
    assert (status, answer["created"], answer["queued"]) == (202, True, True)
    assert answer["job"]["status"] in ("queued", "running")
    done = served.job_ended(answer["job"])
    assert (done["status"], done["scanned"], done["total"], done["indexed"]) == (
        "complete",
        eligible,
        eligible,
        eligible,
    )
    assert source_of(served, answer["source"]["id"])["documents"] == eligible == 33


def test_13_3_the_same_root_again_is_an_update(served: Served, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root, name="Birds")
    for name in ("", None):
        _, answer = served.ask("POST", "/api/sources/folder", {"path": str(root), "name": name})
        assert (answer["created"], answer["source"]["id"], answer["source"]["name"]) == (False, source_id, "Birds")
    _, answer = served.ask("POST", "/api/sources/folder", {"root": f"{root}/", "name": "Fowl"})
    assert (answer["created"], answer["source"]["id"], answer["source"]["name"]) == (False, source_id, "Fowl")


def test_13_4_default_ignores_and_globs_hold(served: Served, write_tree: WriteTree) -> None:
    kept = {"a.md", "x/private/a.md", "b.MD", "c.markdown"}
    ignored = {".obsidian/a.md", ".trash/a.md", ".hermes/a.md", "d/.x/n.md", ".hidden.md", ".git/a.md", "a.txt"}
    excluded = {"private/a.md", "private/deep/a.md", "a.tmp.md", "d/b.tmp.md"}
    root = write_tree({path: f"pelican in {path}" for path in kept | ignored | excluded})
    source_id = served.connect(root, kind="obsidian", exclude=["private/**", "*.tmp.md"])
    assert paths(served) == kept
    (root / "private" / "late.md").write_text("pelican")
    (root / ".obsidian" / "late.md").write_text("pelican")
    (root / "late.md").write_text("pelican")
    wait_until(lambda: "late.md" in paths(served))
    assert sync(served, source_id)["status"] == "complete"
    assert paths(served) == kept | {"late.md"}


def test_13_5_an_exclude_added_while_the_daemon_is_down_holds_when_it_is_back(
    launch: Launch, bench: Workbench, write_tree: WriteTree
) -> None:
    first = launch()
    source_id = first.connect(write_tree({"a.md": "pelican", "private/b.md": "heron"}))
    first.end()
    bench.app.registry.edit(source_id, exclude=["private/**"])
    second = launch()
    wait_until(lambda: paths(second) == {"a.md"})
    assert second.found("heron") == []


def test_13_6_a_second_scan_and_a_restart_embed_nothing(
    launch: Launch, embedding_server: tuple[Ollama, LoopbackServer], example_vault: Path
) -> None:
    model, _ = embedding_server
    first = launch()
    source_id = first.connect(example_vault)
    wait_until(lambda: rows(first)["vector"] == rows(first)["content"] > 0)
    asked = embedded(model)
    assert len(asked) == rows(first)["content"]
    sync(first, source_id)
    sync(first, source_id, force=True)
    first.end()
    second = launch()
    wait_until(lambda: (source_of(second, source_id)["job"] or {}).get("status") == "complete")
    sync(second, source_id)
    (example_vault / ADR).touch()
    sync(second, source_id)
    settle()
    assert embedded(model) == asked


def embedded(model: Ollama) -> list[str]:
    """The texts of notes that were given to the server: neither the word that warms it, nor the probe of its length."""
    probe = "A short text that shows how long a vector is."
    return [text for text in model.asked if text.split()[-1] != "warm" and len(text.split()) > 2 and text != probe]


def test_13_7_other_content_of_the_same_size_and_time_is_noticed(served: Served, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican"})
    served.connect(root)
    settle()
    before = (root / "a.md").stat()
    (root / "a.md").write_text("wombats")
    os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    wait_found(served, "wombats", "a.md")
    assert served.found("pelican") == []


def test_13_8_of_a_deleted_note_nothing_is_left_and_one_that_returns_is_restored(
    configure: Configure, launch: Launch, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    root = write_tree({"a.md": "# A\n\nheron [[b]] #bird ^here", "b.md": "stork"})
    served.connect(root)
    wait_until(lambda: rows(served)["vector"] == 2)
    full, text = rows(served), content(served.settings)
    (root / "a.md").rename(root.parent / "away.md")
    wait_until(lambda: paths(served) == {"b.md"})
    assert served.found("heron") == []
    left = rows(served)
    assert {name: left[name] for name in ("chunk", "content", "vector")} == dict.fromkeys(
        ("chunk", "content", "vector"), 1
    )
    assert [left[name] for name in ("link", "heading", "block", "tag")] == [0, 0, 1, 0]
    (root.parent / "away.md").rename(root / "a.md")
    wait_found(served, "heron", "a.md")
    wait_until(lambda: rows(served) == full)
    assert content(served.settings) == text


@pytest.mark.parametrize("by", ["command", "daemon"])
def test_13_9_a_chunk_deleted_by_hand_is_healed_by_a_forced_sync(
    served: Served, vade: Vade, write_tree: WriteTree, by: str
) -> None:
    source_id = served.connect(write_tree({"a.md": "# A\n\nheron", "b.md": "stork"}))
    whole = content(served.settings)
    delete_a_chunk(served.settings.index_file)
    assert content(served.settings) != whole
    if by == "command":
        assert vade("sources", "sync", source_id, "--force").rc == 0
    else:
        assert sync(served, source_id, force=True)["status"] == "complete"
    assert content(served.settings) == whole
    assert served.found("heron") == ["a.md"]
    assert served.ask("GET", "/api/diagnostics")[1]["status"] == "healthy"


def delete_a_chunk(index: Path) -> None:
    """Delete the row alone, past all that hangs on it."""
    connection = apsw.Connection(str(index))
    connection.set_busy_timeout(10_000)
    for name, kind in connection.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall():
        assert kind
        connection.execute(f"drop trigger {name}")
    connection.execute("delete from chunk where body like '%heron%'")
    connection.close()


def test_13_10_a_renamed_note_and_a_renamed_folder_have_their_new_names_alone(
    served: Served, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "heron", "in/b.md": "stork", "in/c.md": "pelican"})
    served.connect(root)
    (root / "a.md").rename(root / "z.md")
    (root / "in").rename(root / "out")
    wait_until(lambda: paths(served) == {"z.md", "out/b.md", "out/c.md"})
    wait_found(served, "heron", "z.md")
    wait_found(served, "stork", "out/b.md")


def test_13_11_ten_requests_during_a_scan_make_one_more(configure: Configure, launch: Launch, many: Path) -> None:
    configure({"daemon.reconcile_s": 3600.0})
    served = launch()
    answer = begin(served, many)
    source_id = answer["source"]["id"]
    asked = [served.ask("POST", f"/api/sources/{source_id}/sync")[1]["job"] for _ in range(10)]
    trailing = {job["id"] for job in asked}
    assert len(trailing) == 1
    assert answer["job"]["id"] not in trailing
    done = served.job_ended(asked[0])
    assert (done["status"], done["report"]["unchanged"]) == ("complete", MANY)
    settle()
    assert source_of(served, source_id)["job"]["id"] == asked[0]["id"]


def test_13_12_an_unmounted_root_keeps_every_row_and_says_so(served: Served, write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "pelican", "b.md": "heron"})
    source_id = served.connect(root)
    before = source_of(served, source_id)
    root.rename(root.parent / "unplugged")
    wait_until(lambda: source_of(served, source_id)["stale_since"] is not None)
    sync(served, source_id)
    away = source_of(served, source_id)
    assert (away["state"], away["documents"]) == ("unreachable", 2)
    assert away["last_indexed_at"] == before["last_indexed_at"]
    _, answer = served.ask("POST", "/api/recall", {"query": "pelican"})
    assert answer["hits"][0]["stale"] is True
    assert [source["source_id"] for source in answer["receipt"]["offline"]] == [source_id]
    (root.parent / "unplugged").rename(root)
    wait_until(lambda: source_of(served, source_id)["state"] == "healthy")
    assert served.ask("POST", "/api/recall", {"query": "pelican"})[1]["hits"][0]["stale"] is False


def test_13_13_without_and_with_a_failing_embedder_words_answer_and_vectors_follow(
    launch: Launch, embedding_server: tuple[Ollama, LoopbackServer], configure: Configure, write_tree: WriteTree
) -> None:
    model, server = embedding_server
    configure({"embedding.model": "none"})
    served = launch()
    root = write_tree({"a.md": "a pelican is a bird"})
    served.connect(root)
    wait_found(served, "pelican", "a.md")
    model.say = lambda _: Reply(503, b"down")
    configure({"embedding.model": f"ollama:{model.model}"})
    (root / "b.md").write_text("a heron is a bird")
    wait_found(served, "heron", "b.md")
    wait_until(lambda: served.ask("GET", "/api/status")[1]["embedding"]["state"] == "waiting")
    assert served.ask("GET", "/api/status")[1]["embedding"]["reason"]
    before = len(server.requests)
    settle()
    assert len(server.requests) - before < 10
    assert served.found("pelican") == ["a.md"]
    assert rows(served)["vector"] == 0
    model.say = lambda _: None
    wait_until(lambda: rows(served)["vector"] == 2, timeout_s=60)
    wait_until(lambda: served.ask("GET", "/api/status")[1]["embedding"]["state"] == "idle")


def test_13_13_a_long_index_is_embedded_in_one_go(configure: Configure, launch: Launch, many: Path) -> None:
    """A slice whose time is up is followed by the next, not by a pause as for a server that is down."""
    configure({"embedding.model": "hashing"})
    served = launch()
    served.connect(many)
    seen: set[str] = set()

    def all_made() -> bool:
        seen.add(served.ask("GET", "/api/status")[1]["embedding"]["state"])
        return rows(served)["vector"] == MANY

    wait_until(all_made, timeout_s=60)
    assert "waiting" not in seen


def test_13_14_both_ways_of_searching_vectors_give_the_same_hits(
    configure: Configure, launch: Launch, example_vault: Path
) -> None:
    pytest.importorskip("sqlite_vec")
    configure({"embedding.model": "hashing"})
    served = launch()
    served.connect(example_vault)
    wait_until(lambda: rows(served)["vector"] == rows(served)["content"])
    answers = {}
    for backend in ("numpy", "sqlite-vec"):
        configure({"index.vectors": backend})
        _, answer = served.ask("POST", "/api/recall", {"query": "sessions lost in a failover", "lane": "meaning"})
        answers[answer["receipt"]["vectors"]["backend"]] = [hit["id"] for hit in answer["hits"]]
    assert answers["numpy"] == answers["sqlite-vec"] != []


def test_13_17_a_removal_leaves_no_row_in_any_table_and_the_other_source_as_it_was(
    configure: Configure, launch: Launch, example_vault: Path, write_tree: WriteTree
) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    kept = served.connect(example_vault, kind="obsidian")
    wait_until(lambda: rows(served)["vector"] == rows(served)["content"] > 0)
    before, text = rows(served), content(served.settings)
    wider = write_tree({"a.md": "# A\n\npelican [[b]] #bird ^x", "bad.md": b"\0\1"}, Path(f"{example_vault}2"))
    removed = served.connect(wider)
    wait_until(lambda: rows(served)["vector"] == rows(served)["content"] > before["content"])
    status, answer = served.ask("DELETE", f"/api/sources/{removed}")
    assert (status, answer["proof"]["clean"]) == (200, True)
    assert answer["purged"] > 0
    assert rows(served) == before
    assert content(served.settings) == text
    assert [source["id"] for source in served.ask("GET", "/api/sources")[1]["sources"]] == [kept]
    assert files_with(served.settings.home, "pelican", removed) in ([], [served.settings.home / "logs" / "daemon.log"])


def test_13_18_a_removal_during_a_scan_ends_it_and_leaves_no_row(served: Served, many: Path) -> None:
    answer = begin(served, many)
    status, removal = served.ask("DELETE", f"/api/sources/{answer['source']['id']}")
    assert (status, removal["proof"]["clean"]) == (200, True)
    assert served.job_ended(answer["job"])["status"] == "cancelled"
    assert {name: number for name, number in rows(served).items() if number} == {}
    assert files_with(served.settings.home, "pelican") == []
    again = served.connect(many)
    assert source_of(served, again)["documents"] == MANY


def test_13_18_a_removal_while_vectors_are_made_leaves_no_row(configure: Configure, launch: Launch, many: Path) -> None:
    configure({"embedding.model": "hashing"})
    served = launch()
    source_id = served.connect(many)
    wait_until(lambda: rows(served)["vector"] > 20)
    assert rows(served)["vector"] < MANY
    status, removal = served.ask("DELETE", f"/api/sources/{source_id}")
    assert (status, removal["proof"]) == (200, {**removal["proof"], "clean": True, "blocked_by": []})
    assert {name: number for name, number in rows(served).items() if number} == {}
    wait_until(lambda: served.ask("GET", "/api/status")[1]["embedding"]["state"] == "idle")
    assert rows(served)["vector"] == 0


def test_13_19_the_command_has_the_daemon_remove(served: Served, vade: Vade, write_tree: WriteTree) -> None:
    source_id = served.connect(write_tree({"a.md": "pelican"}), name="Birds")
    told = listened(served)
    done = vade("sources", "remove", "Birds")
    assert (done.rc, done.err) == (0, "")
    assert done.out.startswith("Removed Birds: 1 note and 1 chunk left the index. No file was touched.")
    assert rows(served)["source"] == 0
    wait_until(lambda: ("removed", {"source_id": source_id}) in told)
    assert vade("sources", "remove", "Birds").rc == 3


def listened(served: Served) -> list[tuple[str, Any]]:
    """What the daemon tells of from now on."""
    told: list[tuple[str, Any]] = []
    ready = threading.Event()

    def listen() -> None:
        import socket

        with (
            socket.create_connection(("127.0.0.1", served.running.port), 30) as channel,
            channel.makefile("rb") as file,
        ):
            head = f"GET /api/events HTTP/1.0\r\nHost: 127.0.0.1:{served.running.port}\r\n"
            channel.sendall(f"{head}Authorization: Bearer {served.token}\r\n\r\n".encode())
            kind = ""
            for line in map(bytes.decode, file):
                if line.startswith(": listening"):
                    ready.set()
                elif line.startswith("event: "):
                    kind = line.removeprefix("event: ").strip()
                elif line.startswith("data: "):
                    told.append((kind, json.loads(line.removeprefix("data: "))))
                    if kind == "removed":
                        return

    threading.Thread(target=listen, daemon=True).start()
    assert ready.wait(30)
    return told


def test_13_19_without_a_daemon_the_command_removes_by_itself(
    launch: Launch, vade: Vade, write_tree: WriteTree
) -> None:
    served = launch()
    source_id = served.connect(write_tree({"a.md": "pelican"}))
    served.end()
    done = vade("sources", "remove", source_id)
    assert (done.rc, done.err) == (0, "")
    assert rows(served)["source"] == 0
    assert files_with(served.settings.home, "pelican") == []


def test_13_19_the_command_does_not_wait_for_a_daemon_that_hangs(
    served: Served, vade: Vade, write_tree: WriteTree
) -> None:
    root = write_tree({"a.md": "pelican"})
    source_id = served.connect(root)
    with hung(served):
        done = vade("sources", "remove", source_id)
        assert done.rc == 0, done
        assert "the daemon does not answer" in done.err
        assert done.out.startswith("Removed vault: 1 note")
        assert rows(served)["source"] == 0
    wait_until(lambda: served.ask("GET", "/api/status")[1]["sources"] == [])
    assert served.found("pelican") == []
    (root / "b.md").write_text("heron")
    settle()
    assert rows(served)["document"] == 0


@contextmanager
def hung(served: Served) -> Iterator[None]:
    served.child.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        served.child.send_signal(signal.SIGCONT)


def test_13_19_where_the_index_cannot_be_opened_the_entry_goes_and_the_next_daemon_purges(
    launch: Launch, vade: Vade, write_tree: WriteTree
) -> None:
    first = launch()
    source_id = first.connect(write_tree({"a.md": "pelican"}))
    first.end()
    with closed(first.settings.index_file):
        done = vade("sources", "remove", source_id)
        assert done.rc == 0, done
        assert "rows that were indexed were not purged" in done.err
        assert done.out == "Disconnected vault. No file was touched.\n"
        assert json.loads(first.settings.sources_file.read_text())["sources"] == []
    assert rows(first)["document"] == 1
    second = launch()
    assert second.found("pelican") == []
    wait_until(lambda: rows(second)["source"] == 0)
    wait_until(lambda: files_with(second.settings.home, "pelican") == [])


@contextmanager
def closed(index: Path) -> Iterator[None]:
    """Put something at the index's place that cannot be opened."""
    index.rename(index.with_suffix(".away"))
    index.mkdir()
    try:
        yield
    finally:
        index.rmdir()
        index.with_suffix(".away").rename(index)


def test_13_20_a_corrupt_list_of_sources_is_neither_changed_nor_believed(
    served: Served, vade: Vade, write_tree: WriteTree, tmp_path: Path
) -> None:
    source_id = served.connect(write_tree({"a.md": "pelican"}))
    other = write_tree({"b.md": "heron"}, tmp_path / "other")
    torn = served.settings.sources_file.read_bytes()[:-20]
    served.settings.sources_file.write_bytes(torn)
    for method, target, body in (
        ("POST", "/api/sources/folder", {"path": str(other)}),
        ("DELETE", f"/api/sources/{source_id}", None),
        ("PATCH", f"/api/sources/{source_id}", {"name": "x"}),
        ("GET", "/api/sources", None),
    ):
        status, answer = served.ask(method, target, body)
        assert (status, answer["error"]["code"]) == (500, "sources_file_corrupt"), target
    assert vade("sources", "remove", source_id).rc == 1
    assert vade("sources", "add", "folder", other).rc == 1
    assert served.settings.sources_file.read_bytes() == torn
    assert rows(served)["document"] == 1


def test_13_21_the_daemon_and_commands_that_add_at_once_lose_no_source(
    served: Served, vade: Vade, write_tree: WriteTree, tmp_path: Path
) -> None:
    roots = [write_tree({"a.md": f"number{i}"}, tmp_path / f"v{i}") for i in range(20)]

    def add(i: int) -> bool:
        if i % 3:
            return served.ask("POST", "/api/sources/folder", {"path": str(roots[i])})[0] == 202
        return vade("sources", "add", "folder", roots[i]).rc == 0

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(add, range(20)))
    listed = served.ask("GET", "/api/sources")[1]["sources"]
    assert {source["root"] for source in listed} == {str(root) for root in roots}
    wait_until(lambda: rows(served)["document"] == 20)


def test_13_22_a_folder_is_picked_by_the_program_that_was_named(launch: Launch, tmp_path: Path) -> None:
    picker = tmp_path / "picker"
    picker.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    picker.chmod(0o755)
    served = launch(VADE_DIRECTORY_PICKER=str(picker))
    status, answer = served.over_tcp("POST", "/api/sources/pick-directory", b"{}")
    assert (status, answer["path"]) == (200, str(tmp_path))


def test_13_23_to_27_odd_notes_cost_nobody_anything(served: Served, write_tree: WriteTree, tmp_path: Path) -> None:
    write_tree({"out.md": "albatross"}, tmp_path / "outside")
    root = write_tree(
        {
            "twice.md": f"# A\n\n## Same\n\n{'heron ' * 300}\n\n## Same\n\n{'stork ' * 300}\n",
            "code.md": "```\n# no heading #notag\n[[nolink]]\n```\n\n`[[nolink]]`\n",
            '100%_d\'e "f" 🦩.md': "flamingo",
            "huge.md": "x" * (5 << 20),
            "binary.md": b"\0\1\2",
            "latin.md": b"caf\xe9 kookaburra",
            "yaml.md": "---\nkey: [unclosed\n---\nbandicoot",
        }
    )
    (root / "link.md").symlink_to(tmp_path / "outside" / "out.md")
    (root / "linked").symlink_to(tmp_path / "outside")
    source_id = served.connect(root)
    for word in ("flamingo", "kookaburra", "bandicoot"):
        assert len(served.found(word)) == 1, word
    assert served.found("albatross") == []
    keys = selected(
        served.settings, "select c.key from chunk c join document d on d.id = c.document where d.path = 'twice.md'"
    )
    assert len({row["key"] for row in keys}) == len(keys) >= 2
    code = "select 1 from {} t join document d on d.id = t.document where d.path = 'code.md'"
    assert [selected(served.settings, code.format(table)) for table in ("heading", "tag", "link")] == [[], [], []]
    found = source_of(served, source_id)
    reasons = {file["path"]: file["reason"] for file in found["skipped_files"]}
    assert (reasons["huge.md"], reasons["binary.md"]) == ("too_large", "binary")
    assert {"latin.md", "yaml.md"} <= {warning["path"] for warning in found["warnings"]}
    assert served.ask("DELETE", f"/api/sources/{source_id}")[1]["proof"]["clean"] is True
    assert {name: number for name, number in rows(served).items() if number} == {}


@pytest.mark.parametrize("head", [{"Host": "evil.test:8233"}, {"Origin": "https://evil.test"}])
def test_13_28_a_foreign_host_or_origin_is_refused(served: Served, head: dict[str, str]) -> None:
    assert served.over_tcp("GET", "/api/sources")[0] == 200
    assert served.over_tcp("GET", "/api/sources", headers=head)[0] == 403
