"""The memories of a vault as its files have them now."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from process import NOBODY
from vademecum.errors import MemoryRefused
from vademecum.memory.amend import with_list_entry, with_properties, with_text
from vademecum.memory.memory import parse_memory
from vademecum.memory.store import Store

Later = Callable[[float], None]


def text(title: str, body: str = "Something.") -> str:
    return f"---\nsource: mcp-capture\nscope: general\n---\n\n# {title}\n\n{body}\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "memories")


def put(store: Store, name: str, content: str, month: str = "2026/09") -> Path:
    path = store.root / "memories" / month / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def titles(store: Store) -> list[str]:
    return [memory.title for memory in store.all()]


def settle(path: Path) -> None:
    """Let a file look as if it had been written long ago, and wait until its change is believed."""
    long_ago = time.time() - 100
    os.utime(path, (long_ago, long_ago))
    time.sleep(2.1)


def test_what_was_read_is_kept_and_read_again_when_it_changed(store: Store) -> None:
    path = put(store, "a.md", text("One"))
    settle(path)
    first = store.all()
    assert store.all() is first
    path.write_text(text("Two"))  # of the same size, and within the clock's grain perhaps
    assert titles(store) == ["Two"]


def test_an_edit_that_keeps_size_and_time_is_seen_as_well(store: Store) -> None:
    path = put(store, "a.md", text("One"))
    settle(path)
    store.all()
    before = path.stat()
    path.write_text(text("Two"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert titles(store) == ["Two"]


def test_a_touch_alone_changes_no_answer(store: Store) -> None:
    path = put(store, "a.md", text("One"))
    first = store.all()
    os.utime(path)
    assert store.all() is first


def test_new_and_deleted_files_are_noticed_at_once(store: Store) -> None:
    path = put(store, "a.md", text("A"))
    assert titles(store) == ["A"]
    put(store, "b.md", text("B"), "2025/01")
    assert titles(store) == ["B", "A"]
    path.unlink()
    assert titles(store) == ["B"]


def test_only_files_two_folders_down_are_memories(store: Store) -> None:
    put(store, "deep.md", text("Deep"), "2026/09/more")
    put(store, "shallow.md", text("Shallow"), "2026")
    put(store, "root.md", text("Root"), ".")
    put(store, ".hidden.md", text("Hidden"))
    put(store, "no.txt", text("No"))
    put(store, "here.MD", text("Here"))
    assert titles(store) == ["Here"]


def test_a_linked_year_is_followed_inside_the_vault_and_told_of_outside(store: Store, tmp_path: Path) -> None:
    put(store, "now.md", text("Now"))
    archive = store.root / "archive/2019/05"
    archive.mkdir(parents=True)
    (archive / "old.md").write_text(text("Old"))
    (store.root / "memories/2019").symlink_to(store.root / "archive/2019")
    assert titles(store) == ["Old", "Now"]
    outside = tmp_path.parent / f"{tmp_path.name}-outside/05"
    outside.mkdir(parents=True)
    (outside / "far.md").write_text(text("Far"))
    (store.root / "memories/2018").symlink_to(outside.parent)
    (store.root / "memories/2017").symlink_to(store.root / "gone")
    assert titles(store) == ["Old", "Now"]
    assert any("2018" in problem for problem in store.problems)


def test_a_file_that_cannot_be_read_stays_as_it_was_and_is_told_of(store: Store) -> None:
    path = put(store, "a.md", text("A"))
    assert titles(store) == ["A"]
    path.unlink()
    path.mkdir()  # no file any more, and no memory
    assert titles(store) == []
    path.rmdir()
    os.mkfifo(path)
    assert titles(store) == []


def test_an_unreadable_file_is_kept_as_last_read(public_tmp: Path) -> None:
    import subprocess
    import sys

    store = Store(public_tmp, "memories")
    path = put(store, "a.md", text("A"))
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        folder.chmod(0o755)
    path.chmod(0o644)
    script = (
        "import os, sys, pathlib\n"
        "from vademecum.memory.store import Store\n"
        "store = Store(pathlib.Path(sys.argv[1]), 'memories')\n"
        "os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "assert os.getuid() == int(sys.argv[2])\n"
        "print([m.title for m in store.all()], flush=True)\n"
        "sys.stdin.readline()\n"
        "print([m.title for m in store.all()], store.problems, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(public_tmp), str(NOBODY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdin is not None
    assert child.stdout.readline() == "['A']\n"
    path.chmod(0)
    told, _ = child.communicate("go\n", timeout=30)
    assert told.startswith("['A']")
    assert "Permission denied" in told


def test_a_file_is_found_whatever_unicode_form_its_name_has(store: Store) -> None:
    path = put(store, "cafe\u0301.md", text("A"))
    (memory,) = store.all()
    assert memory.path == "memories/2026/09/café.md"
    store.change(memory.path, lambda before: before.replace("Something", "Anything"))
    assert "Anything" in path.read_text()


# ── changing a file


CRLF = "---\r\nsource: mcp-capture\r\nprojects:\r\n  - a\r\n  - b\r\nmine: 1 # so\r\n---\r\n\r\n# T\r\n\r\nBody\r\n"


def test_one_property_changes_and_every_other_byte_stays() -> None:
    changed = with_properties(CRLF, {"projects": '["c"]', "pinned": "true"})
    assert changed == CRLF.replace("projects:\r\n  - a\r\n  - b\r\n", 'projects: ["c"]\r\n').replace(
        "so\r\n---", "so\r\npinned: true\r\n---"
    )
    assert with_properties(changed, {"pinned": None}) == changed.replace("pinned: true\r\n", "")


def test_a_list_gains_an_entry_once() -> None:
    add = with_list_entry("superseded_by", 'A title, with "commas"')
    once = add(CRLF)
    assert parse_memory(once, path="").superseded_by == ('A title, with "commas"',)
    assert add(once) == once
    assert parse_memory(with_list_entry("superseded_by", "B")(once), path="").superseded_by[1] == "B"


@pytest.mark.parametrize(
    "other",
    [
        "# No properties\n",
        "---\nsource: mcp-capture\nnever closed\n",
        text("x").replace("mcp-capture", "hand-filed"),
        "",
    ],
)
def test_no_other_file_is_edited(other: str) -> None:
    with pytest.raises(MemoryRefused):
        with_list_entry("superseded_by", "A")(other)


def test_a_new_text_stands_under_the_old_properties() -> None:
    changed = with_text(CRLF, title="New", body="Other\nwords")
    assert changed.startswith(CRLF.partition("# T")[0])
    assert changed.endswith("# New\r\n\r\nOther\r\nwords\r\n")
