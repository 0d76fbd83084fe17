"""The marker of a memory that a note took up, and exactly the part of the note that it names."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vademecum.markdown import is_promoted, parse
from vademecum.markdown.promotion import (
    MOST_CHARACTERS,
    MOST_LINES,
    Marker,
    Served,
    parse_marker,
    promoted_text,
    segment,
)


def block(text: str, block_id: str = "x") -> Served | None:
    return promoted_text(text, Marker("brain/N.md", "block", block_id))


def block_text(text: str, block_id: str = "x") -> str | None:
    found = block(text, block_id)
    return None if found is None else found.text


def section(text: str, heading: str) -> Served | None:
    return promoted_text(text, Marker("brain/N.md", "heading", heading))


def section_text(text: str, heading: str) -> str | None:
    found = section(text, heading)
    return None if found is None else found.text


# ── the marker


@pytest.mark.parametrize(
    ("value", "marker"),
    [
        ("brain/Storage Gotchas#^om-7f3a21", Marker("brain/Storage Gotchas.md", "block", "om-7f3a21")),
        ("brain/Storage Gotchas#Backups", Marker("brain/Storage Gotchas.md", "heading", "Backups")),
        ("brain/Storage Gotchas", Marker("brain/Storage Gotchas.md")),
        ("brain/Storage Gotchas#^", Marker("brain/Storage Gotchas.md")),
        ("brain/Storage Gotchas#", Marker("brain/Storage Gotchas.md")),
        ("brain/Storage Gotchas# ", Marker("brain/Storage Gotchas.md")),
        ("brain/N.md#^a", Marker("brain/N.md", "block", "a")),
        ("brain/N.MD#^a", Marker("brain/N.md", "block", "a")),
        ("brain/N.md", Marker("brain/N.md")),
        ("brain/v1.2#^a", Marker("brain/v1.2.md", "block", "a")),
        (" brain/N # Two  words ", Marker("brain/N.md", "heading", "Two words")),
        ("brain/C#C#", Marker("brain/C.md", "heading", "C#")),
        ("brain/N#A#B", Marker("brain/N.md", "heading", "A#B")),
        ("brain/\u00c4pfel#^\u00e4", Marker("brain/\u00c4pfel.md", "block", "\u00e4")),
    ],
)
def test_the_first_hash_parts_note_and_anchor(value: str, marker: Marker) -> None:
    assert parse_marker(value) == marker


@pytest.mark.parametrize(
    "value",
    ["", "   ", ".md", "#^x", "#Heading", " #^x", None, True, 7, ["brain/N#^x"], {"brain/N": "x"}],
)
def test_what_names_no_note_is_no_marker(value: object) -> None:
    assert parse_marker(value) is None


@pytest.mark.parametrize(
    "control", [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029", "\ud800"]
)
@pytest.mark.parametrize("marker", ["brain/N{}#^x", "brain/N#^x{}", "{}brain/N#Head", "brain/N#He{}ad"])
def test_a_marker_with_a_control_character_is_refused(control: str, marker: str) -> None:
    assert parse_marker(marker.format(control)) is None


@given(st.text())
@example("a\n## Forged entry")
def test_any_text_is_parsed_and_what_is_accepted_stays_on_one_line(value: str) -> None:
    marker = parse_marker(value)
    if marker is not None:
        assert len(f"{marker.note}#{marker.printed}".splitlines()) == 1
        assert marker.note.endswith(".md")


@pytest.mark.parametrize(
    ("value", "printed"),
    [("brain/N#^a-1", "^a-1"), ("brain/N#Two words", "Two words"), ("brain/N", "")],
)
def test_an_anchor_is_printed_as_it_is_written(value: str, printed: str) -> None:
    marker = parse_marker(value)
    assert marker is not None
    assert marker.printed == printed


@pytest.mark.parametrize(
    ("properties", "promoted"),
    [
        ("promoted: brain/N#^x", True),
        ('promoted: "brain/N#Head"', True),
        ("promoted: brain/N", True),
        ("promoted:", False),
        ('promoted: ""', False),
        ('promoted: "#^x"', False),
        ('promoted: "brain/N\\n#^x"', False),
        ("promoted: [brain/N]", False),
        ("scope: general", False),
    ],
)
def test_a_memory_is_promoted_by_a_valid_marker_among_its_properties_only(properties: str, promoted: bool) -> None:
    note = parse(f"---\n{properties}\n---\n\npromoted: brain/N#^x\n", stem="m")
    assert is_promoted(note.frontmatter) is promoted


# ── blocks


@pytest.mark.parametrize(
    ("text", "served"),
    [
        pytest.param("one\n\ntwo ^x\n\nthree", "two", id="paragraph"),
        pytest.param("- a\n- two lines\n  of it ^x\n- c", "- two lines\n  of it", id="bullet of two lines"),
        pytest.param("1. a\n2. b ^x\n3. c", "2. b", id="ordered item, not its siblings"),
        pytest.param("1) a\n2) b ^x\n3) c", "2) b", id="ordered item with a parenthesis"),
        pytest.param("- a ^x\n  - nested\n- c", "- a", id="item without the one below it"),
        pytest.param("- a\n  - nested ^x\n- c", "  - nested", id="nested item"),
        pytest.param("- [ ] a\n- [x] b ^x", "- [x] b", id="task"),
        pytest.param("text ^x\nmore\n\nend", "text\nmore", id="id in the first line"),
        pytest.param("above\n  ^x\nbelow", "above", id="indented lone id"),
        pytest.param("above\n^x\nbelow", "above", id="lone id"),
        pytest.param("above\n\n^x\n\nbelow", "above", id="lone id after a blank line"),
        pytest.param("- a\n- b\n  ^x\n- c", "- b", id="lone id in an item"),
        pytest.param("- a\n- b\n\n^x", "- b", id="lone id below a list"),
        pytest.param("> [!note] T\n> body\n> ^x", "> [!note] T\n> body", id="lone id in a callout"),
        pytest.param("> [!note] T\n> body\n\n^x", "> [!note] T\n> body", id="lone id below a callout"),
        pytest.param("> quoted ^x\nnot quoted", "> quoted", id="quotation ends the block"),
        pytest.param("> one\n> > two ^x\n> three", "> > two", id="quotation in a quotation"),
        pytest.param("> - a\n> - b ^x", "> - b", id="item in a quotation"),
        pytest.param("> a\n>\n> b ^x", "> b", id="blank line of a quotation"),
        pytest.param("| a |\n|---|\n| b |\n| c |\n\n^x", "| a |\n|---|\n| b |\n| c |", id="table"),
        pytest.param("| a |\n|---|\n| b |\n^x\n| c |", "| a |\n|---|\n| b |", id="table up to its id"),
        pytest.param("| a |\n|---|\n| b | ^x\n| c |", "| b |", id="row"),
        pytest.param("text\n| a |\n| b |\n^x", "| a |\n| b |", id="table right after text"),
        pytest.param("| z |\n\n| a |\n| b |\n| ^x |", "| a |\n| b |", id="lone id as a row"),
        pytest.param("> | a |\n> | b |\n> ^x", "> | a |\n> | b |", id="table in a quotation"),
        pytest.param("## Head ^x\ntext", "## Head", id="heading closes its own block"),
        pytest.param("## Head\ntext ^x", "text", id="text right below a heading"),
        pytest.param("# N\nbody\n# B\n^x", "# B", id="lone id below a heading"),
        pytest.param("text\n---\nmore ^x", "more", id="rule"),
        pytest.param("text\n* * *\nmore ^x", "more", id="rule of stars"),
        pytest.param("text\n<div>\ninside ^x", "<div>\ninside", id="tag"),
        pytest.param("text\n<https://e.org> ^x", "text\n<https://e.org>", id="address is no tag"),
        pytest.param("text\n**bold** and\n+1 ^x", "text\n**bold** and\n+1", id="marks that begin no item"),
        pytest.param("1.5 is\n2024 was ^x", "1.5 is\n2024 was", id="numbers that begin no item"),
        pytest.param("run:\n```sh\nls\n\nls\n```\n^x", "run:\n```sh\nls\n\nls\n```", id="fence after text"),
        pytest.param("run ^x\n```\nls\n```", "run\n```\nls\n```", id="fence below the id"),
        pytest.param("- ```sh\n  ls\n  ```\n- b ^x", "- b", id="fence behind a bullet"),
        pytest.param("> ```\n> ls\n> ```\n> ^x", "> ```\n> ls\n> ```", id="fence in a quotation"),
        pytest.param("> ```\n> ls\n\nmore ^x", "more", id="fence that ends with its quotation"),
        pytest.param("use ```inline``` here ^x", "use ```inline``` here", id="code in a line"),
        pytest.param("first ^x\n\nsecond ^x", "first", id="first of two equal ids"),
        pytest.param("first\n^x\n\nsecond ^x", "first", id="first of two, alone"),
        pytest.param("a ^y\nb ^x", "a\nb", id="all ids are taken out"),
        pytest.param("a ^x \t\n", "a", id="blanks behind an id"),
        pytest.param("a\t^x", "a", id="tab before an id"),
        pytest.param("\ufeff---\na: b\n---\nbody ^x\n", "body", id="byte order mark and properties"),
        pytest.param("\ufeffbody ^x", "body", id="byte order mark"),
        pytest.param("a\r\nb ^x\r\n\r\nc\r\n", "a\nb", id="other line breaks"),
        pytest.param("---\nkey: value ^x\n---\nbody ^x", "body", id="id among the properties"),
        pytest.param("\u00e4\u65e5\u672c ^x", "\u00e4\u65e5\u672c", id="other scripts"),
    ],
)
def test_an_id_names_the_text_that_it_stands_at(text: str, served: str) -> None:
    assert block(text) == Served(served, "block", truncated=False)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("text", id="no id"),
        pytest.param("text^x", id="no blank before it"),
        pytest.param("text ^x more", id="not at the end"),
        pytest.param("text ^xy\n\ntext ^x-1\n\ntext ^x_y", id="longer ids"),
        pytest.param("text ^-x\n\ntext ^_x", id="no letter first"),
        pytest.param("^x\n\ntext", id="nothing above it"),
        pytest.param("```\ntext ^x\n```\n", id="in a fence"),
        pytest.param("```\n^x\n```\n", id="alone in a fence"),
        pytest.param("~~~\n```\ntext ^x\n~~~", id="in a fence of tildes"),
        pytest.param("````\n```\ntext ^x\n````", id="fence that a shorter one does not close"),
        pytest.param("```\n```sh\ntext ^x", id="fence that one with words does not close"),
        pytest.param("```\ntext ^x", id="fence that is never closed"),
        pytest.param("> ```\n> text ^x\n> ```", id="fence in a quotation"),
        pytest.param("```\n> ```\ntext ^x\n```", id="fence that a quoted one does not close"),
        pytest.param("~~~ ^x\ntext\n~~~", id="behind the beginning of a fence"),
        pytest.param("---\nkey: value ^x\n---\n", id="among the properties"),
        pytest.param("", id="empty note"),
    ],
)
def test_where_no_such_id_stands_nothing_is_served(text: str) -> None:
    assert block(text) is None


def test_a_decoy_in_a_fence_does_not_hide_the_real_id() -> None:
    assert block_text("```\ndecoy ^x\n```\n\nreal ^x") == "real"


def test_an_id_in_a_fence_is_not_taken_out_of_what_is_served() -> None:
    assert block_text("see:\n```\na ^b\n```\n^x") == "see:\n```\na ^b\n```"


def test_an_id_that_begins_like_another_is_another() -> None:
    text = "long ^om-7f3a21\n\nshort ^om-7f3a2"
    assert block_text(text, "om-7f3a2") == "short"
    assert block_text(text, "om-7f3a21") == "long"
    assert block(text, "om") is None


def test_ids_are_the_same_in_any_case_as_links_to_them_are() -> None:
    assert block_text("text ^Om-7F", "om-7f") == "text"


@pytest.mark.parametrize("hostile", [".*", "x|y", "(", "[a", "\\", "^x", "$", "x{1,9999}", "(a+)+$", "?"])
def test_an_anchor_is_never_a_pattern(hostile: str) -> None:
    assert block("text ^x", hostile) is None
    assert section("## Head\ntext", hostile) is None
    assert section_text(f"## {hostile} Head\n\ntext", f"{hostile} Head") == "text"


# ── sections

OUTLINE = """\
# Storage

Intro.

## Backups

One.

### Where

Two.

## Restore

Three.
"""


@pytest.mark.parametrize(
    ("heading", "served"),
    [
        ("Backups", "One.\n\n### Where\n\nTwo."),
        ("backups", "One.\n\n### Where\n\nTwo."),
        ("Where", "Two."),
        ("Restore", "Three."),
        ("Backups#Where", "Two."),
    ],
)
def test_a_heading_names_its_section_up_to_one_that_is_no_deeper(heading: str, served: str) -> None:
    assert section(OUTLINE, heading) == Served(served, "heading", truncated=False)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        pytest.param(OUTLINE, "Storage", id="title of the note"),
        pytest.param(OUTLINE, "Back", id="part of a heading"),
        pytest.param(OUTLINE, "Nowhere", id="none"),
        pytest.param("```\n## Head\n```\ntext", "Head", id="in a fence"),
        pytest.param("---\na: |\n  ## Head\n---\ntext", "Head", id="among the properties"),
        pytest.param("## Head\n\n## Next\n\ntext", "Head", id="nothing is written there"),
        pytest.param("## Head\n\n^x\n", "Head", id="nothing but an id is written there"),
        pytest.param("# T\n\ntext", "#", id="no words"),
        pytest.param("", "Head", id="empty note"),
    ],
)
def test_where_no_such_section_is_nothing_is_served(text: str, heading: str) -> None:
    assert section(text, heading) is None


@pytest.mark.parametrize(
    ("text", "heading", "served"),
    [
        pytest.param("# Same\n\ntop\n\n## Same\n\nbelow", "Same", "below", id="the title said again below"),
        pytest.param("## A\nx\n# Other\ny", "A", "x", id="ended by a title"),
        pytest.param("## A  B\nx", "a b", "x", id="blanks"),
        pytest.param("## **A** [[N|b]] ^id\nx", "A b", "x", id="formatting"),
        pytest.param("## C\nsee\n\n## C#\nsharp", "C#", "sharp", id="the exact one first"),
        pytest.param("## Time: now\nx", "Time now", "x", id="as a link has it"),
        pytest.param("## What (really) [happened]?\nx", "What (really) [happened]?", "x", id="marks of patterns"),
        pytest.param("## A\nx ^x\n\n- b\n  ^y\n", "A", "x\n\n- b", id="ids are taken out"),
        pytest.param("## A\n```\n## B\n```\nend", "A", "```\n## B\n```\nend", id="heading in a fence"),
        pytest.param("Title\n=====\n\nA\n---\n\nx\n\nB\n---\ny", "A", "x", id="underlined"),
        pytest.param("## A\r\nx\r\n## B\r\n", "A", "x", id="other line breaks"),
    ],
)
def test_a_section_is_found_as_a_reader_would(text: str, heading: str, served: str) -> None:
    assert section_text(text, heading) == served


# ── caps


def numbered(count: int) -> str:
    return "\n".join(f"line {n}" for n in range(1, count + 1))


def test_a_section_that_fits_is_not_reported_as_cut() -> None:
    for count in (39, 40):
        found = section(f"## A\n\n{numbered(count)}\n\n\n## B\n", "A")
        assert found == Served(numbered(count), "heading", truncated=False)


def test_of_a_long_section_the_first_lines_are_kept() -> None:
    found = section(f"## A\n\n{numbered(41)}\n", "A")
    assert found == Served(numbered(40), "heading", truncated=True)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        pytest.param(f"{numbered(100)} ^x", "line 61", "line 100", id="id at the end"),
        pytest.param(f"{numbered(100)}\n^x", "line 61", "line 100", id="id below"),
        pytest.param(f"line 0 ^x\n{numbered(100)}", "line 0", "line 39", id="id in the first line"),
    ],
)
def test_of_a_long_block_the_lines_next_to_its_id_are_kept(text: str, first: str, last: str) -> None:
    found = block(text)
    assert found is not None
    lines = found.text.split("\n")
    assert (lines[0], lines[-1], len(lines), found.truncated) == (first, last, MOST_LINES, True)


def test_what_is_kept_neither_begins_nor_ends_with_a_blank_line() -> None:
    found = section(f"## A\n\n{numbered(39)}\n\nline 40\n", "A")
    assert found == Served(numbered(39), "heading", truncated=True)
    fenced = block(f"```\nfirst\n\n{numbered(38)}\n```\n^x")
    assert fenced == Served(f"{numbered(38)}\n```", "block", truncated=True)


@pytest.mark.parametrize("text", [f"{'a' * 240_000} ^x", f"{'a b ' * 60_000}\n^x", f"{' ^a' * 80_000} ^x"])
def test_a_huge_line_is_cut_and_reported(text: str) -> None:
    found = block(text)
    assert found is not None
    assert found.truncated
    assert found.text.endswith("…")
    assert len(found.text) <= MOST_CHARACTERS


def test_a_block_of_exactly_the_most_characters_is_whole() -> None:
    assert block(f"{'a' * MOST_CHARACTERS} ^x") == Served("a" * MOST_CHARACTERS, "block", truncated=False)


def test_blanks_that_are_left_out_are_no_loss() -> None:
    text = "## A\n" + "\n" * 60 + "a" * MOST_CHARACTERS + " " * 500 + "\n" * 60 + "## B"
    assert section(text, "A") == Served("a" * MOST_CHARACTERS, "heading", truncated=False)


@pytest.mark.parametrize(
    "text",
    [
        ">" * 200_000,
        "> " * 100_000 + "x",
        "| " * 100_000 + "^",
        "- " * 100_000 + "x",
        "`" * 200_000 + "a`",
        " " * 200_000 + "^x y",
        " ^a" * 100_000 + " y",
        "^" + "a" * 200_000 + "!",
        "\n".join(["| a | ^x"] * 20_000),
        "\n".join(["## A"] * 20_000),
        "\n".join(["> ```"] * 20_000),
        "<" * 100_000,
    ],
    ids=lambda text: f"{text[:6]!r}",
)
def test_no_text_makes_the_cutting_slow(text: str) -> None:
    note = parse(text, stem="n")
    started = time.perf_counter()
    segments = segment(note)
    segments.served(Marker("n.md", "block", "x"))
    segments.served(Marker("n.md", "heading", "A"))
    assert time.perf_counter() - started < 2


PLAIN = (
    "a",
    "",
    "- b",
    "  - c",
    "1. d",
    "> e",
    "> - f",
    "> ",
    "| g | h |",
    "```",
    "~~~",
    "> ```",
    "## A",
    "---",
    "<p>",
)
NAMED = ("i ^x", "- j ^x", "^x", "  ^x", "\t^x", "> ^x", "| ^x |", "k ^y", "^y", "l^x", "===", "%% m", "$$")
LINES = st.sampled_from((*PLAIN, *NAMED))


@given(st.lists(LINES, max_size=25))
def test_what_is_served_are_lines_of_the_note_in_order_and_never_all_of_it(lines: list[str]) -> None:
    found = block("\n".join(["# T", "", "far away", "", "## Next", "", *lines]))
    if found is None:
        return
    assert "far away" not in found.text
    shown = iter(re.sub(r"\s\^[xy]$", "", line) for line in ("## Next", *lines))
    assert all(any(line in (other, other.rstrip()) for other in shown) for line in _whole(found.text))


def _whole(text: str) -> list[str]:
    """The lines of what was served; in a fence an id is text, and stays."""
    return [re.sub(r"\s\^[xy]$", "", line) for line in text.split("\n")]


@given(st.lists(LINES, max_size=25))
def test_line_breaks_of_another_system_change_nothing(lines: list[str]) -> None:
    assert block("\n".join(lines)) == block("\r\n".join(lines)) == block("\ufeff" + "\n".join(lines))
