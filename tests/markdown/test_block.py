"""Blocks: which lines are a block, what an id names among them, and no text that makes finding them slow."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.markdown import parse

Lines = list[tuple[str | None, int, int]]


def blocks(text: str) -> Lines:
    return list(parse(text, stem="stem").blocks)


def unnamed(*lines: tuple[int, int]) -> Lines:
    return [(None, first, last) for first, last in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("one\ntwo\n\nthree\n", [(1, 2), (4, 4)], id="paragraphs"),
        pytest.param("one\ntwo\n\n\n\nthree", [(1, 2), (6, 6)], id="no line break at the end"),
        pytest.param("---\na: b\n---\none\n\ntwo", [(4, 4), (6, 6)], id="after properties"),
        pytest.param("one\r\ntwo\r\n\r\nthree", [(1, 2), (4, 4)], id="other line breaks"),
        pytest.param("\u00e4 \u00f6\n\n- \u00fc\n\n\u65e5\u672c", [(1, 1), (3, 3), (5, 5)], id="other scripts"),
        pytest.param("- a\n- b\n- c\n", [(1, 1), (2, 2), (3, 3)], id="items"),
        pytest.param("* a\n+ b\n1. c\n2) d", [(1, 1), (2, 2), (3, 3), (4, 4)], id="bullets and numbers"),
        pytest.param("- [ ] a\n- [x] b", [(1, 1), (2, 2)], id="tasks"),
        pytest.param("-\n- \n- x", [(1, 1), (2, 2), (3, 3)], id="empty items"),
        pytest.param("1. a\n   a2\n2. b", [(1, 2), (3, 3)], id="an item of two lines"),
        pytest.param("- a\nlazy", [(1, 2)], id="an item goes on without indentation"),
        pytest.param("- a\n\n  more\n\n- b", [(1, 3), (3, 3), (5, 5)], id="a paragraph in an item"),
        pytest.param("- a\n\n\n\n", [(1, 1)], id="blank lines after an item"),
        pytest.param("text\n- a", [(1, 1), (2, 2)], id="a list right after a paragraph"),
        pytest.param("- a\n  - b\n    - c\n  - d\n- e", [(1, 4), (2, 3), (3, 3), (4, 4), (5, 5)], id="nested items"),
        pytest.param("- - - a", [(1, 1)], id="items in items on one line"),
        pytest.param("| a | b |\n|---|---|\n| 1 | 2 |\n\nend", [(1, 3), (5, 5)], id="table"),
        pytest.param("```py\nx\n\ny\n```\nend", [(1, 5), (6, 6)], id="fence"),
        pytest.param("~~~\n```\n~~~\n", [(1, 3)], id="fence in a fence"),
        pytest.param("```\nx\n\ny", [(1, 4)], id="unclosed fence"),
        pytest.param("a\n\n    code\n\n    more\n\nb", [(1, 1), (3, 5), (7, 7)], id="indented code"),
        pytest.param("- a\n  ```\n  x\n  ```\n- b", [(1, 4), (2, 4), (5, 5)], id="fence in an item"),
        pytest.param("> one\n> two\n>\n> three\n\nend", [(1, 2), (4, 4), (6, 6)], id="quote"),
        pytest.param("> [!note] T\n> body\n> - item", [(1, 2), (3, 3)], id="callout"),
        pytest.param("> ```\n> x\n> ```", [(1, 3)], id="fence in a quote"),
        pytest.param("$$\nx\n$$", [(1, 3)], id="formula"),
        pytest.param("# H\ntext\n## I\n- a", [(2, 2), (4, 4)], id="headings are none"),
        pytest.param("H\n===\n\ntext", [(4, 4)], id="underlined headings are none"),
        pytest.param("a\n\n---\n\nb", [(1, 1), (5, 5)], id="rules are none"),
        pytest.param("![[x]]\n\n[[y]]", [(1, 1), (3, 3)], id="links alone"),
        pytest.param("", [], id="nothing"),
        pytest.param(" \n\n\t\n", [], id="blank lines"),
        pytest.param("---\na: b\n---\n", [], id="properties alone"),
    ],
)
def test_a_block_is_a_paragraph_an_item_a_table_or_a_fence(text: str, lines: list[tuple[int, int]]) -> None:
    assert blocks(text) == unnamed(*lines)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("one\ntwo ^x\n\nthree", [("x", 1, 2), (None, 4, 4)], id="paragraph"),
        pytest.param("- a\n- b ^x\n- c", [(None, 1, 1), ("x", 2, 2), (None, 3, 3)], id="item"),
        pytest.param("- a ^x\n  - b\n- c", [("x", 1, 2), (None, 2, 2), (None, 3, 3)], id="item with those below it"),
        pytest.param("- a\n- b\n\n^x", [("x", 1, 2), (None, 1, 1), (None, 2, 2)], id="whole list"),
        pytest.param("| a |\n|---|\n| 1 |\n\n^x", [("x", 1, 3)], id="table"),
        pytest.param("```\na\n\nb\n```\n\n^x", [("x", 1, 5)], id="fence"),
        pytest.param("> a\n> b\n\n^x", [("x", 1, 2)], id="quote"),
        pytest.param("> a ^x\n> b", [("x", 1, 2)], id="within a quote"),
        pytest.param("# H ^x\n\ntext", [("x", 1, 1), (None, 3, 3)], id="heading"),
        pytest.param("a ^X\n\nb ^x", [("X", 1, 1), ("x", 3, 3)], id="ids that differ in case"),
        pytest.param("`^x`\n\n```\na ^y\n```", unnamed((1, 1), (3, 5)), id="no id in code"),
        pytest.param("a ^not_one\n\nb^glued\n\nc ^no one", unnamed((1, 1), (3, 3), (5, 5)), id="no id"),
        pytest.param("a ^ok-1  \n", [("ok-1", 1, 1)], id="blanks after an id"),
        pytest.param("^x", [], id="an id with nothing before it"),
    ],
)
def test_an_id_is_that_of_the_block_it_stands_at_which_is_there_once(text: str, found: Lines) -> None:
    assert blocks(text) == found


@pytest.mark.parametrize(
    "text", ["a ^x\n   ^x", "- a ^x\n  ^x", "^y ^x\ntext ^x", "- a\n- b\n\n^x\n^x", "text ^x\n\ttext ^x"]
)
def test_an_id_said_twice_of_one_block_is_one_block(text: str) -> None:
    found = blocks(text)
    assert len(found) == len(set(found))


FRAGMENTS = st.sampled_from([
    "- a", "  - b", "    - c ^id", "-", "1. x", "   y", "> q ^q", "> - z", ">", "```", "~~~", "| a | b |", "|---|---|",
    "text ^id", "text", "# H ^h", "## I", "^id", "  ^id", "^id ^id", "%%", "<div>", "$$", "", "", " ", "\u00e4 ^id",
])  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(FRAGMENTS, max_size=20).map("\n".join))
def test_blocks_come_in_order_each_once_and_end_on_a_line_that_is_not_blank(text: str) -> None:
    found = blocks(text)
    lines = text.split("\n")
    assert len(found) == len(set(found))
    assert found == sorted(found, key=lambda block: (block[1], -block[2]))
    for _, first, last in found:
        assert 1 <= first <= last <= len(lines)
        assert lines[first - 1].strip()
        assert lines[last - 1].strip() or "```" in text or "~~~" in text or "$$" in text


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(FRAGMENTS, max_size=12).map("\n".join), st.integers(0, 5))
def test_lines_are_those_of_the_file_whatever_stands_before_the_body(text: str, properties: int) -> None:
    above = "---\n" + "a: b\n" * properties + "---\n"
    bare, moved = parse("\n" + text, stem="s"), parse(f"{above}\n{text}", stem="s")
    shift = moved.body_line - bare.body_line
    assert [(name, first + shift, last + shift) for name, first, last in bare.blocks] == list(moved.blocks)


HOSTILE: dict[str, Callable[[], tuple[str, int]]] = {
    "items": lambda: ("- x\n" * 200_000, 200_000),
    "paragraphs": lambda: ("x\n\n" * 200_000, 200_000),
    "nested items": lambda: ("".join("  " * depth + "- x\n" for depth in range(2_500)), 2_500),
    "nested items that go on": lambda: (
        "".join("  " * depth + "- x\n" for depth in range(1_000))
        + "".join("\n" + "  " * depth + "y\n" for depth in range(1_000, 0, -1)),
        2_000,
    ),
    "nested items and blank lines": lambda: (
        "".join("  " * depth + "- x\n" for depth in range(1_000)) + "\n" * 500_000,
        1_000,
    ),
    "nested items with ids": lambda: ("".join("  " * depth + "- x ^id\n" for depth in range(1_500)), 1_500),
    "items on one line": lambda: ("- " * 200_000 + "x", 1),
    "quotes on one line": lambda: ("> " * 200_000 + "x", 1),
    "quotes and items on one line": lambda: ("> - " * 100_000 + "x", 1),
    "rows": lambda: ("|a|\n|-|\n" + "|x|\n" * 200_000, 1),
    "one fence": lambda: ("```\n" + "x\n\n" * 200_000, 1),
    "fences": lambda: ("```\nx\n```\n" * 60_000, 60_000),
    "ids": lambda: ("x ^id\n\n" * 100_000, 100_000),
    "a blank line without end": lambda: ("- x\n" + " " * 2_000_000 + "\n- y", 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_finding_blocks_slow(name: str) -> None:
    text, expected = HOSTILE[name]()
    started = time.process_time()
    found = parse(text, stem="s").blocks
    # What is quadratic takes ten seconds and more; what is not takes two on a slow machine.
    assert time.process_time() - started < 6
    assert len(found) == expected
