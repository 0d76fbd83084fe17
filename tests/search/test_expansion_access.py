"""Walking from one note for somebody who may not see all: what is not served is named nowhere in the answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vademecum.access import ANONYMOUS, OWNER, Caller
from vademecum.errors import NoteAmbiguous, NoteWithheld
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]
Answer = dict[str, Any]

PRIVATE = "---\nprivate: true\n---\n"
# What must not be named has this in its name, its title and its text.
MARK = "zq"


def expand(bench: Workbench, address: str, caller: Caller = OWNER, **options: int) -> Answer:
    return bench.app.expand(address, caller, **options).as_json()


def states(answer: Answer) -> list[tuple[str, str]]:
    return [(link["target"], link["state"]) for link in answer["links_out"]]


def paths(notes: list[Answer]) -> list[str]:
    return [note["path"] if "path" in note else note["note"]["path"] for note in notes]


def names_something_hidden(told: Answer | str) -> bool:
    return MARK in (told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)).casefold()


HIDDEN: dict[str, tuple[str, dict[str, str]]] = {
    "a property": ("Zqhush.md", {"Zqhush.md": PRIVATE + "# zqtitle\nzqtext [[Open]] [[Plan]]"}),
    "a tag": ("Zqhush.md", {"Zqhush.md": "#private\n# zqtitle\nzqtext [[Open]] [[Plan]]"}),
    "a tag below": ("Zqhush.md", {"Zqhush.md": "---\ntags: [private/zqmore]\n---\n[[Open]] zqtext [[Plan]]"}),
    "its folder alone": ("zqdir/Plan.md", {"zqdir/Plan.md": PRIVATE + "zqtext [[Open]]", "y/Plan.md": "z"}),
    "never exposed": (
        "Zqkeys.md",
        {"Zqkeys.md": "# zqtitle\n[[Open]]", "vault-manifest.json": '{"mcp_exposed_roots": [".", "Open.md", "a", "b"],'
         ' "mcp_never_expose": ["Zqkeys.md"]}'},
    ),
    "outside the roots": (
        "zqout/Plan.md",
        {"zqout/Plan.md": "# zqtitle\n[[Open]]", "vault-manifest.json": '{"mcp_exposed_roots": ["Open.md", "a"]}'},
    ),
    "the memory root": (
        "memories/Zqhush.md",
        {"memories/Zqhush.md": "# zqtitle\n[[Open]]", "vault-manifest.json": '{"mcp_exposed_roots": ["Open.md", "a"]}'},
    ),
    "excluded": ("out/Zqhush.md", {"out/Zqhush.md": PRIVATE + "zqtext [[Open]]"}),
    "empty": ("zqempty.md", {"zqempty.md": ""}),
    "unreadable bytes": ("zqbinary.md", {"zqbinary.md": "zq\x00"}),
}  # fmt: skip


@pytest.mark.parametrize("caller", [PROJECT, ANONYMOUS], ids=["project", "anonymous"])
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("is_away", [False, True], ids=["there", "away"])
def test_a_note_that_is_not_served_is_named_nowhere(
    bench: Workbench, write_tree: WriteTree, caller: Caller, name: str, is_away: bool
) -> None:
    _, hidden = HIDDEN[name]
    tree = {"Open.md": "[[Plan]] [[a/next]]", "a/next.md": "[[Open]]", "a/b/Plan.md": "plan", **hidden}
    root = write_tree(tree)
    bench.add(root, exclude=["out/"])
    if is_away:
        root.rename(root.with_name("off"))
    answer = bench.app.expand("Open", caller, depth=5)
    assert not names_something_hidden(answer.as_json())
    assert not names_something_hidden(answer.receipt.line())
    assert "a/next.md" in paths(answer.as_json()["links_back"])


@pytest.mark.parametrize("name", ["a property", "a tag", "its folder alone"])
def test_its_owner_sees_a_private_note_everywhere(bench: Workbench, write_tree: WriteTree, name: str) -> None:
    path, hidden = HIDDEN[name]
    bench.add(write_tree({"Open.md": f"[[{Path(path).stem}]]", "a/x.md": "x", **hidden}))
    answer = expand(bench, "Open")
    assert path in paths(answer["links_back"])
    assert path in [answer["links_out"][0]["note"]["path"], *answer["links_out"][0]["candidates"]]
    assert path in paths(answer["folder"]["notes"]) or "zqdir" in answer["folder"]["folders"]
    assert expand(bench, path)["note"]["private"] is True
    assert "private" not in answer["note"]


@pytest.mark.parametrize("caller", [PROJECT, ANONYMOUS], ids=["project", "anonymous"])
def test_a_link_to_a_private_note_is_withheld_and_not_sent_to_a_namesake(
    bench: Workbench, write_tree: WriteTree, caller: Caller
) -> None:
    bench.add(write_tree({
        "n.md": "[[Plan]] [[Nick]] [[Plan#One]] [[Plan#Two]]",
        "Plan.md": PRIVATE + "# One",
        "a/Plan.md": "# One",
        "b/Plan.md": "# Two",
        "c.md": "---\nprivate: true\naliases: [Nick]\n---\nx",
        "long/folder/d.md": "---\naliases: [Nick]\n---\nx",
    }))  # fmt: skip
    answer = expand(bench, "n", caller)
    for link in answer["links_out"]:
        shown = [link[name] for name in ("state", "via", "note", "file", "reason", "anchor_found", "candidates")]
        assert shown == ["withheld", None, None, None, None, None, []]
    assert answer["unresolved"] == answer["ambiguous"] == []
    assert answer["receipt"]["withheld"] == {"count": 2, "by_reason": {"private": 2}}
    assert [path for path, _ in states(expand(bench, "n"))] == [path for path, _ in states(answer)]
    assert {state for _, state in states(expand(bench, "n"))} == {"resolved"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"out/zqdir/File.md": "x"}, "excluded"),
        ({"out/zqdir/File.md": "x", "zqdir/deep/er/File.md": ""}, "excluded"),
        ({"zqdir/File.md": ""}, "empty"),
        ({"zqdir/File.md": "x\x00"}, "binary"),
        ({"zqdir/File": "x", "vault-manifest.json": '{"mcp_exposed_roots": ["Open.md"]}'}, "not_read"),
    ],
)
def test_a_file_that_may_be_a_private_note_is_withheld_like_one(
    bench: Workbench, write_tree: WriteTree, files: dict[str, str], reason: str
) -> None:
    bench.add(write_tree({"Open.md": "[[File]]", **files}), exclude=["out/"])
    answer = expand(bench, "Open", PROJECT)
    assert states(answer) == [("File", "withheld")]
    assert answer["links_out"][0]["reason"] is None
    assert not names_something_hidden(answer)
    if reason != "not_read":  # of these, a manifest that keeps them back keeps them from their owner's agents too
        assert expand(bench, "Open")["links_out"][0]["file"] in files


def test_where_a_link_leads_does_not_depend_on_who_asks(bench: Workbench, write_tree: WriteTree) -> None:
    files = {"n.md": "[[Same]] [[x/Same]]", "a/Same.md": "x", "b/Same.md": PRIVATE, "c/x/Same.md": "y"}
    bench.add(write_tree(files))
    mine, theirs = expand(bench, "n"), expand(bench, "n", PROJECT)
    assert [link["note"] for link in mine["links_out"]] == [link["note"] for link in theirs["links_out"]]
    assert mine["ambiguous"] == [{"target": "Same", "chosen": "a/Same.md", "candidates": ["b/Same.md", "c/x/Same.md"]}]
    assert theirs["ambiguous"] == [{"target": "Same", "chosen": "a/Same.md", "candidates": ["c/x/Same.md"]}]


def test_a_private_note_is_no_bridge_to_others(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "[[secret]]", "secret.md": PRIVATE + "[[far]]", "far.md": "x"}))
    assert paths(expand(bench, "n", depth=3)["around"]) == ["far.md"]
    answer = expand(bench, "n", PROJECT, depth=3)
    assert answer["around"] == []
    assert answer["receipt"]["withheld"]["by_reason"] == {"private": 1}


@pytest.mark.parametrize("address", ["Zqhush", "zqdir/Zqhush.md", "ROOT/zqdir/Zqhush.md", "Zqhush#H"])
def test_a_private_note_is_expanded_for_its_owner_alone(bench: Workbench, write_tree: WriteTree, address: str) -> None:
    root = write_tree({"zqdir/Zqhush.md": PRIVATE + "# H\n[[zqlink]]", "n.md": "x"})
    bench.add(root)
    address = address.replace("ROOT", str(root))
    for caller in (PROJECT, ANONYMOUS):
        with pytest.raises(NoteWithheld) as caught:
            expand(bench, address, caller)
        assert not names_something_hidden((caught.value.message + caught.value.hint).replace(address, ""))
    assert expand(bench, address)["note"]["private"] is True


def test_an_ambiguity_names_only_notes_that_may_be_seen(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"zqdir/Same.md": PRIVATE, "b/Same.md": "y", "c/Same.md": "z"}))
    with pytest.raises(NoteAmbiguous) as caught:
        expand(bench, "Same", PROJECT)
    assert not names_something_hidden(caught.value.message + caught.value.hint)
    assert "2 notes" in caught.value.message


ROLES: dict[str, dict[str, str]] = {
    "target": {"Open.md": "[[Plan]]", "zqdir/Plan.md": "x"},
    "candidate": {"Open.md": "[[Plan]]", "a/Plan.md": "x", "zqdir/Plan.md": "x"},
    "backlink": {"Open.md": "x", "zqdir/zqback.md": "[[Open]]"},
    "sibling": {"Open.md": "x", "zqsibling.md": "# zqtitle"},
    "folder below": {"Open.md": "x", "zqdir/deep/er/n.md": "x"},
    "further away": {"Open.md": "[[a]]", "a.md": "x", "zqdir/zqfar.md": "[[a]]"},
    "bridge": {"Open.md": "[[Plan]]", "zqdir/Plan.md": "[[zqfar]]", "zqdir/zqfar.md": "x"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_note_made_private_after_the_sync_is_not_named_to_a_project(
    bench: Workbench, write_tree: WriteTree, later: Callable[[float], None], role: str
) -> None:
    root = write_tree(ROLES[role])
    later(10)
    bench.add(root)
    assert names_something_hidden(expand(bench, "Open", PROJECT, depth=3))
    for path in ROLES[role]:
        if "zq" in path:
            (root / path).write_text(PRIVATE + ROLES[role][path])
    answer = expand(bench, "Open", PROJECT, depth=3)
    assert not names_something_hidden(answer)
    assert answer["receipt"]["withheld"]["by_reason"].keys() == {"private"}
    assert names_something_hidden(expand(bench, "Open", OWNER, depth=3))


def test_a_manifest_that_comes_after_the_sync_narrows_at_once(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"brain/Open.md": "[[x]] [[y]]", "brain/x.md": "x", "zqout/y.md": "[[Open]]"})
    bench.add(root)
    (root / "vault-manifest.json").write_text('{"mcp_exposed_roots": ["brain"]}')
    answer = expand(bench, "Open", PROJECT, depth=2)
    assert not names_something_hidden(answer)
    assert states(answer) == [("x", "resolved"), ("y", "withheld")]


def test_the_path_of_a_note_that_was_not_read_is_for_its_owner(bench: Workbench, write_tree: WriteTree) -> None:
    """A private note that its cloud took back keeps its rows, and is listed as not read: by its path."""
    root = write_tree({"n.md": "wombat", "zqhush.md": PRIVATE + "wombat [[n]]", "zqempty.md": ""})
    source = bench.add(root)
    (root / "zqhush.md").rename(root / ".zqhush.md.icloud")
    bench.sync(source)
    for caller in (PROJECT, ANONYMOUS):
        answer = expand(bench, "n", caller)
        assert not names_something_hidden(answer)
        assert answer["receipt"]["skipped"]["count"] == 1
        assert not names_something_hidden(bench.recall("wombat", caller=caller).as_json())
    assert [item["path"] for item in expand(bench, "n")["receipt"]["skipped"]["sample"]] == ["zqempty.md", "zqhush.md"]


def test_the_receipt_counts_what_was_met_and_held_back_each_once(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(
        write_tree({"n.md": "[[a]] [[a#h]] ![[a]]", "a.md": PRIVATE + "[[n]]", "d/n2.md": "[[e]]", "e.md": PRIVATE})
    )
    answer = bench.app.expand("n", PROJECT, depth=3)
    assert answer.receipt.as_json()["withheld"] == {"count": 2, "by_reason": {"private": 2}}
    assert "2 notes withheld (2 private)" in answer.receipt.line()


def test_an_attachment_does_not_name_a_folder_that_holds_only_private_notes(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree({"Open.md": "[[pic.png]]", "zqdir/Diary.md": PRIVATE, "zqdir/pic.png": "x"}))
    assert states(expand(bench, "Open", PROJECT)) == [("pic.png", "withheld")]
    assert not names_something_hidden(expand(bench, "Open", PROJECT))
    assert "zqdir" not in "".join(bench.app.export_graph(PROJECT))
    assert expand(bench, "Open")["links_out"][0]["file"] == "zqdir/pic.png"


def test_a_namesake_that_has_just_become_private_makes_nothing_ambiguous(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"One/Twin.md": "first", "zqdir/Twin.md": "second"})
    bench.add(root)
    (root / "zqdir/Twin.md").write_text(PRIVATE)
    assert expand(bench, "Twin", PROJECT)["note"]["path"] == "One/Twin.md"
    assert bench.app.read("Twin", PROJECT).path == "One/Twin.md"
