"""The properties at the head of a note, and whether they make it private.

Shaped against one failure: a note with bad YAML that vanishes from search, or takes the run with it. A bad entry
costs itself and one diagnostic, never its neighbours and never the body. Where the reading is uncertain, privacy
fails closed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# A value is text, a list or a mapping. Beyond these bounds it is dropped: aliases can unfold a few hundred bytes into
# gigabytes as soon as somebody writes the properties out.
_MAX_CHARACTERS = 64 * 1024
_MAX_NODES = 5_000
_MAX_DEPTH = 20

_CLOSING = re.compile(r"\n---[ \t]*(?=\n|\Z)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOP_LEVEL_KEY = re.compile(
    r"""("[^"\n]*"|'[^'\n]*'|[^\s#\-"'&*!|>%@`{}\[\],:][^:\n]*|-[^\s:][^:\n]*):(?=\s|$)""",
)
_LIST_ITEM = re.compile(r"[ \t]*-(?:[ \t]+|$)")
_CONTINUATION = re.compile(r"[ \t]|#|-(?:[ \t]|$)|$")
# What most notes hold, and every memory: one key a line, each with a plain or quoted text, or with a list of such
# texts, beside it or below. Read here it takes a fraction of the time that YAML takes, which gets all other lines.
_SIMPLE_LIMIT = 4_000
_QUOTED = (
    r'"(?:[^"\\{<\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]'
    r'|\\["\\bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"'
)
_SIMPLE_TEXT = rf"""(\w(?:[\w ./()+,&'@-]|:(?=[\w/.-]))*|{_QUOTED})"""
_ITEM = rf"""(?:\w[\w ./()+&'@-]*|{_QUOTED})"""
_SIMPLE_ITEM = re.compile(_ITEM)
_SIMPLE_LINE = re.compile(
    rf"([A-Za-z][\w-]{{,60}}):(?: +(?:{_SIMPLE_TEXT}|(\[ *(?:{_ITEM}(?: *, *{_ITEM})*)? *\])))? *"
    rf"|( *)-(?: +{_SIMPLE_TEXT})? *"
)
_PLACEHOLDER = re.compile(r"\{\{[^\n]*?\}\}|<%[^\n]*?%>")
_STAND_IN = re.compile("\ue000([0-9]+)\ue001")
_PRIVATE_LINE = re.compile(
    r"""^[ \t]*(?:-[ \t]*)?["']?(?:\#?private(?:/[^\s"']*)?["']?
        |private["']?[ \t]*:[ \t]*["']?(?:true|yes|on|1)["']?)[ \t]*,?[ \t]*(?:[ \t]\#.*)?$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_PRIVATE_PAIR = re.compile(r"(?<![\w-])private[\"']?[ \t]*:[ \t\[]*[\"']?(?:true|yes|y|on|1)\b", re.IGNORECASE)
_TAGS_LINE = re.compile(r"^[ \t{,]*[\"']?tags?[\"']?[ \t]*:(.*)$", re.IGNORECASE | re.MULTILINE)
_PRIVATE_WORD = re.compile(r"(?<![\w/-])private(?![\w-])", re.IGNORECASE)
_TRUTHY = frozenset({"true", "yes", "1", "on"})
_TAG_SEPARATOR = re.compile(r"[\s,]+")
_ISO_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something in a note that could not be read as it was meant; `line` counts from 1 in the file."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The properties of a note and where its body starts.

    `body_start` is a character offset, `body_line` counts from 1; both lie one past the end when nothing follows.
    """

    properties: Mapping[str, Any]
    text: str
    body_start: int
    body_line: int
    private: bool
    diagnostics: tuple[Diagnostic, ...]


def normalise(text: str) -> str:
    """Bring text into the one form that every line number and offset refers to.

    Strips one byte order mark, turns CRLF and CR into LF, and NUL and lone surrogates, which no store accepts, into
    U+FFFD. Only LF ends a line then, as in an editor: never number lines with str.splitlines.
    """
    if text.startswith("\ufeff"):
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _SURROGATE.sub("\ufffd", text)
    return text


def read_frontmatter(text: str) -> Frontmatter:
    """Read the properties of a normalised text; any text is accepted.

    A block that is opened and never closed is no frontmatter, but makes the note private: what stands in it may have
    been meant to.
    """
    if not text.startswith("---"):
        return _NO_FRONTMATTER
    first_end = text.find("\n")
    first = text if first_end < 0 else text[:first_end]
    if first.rstrip(" \t") != "---":
        return _NO_FRONTMATTER
    closing = _CLOSING.search(text, first_end) if first_end >= 0 else None
    if closing is None:
        unclosed = Diagnostic(1, "The properties opened by --- on line 1 are never closed; the note is kept private.")
        return Frontmatter({}, "", 0, 1, private=True, diagnostics=(unclosed,))
    block = text[first_end + 1 : closing.start()]
    body_line = text.count("\n", 0, closing.end()) + 2
    body_start = min(closing.end() + 1, len(text))
    simple = _read_simple(block)
    if simple is not None:
        return Frontmatter(simple, block, body_start, body_line, _marks_private(block, simple), ())
    reader = _Reader(block)
    properties = reader.read()
    private = reader.private or _marks_private(block, properties)
    return Frontmatter(properties, block, body_start, body_line, private, tuple(reader.diagnostics))


def values_of(properties: Mapping[str, Any], *names: str) -> Iterator[Any]:
    """Yield the values of the properties so named, in any case, in file order."""
    for key, value in properties.items():
        if key.lower() in names:
            yield value


def title_of(properties: Mapping[str, Any]) -> str:
    """Return the title on one line, or an empty text."""
    for value in values_of(properties, "title"):
        if isinstance(value, str) and (title := " ".join(value.split())):
            return title
    return ""


def aliases_of(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the other names of the note, each once, in file order."""
    found: dict[str, None] = {}
    for value in values_of(properties, "aliases", "alias"):
        names = value.strip("[]").split(",") if isinstance(value, str) else _texts(value)
        for name in names:
            if alias := " ".join(name.split()).strip("\"'"):
                found[alias] = None
    return tuple(found)


def tags_of(properties: Mapping[str, Any]) -> list[str]:
    """Return the tags of the properties without their #, as written, repeats included."""
    found: list[str] = []
    for value in values_of(properties, "tags", "tag"):
        if isinstance(value, str):
            # A list that YAML refused arrives as its raw text.
            pieces: Iterator[str] = iter(_TAG_SEPARATOR.split(value.strip("[]")))
        else:
            pieces = _texts(value)
        for piece in pieces:
            tag = piece.strip("\"' \t\n").lstrip("#").strip().rstrip("/")
            if tag and "{{" not in tag and "<%" not in tag:
                found.append(" ".join(tag.split()))
    return found


def date_of(properties: Mapping[str, Any]) -> str | None:
    """Return the property `date` as yyyy-mm-dd when its text starts with such a date."""
    for value in values_of(properties, "date"):
        if isinstance(value, str) and (match := _ISO_DATE.match(value.lstrip())):
            return match.group()
    return None


def is_private_tag(tag: str) -> bool:
    """Say whether a tag, without its #, withholds the note: `private` or one nested in it."""
    head = tag[:8].lower()
    return head == "private" or head == "private/"


_NO_FRONTMATTER = Frontmatter({}, "", 0, 1, private=False, diagnostics=())


def _marks_private(block: str, properties: Mapping[str, Any]) -> bool:
    if "private" not in block.lower():
        # An escape can spell the word in a quoted YAML text; only then are the values worth a second look.
        if "\\" not in block:
            return False
    elif _PRIVATE_LINE.search(block) or _PRIVATE_PAIR.search(block):
        return True
    elif any(_PRIVATE_WORD.search(line[1]) for line in _TAGS_LINE.finditer(block)):
        return True  # also where YAML lets a later line of the same name win
    if any(isinstance(value, str) and value.strip().lower() in _TRUTHY for value in values_of(properties, "private")):
        return True
    return any(is_private_tag(piece.lstrip("#")) for tag in tags_of(properties) for piece in _TAG_SEPARATOR.split(tag))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a list, nested lists flattened; a one-key mapping is a name with an unquoted colon."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{key}: {item}" if isinstance(item, str) and item else key


def _read_simple(block: str) -> dict[str, Any] | None:
    """Return what YAML would make of a block of simple lines, or None for any other block."""
    if len(block) > _SIMPLE_LIMIT:
        return None
    properties: dict[str, Any] = {}
    items: list[str] | None = None
    key, key_is_free, margin = "", False, ""  # the key waits for a list
    for line in block.split("\n"):
        if not line:
            continue
        match = _SIMPLE_LINE.fullmatch(line)
        if match is None:
            return None
        name, value, listed, indent, item = match.groups()
        if name is not None:
            key, key_is_free, items = name, value is None and listed is None, None
            properties[key] = _simple_text(value) if listed is None else _simple_list(listed)
        elif items is not None and indent == margin:
            items.append(_simple_text(item))
        elif items is None and key_is_free:
            properties[key] = items = [_simple_text(item)]
            margin = indent
        else:
            return None
    return properties


def _simple_text(value: str | None) -> str:
    if value is None:
        return ""
    if value[0] != '"':
        return value.rstrip(" ")
    # Of what YAML writes with a backslash, only that is let in here which JSON reads the same.
    return str(json.loads(value)) if "\\" in value else value[1:-1]


def _simple_list(value: str) -> list[str]:
    return [_simple_text(item) for item in _SIMPLE_ITEM.findall(value)]


class _Reader:
    """Loads one frontmatter block: as a whole when it can, entry by entry when it must."""

    def __init__(self, block: str) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.private = False
        self._line = 2
        self._placeholders: list[str] = []
        self._nodes = 0
        self._characters = 0
        self._escaped = "\\" in block
        if len(block) > _MAX_CHARACTERS:
            block = block[: block.rfind("\n", 0, _MAX_CHARACTERS) + 1]
            # What was not inspected may say private.
            self.private = True
            self._report(1, f"The properties are longer than {_MAX_CHARACTERS} characters; the rest was not read.")
        if "{{" in block or "<%" in block:
            block = _PLACEHOLDER.sub(self._hide, block)
        self._block = block

    def read(self) -> dict[str, Any]:
        loaded = _load(self._block)
        if loaded is None:
            return {}
        if not isinstance(loaded, dict):
            return self._read_entries()
        properties: dict[str, Any] = {}
        for key, value in loaded.items():
            self._keep(properties, key, value)
        return properties

    def _hide(self, match: re.Match[str]) -> str:
        """Put a plain word in the place of a template's placeholder, which YAML would take for a mapping."""
        self._placeholders.append(match.group())
        return f"\ue000{len(self._placeholders) - 1}\ue001"

    def _show(self, match: re.Match[str]) -> str:
        number = int(match.group(1)[:9])
        return self._placeholders[number] if number < len(self._placeholders) else match.group()

    def _report(self, line: int, message: str) -> None:
        self.diagnostics.append(Diagnostic(line, message))

    def _keep(self, properties: dict[str, Any], key: Any, value: Any) -> None:
        """Add a property unless it is larger than any honest one; an over-large one is reported where it stands."""
        name = str(key)
        try:
            name = self._text(name)
            properties[name] = self._bounded(value, 1)
        except _TooLarge:
            self._report(self._line_of(name), f"The property {_quoted(name)} is too large or too deep; it is left out.")
            if name.lower() in ("tags", "tag", "private"):
                self.private = True

    def _bounded(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise _TooLarge
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._bounded(item, depth + 1) for item in value]
        return {self._text(key): self._bounded(item, depth + 1) for key, item in value.items()}

    def _text(self, value: str) -> str:
        self._characters += len(value)
        if self._characters > 4 * _MAX_CHARACTERS:
            raise _TooLarge
        if self._escaped:
            value = normalise(value)
        if self._placeholders and "\ue000" in value:
            value = _STAND_IN.sub(self._show, value)
        return value

    def _line_of(self, name: str) -> int:
        position = ("\n" + self._block).find(f"\n{name}")
        return 2 + self._block.count("\n", 0, max(position, 0))

    def _read_entries(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for line, entry in _entries(self._block):
            loaded = _load(entry)
            if isinstance(loaded, dict):
                for key, value in loaded.items():
                    self._keep(properties, key, value)
            elif loaded is not None:
                self._recover(properties, line, entry)
        return properties

    def _recover(self, properties: dict[str, Any], line: int, entry: str) -> None:
        """Keep what a reader can still tell of an entry that YAML refuses: one text, or a list of texts."""
        key = _TOP_LEVEL_KEY.match(entry)
        if key is None:
            self._report(line, "This line of the properties is not a `key: value`; it is left out.")
            return
        name = self._text(key.group(1).strip().strip("\"'"))
        value = entry[key.end() :].strip()
        rest = [part for part in value.split("\n") if part.strip()]
        if len(rest) <= 1 and not _LIST_ITEM.match(value):
            self._keep(properties, name, value)
            self._report(line, f"The property {_quoted(name)} is not valid YAML; its value is kept as plain text.")
        elif all(map(_LIST_ITEM.match, rest)):
            self._keep(properties, name, [_plain_item(part) for part in rest])
            self._report(line, f"The property {_quoted(name)} is not valid YAML; its items are kept as plain text.")
        else:
            self._report(line, f"The property {_quoted(name)} is not valid YAML; it is left out.")
            if name.lower() in ("tags", "tag", "private") and _PRIVATE_WORD.search(value):
                self.private = True


def _plain_item(line: str) -> str:
    return _LIST_ITEM.sub("", line, count=1).strip().strip("\"'")


class _TooLarge(Exception):
    pass


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= 40 else f'"{name[:40]}…"'


def _entries(block: str) -> Iterator[tuple[int, str]]:
    """Yield each top-level entry with its continuation lines and the number of its first line in the file."""
    first = 2
    lines: list[str] = []
    for number, line in enumerate(block.split("\n"), 2):
        if lines and _CONTINUATION.match(line):
            lines.append(line)
            continue
        if lines:
            yield first, "\n".join(lines)
        first, lines = number, [line]
    yield first, "\n".join(lines)


_BROKEN = object()


def _load(block: str) -> Any:
    """Return what YAML makes of a text with every scalar as text, None for nothing, or `_BROKEN`."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return yaml.load(block, loader)  # noqa: S506  (the base loader builds nothing but texts, lists and mappings)
    except (yaml.YAMLError, ValueError, RecursionError):
        return _BROKEN
