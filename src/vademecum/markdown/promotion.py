"""The mark by which a memory says that a note of the vault took it up, and the part of that note which the mark names.

What is cut out here leaves the vault, so it is cut smaller than a link would show it, and by rules of its own: a block
is the text that the id stands at, never the items nested below it nor the rest of its list or callout; an id is taken
out; what is long is capped, and says so. Where headings are is `note`'s to say. Shaped against an anchor that quietly
serves its neighbour.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from vademecum.markdown.note import Heading, Note, find_heading, parse

MOST_LINES: Final = 40
MOST_CHARACTERS: Final = 8_000

# C0, DEL and C1, and what else begins a line or is no text: a mark is printed on one line among others.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ID = r"\^([^\W_][\w-]*)"
_TRAILING_ID = re.compile(rf"[ \t]{_ID}[ \t]*$")
_LONE_ID = re.compile(rf"[ \t>|]*{_ID}[ \t|]*")
_QUOTE = re.compile(r"(?:[ \t]*>)*")
_ITEM = r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)"
_ATX = r"#{1,6}(?:[ \t]|$)"
_RULE = r"(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$"
_TAG = r"<(?:/?[A-Za-z][\w-]*(?=[\s/>]|$)|!--)"
_STARTS = re.compile(rf"[ \t]*(?:{_ATX}|{_ITEM}|\||{_TAG}|{_RULE})")
_STANDS_ALONE = re.compile(rf"[ \t]*(?:{_ATX}|{_RULE})")
_ROW = re.compile(r"[ \t]*\|")
# A fence may begin right behind the bullet of its item.
_FENCE = re.compile(rf"[ \t]*(?:{_ITEM})*(`{{3,}}(?=[^`]*$)|~{{3,}})")
_FENCE_END = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*$")
_UNDERLINE = re.compile(r"[ \t]*(?:=+|-+)[ \t]*")


class Marker(NamedTuple):
    """Where a memory was copied to: a note's path with its suffix, and the anchor in it, if any, without its mark."""

    note: str
    kind: Literal["block", "heading"] | None = None
    anchor: str = ""

    @property
    def printed(self) -> str:
        """The anchor as it is written behind the note's name: `^id`, or a heading."""
        return f"^{self.anchor}" if self.kind == "block" else self.anchor


class Served(NamedTuple):
    """The part of a note that a marker names, and whether some of it was left out."""

    text: str
    kind: Literal["block", "heading"]
    truncated: bool


def parse_marker(value: object) -> Marker | None:
    """What the property `promoted` says, or None where that is no marker.

    The first # parts note and anchor; the suffix .md may be left out, and is in lower case here.
    """
    if not isinstance(value, str) or _UNPRINTABLE.search(value):
        return None
    name, _, rest = value.partition("#")
    name, anchor = name.strip(), " ".join(rest.split())
    name = name[:-3] if name[-3:].lower() == ".md" else name
    if not name:
        return None
    if anchor.startswith("^"):
        anchor = anchor[1:].strip()
        return Marker(f"{name}.md", "block", anchor) if anchor else Marker(f"{name}.md")
    return Marker(f"{name}.md", "heading" if anchor else None, anchor)


def is_promoted(properties: Mapping[str, Any]) -> bool:
    """Whether a memory with these properties was taken up by a note, be it one without an anchor."""
    return parse_marker(properties.get("promoted")) is not None


def promoted_text(text: str, marker: Marker) -> Served | None:
    """What a marker names in the text of its note; None where it names nothing, or nothing is written there.

    It is never the whole note. Whoever asks for more than one part of a note keeps its `Segments`.
    """
    return segment(parse(text, stem="")).served(marker)


@dataclass(slots=True)
class _Block:
    """A block by the indexes of its lines. `table` is where the table of a row begins, None for one that is no row."""

    first: int
    last: int
    depth: int
    table: int | None


class _Named(NamedTuple):
    """What an id names: the lines of a block from `first`, and the line that the id stands on."""

    block: _Block
    first: int
    line: int


@dataclass(frozen=True, slots=True)
class Segments:
    """A note with an index of what can be named in it. Made by `segment`."""

    lines: Sequence[str]
    headings: Sequence[Heading]
    named: Mapping[str, _Named]
    without_id: Mapping[int, str | None]

    def served(self, marker: Marker) -> Served | None:
        """What the marker names in this note; None where it names nothing, or nothing is written there."""
        if marker.kind == "block":
            found = self.named.get(marker.anchor.casefold())
            if found is None:
                return None
            lines, at_end = self._shown(found.first, found.block.last), found.line >= found.block.last
        elif marker.kind == "heading":
            position = _position(self.headings, marker.anchor)
            if position is None:
                return None
            lines, at_end = self._section(position), False
        else:
            return None
        text, truncated = _capped(lines, keep_end=at_end)
        return Served(text, marker.kind, truncated) if text else None

    def _section(self, position: int) -> list[str]:
        """The lines below a heading, up to the next one that is no deeper."""
        heading = self.headings[position]
        first = heading.line
        if not self.lines[first - 1].lstrip().startswith("#"):  # the heading is underlined, and may take several lines
            while first < len(self.lines) and not _UNDERLINE.fullmatch(self.lines[first]):
                first += 1
            first += 1
        later = (other.line - 2 for other in self.headings[position + 1 :] if other.level <= heading.level)
        return self._shown(first, next(later, len(self.lines) - 1))

    def _shown(self, first: int, last: int) -> list[str]:
        lines = (self.without_id.get(number, self.lines[number]) for number in range(first, last + 1))
        return [line for line in lines if line is not None]


def segment(note: Note) -> Segments:
    """Cut a note into blocks and index what names them: one pass over its lines.

    A block is a run of lines at one depth of quotation. A heading, an item, a row, a tag or a rule begins a new one; a
    heading and a rule also end it, and so do a blank line and an id alone on its line. A fence belongs to the block
    that it stands in, and nothing in it counts. The first of several equal ids is the one that names.
    """
    lines = note.text.split("\n")
    named: dict[str, _Named] = {}
    without_id: dict[int, str | None] = {}
    block: _Block | None = None
    is_open = False
    fence = ""
    for number in range(note.body_line - 1, len(lines)):
        line = lines[number]
        quote = _QUOTE.match(line)
        depth, text = (quote[0].count(">"), line[quote.end() :]) if quote else (0, line)
        # A fence ends with the quotation that it stands in, whether it is closed or not.
        if block is not None and fence and depth >= block.depth:
            block.last = number
            if depth == block.depth and (end := _FENCE_END.match(text)) and end[1].startswith(fence):
                fence = ""
            continue
        fence = ""
        if lone := _LONE_ID.fullmatch(line):
            without_id[number], is_open = None, False
            if block is not None:
                # Alone it names a whole table; behind a row it names that row.
                first = block.first if block.table is None else block.table
                named.setdefault(lone[1].casefold(), _Named(block, first, number))
            continue
        if not text.strip():
            is_open = False
            continue
        if block is None or not is_open or depth != block.depth or _STARTS.match(text):
            block = _Block(number, number, depth, _table(block, number, depth) if _ROW.match(text) else None)
        block.last = number
        is_open = not _STANDS_ALONE.match(text)
        if opening := _FENCE.match(text):
            fence = opening[1]
        elif trailing := _TRAILING_ID.search(line):
            named.setdefault(trailing[1].casefold(), _Named(block, block.first, number))
            without_id[number] = line[: trailing.start()].rstrip()
    return Segments(lines, note.headings, named, without_id)


def _table(before: _Block | None, number: int, depth: int) -> int:
    """The line on which the table of a row begins."""
    if before is None or before.table is None or before.last != number - 1 or before.depth != depth:
        return number
    return before.table


def _position(headings: Sequence[Heading], anchor: str) -> int | None:
    """Which heading is meant: the one that says exactly this, else the one that a link would find.

    That of level 1 is never meant: it is the note's own title, and what stands below it is the whole note.
    """
    texts = [(heading.level, heading.text if heading.level > 1 else "") for heading in headings]
    wanted = " ".join(anchor.split()).casefold()
    exact = (n for n, (_, text) in enumerate(texts) if text and " ".join(text.split()).casefold() == wanted)
    found = next(exact, None)
    return find_heading(texts, anchor) if found is None else found


def _capped(lines: list[str], *, keep_end: bool) -> tuple[str, bool]:
    """The lines as a text that is not too long, and whether that took anything away but blanks."""
    lines = _trimmed(lines)
    truncated = len(lines) > MOST_LINES
    text = "\n".join(_trimmed(lines[-MOST_LINES:] if keep_end else lines[:MOST_LINES])).rstrip()
    if len(text) > MOST_CHARACTERS:
        return text[: MOST_CHARACTERS - 1].rstrip() + "…", True
    return text, truncated


def _trimmed(lines: list[str]) -> list[str]:
    """The lines without the blank ones at both ends."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
