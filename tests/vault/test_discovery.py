"""Memories are found where they are, whatever the manifest believes, and only programs have a vote."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from obsidian_mind import build_obsidian_mind
from process import NOBODY, run_python
from vademecum.vault import Found, find_memories, load_manifest, memory_folder, platforms_of

WriteTree = Callable[..., Path]
Snapshot = Mapping[str, object]
CAPTURED = "---\ndate: 2026-01-01\nsource: mcp-capture\n---\n\n# A memory\n"
MONTH = "2026/01"


def tree(**counts: int) -> dict[str, str]:
    """So many memories in each of these folders."""
    return {f"{folder}/{MONTH}/{n}.md": CAPTURED for folder, count in counts.items() for n in range(count)}


# ── the folder


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (tree(), Found("memories", "empty", {})),
        (tree(memories=2), Found("memories", "configured", {"memories": 2})),
        (tree(Lessons=2), Found("Lessons", "discovered", {"Lessons": 2})),
        (tree(memories=1, Lessons=2), Found("Lessons", "split", {"Lessons": 2, "memories": 1})),
        (tree(memories=2, Lessons=1), Found("memories", "split", {"Lessons": 1, "memories": 2})),
        (tree(memories=2, Lessons=2), Found("memories", "split", {"Lessons": 2, "memories": 2})),
        (tree(b=1, a=1), Found("a", "split", {"a": 1, "b": 1})),
    ],
    ids=["empty", "configured", "renamed", "most elsewhere", "most here", "as many", "as many elsewhere"],
)
def test_memories_are_where_most_of_them_are(write_tree: WriteTree, there: Mapping[str, str], found: Found) -> None:
    vault = write_tree({"Home.md": "# Home", **there})
    assert find_memories(vault, "memories") == found


def test_a_vault_of_the_usual_shape_is_as_it_declares(tmp_path: Path) -> None:
    vault = build_obsidian_mind(tmp_path / "vault", memories=30)
    assert find_memories(vault, "memories") == Found("memories", "configured", {"memories": 36})
    (vault / "memories").rename(vault / "lessons")
    assert find_memories(vault, "memories") == Found("lessons", "discovered", {"lessons": 36})


@pytest.mark.parametrize(
    "text",
    [
        "---\nsource: mcp-capture\n---\n",
        '---\nsource: "mcp-capture"\n---\n',
        "---\nsource: 'mcp-capture'\n---\n",
        "---\nsource: mcp-capture # by the server\n---\n",
        "\ufeff---\r\nsource: mcp-capture\r\n---\r\n# A\r\n",
        "---\ntags: [memory]\nsource: mcp-capture\naliases:\n  - x\n---",
        f'---\nsource: mcp-capture\naliases: ["{"long " * 300}"]\n---\n',
    ],
)
def test_what_a_program_wrote_has_a_vote(write_tree: WriteTree, text: str) -> None:
    assert find_memories(write_tree({"lessons/a.md": text}), "memories").folder == "lessons"


@pytest.mark.parametrize(
    "text",
    [
        "# What I read\n\nsource: mcp-capture\n",
        "---\nsource: hand-filed\n---\n",
        "---\nsource: mcp-captured\n---\n",
        "---\nsource: mcp-capture\n",
        "---\nsource: mcp-capture\n----\n",
        "---\ndate: 2026-01-01\n---\n\nsource: mcp-capture\n",
        "---\nother:\n  source: mcp-capture\n---\n",
        "---\nsource: mcp-capture\nsource: me\n---\n",
        "\n---\nsource: mcp-capture\n---\n",
        f'---\naliases: ["{"long " * 300}"]\nsource: mcp-capture\n---\n',
        "",
        "\0" * 4000,
    ],
)
def test_anything_else_has_none(write_tree: WriteTree, text: str) -> None:
    vault = write_tree({"lessons/a.md": text, "lessons/b.txt": CAPTURED, "c.md": CAPTURED})
    assert find_memories(vault, "memories") == Found("memories", "empty", {})


@pytest.mark.parametrize(
    "path",
    [
        "at the root.md",
        "a/b/c/d/e/too deep.md",
        ".trash/2026/01/a.md",
        "lessons/.hidden/a.md",
        "lessons/.a.md",
        "node_modules/x/a.md",
        ".obsidian/a.md",
        ".claude/memory/a.md",
        ".shardmind/templates/a.md",
        "lessons/a.markdown",
    ],
)
def test_these_places_are_not_looked_at(write_tree: WriteTree, path: str) -> None:
    assert find_memories(write_tree({path: CAPTURED}), "memories").counts == {}


@pytest.mark.parametrize("path", ["a/b/c/d/deep.md", "lessons/UPPER.MD"])
def test_these_are(write_tree: WriteTree, path: str) -> None:
    assert find_memories(write_tree({path: CAPTURED}), "memories").counts == {path.partition("/")[0]: 1}


def test_a_folder_that_no_manifest_could_name_is_counted_and_not_taken(write_tree: WriteTree) -> None:
    vault = write_tree({**tree(memories=1), "My lessons/a.md": CAPTURED, "My lessons/b.md": CAPTURED})
    assert find_memories(vault, "memories") == Found("memories", "split", {"My lessons": 2, "memories": 1})


def test_no_link_is_followed(tmp_path: Path, write_tree: WriteTree) -> None:
    outside = write_tree(tree(lessons=3), tmp_path / "outside")
    vault = write_tree({"Home.md": "# Home", "notes/a.md": "# A"}, tmp_path / "vault")
    (vault / "lessons").symlink_to(outside / "lessons")
    (vault / "notes/link.md").symlink_to(outside / "lessons" / MONTH / "0.md")
    (vault / "notes/loop").symlink_to(vault)
    assert find_memories(vault, "memories").state == "empty"


def test_what_is_no_file_hangs_nobody(write_tree: WriteTree) -> None:
    vault = write_tree(tree(memories=1))
    os.mkfifo(vault / "memories" / "pipe.md")
    (vault / "memories" / "folder.md").mkdir()
    assert find_memories(vault, "memories").counts == {"memories": 1}


@pytest.mark.parametrize("name", ["gone", "file.md"])
def test_a_root_that_cannot_be_listed_is_an_empty_one(write_tree: WriteTree, name: str) -> None:
    vault = write_tree({"file.md": CAPTURED})
    assert find_memories(vault / name, "memories") == Found("memories", "empty", {})
    assert platforms_of(vault / name, "file", memory_root="memories") == ()


SHUT = """
import sys
from pathlib import Path
from vademecum.vault import find_memories, platforms_of
root = Path(sys.argv[1])
print(find_memories(root, "memories"), platforms_of(root, "shut", memory_root="memories"))
"""


def test_what_cannot_be_read_has_no_vote(public_tmp: Path, write_tree: WriteTree) -> None:
    there = {**tree(memories=2, shut=3), "note/shut.md": "---\nplatforms: rust\n---\n"}
    vault = write_tree(there, public_tmp / "vault")
    (vault / "shut").chmod(0o000)
    for path in (f"memories/{MONTH}/0.md", "note/shut.md"):
        (vault / path).chmod(0o000)
    done = run_python(["-c", SHUT, str(vault)], as_user=NOBODY, cwd=public_tmp, reached=[public_tmp])
    assert done.out == "Found(folder='memories', state='configured', counts={'memories': 1}) ()\n", done


def test_looking_changes_nothing(tmp_path: Path, vault_bytes: Callable[[Path], Snapshot]) -> None:
    vault = build_obsidian_mind(tmp_path / "vault")
    before = vault_bytes(vault)
    find_memories(vault, "elsewhere")
    platforms_of(vault, "kestrel", memory_root="memories")
    memory_folder(vault, load_manifest(vault))
    assert vault_bytes(vault) == before


def test_seven_thousand_notes_cost_less_than_two_seconds(write_tree: WriteTree) -> None:
    vault = write_tree(tree(memories=1))
    note, memory = vault / "note.md", vault / f"memories/{MONTH}/0.md"
    note.write_text("---\ndate: 2026-01-01\ntags:\n  - work-note\n---\n\n# Note\n\n" + "some words " * 400)
    for folder in range(90):
        (vault / f"area {folder % 9}/sub {folder}").mkdir(parents=True)
    for n in range(6_300):
        os.link(note, vault / f"area {n % 9}/sub {n % 90}/{n}.md")
    for n in range(1, 700):
        os.link(memory, memory.with_name(f"{n}.md"))
    began = time.process_time()
    assert find_memories(vault, "memories").counts == {"memories": 700}
    assert platforms_of(vault, "kestrel", memory_root="memories") == ()
    assert time.process_time() - began < 2.0


# ── the folder, at no cost where all is as it should be


@pytest.mark.parametrize(
    ("there", "folder"),
    [
        ({}, "memories"),
        (tree(memories=1), "memories"),
        (tree(lessons=2), "lessons"),
        (tree(lessons=2, other=1), "lessons"),
        ({"work/archive/2025/a.md": "# A", "photos/2025/06/b.md": "# B"}, "memories"),
    ],
    ids=["none", "there", "renamed", "split", "other months"],
)
def test_the_memory_folder_is_the_declared_one_or_where_they_are(
    write_tree: WriteTree, there: Mapping[str, str], folder: str
) -> None:
    vault = write_tree({"Home.md": "# Home", **there})
    assert memory_folder(vault, load_manifest(vault)) == folder


# ── platforms of a project


@pytest.mark.parametrize(
    ("properties", "platforms"),
    [
        ("platforms: [typescript, postgres]", ("typescript", "postgres")),
        ('platforms: ["postgres", "C++, old"]', ("postgres", "C++, old")),
        ("platforms:\n  - typescript\n  - 'postgres'", ("typescript", "postgres")),
        ("platforms:\n- typescript", ("typescript",)),
        ("platforms: rust", ("rust",)),
        ("platforms: [rust, rust, '']", ("rust",)),
        ("platforms: []", ()),
        ("platforms:", ()),
        ("platforms: {rust: 1}", ()),
        ("platforms: [[rust], go]", ("go",)),
        ("other: rust", ()),
        (f'aliases: ["{"long " * 2000}"]\nplatforms: rust', ("rust",)),
    ],
)
def test_a_projects_note_declares_its_platforms(
    write_tree: WriteTree, properties: str, platforms: tuple[str, ...]
) -> None:
    vault = write_tree({"a/deep/down/somewhere/Kestrel.md": f"---\n{properties}\n---\n\n# Kestrel\n"})
    assert platforms_of(vault, "kestrel", memory_root="memories") == platforms


def declaring(platform: str) -> str:
    return f"---\nplatforms: {platform}\n---\n"


@pytest.mark.parametrize(
    ("there", "platforms"),
    [
        ({"b/kestrel.md": declaring("b"), "a/kestrel.md": declaring("a")}, ("a",)),
        ({"a/b/kestrel.md": declaring("deep"), "kestrel.md": declaring("top")}, ("top",)),
        ({"a/kestrel.md": "# no properties", "b/kestrel.md": declaring("b")}, ()),
        ({"memories/2026/01/kestrel.md": declaring("memory")}, ()),
        ({"Memories/kestrel.md": declaring("memory")}, ()),
        ({"notes/memories/kestrel.md": declaring("note")}, ("note",)),
        ({".trash/kestrel.md": declaring("gone"), "node_modules/kestrel.md": declaring("gone")}, ()),
        ({"kestrel-api.md": declaring("other"), "my kestrel.md": declaring("other"), "kestrel.txt": "x"}, ()),
        ({"private/kestrel.md": "---\nprivate: true\nplatforms: rust\n---\n"}, ("rust",)),
    ],
)
def test_the_first_note_of_its_name_counts(
    write_tree: WriteTree, there: Mapping[str, str], platforms: tuple[str, ...]
) -> None:
    assert platforms_of(write_tree(there), "Kestrel", memory_root="memories") == platforms


def test_the_usual_projects_have_theirs(tmp_path: Path) -> None:
    vault = build_obsidian_mind(tmp_path / "vault")
    assert platforms_of(vault, "kestrel", memory_root="memories") == ("typescript", "postgres")
    assert platforms_of(vault, "plover", memory_root="memories") == ("rust",)
    assert platforms_of(vault, "unheard-of", memory_root="memories") == ()


@pytest.mark.parametrize("project", ["../kestrel", "a/kestrel", "", "*", "kes"])
def test_a_name_is_compared_and_never_a_path(write_tree: WriteTree, project: str) -> None:
    vault = write_tree({"a/kestrel.md": declaring("rust")})
    assert platforms_of(vault / "a", project, memory_root="memories") == ()


def test_the_note_of_a_project_is_found_in_either_form_of_unicode(write_tree: WriteTree) -> None:
    vault = write_tree({"u\u0308bung.md": declaring("rust")})
    assert platforms_of(vault, "\u00fcbung", memory_root="memories") == ("rust",)


def test_no_note_is_found_through_a_link(tmp_path: Path, write_tree: WriteTree) -> None:
    outside = write_tree({"kestrel.md": declaring("rust")}, tmp_path / "outside")
    vault = write_tree({"Home.md": "# Home"}, tmp_path / "vault")
    (vault / "out").symlink_to(outside)
    (vault / "kestrel.md").symlink_to(outside / "kestrel.md")
    assert platforms_of(vault, "kestrel", memory_root="memories") == ()
