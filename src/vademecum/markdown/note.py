"""A note: what one Markdown text declares and links to.

One reading of a text serves search, graph, hygiene and write validation; several readings are how code samples become
broken links. pyromark tells which parts of the text are code, HTML or math, and where headings and Markdown links are;
what is Obsidian's own (wikilinks, tags, comments, block ids) is then matched on the text with those parts blanked out.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from vademecum.markdown.block import Block, blocks
from vademecum.markdown.frontmatter import (
    Diagnostic,
    Frontmatter,
    aliases_of,
    date_of,
    is_private_tag,
    normalise,
    read_frontmatter,
    tags_of,
    title_of,
)

# Blanked-out characters. normalise leaves no NUL in a text, so nothing that a note says can look like one.
_BLANK = "\0"
_BLANKED = bytes(10 if byte == 10 else 0 for byte in range(256))

# The alias may hold single brackets; `[[` never may, so that a run of unclosed links stays linear.
_WIKILINK = re.compile(r"\[\[([^\[\]|\n]*)(?:\|((?:[^\[\]\n]|\[(?!\[)|\](?!\])|\](?=\]\]))*))?\]\]")
# Wikilinks that pyromark need not see: five events each, half of all that a linked note has. Code, HTML, math and
# escapes may begin or end within one, so a link that holds such a mark stays.
_PLAIN_WIKILINK = re.compile(r"\[\[[^\[\]`<$\\\n]*\]\](?!\()")
_STAND_IN = re.compile("\x01\x02*")
# Patterns begin with a literal and look back past it: the regex engine then skips ahead to that literal.
_TAG = re.compile(
    r"#(?<![^\s(\"'“‘«「（|*]#)(?<!\]\(#)"
    "([^\\s\\x00-,.:-@\\[-^`{-\\x7f\u2000-\u200c\u200e-\u206f\u2e00-\u2e7f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\u00ab\u00bb]+)"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_AUTOLINKS = ("Autolink", "Email")
# Of a title or heading. Both are repeated with every chunk; the rest of a longer one is text, and found as such.
_LONGEST_NAME = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADING_MARKS = re.compile(r"%%.*?%%|==|~~|\[\^[^\]\s]+\]|[ \t]\^[A-Za-z0-9-]+[ \t]*$")
_ANCHOR_MARKS = re.compile(r"[#|^:%\[\]\\]+")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading outside code, HTML and comments; `text` is free of formatting and link syntax."""

    level: int
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written, unresolved.

    `target` is "" for a link within the note, and keeps whatever looks like a suffix. `heading` may name a path
    ("A#B"); `block` is an id without its ^. Markdown links are percent-decoded and only kept when they are relative.
    `property` names the property that holds the link; it is None for a link of the body.
    """

    target: str
    heading: str | None
    block: str | None
    alias: str | None
    embed: bool
    line: int
    kind: Literal["wiki", "markdown"]
    property: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed note. Lines count from 1 in the file; `text` is the whole file, normalised.

    `body_line` lies one past the last line when there is no body. `tags` are without #, those of the properties first,
    each once in its first spelling. `frontmatter` holds texts, lists and mappings only.
    """

    title: str
    frontmatter: Mapping[str, Any]
    frontmatter_text: str
    aliases: tuple[str, ...]
    headings: tuple[Heading, ...]
    links: tuple[Link, ...]
    tags: tuple[str, ...]
    blocks: tuple[Block, ...]
    body_line: int
    date: str | None
    private: bool
    diagnostics: tuple[Diagnostic, ...]
    text: str


# A tag in a comment is no tag of the note, but whoever wrote this one there did not mean "show it to everybody".
_PRIVATE_TAG = re.compile(r"(?<![\w&/#])#private(?![\w-])", re.IGNORECASE)


def parse(text: str, *, stem: str) -> Note:
    """Read a note from any text; `stem` is the file's name without suffix, the title of a note that declares none."""
    text = normalise(text)
    front = read_frontmatter(text)
    body = text[front.body_start :] if front.body_start else text
    outline = _read_structure(body)
    masked = _blank(body, outline.opaque)
    commented = [body[start:end] for start, end in outline.opaque if body.startswith("<!--", start)]
    comments = list(_comments(masked)) if "%%" in masked else []
    commented += [body[start:end] for start, end in comments]
    if comments:
        masked = _blank(masked, comments)
    headings = _headings(outline.headings, comments, body, body_line=front.body_line)
    tags = _tags(body, masked, outline.linked, declared=tags_of(front.properties))
    title = title_of(front.properties) or next((h.text for h in headings if h.level == 1 and h.text), "")
    return Note(
        title=(title or " ".join(stem.split()))[:_LONGEST_NAME].rstrip(),
        frontmatter=front.properties,
        frontmatter_text=front.text,
        aliases=aliases_of(front.properties),
        headings=headings,
        links=_links(body, masked, outline.targets, front=front),
        tags=tags,
        blocks=blocks(
            body, masked, [h.line for h in headings], spans=outline.blocks, raw=outline.raw, body_line=front.body_line
        ),
        body_line=front.body_line,
        date=date_of(front.properties),
        private=front.private or any(map(is_private_tag, tags)) or any(map(_PRIVATE_TAG.search, commented)),
        diagnostics=front.diagnostics,
        text=text,
    )


def section(note: Note, heading: str) -> tuple[int, int] | None:
    """Return the first and last line of a heading's section, or None when the note has no such heading.

    The section ends before the next heading of the same or a higher level.
    """
    position = find_heading([(h.level, h.text) for h in note.headings], heading)
    return None if position is None else (note.headings[position].line, _section_end(note, position))


def find_heading(outline: Iterable[tuple[int, str]], heading: str) -> int | None:
    """Return which of these headings, given by level and text, is meant, or None when none of them is.

    `heading` is matched without regard to case and to the characters that Obsidian drops from anchors; "A#B" is the
    first B below A.
    """
    wanted = [part for part in map(_anchor, heading.split("#")) if part]
    whole = _anchor(heading)
    above: list[tuple[int, str]] = []
    for position, (level, text) in enumerate(outline):
        name = _anchor(text)
        while above and above[-1][0] >= level:
            above.pop()
        if name and (name == whole or (wanted and name == wanted[-1] and _in_order(wanted[:-1], above))):
            return position
        above.append((level, name))
    return None


def block_lines(note: Note, block_id: str) -> tuple[int, int] | None:
    """Return the first and last line of the block that `^block_id` names, or None when the note has no such id."""
    wanted = block_id.removeprefix("^").lower()
    for name, first, last in note.blocks:
        if name is not None and name.lower() == wanted:
            return first, last
    return None


def _anchor(text: str) -> str:
    return " ".join(_ANCHOR_MARKS.sub(" ", text).casefold().split())


def _in_order(wanted: list[str], above: list[tuple[int, str]]) -> bool:
    names = iter(name for _, name in above)
    return all(part in names for part in wanted)


def _section_end(note: Note, position: int) -> int:
    level = note.headings[position].level
    for later in note.headings[position + 1 :]:
        if later.level <= level:
            return later.line - 1
    return note.text.count("\n") + (not note.text.endswith("\n"))


class _Target(NamedTuple):
    """A Markdown link as pyromark reports it; offsets are characters in the body."""

    start: int
    end: int
    destination: str
    embed: bool


class _Events(NamedTuple):
    """What pyromark reports, in bytes; the texts of a heading are still in parts."""

    headings: list[tuple[int, int, list[str]]]
    opaque: list[tuple[int, int]]
    math: list[tuple[int, int]]
    targets: list[_Target]
    linked: list[tuple[int, int]]
    blocks: list[tuple[int, int]]


class _Structure(NamedTuple):
    """What is found in a body, in characters; `blocks` in bytes of `raw`, which has the lines of the body."""

    headings: list[tuple[int, int, str]]  # offset, level, text
    opaque: list[tuple[int, int]]
    targets: list[_Target]  # relative ones
    linked: list[tuple[int, int]]  # all Markdown links and images
    blocks: list[tuple[int, int]]
    raw: bytes


@cache
def _parser() -> Any:
    import pyromark

    return pyromark.Markdown(
        options=pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_MATH | pyromark.Options.ENABLE_FOOTNOTES
    )


def _read_structure(body: str) -> _Structure:
    shown = _PLAIN_WIKILINK.sub(_hide, body) if "[[" in body else body
    headings, opaque, math, targets, linked, blocks = _read_events(shown)
    raw = shown.encode()
    if not body.isascii():
        at = _characters(raw, [start for start, _, _ in headings], *opaque, *math, *linked)
        headings = [(at[start], level, words) for start, level, words in headings]
        opaque = [(at[start], at[end]) for start, end in opaque]
        math = [(at[start], at[end]) for start, end in math]
        linked = [(at[start], at[end]) for start, end in linked]
        targets = [target._replace(start=at[target.start], end=at[target.end]) for target in targets]
    # "$5-$10" is money: a closing dollar is no delimiter before a digit.
    opaque += [(start, end) for start, end in math if not body[end : end + 1].isdigit()]
    opaque.sort()
    texts = [(start, level, _heading_text("".join(words), body, start)) for start, level, words in headings]
    return _Structure(texts, opaque, targets, linked, blocks, raw)


def _read_events(shown: str) -> _Events:
    """Ask pyromark for headings, opaque parts and Markdown links; its offsets count bytes.

    Its own wikilinks stay off: they keep the backslash of `\\|` and cost more than the regex that properties need
    anyway. One flat loop, since it turns a million times for a large vault.
    """
    found = headings, opaque, math, targets, linked, blocks = _Events([], [], [], [], [], [])
    texts: list[str] | None = None  # of the heading that is open
    for event, span in _parser().events_with_range(shown):
        if event.__class__ is str:
            if texts is not None:
                texts.append(" ")
            continue
        (kind,) = event
        if kind == "Text":
            if texts is not None:
                texts.append(event[kind])
        elif kind == "Start":
            tag = event[kind]
            if tag.__class__ is str:
                if tag == "Paragraph" or tag == "Item":
                    blocks.append((span["start"], span["end"]))
                elif tag == "HtmlBlock":
                    opaque.append((span["start"], span["end"]))
                continue
            (name,) = tag
            if name == "Heading":
                texts = []
                headings.append((span["start"], int(tag[name]["level"][1]), texts))
            elif name == "CodeBlock":
                opaque.append((span["start"], span["end"]))
                blocks.append((span["start"], span["end"]))
            elif name == "Table":
                blocks.append((span["start"], span["end"]))
            elif name == "Link" or name == "Image":
                linked.append((span["start"], span["end"]))
                link = tag[name]
                destination = link["dest_url"]
                if link["link_type"] in _AUTOLINKS or "\x01" in destination or _SCHEME.match(destination):
                    continue
                targets.append(_Target(span["start"], span["end"], destination, name == "Image"))
        elif kind == "End":
            if texts is not None and event[kind].__class__ is dict and "Heading" in event[kind]:
                texts = None
        elif kind != "Html" and kind != "FootnoteReference":
            if texts is not None and kind != "InlineHtml":
                texts.append(event[kind])
            (math if kind == "InlineMath" else opaque).append((span["start"], span["end"]))
    return found


def _hide(match: re.Match[str]) -> str:
    return "\x01" + "\x02" * (match.end() - match.start() - 1)


def _heading_text(text: str, body: str, start: int) -> str:
    """Clean a heading of what pyromark does not know: wikilinks, comments, highlights, block ids."""
    if "\x01" in text:
        hidden = _PLAIN_WIKILINK.finditer(body, start)
        text = _STAND_IN.sub(lambda stand_in: next(hidden, stand_in).group(), text)
    if "[[" in text:
        text = _WIKILINK.sub(_shown, text.replace("![[", "[["))
    if "^" in text or "==" in text or "~~" in text or "%%" in text:
        text = _HEADING_MARKS.sub("", text)
    return " ".join(text.split())[:_LONGEST_NAME].rstrip()


def _characters(raw: bytes, *offsets: Iterable[int]) -> dict[int, int]:
    """Map byte offsets to character offsets."""
    at: dict[int, int] = {}
    previous = characters = 0
    for offset in sorted({offset for group in offsets for offset in group}):
        characters += len(raw[previous:offset].decode(errors="replace"))
        at[offset] = characters
        previous = offset
    return at


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    if not spans:
        return text
    pieces: list[str] = []
    cursor = 0
    for start, end in spans:
        if end <= cursor:
            continue
        start = max(start, cursor)
        pieces.append(text[cursor:start])
        # Line breaks stay: a wikilink ends with its line, even when that ends in math, and the line after a block does
        # not go on from it.
        pieces.append(text[start:end].encode("latin-1", "replace").translate(_BLANKED).decode("ascii"))
        cursor = end
    pieces.append(text[cursor:])
    return "".join(pieces)


def _comments(masked: str) -> Iterator[tuple[int, int]]:
    """Yield what stands between %% and %%; a mark without a partner is text."""
    start = masked.find("%%")
    while start >= 0:
        end = masked.find("%%", start + 2)
        if end < 0:
            return
        yield start, end + 2
        start = masked.find("%%", end + 2)


def _headings(
    found: list[tuple[int, int, str]], comments: list[tuple[int, int]], body: str, *, body_line: int
) -> tuple[Heading, ...]:
    headings: list[Heading] = []
    line = body_line
    counted = 0
    for start, level, text in found:
        if comments and _covered(start, comments):
            continue
        # Headings of quotes and callouts are not part of the note's outline, in Obsidian too.
        line_start = body.rfind("\n", 0, start) + 1
        if line_start != start and (start - line_start > 3 or body[line_start:start].strip(" ")):
            continue
        line += body.count("\n", counted, start)
        counted = start
        headings.append(Heading(level, text, line))
    return tuple(headings)


def _covered(offset: int, spans: list[tuple[int, int]]) -> bool:
    """Say whether one of the spans, sorted and apart, holds the offset."""
    before = bisect_right(spans, (offset, sys.maxsize)) - 1
    return before >= 0 and offset < spans[before][1]


def _shown(match: re.Match[str]) -> str:
    """Return what a reader sees of a wikilink."""
    target, alias = match.groups()
    return alias or " > ".join(part.strip() for part in target.rstrip("\\").split("#") if part.strip())


def _links(body: str, masked: str, targets: list[_Target], *, front: Frontmatter) -> tuple[Link, ...]:
    """Return all links in file order, those of the properties first."""
    links = list(_property_links(front)) if "[[" in front.text else []
    found: list[tuple[int, _Target | re.Match[str]]] = []
    if "[[" in masked:
        for match in _WIKILINK.finditer(masked):
            start = match.start()
            if not start or masked[start - 1] != "\\":
                found.append((start, match))
    if targets:
        found += [(target.start, target) for target in targets if masked[target.start] != _BLANK]
        found.sort(key=itemgetter(0))
    line, counted = front.body_line, 0
    for start, item in found:
        line += body.count("\n", counted, start)
        counted = start
        link = _markdown_link(item, body, line) if isinstance(item, _Target) else _wikilink(item, body, line)
        if link is not None:
            links.append(link)
    return tuple(links)


def _wikilink(match: re.Match[str], body: str, line: int) -> Link | None:
    """Build a link from a match on the masked body; what it says is read from the body itself."""
    start, end = match.span(1)
    target, _, anchor = body[start:end].rstrip("\\").partition("#")
    target = target.strip()
    heading, block = _anchor_parts(anchor) if anchor else (None, None)
    if not (target or heading or block):
        return None
    alias = None
    if match.group(2) is not None:
        start, end = match.span(2)
        alias = body[start:end].replace("\\|", "|").strip() or None
    start = match.start()
    return Link(target, heading, block, alias, start > 0 and body[start - 1] == "!", line, "wiki")


def _markdown_link(target: _Target, body: str, line: int) -> Link | None:
    path, _, anchor = target.destination.partition("#")
    path = _decoded(path)
    heading, block = _anchor_parts(_decoded(anchor)) if anchor else (None, None)
    if not (path or heading or block):
        return None
    text_end = body.rfind("](", target.start, target.end)
    alias = body[target.start + 1 + target.embed : text_end].strip() if text_end >= 0 else ""
    return Link(path, heading, block, alias or None, target.embed, line, "markdown")


def _decoded(destination: str) -> str:
    if "%" in destination:
        from urllib.parse import unquote

        destination = unquote(destination)
    # An encoded line break or NUL must not travel on in a name.
    return _CONTROL.sub(" ", destination).strip()


def _anchor_parts(anchor: str) -> tuple[str | None, str | None]:
    """Split what follows the first # of a target into heading and block id."""
    heading, mark, block = f"#{anchor.strip()}".rpartition("#^")
    return (heading if mark else anchor).strip("# ") or None, block.strip() or None if mark else None


def _property_links(front: Frontmatter) -> Iterator[Link]:
    """Yield the wikilinks in the properties' values, each with the line where its text stands."""
    cursor = 0
    held = ((name, text) for name, value in front.properties.items() for text in _strings(value) if "[[" in text)
    for name, value in held:
        for match in _WIKILINK.finditer(value):
            position = front.text.find(match.group(), cursor)
            # YAML may have folded or unescaped the text; then the value before it is the nearest known place.
            cursor = position if position >= 0 else cursor
            link = _wikilink(match, value, 2 + front.text.count("\n", 0, cursor))
            if link is not None:
                yield replace(link, property=str(name))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def _tags(body: str, masked: str, linked: list[tuple[int, int]], *, declared: list[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for tag in declared:
        found.setdefault(tag.casefold(), tag)
    destinations: list[tuple[int, int]] | None = None
    for match in _TAG.finditer(masked):
        tag = match.group(1).rstrip("/")
        if tag.isdigit() or not tag.strip("_-/"):
            continue
        if destinations is None:
            destinations = _destinations(body, masked, linked)
        if not _covered(match.start(), destinations):
            found.setdefault(tag.casefold(), tag)
    return tuple(found.values())


def _destinations(body: str, masked: str, linked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of links in which a # is no tag: whole wikilinks, and all but the text of Markdown links."""
    spans = [match.span() for match in _WIKILINK.finditer(masked)]
    spans += [(middle, end) for start, end in linked if (middle := body.rfind("](", start, end)) >= 0]
    return sorted(spans)
