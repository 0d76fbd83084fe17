"""Chunks: the parts of a note that search ranks.

Nothing is dropped: every line of the body that is not blank stands in exactly one chunk. A chunk is a section where
the section's size allows it; tiny sections go together, since a heading alone finds nothing, and long ones are cut
where a reader would pause.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from vademecum.markdown.note import Note

# Weights, not lengths: a character of an unspaced script says about as much as three of a spaced one.
_CAP = 1_200
_SMALL = 200
_UNSPACED_WEIGHT = 3
_SLUG_LENGTH = 80

# Thai and Lao, Myanmar, Khmer, Tai scripts, Han with its extensions, kana, bopomofo, and their full-width punctuation.
# Hangul puts spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3000-\u312f\u3190-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:>[ \t]*)*(?:[-*+]|\d{1,9}[.)])[ \t]")
_TABLE_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
# Bounded repeats: an unbounded one would read a row of dots once from each dot.
_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]{0,3}\s{1,4}|[。！？；｡]["'”’」』）】]{0,3}""")
_NOT_ALPHANUMERIC = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a note, verbatim.

    `key` is unique in the note and survives edits elsewhere in it: slug of the heading path, which of the sections with
    that slug, which piece of the section. Lines count from 1 in the file and are inclusive; `text` is part of a line
    where one long line had to be cut. `heading_path` is that of the first section in the chunk that has text of its
    own, so a bare heading with its first subsection goes under the subsection.
    """

    key: str
    ordinal: int
    heading_path: tuple[str, ...]
    first_line: int
    last_line: int
    text: str


class _Section(NamedTuple):
    """A heading with what follows it up to the next heading; offsets are characters in the text."""

    start: int
    end: int  # of its last line that is not blank
    level: int  # 0 before the first heading
    path: tuple[str, ...]
    bare: bool  # nothing but the heading
    weight: int


class _Piece(NamedTuple):
    """What becomes one chunk."""

    start: int
    end: int
    weight: int


class _Atom(NamedTuple):
    """A stretch of a long section that is not cut further; `apart` where a new chunk is welcome before it."""

    start: int
    end: int
    weight: int
    apart: bool


def cut(note: Note) -> list[Chunk]:
    """Cut the body of a note into chunks, in order, without overlap.

    A section under 200 characters goes with the following one when that is a sibling or deeper, else with the one
    before, as long as both fit in 1,200. Longer sections are cut at paragraphs, list items, lines, sentences, words,
    and in the last resort between graphemes; a table row is never cut, whatever its length. Characters of unspaced
    scripts count three times.
    """
    sections = _sections(note)
    return _chunks(note.text, sections, _pieces(note.text, sections))


def _sections(note: Note) -> list[_Section]:
    text = note.text
    # The offset of line i, from 0, is lengths[i] + i.
    lengths = [0, *accumulate(map(len, text.split("\n")))]
    start = min(lengths[min(note.body_line, len(lengths)) - 1] + note.body_line - 1, len(text))
    sections: list[_Section] = []
    stack: list[tuple[int, str]] = []
    level = 0
    for heading in note.headings:
        end = lengths[heading.line - 1] + heading.line - 1
        if section := _section(text, start, end, level, stack):
            sections.append(section)
        start, level = end, heading.level
        while stack and stack[-1][0] >= level:
            stack.pop()
        stack.append((level, heading.text))
    if section := _section(text, start, len(text), level, stack):
        sections.append(section)
    return sections


def _section(text: str, start: int, end: int, level: int, stack: list[tuple[int, str]]) -> _Section | None:
    """Return the section between two headings without the blank lines around it, or None if there is no more."""
    part = text[start:end]
    kept = len(part.rstrip())
    if not kept:
        return None
    if not level:
        start = text.rfind("\n", 0, end - len(part.lstrip())) + 1
        kept += end - start - len(part)
    line_end = text.find("\n", start + kept, end)
    # Of a heading that is underlined, the line below belongs to it; a rule is no text either.
    bare = level > 0 and not part.partition("\n")[2].strip(" \t\n=-")
    stop = line_end if line_end >= 0 else end
    path = tuple([name for _, name in stack if name])
    return _Section(start, stop, level, path, bare, _weight(text, start, stop))


def _weight(text: str, start: int, end: int) -> int:
    if text.isascii() or (part := text[start:end]).isascii():
        return end - start
    unspaced = sum(map(len, _UNSPACED.findall(part)))
    return end - start + (_UNSPACED_WEIGHT - 1) * unspaced


def _pieces(text: str, sections: list[_Section]) -> list[_Piece]:
    pieces: list[_Piece] = []
    waiting: _Section | None = None  # small, and hoping for the section that follows
    for section in sections:
        start, end, level, _, bare, weight = section
        if waiting is not None:
            joined = waiting.weight + start - waiting.end + weight
            follows = level >= waiting.level
            if follows and joined <= _CAP:
                start, level, bare, weight = waiting.start, waiting.level, waiting.bare and bare, joined
            elif follows and (waiting.bare or weight > _CAP):
                # A heading without text is cut with a section that is full or too long: alone it finds nothing.
                pieces += _split(text, waiting.start, end)
                waiting = None
                continue
            else:
                _append(pieces, waiting)
            waiting = None
        if weight < _SMALL:
            waiting = _Section(start, end, level, (), bare, weight)
        elif weight <= _CAP:
            pieces.append(_Piece(start, end, weight))
        else:
            pieces += _split(text, start, end)
    if waiting is not None:
        _append(pieces, waiting)
    return pieces


def _append(pieces: list[_Piece], small: _Section) -> None:
    """Add a small section to the piece before it, or as its own when there is no room."""
    if pieces:
        last = pieces[-1]
        weight = last.weight + small.start - last.end + small.weight
        if weight <= _CAP:
            pieces[-1] = _Piece(last.start, small.end, weight)
            return
    pieces.append(_Piece(small.start, small.end, small.weight))


def _split(text: str, start: int, end: int) -> list[_Piece]:
    """Cut a long stretch into pieces under the cap, filling each as far as its parts allow."""
    filled: list[list[_Atom]] = []
    weight = 0
    for atom in _atoms(text, start, end):
        if filled:
            grown = weight + atom.start - filled[-1][-1].end + atom.weight
            if grown <= _CAP and not (atom.apart and weight >= _SMALL):
                filled[-1].append(atom)
                weight = grown
                continue
        filled.append([atom])
        weight = atom.weight
    if len(filled) > 1:
        _even_out(filled[-2], filled[-1])
    return [_Piece(atoms[0].start, atoms[-1].end, _total(atoms)) for atoms in filled]


def _total(atoms: list[_Atom]) -> int:
    gaps = sum(after.start - before.end for before, after in pairwise(atoms))
    return gaps + sum(atom.weight for atom in atoms)


def _even_out(before: list[_Atom], last: list[_Atom]) -> None:
    """Move atoms from the piece before to a last piece that is too small to stand alone."""
    weight, left = _total(last), _total(before)
    while weight < _SMALL and len(before) > 1:
        moved = before[-1]
        gap = last[0].start - moved.end
        if weight + gap + moved.weight > _CAP or left - moved.weight < _SMALL:
            return
        last.insert(0, before.pop())
        weight += gap + moved.weight
        left -= moved.weight


def _atoms(text: str, start: int, end: int) -> Iterator[_Atom]:
    for first, last, code in _paragraphs(text, start, end):
        weight = _weight(text, first, last)
        if weight <= _CAP:
            yield _Atom(first, last, weight, apart=False)
            continue
        apart = True
        for line_start, line_end, row in _lines_or_items(text, first, last, code=code):
            weight = _weight(text, line_start, line_end)
            if weight <= _CAP or row:
                yield _Atom(line_start, line_end, weight, apart)
                apart = False
                continue
            for part_start, part_end in _line_parts(text, line_start, line_end):
                if not text[part_start:part_end].isspace():
                    yield _Atom(part_start, part_end, _weight(text, part_start, part_end), apart)
                    apart = False


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = text.find("\n", start, end)
        if stop < 0:
            stop = end
        yield start, stop
        start = stop + 1


def _paragraphs(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the stretches between blank lines, and whole fenced code blocks, marked as such."""
    first = last = -1
    fence = ""
    for line_start, line_end in _lines(text, start, end):
        line = text[line_start:line_end]
        mark = _FENCE.match(line)
        if mark and not fence:
            if first >= 0:
                yield first, last, False
            first, last, fence = line_start, line_end, mark.group(1)
            continue
        if not line or line.isspace():
            if first >= 0 and not fence:
                yield first, last, False
                first = -1
            continue
        first, last = (line_start if first < 0 else first), line_end
        if mark and mark.group(1).startswith(fence):
            yield first, last, True
            first, fence = -1, ""
    if first >= 0:
        yield first, last, bool(fence)


def _lines_or_items(text: str, start: int, end: int, *, code: bool) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of a long paragraph: list items that fit, else lines; True for the rows of a table."""
    spans = list(_lines(text, start, end))
    table = not code and any("|" in (line := text[a:b]) and _TABLE_RULE.match(line) for a, b in spans)
    item: list[tuple[int, int]] = []
    for span in spans:
        if item and (code or table or _ITEM.match(text, span[0], span[1])):
            yield from _item(text, item, table=table)
            item = []
        item.append(span)
    yield from _item(text, item, table=table)


def _item(text: str, lines: list[tuple[int, int]], *, table: bool) -> Iterator[tuple[int, int, bool]]:
    first, last = lines[0][0], lines[-1][1]
    if len(lines) == 1 or _weight(text, first, last) <= _CAP:
        if text[first:last].strip():
            yield first, last, table and "|" in text[first:last]
        return
    for start, end in lines:
        if start < end:
            yield start, end, False


def _line_parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a line that is over the cap: after a sentence, else after a space, else between two graphemes."""
    while True:
        limit = _reach(text, start, end)
        if limit >= end:
            yield start, end
            return
        stop = _pause(text, start, limit) or _grapheme_end(text, start, limit, end)
        yield start, stop
        if stop >= end:
            return
        start = stop


def _reach(text: str, start: int, end: int) -> int:
    """Return how far from start the cap lasts."""
    stop = min(start + _CAP, end)
    if text.isascii():
        return stop
    left, cursor = _CAP, start
    for run in _UNSPACED.finditer(text, start, stop):
        plain = run.start() - cursor
        if plain >= left:
            break
        left -= plain
        if (run.end() - run.start()) * _UNSPACED_WEIGHT > left:
            return run.start() + left // _UNSPACED_WEIGHT
        left -= (run.end() - run.start()) * _UNSPACED_WEIGHT
        cursor = run.end()
    return min(stop, cursor + left)


def _pause(text: str, start: int, limit: int) -> int:
    """Return the last place before the limit where a reader would pause, or 0.

    A sentence end in the first third is passed over for a space further on: it would leave a scrap.
    """
    third = (limit - start) // 3
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, limit)]
    if ends and ends[-1] - start > third and _between_graphemes(text, ends[-1]):
        return ends[-1]
    space = max(text.rfind(" ", start, limit), text.rfind("\t", start, limit), text.rfind("\u3000", start, limit))
    if space > start and _between_graphemes(text, space + 1):
        return space + 1
    return 0


def _between_graphemes(text: str, position: int) -> bool:
    if text[position].isascii():
        return True
    match = _grapheme().match(text, position - 1)
    return match is not None and match.end() == position


def _grapheme_end(text: str, start: int, limit: int, end: int) -> int:
    """Return the last grapheme end up to the limit; a single grapheme that is longer stays whole."""
    if text.isascii():
        return limit
    window = limit - start + 64
    while True:
        # Only a window is looked at: regex counts the flags before each flag, from the start of what it is given.
        part = text[start : min(start + window, end)]
        whole = start + len(part) == end
        stop = 0
        for match in _grapheme().finditer(part):
            if (match.end() > limit - start and stop) or (match.end() == len(part) and not whole):
                break
            stop = match.end()
        if stop:
            return start + stop
        window *= 4


@cache
def _grapheme() -> Any:
    import regex

    return regex.compile(r"\X")


def _chunks(text: str, sections: list[_Section], pieces: list[_Piece]) -> list[Chunk]:
    chunks: list[Chunk] = []
    keys = _keys(sections)
    used = [0] * len(sections)
    line, counted = 1, 0
    current = 0
    for ordinal, (start, end, _) in enumerate(pieces):
        while current + 1 < len(sections) and sections[current + 1].start <= start:
            current += 1
        naming = current
        # A piece that begins inside a section belongs to it; one that begins with bare headings to what they head.
        if sections[current].bare and start == sections[current].start:
            naming = _naming_section(sections, current, end)
        line += text.count("\n", counted, start)
        counted = start
        part = text[start:end]
        key = f"{keys[naming]}:{used[naming]}"
        used[naming] += 1
        chunks.append(Chunk(key, ordinal, sections[naming].path, line, line + part.count("\n"), part))
    return chunks


def _naming_section(sections: list[_Section], current: int, end: int) -> int:
    """Return the first section with text of its own that begins before `end`, else the current one."""
    for naming in range(current, len(sections)):
        if sections[naming].start >= end:
            break
        if not sections[naming].bare:
            return naming
    return current


def _keys(sections: list[_Section]) -> list[str]:
    """Return slug and occurrence of each section."""
    seen: dict[str, int] = {}
    keys: list[str] = []
    for section in sections:
        slug = _path_slug(section.path)
        occurrence = seen.get(slug, 0)
        seen[slug] = occurrence + 1
        keys.append(f"{slug}:{occurrence}")
    return keys


def _path_slug(path: tuple[str, ...]) -> str:
    if not path:
        return "overview"
    slug = "-".join(filter(None, map(_slug, path)))[:_SLUG_LENGTH].rstrip("-")
    return slug or f"{zlib.crc32('/'.join(path).encode()):08x}"


@lru_cache(maxsize=4096)
def _slug(heading: str) -> str:
    if not heading.isascii():
        # Marks belong to their letter: without them Thai and Hindi words fall apart.
        heading = "".join(
            c if c.isalnum() or unicodedata.category(c)[0] == "M" else "-" for c in heading[: 4 * _SLUG_LENGTH]
        )
    return _NOT_ALPHANUMERIC.sub("-", heading.lower()).strip("-")
