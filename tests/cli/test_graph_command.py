"""`vade expand` and `vade graph export`: what they print, how they end, and what no note can make them print."""

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from process import Finished, clean_environment
from vademecum.access import OWNER
from vademecum.cli.main import run
from workbench import Workbench

WriteTree = Callable[..., Path]
Vade = Callable[..., Finished]

PRIVATE = "---\nprivate: true\n---\n"
NOTES = {
    "Home.md": "---\naliases: [House, Base]\ntags: [area/house]\nup: '[[Index]]'\n---\n# Home\n\n## Rooms ^rooms\n\n"
    "[[Router]] [[gateway#Gone]] ![[rack.png]] [[nowhere]] [[Same]] [[out/Secret]] [[Hush#^x]]",
    "net/Router.md": "---\naliases: gateway\n---\n# The router\n\n[[Home]] ![[House]]\n",
    "net/far.md": "---\nrelated: '[[Router]]'\n---\nx",
    "a/Same.md": "x",
    "b/Same.md": "x",
    "Index.md": "# All\n\n[[Home]]",
    "Hush.md": PRIVATE + "# Zqtitle\n\nzqtext [[Home]] #zqtag",
    "zqdir/Hush2.md": PRIVATE + "[[Router]]",
    "out/Secret.md": "x",
    "rack.png": b"\x89PNG",
    "empty.md": "",
}


class InProcess:
    """The command run in this process: for tables of input that would take minutes in children."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str) -> Finished:
        self.capsys.readouterr()
        rc = run(["--as-owner", *words])
        out, err = self.capsys.readouterr()
        return Finished(("vade", *words), rc, out, err)


@pytest.fixture
def root(vade_home: Path, write_tree: WriteTree) -> Path:
    """A small vault, mounted as "Notes"."""
    folder = write_tree(NOTES)
    mount(vade_home, folder, name="Notes", exclude=["out/"])
    return folder


@pytest.fixture
def here(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    monkeypatch.chdir(tmp_path)
    return InProcess(capsys)


def mount(home: Path, folder: Path, **options: Any) -> None:
    """Connect a vault in this process, which is quicker than a child."""
    bench = Workbench(home)
    bench.add(folder, **options)
    bench.close()


def sections(text: str) -> dict[str, list[str]]:
    """The parts of the text, each by its first line."""
    parts = [part.split("\n") for part in text.rstrip("\n").split("\n\n")]
    return {lines[0].partition(" searched ")[0]: lines[1:] for lines in parts}


# ── expand


def test_expand_prints_what_lies_around_a_note(here: InProcess, root: Path) -> None:
    done = here("expand", "Home", "--depth", "2")
    assert (done.rc, done.err) == (0, "")
    told = sections(done.out)
    assert list(told) == [
        "Home",
        "Outline",
        "Blocks",
        "Links",
        "Linked from",
        "In the root",
        "Further away",
        "Receipt:",
    ]
    assert told["Home"] == [f"{root}/Home.md  (Notes)", "also called Base, House", "#area/house"]
    assert told["Outline"] == ["    6  Home", "    8    Rooms"]
    assert told["Blocks"] == ["    8  ^rooms"]
    assert told["Links"] == [
        "    4  up: Index  →  Index.md",
        "   10  Router  →  net/Router.md",
        "   10  gateway#Gone  →  net/Router.md (by alias) (no such heading or block)",
        "   10  embeds rack.png  →  rack.png (not read)",
        "   10  nowhere  →  nothing has this name",
        "   10  Same  →  a/Same.md; could also be b/Same.md",
        "   10  out/Secret  →  out/Secret.md (excluded)",
        "   10  Hush#^x  →  Hush.md (no such heading or block)",
    ]
    assert told["Linked from"] == [
        "    6  Hush.md  Zqtitle",
        "    3  Index.md  All",
        "    6  net/Router.md  The router",
        "    6  net/Router.md embeds it  The router",
    ]
    assert told["In the root"] == [
        "       a/", "       b/", "       net/", "       zqdir/", "       Hush.md  Zqtitle", "       Index.md  All",
    ]  # fmt: skip
    assert told["Further away"] == [
        "    2  net/far.md, over net/Router.md",
        "    2  zqdir/Hush2.md, over net/Router.md",
    ]
    receipt = done.out.rstrip("\n").rpartition("\n")[2]
    assert re.fullmatch(
        r"Receipt: searched 8 notes in Notes; 3 files not indexed \(1 empty, 1 excluded, 1 not read\); \d+ ms\.",
        receipt,
    )


def test_expand_prints_one_object_with_the_names_of_the_wire(here: InProcess) -> None:
    done = here("expand", "Home", "--json")
    assert (done.rc, done.err) == (0, "")
    assert list(done.json) == [
        "note", "headings", "blocks", "links_out", "links_back", "unresolved", "ambiguous", "folder", "around",
        "receipt",
    ]  # fmt: skip
    assert done.json["unresolved"] == ["nowhere"]
    assert done.json["ambiguous"] == [{"target": "Same", "chosen": "a/Same.md", "candidates": ["b/Same.md"]}]
    assert done.json["around"] == []


def test_a_relation_that_leads_here_is_told_by_its_property(here: InProcess) -> None:
    assert "    2  net/far.md as related  far" in here("expand", "Router").out


def test_a_section_without_entries_is_not_printed(here: InProcess) -> None:
    assert list(sections(here("expand", "b/Same").out)) == ["Same", "Receipt:"]


@pytest.mark.parametrize(("given", "most"), [("1", 1), ("2", 2), ("0", 1), ("-5", 1), ("5000", 8)])
def test_a_limit_cuts_each_list_and_is_clamped(here: InProcess, given: str, most: int) -> None:
    done = here("expand", "Home", f"--limit={given}", "--json")
    assert len(done.json["links_out"]) == most
    assert done.json["receipt"]["cut"].get("links_out", 0) == 8 - most
    text = here("expand", "Home", f"--limit={given}").out
    assert (f"{8 - most} more links out not shown" in text) == (most < 8)


def test_a_note_is_marked_when_it_is_private_or_has_changed(here: InProcess, root: Path) -> None:
    assert here("expand", "Hush").out.startswith("Zqtitle  [private]\n")
    (root / "Index.md").write_text("# All of it\n\nchanged")
    assert here("expand", "Index").out.startswith("All  [stale]\n")


def test_a_note_that_has_gone_or_is_withheld_is_told_in_words(vade: Vade, root: Path) -> None:
    (root / "net/Router.md").unlink()
    lines = vade("expand", "Home", as_owner=False).out.split("\n")
    assert "   10  Router  →  a note that is away (vanished)" in lines
    assert "   10  Hush#^x  →  a note that is not served to you" in lines
    assert "   10  out/Secret  →  a note that is not served to you" in lines


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_private_notes_are_named_to_their_owner_alone(vade: Vade, root: Path, form: list[str]) -> None:
    words = ["expand", "Home", "--depth", "5", *form]
    mine, theirs = vade(*words), vade(*words, as_owner=False)
    assert (mine.rc, theirs.rc) == (0, 0)
    assert "zq" in mine.out.casefold()
    assert "zq" not in theirs.out.casefold() + theirs.err.casefold()
    assert "Index.md" in theirs.out


# ── graph export


def test_export_prints_the_graph_in_each_form(here: InProcess) -> None:
    told = here("graph", "export")
    assert (told.rc, told.err) == (0, "")
    assert list(told.json) == ["nodes", "edges", "receipt"]
    assert told.json["receipt"]["searched"][0]["name"] == "Notes"
    assert here("graph", "export", "--format", "json").json["nodes"] == told.json["nodes"]
    xml = here("graph", "export", "--format", "graphml").out
    assert xml.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<graphml ')
    assert xml.count("<node ") == len(told.json["nodes"])
    dot = here("graph", "export", "--format", "dot").out
    assert dot.startswith("digraph vault {\n")
    assert dot.endswith("}\n")
    assert dot.count(" -> ") == len(told.json["edges"])


def test_export_takes_the_outline_where_it_is_asked_to(here: InProcess) -> None:
    kinds = [{node["kind"] for node in here("graph", "export", *extra).json["nodes"]} for extra in ([], ["--outline"])]
    assert kinds[1] - kinds[0] == {"heading", "block"}


def test_export_takes_one_source_by_its_id_the_start_of_it_or_its_name(
    here: InProcess, vade_home: Path, write_tree: WriteTree, tmp_path: Path
) -> None:
    mount(vade_home, write_tree({"other.md": "x"}, tmp_path / "second"), name="Other")
    ids = {node["source_id"] for node in here("graph", "export").json["nodes"]}
    assert len(ids) == 2
    [other] = {node["source_id"] for node in here("graph", "export", "--source", "Other").json["nodes"]}
    for wanted in (other, other[:-4], "other"):
        found = here("graph", "export", "--source", wanted).json
        assert {node["source_id"] for node in found["nodes"]} == {other}
        assert [place["name"] for place in found["receipt"]["searched"]] == ["Other"]


@pytest.mark.parametrize("form", ["json", "graphml", "dot"])
def test_export_names_private_notes_to_their_owner_alone(vade: Vade, root: Path, form: str) -> None:
    words = ("graph", "export", "--outline", "--format", form)
    mine, theirs = vade(*words), vade(*words, as_owner=False)
    assert (mine.rc, theirs.rc) == (0, 0)
    assert "zqtitle" in mine.out.casefold()
    assert "zq" not in theirs.out.casefold()
    assert "out/Secret" not in theirs.out
    assert "net/Router.md" in theirs.out


def test_without_a_source_the_graph_is_empty_and_no_note_is_found(vade: Vade) -> None:
    assert vade("graph", "export").json["nodes"] == []
    assert vade("expand", "Home").rc == 3


# ── how they end


ENDS: list[tuple[list[str], int, str]] = [
    (["expand", "Home"], 0, ""),
    (["expand", "nothing"], 3, "note_not_found"),
    (["expand", "out/Secret.md"], 3, "note_not_found"),
    (["expand", "empty.md"], 3, "note_not_found"),
    (["expand", "rack.png"], 3, "note_not_found"),
    (["expand", "Same"], 1, "note_ambiguous"),
    (["expand", "../Home.md"], 1, "outside_root"),
    (["expand", "/etc/hosts"], 1, "outside_root"),
    (["expand"], 2, "usage"),
    (["expand", "Home", "more"], 2, "usage"),
    (["expand", "Home", "--depth", "0"], 2, "usage"),
    (["expand", "Home", "--depth", "6"], 2, "usage"),
    (["expand", "Home", "--depth", "x"], 2, "usage"),
    (["expand", "Home", "--limit", "x"], 2, "usage"),
    (["expand", "Home", "--format", "dot"], 2, "usage"),
    (["graph", "export", "--source", "nothing"], 3, "source_not_found"),
    (["graph", "export", "--format", "svg"], 2, "usage"),
    (["graph", "export", "Home"], 2, "usage"),
    (["graph", "import"], 2, "usage"),
]


@pytest.mark.parametrize(("words", "rc", "code"), ENDS, ids=[" ".join(words) for words, _, _ in ENDS])
def test_every_end_has_its_exit_status_and_its_code(here: InProcess, words: list[str], rc: int, code: str) -> None:
    done = here(*words)
    assert done.rc == rc, done
    assert bool(done.out) == (rc == 0)
    assert bool(done.err) == (rc != 0)
    assert "Traceback" not in done.err
    if words[0] == "expand" and rc:
        error = here(*words, "--json").json["error"]
        assert error["code"] == code
        assert error["message"]


def test_what_is_withheld_ends_with_1_and_says_who_can_see_it(vade: Vade, root: Path) -> None:
    done = vade("expand", "Hush", "--json", as_owner=False)
    assert (done.rc, done.json["error"]["code"]) == (1, "note_withheld")
    assert "--as-owner" in done.json["error"]["hint"]
    assert "zq" not in (done.out + done.err).casefold()


def test_a_disabled_source_is_refused_where_it_is_named_and_left_out_where_it_is_not(here: InProcess) -> None:
    here("sources", "disable", "Notes")
    done = here("graph", "export", "--source", "Notes")
    assert (done.rc, done.out) == (1, "")
    assert "disabled" in done.err
    assert here("graph", "export").json["nodes"] == []
    assert here("expand", "Home").rc == 3


def test_a_source_that_is_away_is_shown_as_it_was(here: InProcess, root: Path) -> None:
    root.rename(root.with_name("off"))
    done = here("expand", "Home")
    assert done.rc == 0
    assert "Home  [stale]" in done.out
    assert "Notes is offline" in done.out
    assert here("graph", "export").json["receipt"]["offline"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["expand", "--help"], ["NOTE", "--depth", "--limit", "--json", "[default: 1", "[default: 50"]),
        (["graph", "--help"], ["export"]),
        (["graph", "export", "--help"], ["--source", "--format", "json|graphml|dot", "--outline", "Gephi"]),
    ],
    ids=["expand", "graph", "graph export"],
)
def test_each_command_explains_itself(here: InProcess, words: list[str], told: list[str]) -> None:
    done = here(*words)
    assert done.rc == 0
    assert [part for part in told if part not in done.out] == []


# ── whoever reads the output


def piped(vade_home: Path, *words: str, lines: int) -> tuple[int, str]:
    """Run the command and close its output after some lines; exit status and stderr."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vademecum", "--as-owner", *words],
        env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home.parent)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    for _ in range(lines):
        child.stdout.readline()
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    return child.wait(timeout=60), said


@pytest.mark.parametrize("lines", [0, 50])
@pytest.mark.parametrize(
    "words",
    [["graph", "export"], ["graph", "export", "--format", "dot"], ["expand", "hub", "--limit", "1000"]],
    ids=" ".join,
)
def test_a_reader_that_has_seen_enough_is_no_failure(
    vade_home: Path, write_tree: WriteTree, words: list[str], lines: int
) -> None:
    mount(
        vade_home, write_tree({f"{i}.md": f"[[hub]] [[{i + 1}]]" for i in range(700)} | {"hub.md": "x"}), kind="folder"
    )
    assert piped(vade_home, *words, lines=lines) == (0, "")


@pytest.mark.parametrize("words", [["graph", "export"], ["expand", "Home"], ["expand", "Home", "--json"]], ids=" ".join)
def test_an_output_that_is_full_is_said_in_a_sentence(vade_home: Path, root: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "vademecum", "--as-owner", *words],
            env={**clean_environment(), "VADE_HOME": str(vade_home), "HOME": str(vade_home.parent)},
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written")
    assert "Traceback" not in done.stderr


# ── what notes and arguments may not do


def control_characters(text: str) -> list[str]:
    return [c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")]


def test_control_characters_of_notes_never_reach_a_terminal(vade: Vade, vade_home: Path, write_tree: WriteTree) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    text = (
        '---\ntitle: "red \\e[31m \\a \\x9b title"\naliases: ["al \\e[31m"]\ntags: ["t\\e[31m"]\n'
        '"key \\e[31m": "[[n]]"\n---\n'
        f"# Head {evil}\n\n[[t {evil}#h {evil}]] [[n|{evil}]] #tag{evil} ^id"
    )
    mount(vade_home, write_tree({"n.md": text, "m.md": text, "d/o.md": "[[n]]"}), name=f"evil {evil}")
    for words in (
        ["expand", "n.md", "--depth", "3"],
        ["expand", "n.md", "--json"],
        ["graph", "export", "--outline"],
        ["graph", "export", "--outline", "--format", "graphml"],
        ["graph", "export", "--outline", "--format", "dot"],
        ["expand", evil.replace("\x1b", "x")],
        ["graph", "export", "--source", evil],
    ):
        done = vade(*words)
        assert control_characters(done.out) == [], words
        assert control_characters(done.err) == [], words


def test_a_note_cannot_fake_a_section_or_a_receipt(here: InProcess, vade_home: Path, write_tree: WriteTree) -> None:
    title = '"x\\n\\nLinks\\n    1  Fake  →  fake.md\\n\\nReceipt: all is well"'
    text = f"---\ntitle: {title}\n{title}: '[[Fake2]]'\naliases: [{title}]\n---\n# H\n"
    mount(vade_home, write_tree({"Fake.md": text, "Fake2.md": text}, Path(vade_home.parent, "fake")), kind="folder")
    for words in (["expand", "Fake.md"], ["expand", "Fake2.md"]):
        lines = here(*words).out.split("\n")
        assert sum(line.startswith("Receipt:") for line in lines) == 1
        assert lines.count("Links") <= 1
        assert not any(line.startswith("    1  Fake") for line in lines)


HOSTILE = [
    "", " ", "-", "--", "/", ".", "..", "~", "\n", "\x1b[31m", "\udcff", "🙂", "x" * 5000, "%s", "{}", "';drop table",
    "[a", "*", "?", "null", "0", "-1", "1e9", "9" * 30, "C:\\x", "#", "#^", ":", ":0", "a:1-", "a#", "#a", "e\u0301",
    "\u202e", "NaN", "[[Home]]", "Home\x00",
]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["expand", "?"],
        ["expand", "Home?"],
        ["expand", "Home", "--depth", "?"],
        ["expand", "Home", "--limit", "?"],
        ["graph", "export", "--source", "?"],
        ["graph", "export", "--format", "?"],
        ["graph", "?"],
    ],
    ids=" ".join,
)
def test_no_input_ends_in_a_traceback_or_an_error_that_is_not_ours(here: InProcess, words: list[str]) -> None:
    for text in HOSTILE:
        given = [word.replace("?", text) for word in words]
        for extra in ([], ["--json"]) if words[0] == "expand" else ([],):
            done = here(*given, *extra)
            assert done.rc in (0, 1, 2, 3, 4), given
            assert "Traceback" not in done.out + done.err, given
            assert "should not happen" not in done.err, (given, done.err)
            assert not control_characters(done.out + done.err), given
            if extra and "--json" in given + extra and done.out:
                assert isinstance(json.loads(done.out), dict)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "header": lambda path: path.write_bytes(b"no database" * 100 + path.read_bytes()[1100:]),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("words", [["expand", "Index"], ["graph", "export"]], ids=" ".join)
def test_a_damaged_index_is_put_aside_and_built_again(
    vade: Vade, vade_home: Path, root: Path, words: list[str], damage: str
) -> None:
    [path] = vade_home.glob("index-*.db")
    for log in vade_home.glob("index-*.db-*"):
        log.unlink()
    DAMAGES[damage](path)
    done = vade(*words)
    assert "Traceback" not in done.err
    assert done.rc == 0, done
    assert "Index.md" in done.out
    assert any((vade_home / "quarantine").iterdir())


@pytest.mark.parametrize("form", ["graphml", "dot"])
def test_a_form_without_room_for_a_receipt_has_it_on_stderr(vade: Vade, write_tree: WriteTree, form: str) -> None:
    vade("sources", "add", "folder", str(write_tree({"a.md": "x", "b.md": PRIVATE})), "--name", "Notes")
    done = vade("graph", "export", "--format", form, as_owner=False)
    assert "Receipt" not in done.out
    assert "Receipt: searched 2 notes in Notes; 1 note withheld (1 private)" in done.err


def test_tags_nested_without_end_cost_no_export(write_tree: WriteTree, bench: Workbench) -> None:
    deep = "\n".join(f"#t{n}" + "/a" * 1000 for n in range(300))
    bench.add(write_tree({"n.md": f"{deep}\n#fine/one"}))
    graph = json.loads("".join(bench.app.export_graph(OWNER)))
    assert [n["label"] for n in graph["nodes"] if n["kind"] == "tag"] == ["#fine", "#fine/one"]
