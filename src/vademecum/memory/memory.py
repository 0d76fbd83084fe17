"""A memory: one Markdown file that declares whom it is for and how sure it is.

How it is written, and how it is read again. Reading never raises: a person's editor, a sync tool or an older program
may have touched the file, and what cannot be understood counts as not said. The failure it is shaped against is a
title with a comma in it that comes back as two.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from vademecum.access import Reach, Scope
from vademecum.markdown import normalise, read_frontmatter
from vademecum.markdown.promotion import parse_marker
from vademecum.vault import CAPTURED

Confidence = Literal["verified", "inferred", "unverified"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
CONFIDENCES: Final[tuple[Confidence, ...]] = get_args(Confidence)
HAND_FILED: Final = "hand-filed"
"""What `source` says of a memory that a session wrote as a file, since a call could not be made."""
UNKNOWN_ORIGIN: Final = "unknown"
OWNER_ORIGIN: Final = "owner"

_LONGEST_SLUG: Final = 60
_EARLIEST_CUT: Final = 36
_MOST_SLUG_BYTES: Final = 200
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.IGNORECASE)
_UNUSABLE: Final = re.compile(r'[<>:"|?*\x00-\x1f\x7f-\x9f/\\\[\]#^\u2028\u2029]|\.{2,}')
_INVISIBLE: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)")
_BRACKETS: Final = re.compile(r"\[\[|\]\]")
_H1: Final = re.compile(r"#[ \t]+(.*?)(?:[ \t]+#*)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
KNOWN: Final = "How this is known"
REACHES: Final = "Why this reaches everywhere"
RELATED: Final = "Related"
_SAYS_PRIVATE: Final = re.compile(r"(private(?:\\?[\"'])?[ \t]*):", re.IGNORECASE)
_SECTIONS: Final = re.compile(rf"^## (?:{KNOWN}|{REACHES}|{RELATED})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to become a memory, after it was checked. `origin` is the project that says it."""

    title: str
    body: str
    reach: Reach
    confidence: Confidence
    origin: str
    verification: str = ""
    generality: str = ""
    links: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    claimed_confidence: Confidence | None = None
    claimed_scope: Scope | None = None
    tags: tuple[str, ...] = ()
    type: str = ""
    pinned: bool = False
    importance: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as its file says. `body` holds everything below the title, the generated sections included.

    `path` is relative to the vault and is the memory's id. `source` says who wrote the file: nothing is served, and
    nothing is edited, of a file that says neither of the two words that mean a memory.
    """

    path: str
    title: str
    body: str
    reach: Reach
    confidence: Confidence
    source: str = ""
    origin: str = ""
    date: str = ""
    session: str = ""
    description: str = ""
    superseded_by: tuple[str, ...] = ()
    promoted: str | None = None
    flags: tuple[str, ...] = ()
    claimed_confidence: str | None = None
    claimed_scope: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    type: str = ""
    pinned: bool = False
    importance: float | None = None
    corroborated: int = 0
    private: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_served(self) -> bool:
        """Whether it is a memory at all, and not a note that lies among them."""
        return self.source in (CAPTURED, HAND_FILED)

    @property
    def is_superseded(self) -> bool:
        """Whether it says that another memory corrects it."""
        return bool(self.superseded_by)

    @property
    def words(self) -> str:
        """All that it says."""
        return f"{self.title}\n{self.body}"

    @property
    def claim(self) -> str:
        """The body without the sections that say how it is known and what it relates to."""
        found = _SECTIONS.search(self.body)
        return self.body[: found.start()].rstrip() if found else self.body

    @property
    def weight(self) -> float:
        """How much it matters, from 0 to 1; a pinned one is of the utmost importance."""
        return 1.0 if self.pinned else 0.5 if self.importance is None else self.importance

    def facets(self) -> dict[str, Any]:
        """What it declares, with the names of the wire."""
        return {
            "scope": self.reach.scope,
            "projects": list(self.reach.projects),
            "platforms": list(self.reach.platforms),
            "confidence": self.confidence,
            "origin": self.origin,
            "date": self.date,
            "type": self.type or None,
            "tags": list(self.tags),
            "pinned": self.pinned,
            "importance": self.importance,
            "weight": self.weight,
            "corroborated": self.corroborated,
            "flags": list(self.flags),
            "superseded_by": list(self.superseded_by),
            "promoted": self.promoted if parse_marker(self.promoted) is not None else None,
        }


def slug(title: str) -> str:
    """The title as part of a file name that every system takes: one segment, at most 60 characters; "" if none is left.

    Letters keep their script and lose their accents.
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", title) if not "\u0300" <= c <= "\u036f")
    text = _UNUSABLE.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFC", plain)))
    text = " ".join(text.split())
    if len(text) > _LONGEST_SLUG:
        text = text[:_LONGEST_SLUG]
        space = text.rfind(" ")
        text = (text[:space] if space > _EARLIEST_CUT else text).strip()
    # A name of 255 bytes is the most that a disk takes, its day and its number included.
    text = text.encode()[:_MOST_SLUG_BYTES].decode(errors="ignore")
    text = text.rstrip(". ").lstrip(". ")
    text = "" if not any(c.isalnum() or unicodedata.category(c) == "So" for c in text) else text
    return f"_{text}" if _RESERVED.fullmatch(text) else text


def describe(body: str) -> str:
    """One sentence of a body, at most 150 characters, for lists. Without links, which properties would have too."""
    text = " ".join(_BRACKETS.sub("", body).split())
    for end in _SENTENCE_END.finditer(text):
        if end.end() > 40:
            text = text[: end.end()]
            break
    if len(text) <= 150:
        return text
    cut = text[:150]
    space = cut.rfind(" ")
    return (cut[:space] if space > 100 else cut).rstrip() + "…"


def render(draft: Draft, *, date: str, session: str) -> str:
    """The file of a new memory. `date` is the local day, `session` the moment in UTC."""
    name = slug(draft.title)
    rows = [
        f"date: {date}",
        f"description: {quoted(describe(draft.body))}",
        f"tags: {listed(['memory', *draft.tags], plain=True)}",
        f"source: {CAPTURED}",
        f"origin: {quoted(draft.origin)}",
        f"session: {quoted(session)}",
        f"scope: {draft.reach.scope}",
        f"projects: {listed(draft.reach.projects)}",
        *([f"platforms: {listed(draft.reach.platforms)}"] if draft.reach.platforms else []),
        *([f"aliases: {listed([draft.title])}"] if name != draft.title else []),
        f"confidence: {draft.confidence}",
        *([f"claimed_confidence: {draft.claimed_confidence}"] if draft.claimed_confidence else []),
        *([f"flags: {listed(draft.flags, plain=True)}"] if draft.flags else []),
        *([f"claimed_scope: {draft.claimed_scope}"] if draft.claimed_scope else []),
        *([f"type: {draft.type}"] if draft.type else []),
        *(["pinned: true"] if draft.pinned else []),
        *([f"importance: {draft.importance:g}"] if draft.importance is not None else []),
    ]
    sections = [
        f"# {draft.title}",
        draft.body.strip(),
        *([f"## {KNOWN}\n\n{draft.verification.strip()}"] if draft.verification.strip() else []),
        *([f"## {REACHES}\n\n{draft.generality.strip()}"] if draft.generality.strip() else []),
        *([f"## {RELATED}\n\n" + "\n".join(f"- [[{name}]]" for name in draft.links)] if draft.links else []),
    ]
    return "---\n" + "\n".join(rows) + "\n---\n\n" + "\n\n".join(sections) + "\n"


def parse_memory(text: str, *, path: str) -> Memory:
    """Read a file of the memory root. Never raises; what is not said, or cannot be understood, has its default."""
    text = normalise(text)
    head = read_frontmatter(text)
    says = head.properties
    title, body = _title_and_body(text[head.body_start :])
    return Memory(
        path=path,
        title=title,
        body=body,
        reach=Reach(
            _one_of(says.get("scope"), SCOPES, "project"), _list(says.get("projects")), _list(says.get("platforms"))
        ),
        confidence=_one_of(says.get("confidence"), CONFIDENCES, "unverified"),
        source=_text(says.get("source")),
        origin=_text(says.get("origin")),
        date=_text(says.get("date"))[:10],
        session=_text(says.get("session")),
        description=_text(says.get("description")),
        superseded_by=_list(says.get("superseded_by")),
        promoted=value if isinstance(value := says.get("promoted"), str) else None,
        flags=_list(says.get("flags")),
        claimed_confidence=_text(says.get("claimed_confidence")) or None,
        claimed_scope=_text(says.get("claimed_scope")) or None,
        aliases=_list(says.get("aliases")),
        tags=tuple(tag.lstrip("#") for tag in _list(says.get("tags")) if tag.lstrip("#") not in ("", "memory")),
        type=_text(says.get("type")),
        pinned=_text(says.get("pinned")).lower() in ("true", "yes"),
        importance=_fraction(says.get("importance")),
        corroborated=int(number) if (number := _text(says.get("corroborated"))).isdecimal() else 0,
        private=head.private,
        properties=says,
    )


def _title_and_body(text: str) -> tuple[str, str]:
    """The first level-1 heading outside of a fence, and the text without that line."""
    fence = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif heading := _H1.fullmatch(line):
            return heading[1].strip(), "\n".join([*lines[:number], *lines[number + 1 :]]).strip()
    return "", text.strip()


def _one_of(value: object, allowed: Iterable[Any], otherwise: Any) -> Any:
    text = _text(value)
    return text if text in allowed else otherwise


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _list(value: object) -> tuple[str, ...]:
    """The texts of a list; a single text is a list of one."""
    values = value if isinstance(value, list) else [value]
    return tuple(text for item in values if (text := _text(item)))


def _fraction(value: object) -> float | None:
    try:
        number = float(_text(value))
    except ValueError:
        return None
    return min(1.0, max(0.0, number)) if number == number else None


def quoted(text: str) -> str:
    """A text in double quotes as JSON writes it, which YAML reads the same: no character of it ends the properties."""
    flat = json.dumps(text, ensure_ascii=False)
    # Wherever properties seem to say that a note is private, it is; a title may speak of that.
    flat = _SAYS_PRIVATE.sub(r"\1\\u003a", flat)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", flat)


def listed(texts: Iterable[str], *, plain: bool = False) -> str:
    """Texts as a list on one line, quoted unless they are known to be plain words."""
    return f"[{', '.join(texts if plain else map(quoted, texts))}]"
