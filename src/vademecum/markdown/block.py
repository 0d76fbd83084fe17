"""Blocks: the paragraphs, list items, tables and fences of a note, and what a `^id` names.

Where blocks are is Markdown's own business and pyromark's to say; what an id names is Obsidian's, and depends on
where the id stands: at the end of a paragraph or list item, or on a line of its own after a whole list or table.
"""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

_BLOCK_ID = re.compile(r"\^(?<!\S\^)([A-Za-z0-9-]+)[ \t]*(?=\n|\Z)")
_ONLY_ID = re.compile(r"[ \t]*\^[A-Za-z0-9-]+[ \t]*")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_NO_ITEM = sys.maxsize


Block = tuple[str | None, int, int]
"""A paragraph, list item, table or fence, or what a `^id` names: the id without its ^, if any, first and last line.

A plain tuple, since a large vault has a hundred thousand: a named one takes four times as long to make.
"""


class _Layout(NamedTuple):
    """For each line: where its block begins, where its list item, paragraph or heading does; and where each one ends.

    A block is a run of lines without a blank one between; a heading stands alone, a fence keeps its blank lines.
    `ends` is filled where a part begins; that of a list item takes in the items below it.
    """

    blocks: list[int]
    parts: list[int]
    ends: list[int]


def blocks(
    body: str, masked: str, headings: Sequence[int], *, spans: Sequence[tuple[int, int]], raw: bytes, body_line: int
) -> tuple[Block, ...]:
    """Return all blocks of a body in file order; where an id names exactly a paragraph or item, that one has the id.

    `spans` are those of Markdown's own blocks, as offsets in `raw`, whose lines are those of the body. `masked` is the
    body with code and comments blanked out, `headings` are the lines of the headings, and `body_line` is that on
    which the body begins.
    """
    found = _unnamed(spans, raw, body_line)
    ids = list(_BLOCK_ID.finditer(masked)) if "^" in masked else []
    if not ids:
        return tuple(found)
    lines = body.split("\n")
    rows = _rows(body, ids)
    named = dict.fromkeys(_named(ids, rows, lines, headings, body_line))  # an id may be said twice of one block
    places = {block[1:] for block in named}
    # An id on a line of its own belongs to the block before it, and is no paragraph.
    alone = {body_line + row for row in rows if _ONLY_ID.fullmatch(lines[row])}
    found = [block for block in found if block[1] not in alone and block[1:] not in places]
    found += named
    found.sort(key=itemgetter(2), reverse=True)
    found.sort(key=itemgetter(1))
    return tuple(found)


def _unnamed(spans: Sequence[tuple[int, int]], raw: bytes, body_line: int) -> list[Block]:
    """The blocks of these spans, which come by their starts."""
    found: list[Block] = []
    # The items of nested lists lie in each other: counting the lines of each would be quadratic.
    ends = list(accumulate(map(len, raw.splitlines(keepends=True))))
    lasts: dict[int, int] = {}
    seen = -1
    for start, end in spans:
        row = bisect_right(ends, start)
        if row != seen:  # the paragraph of a list item is that item
            seen = row
            if end <= ends[row]:
                last = row
            elif end in lasts:
                last = lasts[end]
            else:
                last = lasts[end] = bisect_left(ends, _filled_end(raw, end))
            found.append((None, body_line + row, body_line + last))
    return found


def _filled_end(raw: bytes, end: int) -> int:
    """Where what stands before `end` ends without the blanks that follow it."""
    size = 64
    while True:
        first = max(0, end - size)
        filled = raw[first:end].rstrip()
        if filled or not first:
            return first + len(filled)
        size *= 8


def _rows(body: str, ids: Sequence[re.Match[str]]) -> list[int]:
    """The row of a body on which each id stands, counted from 0."""
    rows: list[int] = []
    row = counted = 0
    for match in ids:
        row += body.count("\n", counted, match.start())
        counted = match.start()
        rows.append(row)
    return rows


def _named(
    ids: Sequence[re.Match[str]], rows: Sequence[int], lines: list[str], headings: Sequence[int], body_line: int
) -> Iterator[Block]:
    """Yield what each `^id` of a body names."""
    # No block goes past a heading, so that only sections with ids need a closer look.
    borders = [0, *(line - body_line for line in headings), len(lines)]
    top = bottom = 0
    for match, row in zip(ids, rows, strict=True):
        if row >= bottom:
            after = bisect_right(borders, row)
            top, bottom = borders[after - 1], borders[after]
            part = lines[top:bottom]
            layout = _layout(part)
        bounds = _named_lines(part, row - top, layout)
        if bounds:
            first = body_line + top
            yield match.group(1), first + bounds[0], first + bounds[1]


def _named_lines(lines: list[str], index: int, layout: _Layout) -> tuple[int, int] | None:
    """Return the first and last line of the block that the id on line `index` names."""
    line = lines[index]
    if not line.lstrip().startswith("^"):
        first = layout.parts[index]
        return first, layout.ends[first]
    named = index - 1
    while named >= 0 and not lines[named].strip():
        named -= 1
    if named < 0:
        return None
    if named == index - 1 and line[0] in " \t":
        first = layout.parts[named]
        return first, layout.ends[first]
    # On a line of its own an id names the whole block before it: all items of a list, all rows of a table.
    return layout.blocks[named], named


def _layout(lines: list[str]) -> _Layout:
    blocks: list[int] = []
    parts: list[int] = []
    ends = list(range(len(lines)))
    open_parts: list[tuple[int, int]] = []  # indentation of a list item, else _NO_ITEM; first line
    block = part = last = 0
    fence = ""
    fresh = True  # the next line begins a block
    for index, line in enumerate(lines):
        text = line.lstrip(" \t")
        first = text[:1]
        mark = _FENCE.match(line) if first and first in "`~>" else None
        if fence:
            fresh = mark is not None and mark.group(1).startswith(fence)
            fence = "" if fresh else fence
        elif not first:
            fresh = True
        else:
            heading = first == "#" and _ATX.match(line) is not None
            item = first in "-*+0123456789" and _ITEM.match(line) is not None
            if fresh or mark or heading or item:
                indent = len(line) - len(text)
                while open_parts and open_parts[-1][0] >= indent:
                    ends[open_parts.pop()[1]] = last
                block = index if fresh or mark or heading else block
                part = index
                open_parts.append((indent if item else _NO_ITEM, index))
            fresh = heading
            fence = mark.group(1) if mark else ""
        if first:
            last = index
        blocks.append(block)
        parts.append(part)
    for _, start in open_parts:
        ends[start] = last
    return _Layout(blocks, parts, ends)
