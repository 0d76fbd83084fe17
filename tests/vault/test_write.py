"""Whatever happens while a note is written, its file is not there, or whole; and nothing outside of the vault changes.

A file system without hard links cannot be had here. What stands in for it is one that refuses the link: a file of
somebody else, under the kernel's protection of hard links.
"""

import json
import os
import re
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from process import NOBODY, run_python
from vademecum.errors import OutsideRoot, VadeError, VaultUnwritable
from vademecum.vault import write

Snapshot = Mapping[str, tuple[bytes | None, int, int]]
WriteTree = Callable[..., Path]


def named(attempt: int) -> str:
    return "note.md" if attempt == 1 else f"note {attempt}.md"


def claimed(root: Path, content: str = "text", *, folder: str = "notes", most: int = 50) -> str:
    return write.claim(root, folder, content, named, most=most)


def left_behind(root: Path) -> list[str]:
    """Files that are there and are no notes."""
    return [path.name for path in root.rglob("*") if path.is_file() and path.suffix != ".md"]


CHILD = textwrap.dedent(
    """
    import json, sys
    from pathlib import Path
    from vademecum.errors import VadeError
    from vademecum.vault import write
    given = json.loads(sys.argv[1])
    root = Path(given["root"])
    if given.get("limit"):
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (given["limit"], given["limit"]))
    told = []
    for act, *words in given["acts"]:
        try:
            if act == "claim":
                told.append(write.claim(root, words[0], words[1], lambda n: f"note {n}.md", most=50))
            elif act in ("replace", "append"):
                told.append(getattr(write, act)(root, words[0], words[1].encode()))
            else:
                told.append(getattr(write, act)(root, *words))
        except VadeError as exc:
            told.append({"code": exc.code, "message": exc.message})
    print(json.dumps(told, default=str))
    """
)


def done_by_nobody(root: Path, *acts: list[str], limit: int | None = None, as_user: int | None = NOBODY) -> Any:
    """What each act gave, or the error that it raised, in a child that is not root."""
    given = json.dumps({"root": str(root), "acts": acts, "limit": limit})
    done = run_python(["-c", CHILD, given], as_user=as_user, cwd=root.parent, reached=[root.parent])
    assert done.rc == 0, done
    return done.json


def at_once(code: str, root: Path) -> list[str]:
    """What eight children print that begin together, once each of them says that it is ready."""
    words = [sys.executable, "-c", code, str(root)]
    children = [
        subprocess.Popen([*words, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in range(8)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [child.communicate(timeout=100)[0] for child in children]
    assert [child.returncode for child in children] == [0] * 8
    return told


# ── claim


def test_a_new_note_is_written_with_the_folders_that_takes(tmp_path: Path) -> None:
    assert claimed(tmp_path, "# Ü\n", folder="a/b/c") == "a/b/c/note.md"
    assert (tmp_path / "a/b/c/note.md").read_bytes() == "# Ü\n".encode()
    assert left_behind(tmp_path) == []


def test_the_root_itself_is_a_folder_too(tmp_path: Path) -> None:
    assert claimed(tmp_path, folder="") == "note.md"


@pytest.mark.parametrize("there", ["file", "folder", "link", "link to nowhere"])
def test_whatever_has_the_name_keeps_it(tmp_path: Path, there: str) -> None:
    other = tmp_path / "other.md"
    other.write_text("mine")
    taken = tmp_path / "notes/note.md"
    taken.parent.mkdir()
    match there:
        case "file":
            taken.write_text("mine")
        case "folder":
            taken.mkdir()
        case "link":
            taken.symlink_to(other)
        case _:
            taken.symlink_to(tmp_path / "nowhere")
    assert claimed(tmp_path) == "notes/note 2.md"
    assert other.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert (taken.read_text() == "mine") if there in ("file", "link") else True


def test_when_every_name_is_taken_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(3):
        claimed(tmp_path, most=3)
    with pytest.raises(VaultUnwritable, match="holds 3 notes of this name already"):
        claimed(tmp_path, most=3)
    assert sorted(os.listdir(tmp_path / "notes")) == ["note 2.md", "note 3.md", "note.md"]


@pytest.mark.parametrize("name", ["", "..", "a/b.md", "../out.md", "/out.md", "a\\b.md", "a\0b.md", "%2e%2e%2fout.md"])
def test_a_name_is_one_segment(tmp_path: Path, name: str) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    with pytest.raises(OutsideRoot):
        write.claim(root, "notes", "text", lambda _: name, most=3)
    assert left_behind(tmp_path) == []
    assert list(tmp_path.rglob("*.md")) == []


def test_text_that_no_file_can_hold_is_mended_or_refused(tmp_path: Path) -> None:
    """JSON carries half a surrogate pair without complaint."""
    try:
        path = claimed(tmp_path, "half \ud800 a pair")
    except VadeError:
        assert list(tmp_path.rglob("*.md")) == []
    else:
        assert re.fullmatch("half . a pair", (tmp_path / path).read_text())
    assert left_behind(tmp_path) == []


CLAIMS = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from vademecum.vault import write
    root, who = Path(sys.argv[1]), sys.argv[2]
    def name_for(attempt):
        if attempt == 1:  # the file is written: all go for the name at the next tick of the clock
            time.sleep(0.01 - time.monotonic() % 0.01)
        return f"note {attempt}.md"
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(50):
        print(write.claim(root, "a/b", f"{who} {number}\\n" * 500, name_for, most=400))
    """
)


def test_eight_processes_that_want_one_name_get_one_file_each(tmp_path: Path) -> None:
    """Not even the folder is there when they start."""
    told = [path for said in at_once(CLAIMS, tmp_path) for path in said.split("\n") if path]
    files = {f"a/b/{name}" for name in os.listdir(tmp_path / "a/b")}
    assert len(told) == len(set(told)) == 400
    assert files == set(told)
    said = sorted((tmp_path / path).read_text() for path in told)
    assert said == sorted(f"{who} {number}\n" * 500 for who in range(8) for number in range(50))


# ── killed at any moment


KILLS = 200
KILLED = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from pathlib import Path
    from vademecum.vault import write
    root, act, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    rest = random.Random(4711)
    text = lambda number: f"begin {number}\\n" + f"line {number}\\n" * 20_000 + "end\\n"
    write.claim(root, "notes", text(0), lambda n: "old.md", most=1)
    for kill in range(kills):
        child = os.fork()
        if child == 0:
            number = 0
            while True:
                number += 1
                if act == "claim":
                    write.claim(root, "notes", text(number), lambda n: f"{kill} {n}.md", most=1000)
                elif act == "replace":
                    write.replace(root, "notes/old.md", text(number).encode())
                else:
                    write.move(root, "notes/old.md", "other/old.md")
                    write.move(root, "other/old.md", "notes/old.md")
        time.sleep(rest.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if act == "move" and not (root / "notes/old.md").exists():
            os.rename(root / "other/old.md", root / "notes/old.md")
        elif act == "move" and (root / "other/old.md").exists():
            os.unlink(root / "other/old.md")
        seen = [p for p in root.rglob("*.md")]
        for path in seen:
            said = path.read_text()
            number = said.partition("\\n")[0].removeprefix("begin ")
            if said != text(number):
                sys.exit(f"{path} is torn after kill {kill}: {len(said)} characters")
            if act == "claim" and path.name != "old.md":
                path.unlink()
        if not (root / "notes/old.md").exists():
            sys.exit(f"the old note is gone after kill {kill}")
    print(len(seen))
    """
)


@pytest.mark.parametrize("act", ["claim", "replace", "move"])
def test_a_writer_that_is_killed_leaves_no_torn_note(tmp_path: Path, act: str) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path), act, str(KILLS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=110)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(re.fullmatch(r"\.vade-.*\.tmp", name) for name in left_behind(tmp_path))


def test_what_a_killed_writer_left_is_swept_when_it_is_old_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, age_s in {".vade-1-aa.tmp": 7200, ".vade-2-bb.tmp": 60, ".other.tmp": 7200, "vade-3.tmp": 7200}.items():
        (folder / name).write_text("half")
        os.utime(folder / name, (time.time() - age_s, time.time() - age_s))
    claimed(tmp_path)
    assert sorted(os.listdir(folder)) == [".other.tmp", ".vade-2-bb.tmp", "note.md", "vade-3.tmp"]


def test_a_sweep_follows_no_link_and_stumbles_over_no_folder(tmp_path: Path) -> None:
    folder, mine = tmp_path / "vault/notes", tmp_path / "mine"
    folder.mkdir(parents=True)
    mine.write_text("mine")
    (folder / ".vade-1-aa.tmp").symlink_to(mine)
    (folder / ".vade-2-bb.tmp").mkdir()
    os.utime(folder / ".vade-1-aa.tmp", (0, 0), follow_symlinks=False)
    os.utime(folder / ".vade-2-bb.tmp", (0, 0))
    assert claimed(tmp_path / "vault") == "notes/note.md"
    assert mine.read_text() == "mine"


# ── replace, move, remove


def test_a_note_is_replaced_whole(write_tree: WriteTree) -> None:
    root = write_tree({"a/b.md": "old " * 1000})
    write.replace(root, "a/b.md", b"new")
    assert (root / "a/b.md").read_bytes() == b"new"
    assert left_behind(root) == []


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664, 0o666, 0o444])
def test_a_replaced_note_keeps_its_mode(write_tree: WriteTree, mode: int) -> None:
    """Whatever the umask is: a vault that a group shares would close, one note after the other."""
    root = write_tree({"a.md": "old"})
    (root / "a.md").chmod(mode)
    write.replace(root, "a.md", b"new")
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == mode


@pytest.mark.parametrize("path", ["gone.md", "folder", "gone/a.md"])
def test_only_a_note_that_is_there_is_replaced(write_tree: WriteTree, path: str) -> None:
    root = write_tree({"folder/a.md": "a"})
    with pytest.raises((OutsideRoot, VaultUnwritable)):
        write.replace(root, path, b"new")
    assert [p.name for p in root.rglob("*")] == ["folder", "a.md"]


def test_a_note_is_moved_into_a_folder_that_was_not_there(write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "a"})
    write.move(root, "a.md", ".trash/2026/b.md")
    assert not (root / "a.md").exists()
    assert (root / ".trash/2026/b.md").read_text() == "a"


def test_a_note_is_not_moved_over_another(write_tree: WriteTree) -> None:
    root = write_tree({"a.md": "a", "b.md": "b"})
    with pytest.raises(VaultUnwritable):
        write.move(root, "a.md", "b.md")
    assert ((root / "a.md").read_text(), (root / "b.md").read_text()) == ("a", "b")


def test_a_removed_note_is_gone_and_one_that_is_not_there_is_told(write_tree: WriteTree) -> None:
    root = write_tree({"notes/a.md": "a"})
    write.remove(root, "notes/a.md")
    assert os.listdir(root / "notes") == []
    with pytest.raises(VaultUnwritable) as caught:
        write.remove(root, "notes/a.md")
    assert caught.value.message.startswith(f"{root}/notes/a.md cannot be written")


def test_a_folder_is_not_removed(write_tree: WriteTree) -> None:
    root = write_tree({"notes/a.md": "a"})
    with pytest.raises(VaultUnwritable):
        write.remove(root, "notes")
    assert (root / "notes/a.md").read_text() == "a"


# ── append


def test_lines_are_added_to_a_file_that_is_made_where_it_is_missing(tmp_path: Path) -> None:
    write.append(tmp_path, ".vade/history/2026-05.jsonl", b"one\n")
    write.append(tmp_path, ".vade/history/2026-05.jsonl", b"two\nthree\n")
    assert (tmp_path / ".vade/history/2026-05.jsonl").read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(("there", "then"), [(b"", b""), (b"whole\n", b"whole\n"), (b"whole\nto", b"whole\nto\n")])
def test_a_last_line_that_was_cut_short_is_closed_first(tmp_path: Path, there: bytes, then: bytes) -> None:
    (tmp_path / "log").write_bytes(there)
    write.append(tmp_path, "log", b"next\n")
    assert (tmp_path / "log").read_bytes() == then + b"next\n"


APPENDS = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from vademecum.vault import write
    root, who = Path(sys.argv[1]), sys.argv[2]
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(40):
        write.append(root, "log/a.jsonl", b"".join(f"{who} {number} {part} ".encode() * 800 + b"\\n" for part in "ab"))
    """
)


def test_lines_of_eight_processes_do_not_mix(tmp_path: Path) -> None:
    at_once(APPENDS, tmp_path)
    lines = [line for line in (tmp_path / "log/a.jsonl").read_text().split("\n") if line]
    expected = [f"{who} {number} {part} " * 800 for who in range(8) for number in range(40) for part in "ab"]
    assert sorted(lines) == sorted(expected)
    assert all(a.replace(" a ", " b ") == b for a, b in zip(lines[::2], lines[1::2], strict=True))


def test_a_line_that_another_process_is_writing_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    """The size of a file grows while a write goes on, so its last byte may be any."""
    at_once(APPENDS, tmp_path)
    assert "\n\n" not in (tmp_path / "log/a.jsonl").read_text()


# ── where nothing may be written


ACTS: Mapping[str, Callable[[Path], object]] = {
    "claim": lambda root: write.claim(root, "a/b", "text", lambda n: f"{n}.md", most=2),
    "replace": lambda root: write.replace(root, "a/b/note.md", b"text"),
    "move from": lambda root: write.move(root, "a/b/note.md", "elsewhere.md"),
    "move to": lambda root: write.move(root, "here.md", "a/b/moved.md"),
    "remove": lambda root: write.remove(root, "a/b/note.md"),
    "append": lambda root: write.append(root, "a/b/log", b"line\n"),
    "folder_below": lambda root: write.folder_below(root, "a/b"),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("link", ["a", "a/b"])
@pytest.mark.parametrize("leads", ["outside", "inside", "nowhere"])
def test_nothing_is_written_through_a_link(
    write_tree: WriteTree, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot], act: str, link: str, leads: str
) -> None:
    root = write_tree({"here.md": "here", "real/note.md": "real", "real/b/note.md": "real"}, tmp_path / "vault")
    outside = write_tree({"note.md": "outside", "b/note.md": "outside"}, tmp_path / "outside")
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to({"outside": outside, "inside": root / "real", "nowhere": tmp_path / "nowhere"}[leads])
    before = vault_bytes(tmp_path)
    with pytest.raises(OutsideRoot):
        ACTS[act](root)
    assert vault_bytes(tmp_path) == before


@pytest.mark.parametrize("act", ["replace", "move from", "append"])
def test_a_file_that_is_a_link_is_not_written_through(
    write_tree: WriteTree, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot], act: str
) -> None:
    root = write_tree({"a/b/x.md": "x"}, tmp_path / "vault")
    outside = write_tree({"note.md": "outside", "log": "outside"}, tmp_path / "outside")
    (root / "a/b/note.md").symlink_to(outside / "note.md")
    (root / "a/b/log").symlink_to(outside / "log")
    before = vault_bytes(tmp_path)
    with pytest.raises(OutsideRoot):
        ACTS[act](root)
    assert vault_bytes(tmp_path) == before


def test_a_link_that_is_removed_takes_nothing_with_it(write_tree: WriteTree, tmp_path: Path) -> None:
    root = write_tree({"a/b/x.md": "x"}, tmp_path / "vault")
    outside = write_tree({"note.md": "outside"}, tmp_path / "outside")
    (root / "a/b/note.md").symlink_to(outside / "note.md")
    write.remove(root, "a/b/note.md")
    assert not (root / "a/b/note.md").is_symlink()
    assert (outside / "note.md").read_text() == "outside"


BAD_PATHS = [
    "../out.md",
    "a/../../out.md",
    "a/..",
    "/etc/out.md",
    "/out.md",
    "..",
    "",
    "a\0b.md",
    "a\\..\\out.md",
    "C:/out.md",
    "%2e%2e/out.md",
    "a/%2e%2e/%2e%2e/out.md",
]


@pytest.mark.parametrize("path", BAD_PATHS)
@pytest.mark.parametrize("act", ["replace", "move from", "move to", "remove", "append", "folder"])
def test_a_path_that_leads_out_is_refused_by_every_writer(
    write_tree: WriteTree, tmp_path: Path, vault_bytes: Callable[[Path], Snapshot], act: str, path: str
) -> None:
    root = write_tree({"here.md": "here", "a/x.md": "x"}, tmp_path / "vault")
    (tmp_path / "out.md").write_text("outside")
    calls: Mapping[str, Callable[[], object]] = {
        "replace": lambda: write.replace(root, path, b"text"),
        "move from": lambda: write.move(root, path, "elsewhere.md"),
        "move to": lambda: write.move(root, "here.md", path),
        "remove": lambda: write.remove(root, path),
        "append": lambda: write.append(root, path, b"line\n"),
        "folder": lambda: write.claim(root, path or "..", "text", named, most=2),
    }
    before = vault_bytes(tmp_path)
    with pytest.raises(OutsideRoot):
        calls[act]()
    assert vault_bytes(tmp_path) == before


@pytest.mark.parametrize("act", ["claim", "append", "move to", "folder_below"])
def test_a_file_in_the_way_of_a_folder_is_told(write_tree: WriteTree, act: str) -> None:
    root = write_tree({"a": "no folder", "here.md": "here"})
    with pytest.raises(VaultUnwritable):
        ACTS[act](root)
    assert ((root / "a").read_text(), (root / "here.md").read_text()) == ("no folder", "here")


@pytest.mark.parametrize("act", ACTS)
def test_a_root_that_is_not_there_is_not_made(tmp_path: Path, act: str) -> None:
    with pytest.raises(VaultUnwritable):
        ACTS[act](tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(VadeError):
        write.append(tmp_path, "log", b"line\n")


ALL_ACTS = (
    ["claim", "notes", "text"],
    ["claim", "notes/new", "text"],
    ["replace", "notes/a.md", "new"],
    ["move", "notes/a.md", "notes/b.md"],
    ["move", "notes/a.md", "b.md"],
    ["remove", "notes/a.md"],
    ["append", "notes/log", "line\n"],
)


def test_a_folder_that_cannot_be_written_in_is_told_and_keeps_what_it_has(
    public_tmp: Path, write_tree: WriteTree, vault_bytes: Callable[[Path], Snapshot]
) -> None:
    root = write_tree({"notes/a.md": "a"}, public_tmp / "vault")
    for folder in (root, root / "notes"):
        folder.chmod(0o555)
    before = vault_bytes(root)
    told = done_by_nobody(root, *ALL_ACTS)
    assert [answer["code"] for answer in told] == ["vault_unwritable"] * len(ALL_ACTS)
    assert all(answer["message"].endswith("Permission denied") for answer in told)
    assert vault_bytes(root) == before


def test_a_folder_that_cannot_be_entered_is_told(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"notes/deep/a.md": "a"}, public_tmp / "vault")
    (root / "notes").chmod(0o000)
    told = done_by_nobody(root, ["claim", "notes/deep", "text"], ["replace", "notes/deep/a.md", "new"])
    assert [answer["code"] for answer in told] == ["vault_unwritable"] * 2


def test_a_note_of_somebody_else_moves_too(public_tmp: Path, write_tree: WriteTree) -> None:
    """The kernel refuses a second name for it, as a file system does that knows no such thing."""
    root = write_tree({"notes/a.md": "a", "notes/c.md": "c", "notes/d.md": "d"}, public_tmp / "vault")
    for folder in (root, root / "notes"):
        folder.chmod(0o777)
    told = done_by_nobody(root, ["move", "notes/a.md", "notes/b.md"], ["move", "notes/c.md", "notes/d.md"])
    assert told[0] is None
    assert told[1]["code"] == "vault_unwritable"
    assert {file.name: file.read_text() for file in (root / "notes").iterdir()} == {
        "b.md": "a",
        "c.md": "c",
        "d.md": "d",
    }


def test_a_full_disk_leaves_no_half_of_anything(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"notes/a.md": "a", "log": "one\n"}, public_tmp / "vault")
    for path in (root, root / "notes", root / "notes/a.md", root / "log"):
        path.chmod(0o777)
    large = "0123456789\n" * 2_000
    acts = (["claim", "notes", large], ["claim", "new/deep", large], ["replace", "notes/a.md", large])
    told = done_by_nobody(root, *acts, limit=10_000)
    assert [answer["code"] for answer in told] == ["vault_unwritable"] * 3
    assert all(answer["message"].endswith("File too large") for answer in told)
    assert {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()} == {"notes/a.md", "log"}
    assert (root / "notes/a.md").read_text() == "a"


def test_a_line_that_a_full_disk_cut_does_not_spoil_the_next(public_tmp: Path, write_tree: WriteTree) -> None:
    root = write_tree({"log": "one\n"}, public_tmp / "vault")
    (root / "log").chmod(0o666)
    (told,) = done_by_nobody(root, ["append", "log", "x" * 100 + "\n"], limit=50)
    assert told["code"] == "vault_unwritable"
    assert done_by_nobody(root, ["append", "log", "two\n"]) == [None]
    lines = (root / "log").read_text().split("\n")
    assert (lines[0], lines[-2:]) == ("one", ["two", ""])
