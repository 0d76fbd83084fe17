"""What has to hold for any text whatever: the promises of `markdown`, each as the words in which it is broken.

Nothing here asks the code under test how it does it: lines, blanks and offsets are counted anew.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from vademecum.markdown import Chunk, Note, block_lines, cut, normalise, parse, section
from vademecum.markdown.plain import embedded_text

STEM: Final = "The stem"
WEIGHT_CAP: Final = 1_200
_VARIED_CHARACTERS: Final = 20_000
_SECTIONS_UNTIL: Final = 60  # lines: looking up every heading of a note takes time by the square of their number

_UNFIT: Final = re.compile("[\0\ud800-\udfff]")
_RULE: Final = re.compile(r"\s*[-=]+\s*")
_PRIVATE: Final = re.compile(r"private: (?:true|yes)[ \t]*", re.IGNORECASE)
_PLAIN_PARAGRAPH: Final = "\n\nzzneighbour paragraph\n"


def broken(content: bytes, *, thorough: bool = False) -> str | None:
    """The first promise that is broken for a file of these bytes, as "promise: details"; None when all are kept.

    Reading a note once more in another form takes as long as all else, so only a third of the files, told by their
    length, are read so, unless it is to be `thorough`.
    """
    # As a file is read; and as text may come from elsewhere, with halves of surrogate pairs.
    escaped = len(content) % 7 == 0
    readings = ("replace", "surrogateescape") if thorough else ("surrogateescape" if escaped else "replace",)
    found = (problems(content.decode("utf-8", reading), thorough=thorough) for reading in readings)
    return next(chain.from_iterable(found), None)


def problems(text: str, *, thorough: bool) -> Iterator[str]:
    """Every promise that is broken for a text."""
    note = parse(text, stem=STEM)
    chunks = cut(note)
    yield from note_problems(note)
    yield from chunk_problems(note, chunks)
    if len(text) <= _VARIED_CHARACTERS:
        if thorough or len(text) % 3 == 0:
            yield from _ending_problems(note)
        if thorough or len(text) % 3 == 1:
            yield from _neighbour_problems(note, chunks)


def note_problems(note: Note) -> Iterator[str]:
    """What is wrong with a note by itself."""
    lines = note.text.split("\n")
    if not note.text.startswith("\ufeff") and note.text != normalise(note.text):
        yield "normal form: the text of a note is not in the form that lines are counted in"
    if not 1 <= note.body_line <= len(lines) + 1:
        yield f"body line: {note.body_line} of {len(lines)} lines"
    if not note.title or note.title != " ".join(note.title.split()):
        yield f"title: {note.title!r} is no line"
    for name, said in _said(note):
        if _UNFIT.search(said):
            yield f"storable: {name} holds what no store accepts: {said!r}"
        if "\n" in said and name != "properties":
            yield f"one line: {name} {said!r}"
    yield from _heading_problems(note, lines)
    yield from _place_problems(note, lines)
    if _says_private(lines) and not note.private:
        yield "private: the properties say private, the note is not"


def chunk_problems(note: Note, chunks: list[Chunk]) -> Iterator[str]:
    """What is wrong with the chunks of a note: a line lost, doubled, altered or misplaced; a key twice."""
    start = _offset(note.text, note.body_line)
    cursor, line, last = start, 1 + note.text.count("\n", 0, start), 0
    for number, chunk in enumerate(chunks):
        place = note.text.find(chunk.text, cursor)
        if place < 0 or not chunk.text.strip():
            yield f"verbatim: chunk {number} is not in the text after the one before: {chunk.text[:80]!r}"
            return
        if note.text[cursor:place].strip():
            yield f"nothing lost: {note.text[cursor:place].strip()[:80]!r} stands in no chunk"
        line += note.text.count("\n", cursor, place)
        if chunk.first_line != line:
            yield f"first line: chunk {number} says {chunk.first_line}, it begins on {line}"
        cursor = place + len(chunk.text)
        line += chunk.text.count("\n")
        if chunk.last_line != line or chunk.first_line < last:
            yield f"last line: chunk {number} says {chunk.first_line}-{chunk.last_line}, it ends on {line}"
        last = chunk.last_line
        if chunk.ordinal != number:
            yield f"ordinal: chunk {number} says {chunk.ordinal}"
        if len(chunk.text) > WEIGHT_CAP and not _may_be_long(chunk.text):
            yield f"cap: chunk {number} has {len(chunk.text)} characters: {chunk.text[:80]!r}"
        embedded_text(note.title, chunk.heading_path, chunk.text)
    if note.text[cursor:].strip():
        yield f"nothing lost: {note.text[cursor:].strip()[:80]!r} at the end stands in no chunk"
    if len({chunk.key for chunk in chunks}) != len(chunks):
        yield "keys: two chunks have one key"


def _ending_problems(note: Note) -> Iterator[str]:
    """How lines end, and a mark at the beginning, make no other note."""
    if note.text.startswith("\ufeff"):
        return
    for ending in ("\n", "\r\n", "\r"):
        if parse("\ufeff" + note.text.replace("\n", ending), stem=STEM) != note:
            yield f"line endings: with a byte order mark and {ending!r} it is another note"


def _neighbour_problems(note: Note, chunks: list[Chunk]) -> Iterator[str]:
    """A paragraph after the end changes nothing above, and is found itself."""
    if note.text.startswith("\ufeff"):  # a second mark is text, and reading the text again would take it away
        return
    longer = parse(note.text + _PLAIN_PARAGRAPH, stem=STEM)
    cut_longer = cut(longer)
    for name in ("title", "frontmatter", "aliases", "headings", "tags", "links", "body_line", "private"):
        if getattr(longer, name) != getattr(note, name):
            yield f"neighbour: a paragraph at the end changes the {name}"
    if "zzneighbour" not in "".join(chunk.text for chunk in cut_longer[-1:]):
        yield "neighbour: a paragraph at the end is in no chunk"
    if len(cut_longer) < len(chunks) - 1:
        yield "neighbour: a paragraph at the end takes chunks away"


def _said(note: Note) -> Iterator[tuple[str, str]]:
    """Every text that leaves a note for the index, with what it is."""
    yield "title", note.title
    yield "properties", note.frontmatter_text
    yield from (("alias", alias) for alias in note.aliases)
    yield from (("tag", tag) for tag in note.tags)
    yield from (("heading", heading.text) for heading in note.headings)
    yield from (("block", name) for name, _, _ in note.blocks if name)
    yield from (("diagnostic", diagnostic.message) for diagnostic in note.diagnostics)
    for link in note.links:
        yield "link", link.target
        yield from (("anchor", part) for part in (link.heading, link.block) if part)
        if link.kind == "wiki":
            yield "alias of a link", link.alias or ""
    yield from (("property", name) for name in note.frontmatter if "\n" not in name)


def _heading_problems(note: Note, lines: list[str]) -> Iterator[str]:
    above = note.body_line - 1
    for heading in note.headings:
        if not (above < heading.line <= len(lines) and 1 <= heading.level <= 6):
            yield f"heading: {heading} after line {above} of {len(lines)}"
            continue
        below = islice(lines, heading.line, None)
        if not lines[heading.line - 1].lstrip().startswith("#") and not any(map(_RULE.fullmatch, below)):
            yield f"heading: line {heading.line} is none: {lines[heading.line - 1][:80]!r}"
        for name in (heading.text, f"{note.headings[0].text}#{heading.text}") if above < _SECTIONS_UNTIL else ():
            bounds = section(note, name)
            if bounds is not None and not note.body_line <= bounds[0] <= bounds[1] <= len(lines):
                yield f"section: {name!r} is {bounds} of {len(lines)} lines"
        above = heading.line


def _place_problems(note: Note, lines: list[str]) -> Iterator[str]:
    for link in note.links:
        if not 1 <= link.line <= len(lines) or (link.line >= note.body_line and "[" not in lines[link.line - 1]):
            yield f"link: {link} does not stand on its line"
        if not (link.target or link.heading or link.block):
            yield f"link: {link} leads nowhere"
    for diagnostic in note.diagnostics:
        if not 1 <= diagnostic.line <= len(lines):
            yield f"diagnostic: {diagnostic} of {len(lines)} lines"
    for block in note.blocks:
        name, first, last = block
        if not note.body_line <= first <= last <= len(lines):
            yield f"block: {block} of {len(lines)} lines"
        if name and (block_lines(note, name) is None or f"^{name}" not in note.text):
            yield f"block: {block} cannot be found again"


def _says_private(lines: list[str]) -> bool:
    """Whether the properties, read line by line as a person would, say private; unclosed ones are taken to."""
    if lines[0].rstrip(" \t") != "---":
        return False
    for line in lines[1:]:
        if line.rstrip(" \t") == "---":
            return False
        if _PRIVATE.fullmatch(line):
            return True
    return True


def _offset(text: str, line: int) -> int:
    """Where a line begins, from 1; the end of the text for the line after its last."""
    offset = 0
    for _ in range(line - 1):
        offset = text.find("\n", offset) + 1
        if not offset:
            return len(text)
    return offset


def _may_be_long(text: str) -> bool:
    """A row of a table is never cut, nor is what a reader sees as one character."""
    import regex

    return max(map(len, text.split("\n"))) > WEIGHT_CAP and (
        "|" in text or regex.fullmatch(r"\s*\X\s*", text) is not None
    )
