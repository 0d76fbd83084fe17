"""What the owner does with a memory that is there; all of it outlives the index."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vademecum.access import OWNER, Caller
from vademecum.errors import (
    MemoryAmbiguous,
    MemoryChanged,
    MemoryForgotten,
    MemoryNotForgotten,
    MemoryNotFound,
    MemoryPinned,
    MemoryRefused,
    SourceIsHome,
)
from vademecum.home import Standing
from workbench import Workbench

PERSON = Standing(OWNER, "kestrel", inside=False)
HERON = Standing(Caller("heron", (), "folder"), "heron", inside=False)
TEXT = "never run migrations on Friday"


def remember(bench: Workbench, text: str = TEXT, **said: Any) -> str:
    return bench.app.memories.remember({"body": text, **said}, PERSON).memory.path


def file_of(bench: Workbench, path: str) -> Path:
    return bench.app.home.root / path


def events(bench: Workbench, wanted: str) -> list[str]:
    return [change.event for change in bench.app.memories.history(wanted, PERSON)]


def lose_the_index(bench: Workbench) -> None:
    bench.app.close()
    for file in bench.settings.home.glob("index-*"):
        file.unlink()


def test_a_change_keeps_every_other_byte_and_what_was_said_before(bench: Workbench) -> None:
    path = remember(bench)
    file = file_of(bench, path)
    file.write_text(file.read_text().replace("scope: project", "mine: { a: 1 }  # a remark\nscope: project"))
    before = file.read_text()
    known = bench.app.memories.modify(path, {"projects": ["heron"], "pinned": True}, PERSON, reason="it is theirs")
    assert known.reach.projects == ("heron",)
    after = before.replace('projects: ["kestrel"]', 'projects: ["heron"]').replace("type:", "type:")
    assert file.read_text() == after.replace("\n---\n\n#", "\npinned: true\n---\n\n#", 1)
    last = bench.app.memories.history(path, PERSON)[-1]
    assert (last.event, last.reason, last.before) == ("modified", "it is theirs", before)


def test_a_new_body_keeps_how_it_is_known(bench: Workbench) -> None:
    path = remember(bench, verification="Asked the team.", confidence="verified")
    bench.app.memories.modify(path, {"body": "never migrate from Thursday noon"}, PERSON, reason="stricter")
    text = file_of(bench, path).read_text()
    assert "never migrate from Thursday noon" in text
    assert "## How this is known\n\nAsked the team." in text
    assert 'description: "never migrate from Thursday noon"' in text
    assert bench.recall("Thursday").hits[0].path == path


def test_a_memory_with_a_new_title_is_still_found_by_the_old_one(bench: Workbench) -> None:
    path = remember(bench)
    bench.app.memories.modify(path, {"title": "No migrations before the weekend"}, PERSON, reason="clearer")
    shown = bench.app.memories.show("no migrations BEFORE the weekend", PERSON)
    assert shown["path"] == path
    assert TEXT in file_of(bench, path).read_text()


def test_a_change_is_tied_to_the_version_that_was_read(bench: Workbench) -> None:
    path = remember(bench)
    version = bench.app.memories.show(path, PERSON)["version"]
    bench.app.memories.modify(path, {"type": "decision"}, PERSON, reason="it was decided", version=version)
    with pytest.raises(MemoryChanged):
        bench.app.memories.modify(path, {"type": "rule"}, PERSON, reason="again", version=version)


@pytest.mark.parametrize("said", [{"scope": "nowhere"}, {"projects": "kestrel"}, {"importance": 7}])
def test_a_change_that_breaks_the_rules_changes_nothing(bench: Workbench, said: dict[str, Any]) -> None:
    path = remember(bench)
    before = file_of(bench, path).read_bytes()
    with pytest.raises(MemoryRefused):
        bench.app.memories.modify(path, said, PERSON, reason="why not")
    with pytest.raises(MemoryRefused, match="reason"):
        bench.app.memories.modify(path, {"type": "rule"}, PERSON, reason=" ")
    assert file_of(bench, path).read_bytes() == before


def test_what_is_forgotten_is_gone_everywhere_and_comes_back_byte_for_byte(bench: Workbench) -> None:
    path = remember(bench)
    before = file_of(bench, path).read_bytes()
    gone = bench.app.memories.forget(path, PERSON, reason="we may now")
    assert not file_of(bench, path).exists()
    assert bench.recall("migrations").hits == ()
    assert bench.app.memories.list(OWNER)["total"] == 0
    with pytest.raises(MemoryForgotten):
        bench.app.memories.forget(path, PERSON)
    lose_the_index(bench)
    assert [(entry.path, entry.reason) for entry in bench.app.memories.forgotten()] == [(path, "we may now")]
    assert gone.until > gone.at
    assert bench.app.memories.restore(TEXT, PERSON).path == path
    assert file_of(bench, path).read_bytes() == before
    assert bench.recall("migrations").hits[0].path == path
    assert events(bench, path) == ["created", "forgotten", "restored"]
    with pytest.raises(MemoryNotForgotten):
        bench.app.memories.restore(path, PERSON)


def test_a_pinned_memory_is_forgotten_only_by_force(bench: Workbench) -> None:
    path = remember(bench, pinned=True)
    with pytest.raises(MemoryPinned):
        bench.app.memories.forget(path, PERSON)
    assert file_of(bench, path).exists()
    bench.app.memories.forget(path, PERSON, force=True)
    assert not file_of(bench, path).exists()


def test_nothing_is_restored_over_a_memory_that_took_its_place(bench: Workbench) -> None:
    path = remember(bench)
    bench.app.memories.forget(path, PERSON)
    assert remember(bench) == path
    held = file_of(bench, path).read_bytes()
    with pytest.raises(Exception, match="there already"):
        bench.app.memories.restore(path, PERSON)
    assert file_of(bench, path).read_bytes() == held
    assert len(bench.app.memories.forgotten()) == 1


def test_after_thirty_days_a_forgotten_memory_is_deleted_and_nothing_of_others(bench: Workbench) -> None:
    path = remember(bench)
    bench.app.memories.forget(path, PERSON)
    theirs = bench.app.home.root / ".trash/note of an editor.md"
    theirs.write_text("mine")
    history = next((bench.app.home.root / ".vade/history").iterdir())
    long_ago = (datetime.now(UTC) - timedelta(days=31)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    lines = history.read_text().splitlines()
    stamp = lines[-1].split('"at": "')[1][:24]
    history.write_text("\n".join([lines[0], lines[-1].replace(stamp, long_ago, 1)]) + "\n")
    with pytest.raises(MemoryNotForgotten):
        bench.app.memories.restore(path, PERSON)
    assert theirs.exists()
    assert not [file for file in bench.app.home.root.joinpath(".trash").rglob("*.md") if file != theirs]


def test_a_memory_renamed_in_an_editor_keeps_its_history_and_answers_to_its_old_path(bench: Workbench) -> None:
    path = remember(bench)
    new = path.replace("never run", "do not run")
    file_of(bench, path).rename(file_of(bench, new))
    assert bench.app.memories.show(path, PERSON)["path"] == new
    assert events(bench, new) == ["created"]


def test_a_title_that_two_memories_have_names_neither(bench: Workbench) -> None:
    first = remember(bench, title="Same", scope="project", projects=["a"])
    second = remember(bench, "something else altogether", title="Same", scope="project", projects=["b"])
    with pytest.raises(MemoryAmbiguous, match="Same"):
        bench.app.memories.show("same", PERSON)
    assert bench.app.memories.show(first, PERSON)["path"] != bench.app.memories.show(second, PERSON)["path"]


def test_nobody_reads_by_name_what_does_not_reach_them(bench: Workbench) -> None:
    path = remember(bench)
    for verb in (bench.app.memories.show, bench.app.memories.history):
        with pytest.raises(MemoryNotFound):
            verb(path, HERON)
    bench.app.memories.forget(path, PERSON)
    with pytest.raises(MemoryNotFound):
        bench.app.memories.history(path, HERON)


def test_a_promoted_memory_is_served_as_the_note_says_it_now(bench: Workbench) -> None:
    path = remember(bench)
    note = bench.app.home.root / "brain/Storage.md"
    note.parent.mkdir()
    note.write_text("# Storage\n\n- Migrate from Monday to Wednesday. ^om-123abc\n- Something else.\n")
    assert [entry["path"] for entry in bench.app.memories.inbox(PERSON)["memories"]] == [path]
    _, told = bench.app.memories.promote(path, "brain/Storage#^om-123abc", PERSON)
    assert told["status"] == "served"
    assert bench.app.memories.inbox(PERSON)["count"] == 0
    shown = bench.app.memories.show(path, PERSON)
    assert "Monday to Wednesday" in shown["content"]
    assert "Something else" not in shown["content"]
    hit = bench.recall("migrations").hits[0]
    assert "Monday to Wednesday" in hit.content
    note.write_text("# Storage\n\nprivate now\n\n#private\n")
    assert TEXT in bench.app.memories.show(path, PERSON)["content"]


def test_the_home_vault_is_not_removed_as_a_source(bench: Workbench) -> None:
    remember(bench)
    source = bench.app.home.source()
    assert source is not None
    for remove in (bench.app.remove, bench.app.disconnect):
        with pytest.raises(SourceIsHome):
            remove(source.id)
    assert bench.app.registry.all() == (source,)


def test_an_existing_history_that_was_torn_is_read_around(bench: Workbench) -> None:
    path = remember(bench)
    history = next((bench.app.home.root / ".vade/history").iterdir())
    with open(history, "ab") as file:
        file.write(b'{"at": "2026-')
    bench.app.memories.modify(path, {"type": "rule", "importance": 0.9}, PERSON, reason="so")
    assert events(bench, path) == ["created", "modified"]
    assert os.path.getsize(history) > 0
