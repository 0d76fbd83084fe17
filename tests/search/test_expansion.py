"""Walking from one note: where its links lead, what leads to it, and what lies around it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.access import OWNER, Caller
from vademecum.errors import NoteAmbiguous, NoteError, NoteEvicted, NoteNotFound, OutsideRoot
from workbench import PROJECT, Workbench

WriteTree = Callable[..., Path]
Answer = dict[str, Any]

PRIVATE = "---\nprivate: true\n---\n"


def expand(bench: Workbench, address: str, caller: Caller = OWNER, **options: int) -> Answer:
    return bench.app.expand(address, caller, **options).as_json()


def out_of(answer: Answer, *fields: str) -> list[tuple[Any, ...]]:
    """Of each link that a note holds: its target, its state, and these fields."""
    return [tuple(link[name] for name in ("target", "state", *fields)) for link in answer["links_out"]]


def paths(notes: list[Answer]) -> list[str]:
    return [note["path"] if "path" in note else note["note"]["path"] for note in notes]


# ── the note itself


def test_a_note_is_shown_with_its_outline_blocks_tags_aliases_and_folder(
    bench: Workbench, write_tree: WriteTree
) -> None:
    text = (
        "---\ntitle: The Guide\naliases: [B, A]\ntags: [two]\n---\n"
        "# One\n\ntext ^b1\n\n## Sub\n\n- item ^b2\n- no\n#one"
    )
    root = write_tree({"d/n.md": text, "d/m.md": "# M", "d/e/f/x.md": "x", "d/g/y.md": "y", "z.md": "z"})
    source = bench.add(root, name="Notes")
    answer = expand(bench, "n")
    assert answer["note"] == {
        "source_id": source.id,
        "source_kind": "obsidian",
        "source_root": str(root),
        "source_name": "Notes",
        "path": "d/n.md",
        "source_path": f"{root}/d/n.md",
        "title": "The Guide",
        "aliases": ["A", "B"],
        "tags": ["one", "two"],
        "stale": False,
    }
    assert answer["headings"] == [
        {"level": 1, "text": "One", "line": 6},
        {"level": 2, "text": "Sub", "line": 10},
    ]
    assert answer["blocks"] == [
        {"id": "b1", "line_start": 8, "line_end": 8},
        {"id": "b2", "line_start": 12, "line_end": 12},
    ]
    assert answer["folder"] == {
        "path": "d",
        "notes": [{"path": "d/m.md", "source_path": f"{root}/d/m.md", "title": "M"}],
        "folders": ["d/e", "d/g"],
    }


def test_a_note_alone_has_empty_lists_and_not_absent_ones(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "x"}))
    answer = expand(bench, "n", depth=5)
    lists = ("headings", "blocks", "links_out", "links_back", "unresolved", "ambiguous", "around")
    assert {name: answer[name] for name in lists} == {name: [] for name in lists}
    assert answer["folder"] == {"path": "", "notes": [], "folders": []}


@pytest.mark.parametrize(
    "address", ["d/Guide.md", "d/Guide", "Guide.md", "Guide", "ROOT/d/Guide.md", "Guide#One", "Guide:1"]
)
def test_a_note_is_addressed_as_in_reading(bench: Workbench, write_tree: WriteTree, address: str) -> None:
    root = write_tree({"d/Guide.md": "# One", "x/Other.md": "y"})
    bench.add(root)
    assert expand(bench, address.replace("ROOT", str(root)))["note"]["path"] == "d/Guide.md"


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nothing", NoteNotFound),
        ("", OutsideRoot),
        ("../n.md", OutsideRoot),
        ("/etc/hosts", OutsideRoot),
        ("ROOT/nothing.md", NoteNotFound),
        ("Same", NoteAmbiguous),
        ("excluded", NoteNotFound),
        ("pic.png", NoteNotFound),
        ("a\x00b", OutsideRoot),
    ],
)
def test_what_cannot_be_expanded_is_an_error_of_ours(
    bench: Workbench, write_tree: WriteTree, address: str, error: type[NoteError]
) -> None:
    root = write_tree({"n.md": "x", "a/Same.md": "x", "b/Same.md": "y", "out/excluded.md": "x", "pic.png": "x"})
    bench.add(root, exclude=["out/"])
    with pytest.raises(NoteError) as caught:
        expand(bench, address.replace("ROOT", str(root)))
    assert type(caught.value) is error


@settings(deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=20), st.integers(-2, 7), st.integers(0, 3))
def test_no_address_depth_or_limit_ends_in_an_error_that_is_not_ours(
    crowd: Workbench, address: str, depth: int, limit: int
) -> None:
    for caller in (OWNER, PROJECT):
        try:
            expand(crowd, address, caller, depth=depth, limit=limit)
        except NoteError as exc:
            assert exc.message


@pytest.fixture
def crowd(bench: Workbench, write_tree: WriteTree) -> Workbench:
    bench.add(write_tree({f"{name}.md": f"[[{other}]]" for name, other in zip("abcdef", "bcdefa", strict=True)}))
    return bench


# ── links


def test_each_link_says_where_it_leads(bench: Workbench, write_tree: WriteTree) -> None:
    text = (
        '---\nup: "[[Parent]]"\n---\n'
        "[[Parent|shown]] ![[pic.png]] [[Board]] [[out/gone]] [[empty]] [[nowhere]] [[Nick]]\n![[sub/deep#Head]]"
    )
    files = {
        "n.md": text, "x/Parent.md": "# The Parent", "img/pic.png": b"\x89", "Board.canvas": "{}", "out/gone.md": "x",
        "empty.md": "", "real.md": "---\naliases: nick\n---\nx", "sub/deep.md": "# Head",
    }  # fmt: skip
    root = write_tree(files)
    bench.add(root, exclude=["out/"])
    answer = expand(bench, "n")
    assert out_of(answer, "via", "file", "reason") == [
        ("Parent", "resolved", "name", None, None),
        ("Parent", "resolved", "name", None, None),
        ("pic.png", "not_indexed", "name", "img/pic.png", "not_read"),
        ("Board", "not_indexed", "path", "Board.canvas", "not_read"),
        ("out/gone", "not_indexed", "path", "out/gone.md", "excluded"),
        ("empty", "not_indexed", "path", "empty.md", "empty"),
        ("nowhere", "unresolved", None, None, None),
        ("Nick", "resolved", "alias", None, None),
        ("sub/deep", "resolved", "path", None, None),
    ]
    assert answer["links_out"][0] == {
        "target": "Parent", "heading": None, "block": None, "label": None, "property": "up", "embed": False, "line": 2,
        "state": "resolved", "via": "name", "file": None, "reason": None, "anchor_found": None, "candidates": [],
        "note": {"path": "x/Parent.md", "source_path": f"{root}/x/Parent.md", "title": "The Parent"},
    }  # fmt: skip
    last = answer["links_out"][-1]
    assert (last["embed"], last["heading"], last["anchor_found"], last["line"]) == (True, "Head", True, 5)
    assert answer["unresolved"] == ["nowhere"]
    assert answer["ambiguous"] == []


@pytest.mark.parametrize(
    ("anchor", "found"),
    [
        ("#One", True),
        ("#one", True),
        ("#One#Two", True),
        ("#Two", True),
        ("#Two#One", False),
        ("#Three", False),
        ("#^id", True),
        ("#^ID", True),
        ("#^gone", False),
        ("#Hidden", False),
        ("#A: b [c]", True),
        ("", None),
    ],
)
def test_a_link_into_a_note_says_whether_the_place_is_there(
    bench: Workbench, write_tree: WriteTree, anchor: str, found: bool | None
) -> None:
    target = "# One\n\ntext ^id\n\n## Two\n\n# A: b [c]\n\n```\n# Hidden\n```"
    bench.add(write_tree({"n.md": f"[x](<Target.md{anchor}>)", "Target.md": target}))
    assert out_of(expand(bench, "n"), "anchor_found") == [("Target.md", "resolved", found)]


def test_a_link_that_could_mean_several_names_them_and_the_chosen_one(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "[[Same]] [[pic.png]] [[one]]", "b/Same.md": "x", "a/Same.md": "x", "cc/Same.md": "x",
                          "y/pic.png": "p", "x/pic.png": "p", "one.md": "x"}))  # fmt: skip
    answer = expand(bench, "n")
    assert answer["ambiguous"] == [
        {"target": "Same", "chosen": "a/Same.md", "candidates": ["b/Same.md", "cc/Same.md"]},
        {"target": "pic.png", "chosen": "x/pic.png", "candidates": ["y/pic.png"]},
    ]
    assert [link["candidates"] for link in answer["links_out"]] == [
        ["b/Same.md", "cc/Same.md"],
        ["y/pic.png"],
        [],
    ]


def test_links_lead_back_by_name_path_alias_property_and_embed(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({
        "t/Target.md": "---\naliases: [Nick]\n---\n[[Target]] [[#x]]",
        "1.md": "one\n[[Target]]",
        "2.md": "[[t/Target|shown]]",
        "3.md": "[[nick]]",
        "4.md": '---\nup: "[[Target]]"\n---\nx',
        "5.md": "![[Target#^b]]",
        "6.md": "[text](t/Target.md#h)",
        "t/7.md": "[[./Target]]",
        "8.md": "[[Targets]] `[[Target]]` [[/Target]] [[u/Target]]",
    })  # fmt: skip
    bench.add(root)
    answer = expand(bench, "Target")
    fields = ("target", "via", "property", "embed", "line", "heading", "block", "label")
    assert [(link["note"]["path"], *(link[name] for name in fields)) for link in answer["links_back"]] == [
        ("1.md", "Target", "name", None, False, 2, None, None, None),
        ("2.md", "t/Target", "path", None, False, 1, None, None, "shown"),
        ("3.md", "nick", "alias", None, False, 1, None, None, None),
        ("4.md", "Target", "name", "up", False, 2, None, None, None),
        ("5.md", "Target", "name", None, True, 1, None, "b", None),
        ("6.md", "t/Target.md", "path", None, False, 1, "h", None, "text"),
        ("t/7.md", "./Target", "relative", None, False, 1, None, None, None),
    ]
    assert answer["links_back"][0]["note"] == {"path": "1.md", "source_path": f"{root}/1.md", "title": "1"}


def test_a_link_leads_back_only_to_the_namesake_it_means(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a/Same.md": "x", "b/Same.md": "x", "a/n.md": "[[Same]]", "b/n.md": "[[Same]]",
                          "c.md": "[[b/Same]]", "d.md": "[[Same]]"}))  # fmt: skip
    assert paths(expand(bench, "a/Same")["links_back"]) == ["a/n.md", "d.md"]
    assert paths(expand(bench, "b/Same")["links_back"]) == ["b/n.md", "c.md"]


def test_c03_notes_and_links_in_different_unicode_forms_find_each_other(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"Notes/Cafe\u0301.md": "# x", "n.md": "[[Caf\u00e9]] [[Notes/Cafe\u0301]]"})
    bench.add(root)
    answer = expand(bench, "Notes/Caf\u00e9.md")
    assert paths(answer["links_back"]) == ["n.md", "n.md"]
    assert answer["note"]["path"] == "Notes/Caf\u00e9.md"
    assert Path(answer["note"]["source_path"]).exists()
    assert expand(bench, "Notes/Cafe\u0301.md")["note"] == answer["note"]


# ── further away


def test_a_chain_is_walked_in_both_directions_as_far_as_asked(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({f"{i}.md": f"[[{i + 1}]]" for i in range(10)}))
    for depth in range(1, 6):
        found = [
            (far["distance"], far["note"]["path"], far["over"]) for far in expand(bench, "4", depth=depth)["around"]
        ]
        assert found == [
            entry
            for step in range(2, depth + 1)
            for entry in ((step, f"{4 - step}.md", f"{5 - step}.md"), (step, f"{4 + step}.md", f"{3 + step}.md"))
            if int(entry[1][:-3]) >= 0
        ]


def test_a_cycle_ends_and_names_each_note_once(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({f"{i}.md": f"[[{(i + 1) % 6}]] [[{i}]]" for i in range(6)}))
    found = [(far["distance"], far["note"]["path"]) for far in expand(bench, "0", depth=5)["around"]]
    assert found == [(2, "2.md"), (2, "4.md"), (3, "3.md")]


def test_the_points_of_a_star_are_two_links_apart(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"hub.md": " ".join(f"[[{i}]]" for i in range(8))} | {f"{i}.md": "x" for i in range(8)}))
    answer = expand(bench, "3", depth=4)
    assert paths(answer["links_back"]) == ["hub.md"]
    assert [(far["distance"], far["over"]) for far in answer["around"]] == [(2, "hub.md")] * 7
    assert paths(answer["around"]) == [f"{i}.md" for i in range(8) if i != 3]
    assert expand(bench, "hub", depth=5)["around"] == []


def test_a_note_reached_in_two_ways_is_told_by_the_shorter_and_then_the_first_path(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(
        write_tree(
            {"n.md": "[[b]] [[a]]", "a.md": "[[far]]", "b.md": "[[far]] [[x]]", "x.md": "[[far]]", "far.md": "y"}
        )
    )
    assert [(far["distance"], far["note"]["path"], far["over"]) for far in expand(bench, "n", depth=3)["around"]] == [
        (2, "far.md", "a.md"),
        (2, "x.md", "b.md"),
    ]


def test_files_and_unresolved_names_are_no_bridge_between_notes(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"a.md": "![[p.png]] [[gone]]", "b.md": "![[p.png]] [[gone]]", "p.png": "x"}))
    assert expand(bench, "a", depth=5)["around"] == []


# ── limits


def test_each_list_is_cut_at_the_limit_and_the_rest_is_counted(bench: Workbench, write_tree: WriteTree) -> None:
    hub = "".join(f"# H{i}\n\n[[t{i}]] ^b{i}\n\n" for i in range(5))
    tree = {"hub.md": hub}
    tree |= {f"t{i}.md": f"[[far{i}]]" for i in range(5)} | {f"far{i}.md": "x" for i in range(5)}
    tree |= {f"back{i}.md": "[[hub]]" for i in range(4)} | {f"dir{i}/x.md": "x" for i in range(6)}
    bench.add(write_tree(tree))
    answer = expand(bench, "hub", depth=2, limit=2)
    assert [h["text"] for h in answer["headings"]] == ["H0", "H1"]
    assert [b["id"] for b in answer["blocks"]] == ["b0", "b1"]
    assert [t for t, _ in out_of(answer)] == ["t0", "t1"]
    assert paths(answer["links_back"]) == ["back0.md", "back1.md"]
    assert paths(answer["folder"]["notes"]) == ["back0.md", "back1.md"]
    assert answer["folder"]["folders"] == ["dir0", "dir1"]
    assert paths(answer["around"]) == ["far0.md", "far1.md"]
    assert answer["receipt"]["cut"] == {
        "headings": 3, "blocks": 3, "links_out": 3, "links_back": 2, "notes_of_the_folder": 12, "folders": 4,
        "around": 3,
    }  # fmt: skip
    line = bench.app.expand("hub", OWNER, depth=2, limit=2).receipt.line()
    assert "3 more links out not shown" in line
    assert "12 more notes of the folder not shown" in line


def test_what_fits_exactly_is_not_cut(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree({"n.md": "[[a]] [[b]]", "a.md": "x", "b.md": "x"}))
    answer = expand(bench, "n", limit=2)
    assert len(answer["links_out"]) == 2
    assert answer["receipt"]["cut"] == {}


def test_a_walk_over_a_huge_hub_stops_at_some_hundreds_and_says_so(bench: Workbench, write_tree: WriteTree) -> None:
    spokes = {f"{i:04}.md": "[[hub]]" for i in range(620)}
    bench.add(write_tree({"hub.md": "x", "start.md": "[[hub]]", **spokes}), "folder")
    answer = expand(bench, "start", depth=2, limit=1000)
    assert len(answer["around"]) == 500
    assert answer["receipt"]["cut"] == {"reached": 120}


# ── what is not there now


def test_a_target_whose_file_has_just_gone_is_away_and_counted(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[gone]] [[m]]", "gone.md": "[[n]] [[far]]", "m.md": "x", "far.md": "x"})
    bench.add(root)
    (root / "gone.md").unlink()
    answer = expand(bench, "n", depth=2)
    assert out_of(answer, "reason", "note") == [
        ("gone", "away", "vanished", None),
        ("m", "resolved", None, answer["links_out"][1]["note"]),
    ]
    assert answer["links_back"] == []
    assert paths(answer["folder"]["notes"]) == ["far.md", "m.md"]
    assert answer["around"] == []
    assert answer["receipt"]["withheld"] == {"count": 1, "by_reason": {"vanished": 1}}


def test_a_note_that_its_cloud_holds_is_away_for_all_but_its_owner(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[gone]]", "gone.md": "x"})
    bench.add(root)
    (root / "gone.md").rename(root / ".gone.md.icloud")
    assert out_of(expand(bench, "n", PROJECT), "reason") == [("gone", "away", "evicted")]
    with pytest.raises(NoteEvicted):
        expand(bench, "gone", PROJECT)
    assert out_of(expand(bench, "n"), "reason") == [("gone", "resolved", None)]
    assert expand(bench, "gone")["note"]["stale"] is True


def test_a_note_that_is_kept_and_listed_as_not_read_is_no_rival_of_itself(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree({"n.md": "[[gone]]", "gone.md": "x"})
    source = bench.add(root)
    (root / "gone.md").rename(root / ".gone.md.icloud")
    bench.sync(source)
    assert out_of(expand(bench, "n"), "candidates") == [("gone", "resolved", [])]


def test_a_note_replaced_by_a_link_is_not_followed(bench: Workbench, write_tree: WriteTree, tmp_path: Path) -> None:
    outside = tmp_path / "zqoutside.md"
    outside.write_text("zqtext")
    root = write_tree({"n.md": "[[m]]", "m.md": "x"})
    bench.add(root)
    (root / "m.md").unlink()
    os.symlink(outside, root / "m.md")
    answer = expand(bench, "n")
    assert answer["links_out"][0]["note"] is None
    assert "zq" not in json.dumps(answer)
    with pytest.raises(OutsideRoot):
        expand(bench, "m")


def test_a_note_that_has_just_gone_cannot_be_expanded(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "x", "m.md": "y"})
    bench.add(root)
    (root / "n.md").unlink()
    with pytest.raises(NoteNotFound):
        expand(bench, "n")


def test_a_note_changed_since_it_was_indexed_is_marked_stale(
    bench: Workbench, write_tree: WriteTree, later: Callable[[float], None]
) -> None:
    root = write_tree({"n.md": "x"})
    later(10)
    bench.add(root)
    assert expand(bench, "n")["note"]["stale"] is False
    (root / "n.md").write_text("y y")
    assert expand(bench, "n")["note"]["stale"] is True


def test_a_source_that_is_away_is_walked_as_it_was_and_says_so(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "[[m]] [[Zqhush]]", "m.md": "[[n]]", "Zqhush.md": PRIVATE + "[[n]]"})
    source = bench.add(root, name="Notes")
    root.rename(root.with_name("off"))
    answer = expand(bench, "n")
    assert answer["note"]["stale"] is True
    assert paths(answer["links_back"]) == ["Zqhush.md", "m.md"]
    assert answer["receipt"]["offline"] == [{"source_id": source.id, "name": "Notes", "stale_since": None}]
    assert "Notes is offline" in bench.app.expand("n", OWNER).receipt.line()
    theirs = expand(bench, "n", PROJECT)
    assert paths(theirs["links_back"]) == ["m.md"]
    assert out_of(theirs) == [("m", "resolved"), ("Zqhush", "withheld")]


# ── the receipt


def test_the_receipt_covers_the_source_of_the_note_alone(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"n.md": "x", "m.md": "y", "empty.md": "", "p.png": "p"}), name="Notes")
    bench.add(write_tree({"other.md": "z"}, write_tree({}).with_name("other")), name="Other")
    receipt = expand(bench, "n")["receipt"]
    assert receipt.pop("took_ms") >= 0
    assert receipt == {
        "searched": [
            {"source_id": source.id, "name": "Notes", "documents": 2, "state": "healthy", "stale_since": None}
        ],
        "offline": [],
        "skipped": {
            "count": 2,
            "by_reason": {"empty": 1, "not_read": 1},
            "sample": [{"source_id": source.id, "path": "empty.md", "reason": "empty"}],
        },
        "withheld": {"count": 0, "by_reason": {}},
        "cut": {},
    }
    line = bench.app.expand("n", OWNER).receipt.line()
    assert line.startswith("Receipt: searched 2 notes in Notes; 2 files not indexed (1 empty, 1 not read); ")


def test_a_disabled_source_is_not_walked(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({"n.md": "x"})
    source = bench.add(root)
    bench.app.registry.edit(source.id, enabled=False)
    for address in ("n", str(root / "n.md")):
        with pytest.raises(NoteError):
            expand(bench, address)


def test_a_walk_leaves_the_vault_as_it_was(
    bench: Workbench, write_tree: WriteTree, vault_bytes: Callable[[Path], object]
) -> None:
    root = write_tree({"n.md": "[[m]]", "m.md": PRIVATE})
    bench.add(root)
    before = vault_bytes(root)
    expand(bench, "n", depth=5)
    expand(bench, "n", PROJECT, depth=5)
    "".join(bench.app.export_graph(OWNER, outline=True))
    assert vault_bytes(root) == before
