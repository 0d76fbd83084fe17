"""The rows that keep a vault's own shape, through real syncs: what each kind of row says, and that none outlives it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from process import clean_environment
from vademecum.access import OWNER
from vademecum.sources import Source
from workbench import Workbench, content, counts, live_documents, selected

WriteTree = Callable[..., Path]
SHAPE = ("folder", "name", "link", "heading", "block", "tag", "skipped")


def rows(bench: Workbench, table: str, columns: str, order: str) -> list[tuple[Any, ...]]:
    """Rows of a table that belong to a note, each with the note's path first."""
    sql = f"select d.path as path, {columns} from {table} t join document d on d.id = t.document order by {order}"
    return [tuple(row.values()) for row in selected(bench.settings, sql)]


def names(bench: Workbench) -> list[tuple[Any, ...]]:
    return rows(bench, "name", "t.name, t.alias", "1, 2, 3")


def links(bench: Workbench) -> list[tuple[Any, ...]]:
    return rows(bench, "link", "t.line, t.name, t.target", "1, t.ordinal")


def folders(bench: Workbench) -> dict[str, tuple[str | None, list[str]]]:
    """Path → path of the folder above, and the notes in it."""
    found = selected(
        bench.settings,
        "select f.path, above.path as above, group_concat(d.path, '|' order by d.path) as notes from folder f"
        " left join folder above on above.id = f.parent left join document d on d.folder = f.id group by f.id",
    )
    return {row["path"]: (row["above"], row["notes"].split("|") if row["notes"] else []) for row in found}


def out_of(bench: Workbench, path: str) -> dict[str, tuple[str, str | None]]:
    """Where the links of a note lead: target → state, and path."""
    found = bench.app.expand(path, OWNER).as_json()
    return {
        link["target"]: (link["state"], link["note"]["path"] if link["note"] else link["file"])
        for link in found["links_out"]
    }


def back_to(bench: Workbench, path: str) -> list[str]:
    return [link["note"]["path"] for link in bench.app.expand(path, OWNER).as_json()["links_back"]]


# ── what the rows say


def test_folders_stand_in_their_parents_up_to_the_root(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "x", "a/b/c/n.md": "x", "a/n.md": "x", "z/pic.png": "x"}))
    assert folders(bench) == {
        "": (None, ["n.md"]),
        "a": ("", ["a/n.md"]),
        "a/b": ("a", []),
        "a/b/c": ("a/b", ["a/b/c/n.md"]),
    }


def test_a_note_is_found_by_its_name_without_suffix_and_by_its_aliases(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(
        write_tree({
            "a/Plan v3.1.md": "---\naliases: [The Plan, TCP/IP, plan V3.1]\n---\nx",
            "Cafe\u0301.MARKDOWN": "x",
        })
    )  # fmt: skip
    assert names(bench) == [
        ("Caf\u00e9.MARKDOWN", "caf\u00e9", ""),
        ("a/Plan v3.1.md", "ip", "TCP/IP"),
        ("a/Plan v3.1.md", "plan v3.1", ""),
        ("a/Plan v3.1.md", "plan v3.1", "plan V3.1"),
        ("a/Plan v3.1.md", "the plan", "The Plan"),
    ]


def test_a_link_row_says_what_the_note_says(bench: Workbench, write_tree: WriteTree) -> None:
    text = (
        '---\nup: "[[Parent]]"\nrelated: ["[[A]]", "[[B|b]]"]\n---\n'
        "[[Note#Head#Sub|shown]]\n![[Note#^block]]\n[text](dir/My%20Note.md#h)\n![[pic.png]]\n[[#here]] [[plain]]"
    )
    bench.add(write_tree({"n.md": text}))
    found = rows(bench, "link", "t.line, t.embed, t.name, t.target, t.heading, t.block, t.label, t.property", "ordinal")
    assert [row[1:] for row in found] == [
        (2, 0, "parent", "Parent", None, None, None, "up"),
        (3, 0, "a", "A", None, None, None, "related"),
        (3, 0, "b", "B", None, None, "b", "related"),
        (5, 0, "note", "Note", "Head#Sub", None, "shown", None),
        (6, 1, "note", "Note", None, "block", None, None),
        (7, 0, "my note", "dir/My Note.md", "h", None, "text", None),
        (8, 1, "pic.png", "pic.png", None, None, None, None),
        (9, 0, "plain", "plain", None, None, None, None),
    ]


def test_a_link_said_again_is_one_row_where_it_stands_first(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "[[A]] [[A|shown]]\n[[A#h]]\n![[A]]\n[[A]] [[a]]"}))
    assert [row[1:] for row in rows(bench, "link", "t.line, t.embed, t.target, t.heading", "ordinal")] == [
        (1, 0, "A", None),
        (2, 0, "A", "h"),
        (3, 1, "A", None),
        (4, 0, "a", None),
    ]


def test_a_target_longer_than_any_path_is_no_link(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": f"[[{'x' * 4096}]] [[{'y' * 4097}]]"}))
    assert [len(row[3]) for row in links(bench)] == [4096]


def test_c07_a_link_in_a_table_has_no_backslash(bench: Workbench, write_tree: WriteTree) -> None:
    table = "| Who | Note |\n|---|---|\n| a | [[Birds/Kiwi\\|the kiwi]] |\n"
    outside = "outside: [[Birds/Kiwi|the kiwi]] and ![[Birds/Kiwi#Diet\\|diet]]"
    bench.add(write_tree({"n.md": f"{table}\n{outside}", "Birds/Kiwi.md": "# Diet"}))
    assert {row[3] for row in links(bench)} == {"Birds/Kiwi"}
    found = bench.app.expand("n", OWNER).as_json()["links_out"]
    assert [(link["state"], link["note"]["path"]) for link in found] == [("resolved", "Birds/Kiwi.md")] * 2
    assert [link["label"] for link in found] == ["the kiwi", "diet"]


def test_c08_code_and_comments_hold_no_links_and_dotted_titles_are_whole(
    bench: Workbench, write_tree: WriteTree
) -> None:
    text = (
        "```bash\nwhile [[ $n -gt 3 ]]; do n=$((n-1)); done\n```\n~~~toml\n[[sinks.file]]\n~~~\n"
        "`[[just shown]]` and ``[[also shown]]``\n%% [[commented out]] %%\n"
        "Real: [[Releases/plan v3.1 draft]] and [[plan v3.1 draft.md]]"
    )
    bench.add(write_tree({"n.md": text, "Releases/plan v3.1 draft.md": "x"}))
    assert out_of(bench, "n") == {
        "Releases/plan v3.1 draft": ("resolved", "Releases/plan v3.1 draft.md"),
        "plan v3.1 draft.md": ("resolved", "Releases/plan v3.1 draft.md"),
    }


def test_headings_blocks_and_tags_are_kept_with_their_lines(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "---\ntags: [One/Two]\n---\n# H #three\n\ntext ^id\n\n## I\n- a\n- b #one/two"}))
    assert rows(bench, "heading", "t.line, t.level, t.text", "t.line") == [
        ("n.md", 4, 1, "H #three"),
        ("n.md", 8, 2, "I"),
    ]
    assert rows(bench, "block", "t.first_line, t.last_line, t.name", "t.ordinal") == [
        ("n.md", 6, 6, "id"),
        ("n.md", 9, 9, None),
        ("n.md", 10, 10, None),
    ]
    assert rows(bench, "tag", "t.name, t.spelling", "t.name") == [
        ("n.md", "one/two", "One/Two"),
        ("n.md", "three", "three"),
    ]


def test_files_that_are_no_documents_are_listed_for_links(bench: Workbench, write_tree: WriteTree) -> None:
    files = {"n.md": "x", "img/Pic.PNG": "x", "B.canvas": "{}", "out/gone.md": "x", "empty.md": "", ".h/x.md": "x"}
    bench.add(write_tree(files), exclude=["out/"])
    assert selected(bench.settings, "select path, reason, name from skipped order by path") == [
        {"path": "B.canvas", "reason": "not_read", "name": "b"},
        {"path": "empty.md", "reason": "empty", "name": "empty"},
        {"path": "img/Pic.PNG", "reason": "not_read", "name": "pic.png"},
        {"path": "out/gone.md", "reason": "excluded", "name": "gone"},
    ]


# ── changes


def test_an_edited_note_says_what_it_says_now(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "---\naliases: [Old]\n---\n# Old\n[[Old]] #old ^old", "m.md": "[[m2]]"})
    source = bench.add(root)
    write_tree({"n.md": "---\naliases: [New]\n---\n\n# New\n[[New]] #new ^new"}, root)
    bench.sync(source)
    assert names(bench) == [("m.md", "m", ""), ("n.md", "n", ""), ("n.md", "new", "New")]
    assert links(bench) == [("m.md", 1, "m2", "m2"), ("n.md", 6, "new", "New")]
    assert rows(bench, "heading", "t.line, t.text", "1") == [("n.md", 5, "New")]
    assert rows(bench, "tag", "t.name", "1") == [("n.md", "new")]
    assert [row for row in rows(bench, "block", "t.name", "1") if row[1]] == [("n.md", "new")]


MOVES: dict[str, tuple[dict[str, str], list[str]]] = {
    "another name": ({"a/n.md": "a/m.md"}, ["", "a"]),
    "another folder": ({"a/n.md": "b/c/n.md"}, ["", "b", "b/c"]),
    "to the root": ({"a/n.md": "n.md"}, [""]),
    "deeper": ({"a/n.md": "a/b/c/n.md"}, ["", "a", "a/b", "a/b/c"]),
    "two that change places": ({"b/x.md": "a/x.md", "a/y.md": "b/y.md"}, ["", "a", "b"]),
    "round a ring": ({"a/1.md": "b/1.md", "b/2.md": "c/2.md", "c/3.md": "a/3.md"}, ["", "a", "b", "c"]),
    "a folder renamed": ({"a/1.md": "z/1.md", "a/b/2.md": "z/b/2.md", "a/b/3.md": "z/b/3.md"}, ["", "z", "z/b"]),
    "parent and child": ({"a/b/1.md": "a/1.md", "a/2.md": "a/b/2.md"}, ["", "a", "a/b"]),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_moved_note_takes_its_rows_along_and_leaves_no_folder_behind(
    bench: Workbench, write_tree: WriteTree, name: str
) -> None:
    moves, left = MOVES[name]
    root = write_tree({path: f"# Note {path}\n[[target of {path}]] #tag" for path in moves} | {"stays.md": "x"})
    source = bench.add(root)
    before = {row["path"]: row["id"] for row in live_documents(bench.settings)}
    for old in moves:
        (root / old).rename(root / old.replace("/", "_"))
    for old, new in moves.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old.replace("/", "_")).rename(root / new)
    bench.sync(source)
    after = {row["path"]: row["id"] for row in live_documents(bench.settings)}
    assert {old: after[new] for old, new in moves.items()} == {old: before[old] for old in moves}
    found = folders(bench)
    assert sorted(found) == left
    assert sorted(path for _, notes in found.values() for path in notes) == sorted([*moves.values(), "stays.md"])
    assert all(path.rpartition("/")[0] == folder for folder, (_, notes) in found.items() for path in notes)
    assert [(row[0], row[3]) for row in links(bench)] == sorted((new, f"target of {old}") for old, new in moves.items())


def test_a_note_that_arrives_in_a_folder_another_one_leaves_finds_it(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"b/x.md": "the text of x"})
    source = bench.add(root)
    (root / "a").mkdir()
    (root / "b/x.md").rename(root / "a/x.md")
    write_tree({"b/new.md": "quite another text"}, root)
    bench.sync(source)
    assert folders(bench) == {"": (None, []), "a": ("", ["a/x.md"]), "b": ("", ["b/new.md"])}


def test_deleting_notes_takes_emptied_folders_with_their_parents_and_no_others(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"a/b/c/n.md": "x", "a/b/m.md": "y", "d/e/n.md": "z", "k.md": "k"})
    source = bench.add(root)
    (root / "a/b/c/n.md").unlink()
    (root / "d/e/n.md").unlink()
    bench.sync(source)
    assert sorted(folders(bench)) == ["", "a", "a/b"]
    (root / "a/b/m.md").unlink()
    bench.sync(source)
    assert sorted(folders(bench)) == [""]
    assert {row[0] for row in names(bench)} == {"k.md"}


def test_a_deleted_note_leaves_no_row_of_its_shape(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "---\naliases: [N]\n---\n# H\n[[k]] #t ^b", "k.md": "k"})
    source = bench.add(root)
    (root / "n.md").unlink()
    bench.sync(source)
    left = counts(bench.settings)
    assert {table: left[table] for table in SHAPE} == {
        "folder": 1, "name": 1, "link": 0, "heading": 0, "block": 1, "tag": 0, "skipped": 0,
    }  # fmt: skip
    assert back_to(bench, "k") == []


# ── what others do, and unchanged notes mean


def test_a_file_that_comes_is_what_an_unchanged_note_asked_for(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[Later]] ![[pic.png]]"})
    source = bench.add(root)
    assert out_of(bench, "n") == {"Later": ("unresolved", None), "pic.png": ("unresolved", None)}
    write_tree({"deep/Later.md": "x", "img/pic.png": b"\x89"}, root)
    bench.sync(source)
    assert out_of(bench, "n") == {
        "Later": ("resolved", "deep/Later.md"),
        "pic.png": ("not_indexed", "img/pic.png"),
    }
    assert back_to(bench, "Later") == ["n.md"]


def test_a_file_that_goes_is_no_target_any_more(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "![[pic.png]] [[Board]]", "img/pic.png": "x", "Board.canvas": "{}"})
    source = bench.add(root)
    assert {state for state, _ in out_of(bench, "n").values()} == {"not_indexed"}
    (root / "img/pic.png").unlink()
    (root / "Board.canvas").rename(root / "Other.canvas")
    bench.sync(source)
    assert out_of(bench, "n") == {"pic.png": ("unresolved", None), "Board": ("unresolved", None)}
    assert selected(bench.settings, "select path from skipped") == [{"path": "Other.canvas"}]


def test_a_target_that_goes_leaves_its_links_unresolved_and_a_namesake_takes_over(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"n.md": "[[T]]", "T.md": "x", "deep/T.md": "y"})
    source = bench.add(root)
    assert out_of(bench, "n") == {"T": ("resolved", "T.md")}
    (root / "T.md").unlink()
    bench.sync(source)
    assert out_of(bench, "n") == {"T": ("resolved", "deep/T.md")}
    assert back_to(bench, "deep/T") == ["n.md"]
    (root / "deep/T.md").unlink()
    bench.sync(source)
    assert out_of(bench, "n") == {"T": ("unresolved", None)}


@pytest.mark.parametrize(
    ("new", "state"), [("moved/Target.md", ("resolved", "moved/Target.md")), ("Other.md", ("unresolved", None))]
)
def test_a_target_that_is_renamed_is_followed_by_its_name_alone(
    bench: Workbench, write_tree: WriteTree, new: str, state: tuple[str, str | None]
) -> None:
    root = write_tree({"n.md": "[[Target]]", "Target.md": "x"})
    source = bench.add(root)
    (root / new).parent.mkdir(exist_ok=True)
    (root / "Target.md").rename(root / new)
    bench.sync(source)
    assert out_of(bench, "n") == {"Target": state}


def test_an_alias_that_comes_and_goes_moves_the_links_of_unchanged_notes(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"n.md": "[[Nick]]", "real.md": "x"})
    source = bench.add(root)
    for text, state in (
        ("---\naliases: [Nick]\n---\nx", ("resolved", "real.md")),
        ("---\naliases: [Other]\n---\nx", ("unresolved", None)),
        ("---\nalias: nick\n---\nx", ("resolved", "real.md")),
        ("x", ("unresolved", None)),
    ):
        write_tree({"real.md": text}, root)
        bench.sync(source)
        assert out_of(bench, "n") == {"Nick": state}
    write_tree({"real.md": "---\naliases: [Nick]\n---\nx", "Nick.md": "y"}, root)
    bench.sync(source)
    assert out_of(bench, "n") == {"Nick": ("resolved", "Nick.md")}


def test_a_note_that_becomes_excluded_stays_a_target_and_comes_back(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[Out]]", "x/Out.md": "[[n]]", "deep/er/Out.md": "y"})
    source = bench.add(root)
    bench.app.registry.edit(source.id, exclude=["x/"])
    bench.sync(source)
    assert out_of(bench, "n") == {"Out": ("not_indexed", "x/Out.md")}
    assert back_to(bench, "n") == []
    assert "x" not in folders(bench)
    bench.app.registry.edit(source.id, exclude=[])
    bench.sync(source)
    assert out_of(bench, "n") == {"Out": ("resolved", "x/Out.md")}
    assert back_to(bench, "n") == ["x/Out.md"]


def test_what_lies_in_one_source_is_no_target_in_another(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "[[There]]"}))
    bench.add(write_tree({"There.md": "[[n]]"}, write_tree({}).with_name("other")))
    assert out_of(bench, "n") == {"There": ("unresolved", None)}
    assert back_to(bench, "There") == []


def test_a_removed_source_leaves_no_row_and_the_other_source_as_it_was(bench: Workbench, write_tree: WriteTree) -> None:
    notes = {"a/b/n.md": "---\naliases: [N]\n---\n# H\n[[k]] #t ^b", "k.md": "[[N]]", "pic.png": "x"}
    kept = bench.add(write_tree(notes))
    before, rows_before = content(bench.settings), counts(bench.settings)
    gone = bench.add(write_tree(notes, write_tree({}).with_name("other")))
    assert counts(bench.settings)["link"] == 2 * rows_before["link"]
    bench.app.remove(gone.id)
    assert content(bench.settings) == before
    assert counts(bench.settings) == rows_before
    assert all(rows_before[table] for table in SHAPE)
    bench.app.remove(kept.id)
    assert set(counts(bench.settings).values()) == {0}


# ── the way there does not matter


def vault(count: int, seed: int) -> dict[str, str]:
    """Notes with links by name, path and alias, some of which lead nowhere, in folders of several levels."""
    random_ = random.Random(seed)
    paths = [
        f"{'/'.join(random_.choices('abc', k=random_.randint(0, 3)))}/n{i % 30}.md".lstrip("/") for i in range(count)
    ]
    texts = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        targets = [f"n{random_.randint(0, 40)}", random_.choice(paths)[:-3], f"alias {random_.randint(0, 9)}"]
        texts[path] = (
            f"---\naliases: [alias {number % 10}]\nup: '[[{targets[0]}]]'\n---\n# Note {number}\n\n"
            f"[[{targets[1]}]] ![[{targets[2]}]] #t{number % 5}/u ^b{number}\n\n- item\n"
        )
    return texts


def graph_of(bench: Workbench) -> dict[str, list[dict[str, Any]]]:
    """Nodes and edges of everything, in an order of their own."""
    told = json.loads("".join(bench.app.export_graph(OWNER, outline=True)))
    return {name: sorted(told[name], key=lambda item: sorted(map(str, item.items()))) for name in ("nodes", "edges")}


def test_the_order_of_indexing_does_not_change_the_graph(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    texts = vault(60, seed=1)
    root = write_tree({})
    source = bench.add(root, "folder")
    left = sorted(texts)
    random.Random(2).shuffle(left)
    while left:
        write_tree({path: texts[path] for path in left[:7]}, root)
        left = left[7:]
        bench.sync(source)
    fresh = Workbench(tmp_path / "fresh")
    fresh.add(root, "folder")
    assert content(bench.settings) == content(fresh.settings)
    assert graph_of(bench) == graph_of(fresh)
    fresh.close()


def test_a_vault_that_was_changed_in_every_way_is_as_if_indexed_now(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    root = write_tree(vault(60, seed=3))
    source = bench.add(root, "folder")
    random_ = random.Random(4)
    for round_ in range(4):
        paths = sorted(root.rglob("*.md"))
        random_.shuffle(paths)
        for path in paths[:5]:
            path.unlink()
        for number, path in enumerate(paths[5:15]):
            new = root / random_.choice(["a", "b/d", "e/f/g", ""]) / f"moved {round_} {number}.md"
            new.parent.mkdir(parents=True, exist_ok=True)
            path.rename(new)
        write_tree(dict(random_.sample(sorted(vault(60, seed=10 + round_).items()), 10)), root)
        bench.sync(source)
    fresh = Workbench(tmp_path / "fresh")
    fresh.add(root, "folder")
    assert content(bench.settings) == content(fresh.settings)
    assert graph_of(bench) == graph_of(fresh)
    fresh.close()


@pytest.mark.parametrize("after_s", [0.4, 0.8])
def test_a_sync_killed_over_a_changed_vault_is_healed_by_the_next(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path, after_s: float
) -> None:
    root = write_tree(vault(250, seed=5))
    source = bench.add(root, "folder")
    bench.close()
    for path in random.Random(6).sample(sorted(root.rglob("*.md")), 60):
        new = root / "moved" / path.relative_to(root)
        new.parent.mkdir(parents=True, exist_ok=True)
        path.rename(new)
    write_tree(dict(sorted(vault(250, seed=7).items())[:40]), root)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", "sources", "sync", "--force", "--no-vectors"],
        env=environment(bench, source),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    healed, fresh = Workbench(bench.settings.home), Workbench(tmp_path / "fresh")
    healed.sync(source)
    fresh.add(root, "folder")
    assert content(healed.settings) == content(fresh.settings)
    assert graph_of(healed) == graph_of(fresh)
    healed.close()
    fresh.close()


def environment(bench: Workbench, source: Source) -> Mapping[str, str]:
    home = bench.settings.home
    extra = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {**clean_environment(), **extra, "VADE_HOME": str(home), "HOME": str(home.parent)}
