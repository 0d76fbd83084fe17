"""A fuzzer that finds nothing may have looked at nothing: what it makes is varied, and what is wrong is seen."""

import os
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.cases import outcome, promise
from fuzz.disk import Disk, account, traces
from fuzz.hostile_text import text_bytes
from fuzz.hostile_tree import Change, Entry, Plan, plan_of
from fuzz.promises import STEM, broken, chunk_problems, note_problems
from fuzz.shrink import smaller, smaller_content, smaller_plan
from fuzz.trial import Trial
from vademecum.markdown import Heading, cut, parse

LONG = "# One\n\n" + "\n\n".join(f"Paragraph {n} says " + "a word " * 30 for n in range(20)) + "\n\n# Two\n\nThe end.\n"
KINDS = {
    "heading": b"\n# ",
    "link": b"[[",
    "fence": b"```",
    "table": b"|-",
    "comment": b"%%",
    "nul": b"\0",
    "cr": b"\r",
}


def until() -> float:
    return time.monotonic() + 10


def promises(problems: Any) -> set[str]:
    return {promise(problem) for problem in problems}


def test_equal_seeds_make_equal_cases() -> None:
    assert text_bytes(random.Random("a/1")) == text_bytes(random.Random("a/1")) != text_bytes(random.Random("a/2"))
    assert plan_of("a/1") == plan_of("a/1") != plan_of("a/2")


def test_the_files_are_of_every_kind() -> None:
    files = [text_bytes(random.Random(f"kinds/{number}")) for number in range(400)]
    assert len(set(files)) > 370
    for name, mark in KINDS.items():
        assert sum(mark in content for content in files) > 10, name
    assert sum(content.startswith(b"---\n") for content in files) > 40
    assert sum(b"\xff" in content or b"\xe9 " in content for content in files) > 10


def test_the_trees_are_of_every_kind() -> None:
    plans = [plan_of(f"kinds/{number}") for number in range(8)]
    kinds = Counter(entry.kind for plan in plans for entry in plan.entries)
    acts = Counter(change.act for plan in plans for changes in plan.rounds for change in changes)
    assert set(kinds) == {"file", "folder", "link", "fifo", "socket", "hard link"}
    assert set(acts) == {"write", "append", "forge", "delete", "move", "swap", "touch", "replace"}
    assert {plan.trusting for plan in plans} == {True, False}
    assert any(plan.under for plan in plans)


# What is wrong is seen.


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (lambda chunks: chunks[:2] + chunks[3:], "nothing lost"),
        (lambda chunks: chunks[:-1], "nothing lost"),
        (lambda chunks: [*chunks, chunks[-1]], "verbatim"),
        (lambda chunks: [replace(chunks[0], text=chunks[0].text.replace("word", "wort", 1)), *chunks[1:]], "verbatim"),
        (lambda chunks: [replace(chunks[0], first_line=2), *chunks[1:]], "first line"),
        (lambda chunks: [replace(chunks[0], last_line=1), *chunks[1:]], "last line"),
        (lambda chunks: [replace(chunk, key="k") for chunk in chunks], "keys"),
        (lambda chunks: [replace(chunk, ordinal=0) for chunk in chunks], "ordinal"),
        (lambda chunks: [replace(chunks[0], text=LONG.rstrip(), last_line=LONG.count("\n"))], "cap"),
    ],
)
def test_chunks_that_lose_or_alter_something_break_a_promise(damage: Any, seen: str) -> None:
    note = parse(LONG, stem=STEM)
    assert list(chunk_problems(note, cut(note))) == []
    assert seen in promises(chunk_problems(note, damage(cut(note))))


@pytest.mark.parametrize(
    ("text", "change", "seen"),
    [
        ("x", {"title": ""}, "title"),
        ("x", {"tags": ("a\0b",)}, "storable"),
        ("x", {"tags": ("a\nb",)}, "one line"),
        ("x\n# y\n", {"headings": (Heading(1, "y", 1),)}, "heading"),
        ("x", {"headings": (Heading(1, "y", 9),)}, "heading"),
        ("---\nprivate: true\n---\n", {"private": False}, "private"),
        ("---\nnever closed", {"private": False}, "private"),
        ("x", {"body_line": 7}, "body line"),
        ("x\r\ny", {"text": "x\r\ny"}, "normal form"),
    ],
)
def test_a_note_that_says_what_its_text_does_not_breaks_a_promise(text: str, change: Any, seen: str) -> None:
    note = parse(text, stem=STEM)
    assert list(note_problems(note)) == []
    assert seen in promises(note_problems(replace(note, **change)))


def test_an_honest_text_breaks_no_promise() -> None:
    assert broken(LONG.encode(), thorough=True) is None


def test_an_exception_is_a_broken_promise() -> None:
    assert promise(outcome(lambda: str(1 // 0))).startswith("crash at test_fuzzer.py")


def test_a_file_that_the_index_does_not_know_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("miss/1", (Entry(b"a.md", "file", b"text"), Entry(b"b.md", "file", b"text")), ())
    assert next(Trial(plan, _made(tmp_path / "good")).problems(), None) is None
    trial = Trial(plan, _made(tmp_path / "bad"))
    problems = trial.problems()
    monkeypatch.setattr(
        "fuzz.trial.account", lambda root, most_bytes: account(root + b"/../calm", most_bytes=most_bytes)
    )
    assert promise(next(problems)) == "lost"
    problems.close()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder.resolve()


def test_every_file_on_a_disk_has_an_account(tmp_path: Path) -> None:
    disk = Disk(os.fsencode(tmp_path.resolve() / "v"))
    entries = [
        Entry(b"a.md", "file", b"text"), Entry(b"b.md", "file", b" \n"), Entry(b"c.md", "file", b"x\0"),
        Entry(b"d.md", "file", b"x" * 99), Entry(b".e/f.md", "file", b"x"), Entry(b"Archive/g.md", "file", b"x"),
        Entry(b"h.txt", "file", b"x"), Entry(b"\xff.md", "file", b"x"), Entry("\u212b.md".encode(), "file", b"x"),
        Entry("\u00c5.md".encode(), "file", b"x"), Entry(b"i.md", "link", b"a.md"), Entry(b"j.md", "fifo"),
        Entry(b"k.md", "folder"), Entry(b"C:/l.md", "file", b"x"), Entry(b"m.md", "socket"),
        Entry(b"n.md", "hard link", b"a.md"),
    ]  # fmt: skip
    assert all(disk.make(entry) for entry in entries)
    found = account(disk.root, most_bytes=50)
    assert set(found.indexed) == {"a.md", "n.md", "\u00c5.md"}
    assert found.reasons == {
        "empty": 1, "binary": 1, "too_large": 1, "hidden": 1, "excluded": 1, "not_read": 1, "bad_name": 2,
        "duplicate_name": 1, "symlink": 1, "not_a_file": 2,
    }  # fmt: skip
    assert found.files == len(entries) - 1


def test_a_write_below_a_root_leaves_traces_and_what_is_protected_stays(tmp_path: Path) -> None:
    disk = Disk(os.fsencode(tmp_path.resolve() / "v"))
    disk.protect(b"kept/a.md", b"a")
    disk.make(Entry(b"link", "link", b"kept"))
    disk.make(Entry(b"b.md", "file", b"b"))
    before = traces(disk.root)
    for path in (b"kept", b"kept/a.md", b"link/a.md", b"kept/../kept/a.md"):
        disk.change(Change("delete", path))
    assert traces(disk.root) == before
    disk.change(Change("forge", b"b.md"))
    assert traces(disk.root) != before


# What fails is made small.


def test_what_fails_is_made_as_small_as_it_can_be() -> None:
    assert smaller(list(range(100)), lambda kept: {17, 60} <= set(kept), until=until()) == [17, 60]
    assert smaller_content(b"one\ntwo x\nthree\n" * 50, lambda kept: b"x" in kept, until=until()) == b"x"


def test_a_plan_keeps_only_what_it_takes_to_fail() -> None:
    plan = plan_of("small/3")
    assert len(plan.entries) > 2 < len(plan.rounds[1])
    wanted, change = plan.entries[2].path, plan.rounds[1][2]

    def fails(kept: Plan) -> bool:
        return wanted in {entry.path for entry in kept.entries} and change.act in {c.act for c in kept.rounds[1]}

    small = smaller_plan(plan, fails, until=until())
    assert [entry.path for entry in small.entries] == [wanted]
    assert [len(changes) for changes in small.rounds] == [0, 1]
