"""Remembering as a person and as a session do it, by the command alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from process import Finished

Vade = Callable[..., Finished]
LESSON = "Consumers must ack before the retry timer fires, or the broker delivers the message twice."


@pytest.fixture
def kestrel(tmp_path: Path) -> Path:
    """A repository to stand in."""
    folder = tmp_path / "kestrel"
    (folder / ".git").mkdir(parents=True)
    return folder


def paths(answer: Any) -> list[str]:
    return [entry["path"] for entry in answer["memories"]]


def test_a_person_remembers_finds_corrects_forgets_and_restores(vade: Vade, kestrel: Path) -> None:
    done = vade("remember", "critical: [deploy, db]: never run migrations on Friday", cwd=kestrel)
    assert done.rc == 0, done
    assert "Recorded: memories/" in done.out
    assert "Scope: project → kestrel" in done.out
    assert "The home vault" in done.err
    found = vade("recall", "when may I run migrations", "--json").json["hits"]
    assert [(hit["title"], hit["type"], hit["memory"]["pinned"]) for hit in found] == [
        ("never run migrations on Friday", "memory", True)
    ]
    path = found[0]["path"]
    listed = vade("memories", "list", "--tag", "deploy", "--pinned", "--type", "rule", "--json").json
    assert paths(listed) == [path]
    assert "never run migrations" in vade("memories", "show", path).out
    assert vade("memories", "modify", path, "--reason", "Thursdays too", "--confidence", "inferred").rc == 0
    refused = vade("memories", "forget", path)
    assert (refused.rc, "pinned" in refused.err, "--force" in refused.err) == (1, True, True)
    assert vade("memories", "forget", path, "--force", "--reason", "we may now").rc == 0
    assert vade("recall", "migrations", "--json").json["hits"] == []
    assert path in vade("memories", "list", "--forgotten").out
    assert vade("memories", "restore", path).rc == 0
    history = vade("memories", "history", path, "--json").json["changes"]
    assert [change["event"] for change in history] == ["created", "modified", "forgotten", "restored"]
    assert "modified by owner: Thursdays too" in vade("memories", "history", path).out


def test_a_session_keeps_the_contract_and_may_only_add_and_supersede(vade: Vade, kestrel: Path) -> None:
    refused = vade("remember", "--title", "Acks", "--body", "too short", "--json", cwd=kestrel, as_owner=False)
    assert refused.rc == 1
    assert refused.json["error"]["code"] == "memory_refused"
    assert "40 at least" in refused.json["error"]["message"]
    assert "confidence" in refused.json["error"]["message"]
    told = ("--title", "Ack before the retry timer", "--confidence", "inferred")
    first = vade("remember", *told, "--body", "-", stdin=LESSON, cwd=kestrel, as_owner=False)
    assert first.rc == 0, first
    again = vade("remember", *told, "--body", LESSON, cwd=kestrel, as_owner=False)
    assert (again.rc, "Known already" in again.out) == (0, True)
    twin = vade("remember", *told, "--body", LESSON.replace("must", "should"), cwd=kestrel, as_owner=False)
    assert (twin.rc, "Ack before the retry timer" in twin.err, "--force" in twin.err) == (1, True, True)
    better = (
        "--title",
        "Ack within the timer",
        "--confidence",
        "verified",
        "--verification",
        "Read the broker's code.",
    )
    new = vade("remember", *better, "--body", LESSON[::-1], "--supersedes", told[1], cwd=kestrel, as_owner=False)
    assert "Superseded, kept and linked back: Ack before the retry timer" in new.out
    shown = vade("memories", "list", cwd=kestrel, as_owner=False).out
    assert shown.index("Ack within") < shown.index("Ack before")
    assert "superseded by Ack within the timer" in shown
    for verb in (("forget", told[1]), ("modify", told[1], "--reason", "x", "--type", "rule"), ("restore", "x")):
        other = vade("memories", *verb, cwd=kestrel, as_owner=False)
        assert (other.rc, "owner" in other.err) == (2, True)
    assert vade("remember", "x" * 50, "--project", "osprey", cwd=kestrel, as_owner=False).rc == 1


def test_each_repository_sees_what_is_for_it(vade: Vade, tmp_path: Path, kestrel: Path) -> None:
    heron = tmp_path / "heron"
    heron.mkdir()
    vade("remember", "for kestrel alone", cwd=kestrel)
    vade("remember", "for everybody", "--scope", "general", "--generality", "manners", cwd=kestrel)
    vade("remember", "for ios", "--scope", "platform", "--platform", "ios", cwd=kestrel)
    vault = tmp_path / "vade-home/vault"
    (vault / "projects").mkdir()
    (vault / "projects/heron.md").write_text("---\nplatforms:\n  - iOS\n---\n# Heron\n")

    def seen(folder: Path) -> set[str]:
        answer = vade("memories", "list", "--json", cwd=folder, as_owner=False).json
        return {entry["title"] for entry in answer["memories"]}

    assert seen(kestrel) == {"for kestrel alone", "for everybody"}
    assert seen(heron) == {"for everybody", "for ios"}
    assert seen(tmp_path / "home") == {"for everybody"}
    who = vade("whoami", "--json", cwd=heron, as_owner=False).json
    assert (who["caller"]["project"], who["caller"]["platforms"]) == ("heron", ["iOS"])
    assert who["memories"] == {"reach": 2, "total": 3}
    told = vade("memories", "list", "--explain", cwd=heron, as_owner=False).out
    assert 'no facet matches caller (project="heron", platforms=[iOS])' in told
    assert "kestrel alone" not in told
    assert "Platforms: iOS" in vade("whoami", cwd=heron, as_owner=False).out


def test_the_home_vault_is_chosen_shown_and_let_go(vade: Vade, tmp_path: Path) -> None:
    brain = tmp_path / "Brain"
    (brain / ".obsidian").mkdir(parents=True)
    (brain / "note.md").write_text("# Wombats\n\nThey dig.\n")
    before = sorted(path.name for path in brain.rglob("*"))
    vade("sources", "add", "obsidian", brain, "--name", "Brain")
    used = vade("vault", "use", brain)
    assert (used.rc, str(brain) in used.out) == (0, True), used
    assert sorted(path.name for path in brain.rglob("*")) == before
    assert len(vade("sources", "list", "--json").json["sources"]) == 1
    assert vade("remember", "wombats bite").rc == 0
    together = vade("recall", "wombats", "--json").json
    assert {hit["type"] for hit in together["hits"]} == {"memory", "source_obsidian_markdown"} or {
        hit["type"] for hit in together["hits"]
    } == {"memory", "source_obsidian_chunk"}
    assert together["receipt"]["memories"] == {"reach_the_caller": 1}
    removed = vade("sources", "remove", "Brain")
    assert (removed.rc, "home vault" in removed.err, "vade vault unset" in removed.err) == (1, True, True)
    assert vade("vault", "show", "--json").json["memories"] == 1
    assert vade("vault", "unset").rc == 0
    assert vade("memories", "list", "--json").json["total"] == 0
    assert vade("sources", "remove", "Brain").rc == 0
    assert (brain / "memories").is_dir()
    assert vade("vault", "use", tmp_path / "nowhere").rc == 1


def test_what_is_exported_is_imported_elsewhere_byte_for_byte(vade: Vade, tmp_path: Path) -> None:
    for text in ("quartz is hard", "talc is soft: 日本語", "mica peels"):
        assert vade("remember", text).rc == 0
    assert vade("memories", "export", tmp_path / "out").rc == 0
    other = {"vade_home": tmp_path / "other"}
    done = vade("memories", "import", tmp_path / "out", "--json", **other)
    assert (done.rc, len(done.json["written"])) == (0, 3)
    mine, theirs = tmp_path / "vade-home/vault/memories", tmp_path / "other/vault/memories"
    assert {p.relative_to(mine): p.read_bytes() for p in mine.rglob("*.md")} == {
        p.relative_to(theirs): p.read_bytes() for p in theirs.rglob("*.md")
    }
    assert vade("recall", "talc", "--json", **other).json["hits"][0]["title"] == "talc is soft: 日本語"


def test_a_memory_is_promoted_and_leaves_the_inbox(vade: Vade, tmp_path: Path) -> None:
    vade("remember", "never run migrations on Friday")
    assert "1 memory waits, the oldest for 0 days." in vade("memories", "inbox").out
    brain = tmp_path / "vade-home/vault/brain"
    brain.mkdir()
    (brain / "Gotchas.md").write_text("# Gotchas\n\n## Databases\n\nMigrate on Mondays only.\n")
    done = vade("memories", "promote", "never run migrations on Friday", "brain/Gotchas#Databases")
    assert (done.rc, "Promoted: memories/" in done.out) == (0, True), done
    assert "Migrate on Mondays only." in vade("memories", "show", "never run migrations on Friday").out
    assert "Nothing waits." in vade("memories", "inbox").out


def test_work_is_recorded_where_the_project_keeps_its_notes(vade: Vade, tmp_path: Path, kestrel: Path) -> None:
    told = ("--title", "Retry budget in the queue", "--summary", "Moved the budget from the client to the queue.")
    dry = vade("record-work", *told, "--dry-run", cwd=kestrel)
    assert (dry.rc, "Would be: inbox/" in dry.out) == (0, True), dry
    vault = tmp_path / "vade-home/vault"
    assert not (vault / "inbox").exists()
    (vault / "projects/Kestrel").mkdir(parents=True)
    done = vade("record-work", *told, "--change", "src/queue.py: owns the counter", "--json", cwd=kestrel)
    assert done.rc == 0, done
    assert done.json["routing"] == "caller_identity"
    assert done.json["path"].startswith("projects/Kestrel/notes/")
    assert "owns the counter" in (vault / done.json["path"]).read_text()
    assert vade("search", "retry budget", "--json").json["hits"][0]["path"] == done.json["path"]
    refused = vade("record-work", *told, "--folder", "../out")
    assert (refused.rc, "not recorded" in refused.err) == (1, True)
    session = vade("record-work", *told, "--kind", "decision", "--json", cwd=kestrel, as_owner=False)
    assert session.json["path"] == "projects/Kestrel/decisions/retry-budget-in-the-queue.md"


def test_filters_that_only_memories_have_leave_every_note_out(vade: Vade, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Wombats\n\nWombats dig.\n")
    vade("sources", "add", "folder", folder)
    vade("remember", "wombats must never be fed", "--importance", "0.9")
    assert len(vade("recall", "wombats", "--json").json["hits"]) == 2
    for narrowed in (
        ("--type", "rule"),
        ("--importance", "0.8"),
        ("--confidence", "unverified"),
        ("--scope", "general"),
    ):
        hits = vade("recall", "wombats", *narrowed, "--json").json["hits"]
        assert [hit["type"] for hit in hits] == ["memory"], narrowed
    assert vade("recall", "wombats", "--pinned", "--json").json["hits"] == []
