"""Writing a memory: what is told, what is written, and what follows it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vademecum.access import ANONYMOUS, OWNER, Caller
from vademecum.errors import MemoryRefused, MemoryTwin, OutsideRoot, VaultMissing
from vademecum.home import Recorded, Standing
from workbench import Workbench

KESTREL = Standing(Caller("kestrel", (), "folder"), "kestrel", inside=False)
HERON = Standing(Caller("heron", (), "folder"), "heron", inside=False)
NOBODY = Standing(ANONYMOUS, None, inside=False)
PERSON = Standing(OWNER, "kestrel", inside=False)
INSIDE = Standing(OWNER, None, inside=True)
LESSON = {
    "title": "The queue acks before the retry timer",
    "body": "Consumers must ack before the retry timer fires, or the broker delivers the message twice.",
    "confidence": "inferred",
}


def remember(bench: Workbench, who: Standing = KESTREL, **said: Any) -> Recorded:
    how = {name: said.pop(name) for name in ("force", "dry_run", "allow_secret") if name in said}
    return bench.app.memories.remember({**LESSON, **said}, who, **how)


def titles(bench: Workbench, who: Standing) -> list[str]:
    return [entry["title"] for entry in bench.app.memories.list(who.caller)["memories"]]


def test_a_memory_is_a_markdown_file_that_is_found_at_once(bench: Workbench) -> None:
    done = remember(bench)
    assert done.written and done.indexed
    file = bench.app.home.root / done.memory.path
    text = file.read_text()
    assert 'origin: "kestrel"' in text
    assert 'projects: ["kestrel"]' in text
    assert text.endswith(f"# {LESSON['title']}\n\n{LESSON['body']}\n")
    answer = bench.recall("what happens when the broker delivers twice", caller=KESTREL.caller)
    assert [(hit.path, hit.as_json()["type"], hit.as_json()["source"]) for hit in answer.hits] == [
        (done.memory.path, "memory", "memory")
    ]
    assert "harness" not in answer.hits[0].as_json()


def test_what_reaches_nobody_is_refused_with_all_reasons_and_makes_nothing(bench: Workbench) -> None:
    with pytest.raises(MemoryRefused) as refused:
        remember(bench, NOBODY, body="too short", confidence="sure", title="")
    assert len(refused.value.reasons) >= 4
    assert not bench.app.home.root.exists()


def test_a_memory_reaches_its_project_and_no_other(bench: Workbench) -> None:
    remember(bench)
    assert titles(bench, KESTREL) == [LESSON["title"]]
    assert titles(bench, HERON) == titles(bench, NOBODY) == []
    assert bench.recall("broker", caller=HERON.caller).hits == ()
    assert bench.recall("broker", caller=HERON.caller).receipt.as_json()["withheld"]["by_reason"] == {"out_of_reach": 1}


def test_the_same_words_for_the_same_readers_corroborate(bench: Workbench) -> None:
    first = remember(bench)
    again = remember(bench, body=f"{LESSON['body'].upper()[:-1]}!")
    assert again.corroborated and not again.written
    assert again.memory.path == first.memory.path
    assert again.memory.corroborated == 1
    assert remember(bench).memory.corroborated == 2
    assert len(titles(bench, KESTREL)) == 1


def test_nearly_the_same_is_refused_and_the_other_is_named(bench: Workbench) -> None:
    first = remember(bench)
    with pytest.raises(MemoryTwin, match="nothing to supersede is called") as twin:
        remember(bench, body=LESSON["body"].replace("must", "should"), supersedes=["Something else"])
    assert first.memory.path in twin.value.message
    assert remember(bench, body=LESSON["body"].replace("must", "should"), force=True).written
    assert len(titles(bench, KESTREL)) == 2


def test_a_twin_out_of_reach_is_not_named(bench: Workbench) -> None:
    remember(bench, projects=["osprey"])
    with pytest.raises(MemoryTwin) as twin:
        remember(bench, projects=["osprey", "kestrel"], body=LESSON["body"].replace("must", "should"))
    assert "memories/" not in twin.value.message
    assert LESSON["title"] not in twin.value.message


def test_two_projects_may_hold_the_same_words(bench: Workbench) -> None:
    remember(bench)
    assert remember(bench, HERON).written


def test_a_correction_marks_the_old_one_and_is_no_twin_of_it(bench: Workbench) -> None:
    old = remember(bench, title="Acks, and the retry timer")
    new = remember(bench, body=LESSON["body"].replace("must", "need not"), supersedes=["acks,  AND the retry timer"])
    assert new.superseded == (old.memory.title,)
    assert (
        'superseded_by: ["The queue acks before the retry timer"]'
        in (bench.app.home.root / old.memory.path).read_text()
    )
    assert titles(bench, KESTREL) == [LESSON["title"], "Acks, and the retry timer"]
    hits = bench.recall("retry timer", caller=KESTREL.caller).hits
    assert [(hit.title, hit.superseded) for hit in hits] == [(LESSON["title"], False), (old.memory.title, True)]


def test_a_path_names_what_is_superseded_too(bench: Workbench) -> None:
    old = remember(bench)
    new = remember(bench, title="Another thing entirely", body="x" * 50, supersedes=[old.memory.path])
    assert new.superseded == (old.memory.title,)


def test_what_cannot_be_superseded_loses_nothing(bench: Workbench) -> None:
    remember(bench, title="First of all, something", body="y" * 60)
    hand = bench.app.home.root / "memories/2026/09/2026-09-01 by hand.md"
    hand.parent.mkdir(parents=True, exist_ok=True)
    hand.write_text("---\nsource: hand-filed\nscope: general\n---\n\n# By hand\n\nSomething.\n")
    before = hand.read_bytes()
    done = remember(bench, supersedes=["By hand", "Nothing"])
    assert done.written
    assert done.superseded == ()
    assert done.unmatched == ("Nothing",)
    assert any("By hand" in warning for warning in done.warnings)
    assert hand.read_bytes() == before


def test_a_correction_out_of_reach_takes_the_old_one_with_it_in_every_answer(bench: Workbench) -> None:
    remember(bench, title="General advice about acks", projects=["kestrel", "heron"])
    remember(bench, title="A narrower word", body=LESSON["body"][::-1], supersedes=["General advice about acks"])
    assert titles(bench, HERON) == []
    found = bench.app.memories.list(HERON.caller, explain=True)
    assert found["withheld"]["by_reason"] == {"out_of_reach": 1, "superseded": 1}
    assert any("A narrower word" in why for why in found["withheld"]["why"])
    answer = bench.recall("acks retry timer", caller=HERON.caller)
    assert answer.hits == ()
    assert answer.receipt.as_json()["withheld"]["count"] >= 1


def test_a_dry_run_writes_nothing_and_still_looks_for_twins(bench: Workbench) -> None:
    shown = remember(bench, dry_run=True)
    assert not shown.written
    assert shown.text.startswith("---\ndate:")
    assert titles(bench, KESTREL) == []
    remember(bench)
    with pytest.raises(MemoryTwin):
        remember(bench, body=LESSON["body"].replace("must", "should"), dry_run=True)


def test_a_secret_is_refused_by_its_kind_and_never_echoed(bench: Workbench) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    with pytest.raises(MemoryRefused) as refused:
        remember(bench, body=f"{LESSON['body']} The token is {secret}.")
    assert secret not in refused.value.message
    assert "secret" in refused.value.message
    with pytest.raises(MemoryRefused):
        remember(bench, body=f"{LESSON['body']} The token is {secret}.", allow_secret=True)
    assert remember(bench, PERSON, body=f"{LESSON['body']} The token is {secret}.", allow_secret=True).written


def test_a_session_in_the_home_vault_is_refused_and_its_owner_reaches_everywhere(bench: Workbench) -> None:
    with pytest.raises(MemoryRefused, match="home vault"):
        remember(bench, Standing(Caller("vault", (), "folder"), "vault", inside=True))
    done = remember(bench, INSIDE)
    assert done.memory.reach.scope == "general"
    assert any("everywhere" in warning for warning in done.warnings)
    assert titles(bench, NOBODY) == [LESSON["title"]]


def test_the_owner_needs_no_more_than_a_sentence(bench: Workbench) -> None:
    done = bench.app.memories.remember({"body": "never run migrations on Friday"}, PERSON)
    assert done.memory.title == "never run migrations on Friday"
    assert done.memory.confidence == "unverified"
    assert done.memory.origin == "owner"
    assert done.memory.reach.projects == ("kestrel",)
    general = bench.app.memories.remember({"body": "tabs are four wide"}, Standing(OWNER, None, inside=False))
    assert general.memory.reach.scope == "general"


@pytest.mark.parametrize(
    "title",
    [
        "a/b\\c: d*e?",
        "two\nlines\r\nand\ttabs",
        "\u202eright to left\u202c",
        "日本語の題名",
        "🎉🎉",
        "../../etc/passwd",
        "CON",
        'quotes "and" [brackets], commas',
        "---\nscope: general",
    ],
)
def test_no_title_leads_out_of_the_vault_or_into_the_properties(bench: Workbench, title: str) -> None:
    done = remember(bench, title=title)
    assert done.written
    path = Path(done.memory.path)
    assert path.parts[0] == "memories"
    assert len(path.parts) == 4
    assert done.memory.reach.scope == "project"
    assert (bench.app.home.root / path).is_file()
    files = list(bench.app.home.root.rglob("*.md"))
    assert files == [bench.app.home.root / path]


@pytest.mark.parametrize("title", ["x" * 10_000, "///", "...", "\u200b"])
def test_a_title_that_is_none_is_refused(bench: Workbench, title: str) -> None:
    with pytest.raises(MemoryRefused, match="title"):
        remember(bench, title=title)


def test_a_memory_root_that_leads_out_of_the_vault_is_refused(bench: Workbench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    bench.app.home.root.mkdir(parents=True)
    (bench.app.home.root / "memories").symlink_to(outside)
    with pytest.raises(OutsideRoot):
        remember(bench)
    assert list(outside.iterdir()) == []
    (outside / "2026/09").mkdir(parents=True)
    (outside / "2026/09/a.md").write_text("---\nsource: mcp-capture\nscope: general\n---\n\n# Outside\n")
    assert titles(bench, NOBODY) == []
    assert bench.app.memories.list(OWNER)["problems"]


def test_a_chosen_vault_that_is_away_is_not_made_anew(vade_home: Path, tmp_path: Path) -> None:
    bench = Workbench(vade_home, vault_path=str(tmp_path / "drive/Brain"))
    try:
        with pytest.raises(VaultMissing):
            remember(bench)
        assert not (tmp_path / "drive").exists()
    finally:
        bench.close()


def test_while_the_vault_is_away_its_memories_are_recalled_as_they_were_indexed(
    vade_home: Path, tmp_path: Path
) -> None:
    vault = tmp_path / "Brain"
    vault.mkdir()
    bench = Workbench(vade_home, vault_path=str(vault))
    try:
        remember(bench)
        remember(bench, title="General advice about acks", body=LESSON["body"][::-1], scope="general")
        vault.rename(tmp_path / "away")
        for who, seen in ((KESTREL, 2), (HERON, 1)):
            answer = bench.recall("acks", caller=who.caller, include="memories")
            assert [hit.stale for hit in answer.hits] == [True] * seen
            assert answer.receipt.as_json()["offline"]
    finally:
        bench.close()


def test_without_an_index_words_still_find_and_nothing_disappears(bench: Workbench) -> None:
    for number in range(5):
        remember(bench, title=f"Lesson number {number}", body=f"{'word ' * 12}about topic{number} and nothing else.")
    bench.app.close()
    for file in bench.settings.home.glob("index-*"):
        file.unlink()
    answer = bench.recall("topic3", caller=KESTREL.caller, include="memories")
    assert answer.hits[0].title == "Lesson number 3"
    assert len(answer.hits) == 5
    assert [hit.title for hit in bench.recall("topic3", caller=KESTREL.caller).hits] == ["Lesson number 3"]


def test_a_memory_edited_in_an_editor_is_judged_by_what_it_says_now(bench: Workbench) -> None:
    done = remember(bench, scope="general", generality="It is about queues everywhere.")
    file = bench.app.home.root / done.memory.path
    assert titles(bench, HERON) == [LESSON["title"]]
    file.write_text(file.read_text().replace("scope: general", "scope: project\nprojects: [osprey]", 1))
    assert titles(bench, HERON) == []
    assert bench.recall("broker", caller=HERON.caller).hits == ()
    file.unlink()
    assert titles(bench, Standing(OWNER, None, inside=False)) == []


def test_the_history_is_in_the_vault_and_git_leaves_the_state_out(bench: Workbench) -> None:
    remember(bench)
    remember(bench, title="Another", body="z" * 60, supersedes=[LESSON["title"]])
    lines = [
        json.loads(line)
        for file in (bench.app.home.root / ".vade/history").iterdir()
        for line in file.read_text().splitlines()
    ]
    assert [(line["event"], line["by"]) for line in lines] == [
        ("created", "kestrel"),
        ("created", "kestrel"),
        ("superseded", "kestrel"),
    ]
    assert (bench.app.home.root / ".vade/.gitignore").read_text() == "state/\nbackups/\n"
    assert not [name for name in os.listdir(bench.app.home.root / ".vade") if name.endswith(".tmp")]


def test_a_body_that_no_index_takes_is_refused(bench: Workbench) -> None:
    with pytest.raises(MemoryRefused, match="body is too long"):
        remember(bench, PERSON, body="word " * 50_000)
    assert titles(bench, PERSON) == []


def test_what_the_index_does_not_take_is_told_and_found_by_its_words(vade_home: Path) -> None:
    bench = Workbench(vade_home, sources_max_file_bytes=600)
    try:
        assert remember(bench).indexed
        long = remember(bench, title="Something much longer", body="feldspar " * 100)
        assert long.written and not long.indexed
        assert [hit.title for hit in bench.recall("feldspar", caller=KESTREL.caller).hits] == ["Something much longer"]
    finally:
        bench.close()
