"""What may become a memory: raw values in, a draft or all the reasons against it out.

Only structure is refused, judgement is flagged: a refusal that is wrong loses what a session knew, a flag that is wrong
costs one line. What is checked is what is written, so links and characters are put right before anything is judged. The
failure it is shaped against is a memory that validates and then reaches nobody.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from vademecum.access import Reach, Scope
from vademecum.errors import MemoryRefused
from vademecum.markdown import normalise, parse
from vademecum.memory.memory import (
    CONFIDENCES,
    KNOWN,
    OWNER_ORIGIN,
    REACHES,
    RELATED,
    SCOPES,
    UNKNOWN_ORIGIN,
    Confidence,
    Draft,
    slug,
)

TYPES: Final = ("fact", "preference", "decision", "rule", "learning", "issue")

_LONGEST_TITLE: Final = 200
_SHORTEST_BODY: Final = 40
_LONG_BODY: Final = 8_000
# No index takes a file of several megabytes, so that nothing would find it.
_LONGEST_BODY: Final = 200_000
# Properties of more than 64 KiB are cut when they are read, and the reach with them.
_MOST_ENTRIES: Final = 50
_LONGEST_ENTRY: Final = 100


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft that may be written, and what its author should hear.

    `unlinked` are the wikilinks that lead nowhere and became plain text, `dropped` the names among `links` that do.
    """

    draft: Draft
    warnings: tuple[str, ...] = ()
    unlinked: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Rule(NamedTuple):
    """What a claim may look like. `fires` is given title and body; the `marker` of a flag stays with the memory."""

    id: str
    severity: Literal["reject", "flag"]
    marker: str
    fires: Callable[[str, str], bool]
    message: str


_SPEAKER: Final = re.compile(
    r"^[ \t>]{0,20}(?:\*\*)?(?:user|assistant|human|ai|system)(?:\*\*)?[ \t]{0,5}:", re.IGNORECASE | re.MULTILINE
)
_HAPPENS: Final = (
    r"(?:break(?:s|ing)?|broken?|fail(?:s|ed|ing)?|crash(?:es|ed|ing)?|hang(?:s|ing)?|hung|error(?:s|ed|ing)?"
    r"|happen(?:s|ed|ing)?|recover(?:s|ed|ing)?|work(?:s|ed|ing)?)\b"
)
_RECURS: Final = re.compile(
    rf"\b(?:(?:always|never)\b(?:[^.!?]|[.!?](?!\s)){{0,40}}?\b{_HAPPENS}|every\s+time\b|recurring\b"
    rf"|keeps?\s+(?:on\s+)?(?:happening|breaking|failing|crashing)\b|consistently\s+{_HAPPENS})",
    re.IGNORECASE,
)
_FIGURE: Final = re.compile(
    r"\d[\d.,]{0,20}\s?(?:[km]|thousand|million)?\+?\s+(?:stars|forks|downloads|users|subscribers|followers|commits)\b",
    re.IGNORECASE,
)
_DATED: Final = re.compile(r"\bas of\b|\b\d{4}-\d{2}-\d{2}\b", re.IGNORECASE)

RULES: Final = (
    Rule(
        "transcript",
        "reject",
        "",
        lambda _, body: len(_SPEAKER.findall(body)) >= 4,
        "it looks like a transcript; record the conclusion that was drawn from it",
    ),
    Rule(
        "recurrence",
        "flag",
        "generalised",
        # The full stop keeps a word of the title from being read with one of the body.
        lambda title, body: _RECURS.search(f"{title}. \n{body}") is not None,
        "it tells of something that happens again and again, of which one session sees one case; say which case it was",
    ),
    Rule(
        "undated-volatile",
        "flag",
        "volatile",
        lambda title, body: _FIGURE.search(f"{title}\n{body}") is not None and not _DATED.search(f"{title}\n{body}"),
        "it gives a figure that will not stay as it is; say of which day it is",
    ),
)
# What the test of a rule that somebody adds may raise on a text nobody thought of.
_RULE_FAULTS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


def check(
    said: Mapping[str, object] | None,
    *,
    origin: str | None,
    names: Collection[str],
    strict: bool = True,
    fallback: Literal["general"] | None = None,
    rules: Sequence[Rule] = RULES,
) -> Checked:
    """Make a draft of the raw values of a call, whatever they are.

    `origin` is the project that says it, None where there is none; `names` are those that a link may have, in lower
    case. Where not `strict`, the owner says it: the title comes from the body, or stands for it, confidence is
    `unverified` unless said, and no body is too short. `fallback` is how far it reaches where neither it nor its origin
    says so; without one it is refused.

    Raises MemoryRefused with every reason at once, or with nothing but the one that markup of a call got into a field.
    """
    said = said if isinstance(said, Mapping) else {}
    refuse_markup(said)
    form = _Form(said, names)
    origin = _flat(origin or "") or None
    title, body = form.as_title(form.text("title")), form.body()
    if not strict:
        title = title or form.as_title(_first_sentence(body))
        body = body or title
    _check_words(form, title, body, shortest=_SHORTEST_BODY if strict else 1)
    claimed: Confidence = form.one_of("confidence", CONFIDENCES, required=strict) or "unverified"
    reach, claimed_scope = _reach(form, origin, fallback)
    flags = _flags(form, rules, title, body)
    capped = bool(flags) and claimed == "verified"
    draft = Draft(
        title=title,
        body=body,
        reach=reach,
        confidence="inferred" if capped else claimed,
        origin=origin or (UNKNOWN_ORIGIN if strict else OWNER_ORIGIN),
        verification=form.section("verification"),
        generality=form.section("generality"),
        links=form.links(),
        flags=flags,
        claimed_confidence="verified" if capped else None,
        claimed_scope=claimed_scope,
        tags=form.tags(may_withhold=not strict),
        type=form.one_of("type", TYPES) or "",
        pinned=form.yes_or_no("pinned"),
        importance=form.fraction("importance"),
    )
    _warn(form, draft, claimed)
    if form.reasons:
        raise MemoryRefused(form.reasons)
    return Checked(draft, tuple(form.warnings), tuple(form.unlinked.values()), tuple(form.dropped))


def refuse_markup(said: Mapping[str, object]) -> None:
    """Raise MemoryRefused where markup of a tool call got into a value."""
    markup = markup_problem(said)
    if markup is not None:
        raise MemoryRefused([markup.sentence])


def neutralise(text: str, names: Collection[str], *, anywhere: bool = False) -> tuple[str, tuple[str, ...]]:
    """A text in which no wikilink leads nowhere, and the targets of those that did.

    What stands in code is no link, unless `anywhere`: a property or a file's name knows no code.
    """
    form = _Form({}, names)
    linked = form.linked(text, anywhere=anywhere)
    return linked, tuple(form.unlinked.values())


def _check_words(form: _Form, title: str, body: str, *, shortest: int) -> None:
    if not title:
        form.refuse("title", "title is required")
    elif len(title) > _LONGEST_TITLE:
        form.refuse("title", f"title is too long: {len(title)} characters, {_LONGEST_TITLE} at most")
    elif not slug(title):
        form.refuse("title", "title has no characters that a file name can have")
    if not body:
        form.refuse("body", "body is required")
    elif len(body) < shortest:
        form.refuse("body", f"body is too short: {len(body)} characters, {shortest} at least")
    elif len(body) > _LONGEST_BODY:
        form.refuse("body", f"body is too long: {len(body):,} characters, {_LONGEST_BODY:,} at most")


def _reach(form: _Form, origin: str | None, fallback: Literal["general"] | None) -> tuple[Reach, Scope | None]:
    """The reach after narrowing, and the scope that was claimed where that was wider. Nothing is ever widened."""
    claimed: Scope = form.one_of("scope", SCOPES) or "project"
    projects, platforms = form.slugs("projects"), form.slugs("platforms")
    if claimed == "general" and projects:
        return Reach("project", projects, platforms), "general"
    if claimed == "project" and not projects:
        if origin is not None:
            return Reach("project", (origin,), platforms), None
        if fallback is not None:
            return Reach(fallback, (), platforms), None
    if not form.wrong & {"scope", "projects", "platforms"}:
        if claimed == "project" and not projects:
            form.refuse(
                "projects",
                "it would reach nobody: it names no projects and the caller has no identity; name projects, or say "
                "scope general",
            )
        if claimed == "platform" and not platforms:
            form.refuse("platforms", "it would reach nobody: list its platforms, or say scope project")
    return Reach(claimed, projects, platforms), None


def _flags(form: _Form, rules: Sequence[Rule], title: str, body: str) -> tuple[str, ...]:
    """The markers of the rules that fire, of which those that reject are reasons."""
    markers: list[str] = []
    for rule in rules:
        try:
            if not rule.fires(title, body):
                continue
        except _RULE_FAULTS:
            continue
        if rule.severity == "reject":
            form.refuse(rule.id, rule.message)
        else:
            markers.append(rule.marker)
            form.warnings.append(rule.message)
    return tuple(dict.fromkeys(markers))


def _warn(form: _Form, draft: Draft, claimed: str) -> None:
    if len(draft.body) > _LONG_BODY:
        form.warnings.append(
            f"body has {len(draft.body)} characters: a memory says one thing, so consider several of them"
        )
    if claimed == "verified" and not draft.verification:
        form.warnings.append("confidence is verified, but nothing says how it is known; inferred may be more honest")
    if draft.reach.scope == "general" and form.one_of("scope", SCOPES) != "general":
        form.warnings.append("nothing says whom it is for, so it reaches everywhere")
    elif draft.reach.scope == "general" and not draft.generality:
        form.warnings.append(
            "it reaches everywhere, but nothing says why; what is true of a dependency, a language or a tool is of "
            "scope platform"
        )


class _Form:
    """The raw values of a call, read one by one. What was found on the way is collected here."""

    def __init__(self, said: Mapping[str, object], names: Collection[str]) -> None:
        self._said = said
        self._names = names
        self.reasons: list[str] = []
        self.wrong: set[str] = set()
        self.warnings: list[str] = []
        self.unlinked: dict[str, str] = {}
        self.dropped: dict[str, None] = {}

    def refuse(self, field: str, reason: str) -> None:
        """Note why the call is refused: of a field its first fault, since others may follow from it."""
        if field not in self.wrong:
            self.reasons.append(reason)
        self.wrong.add(field)

    def text(self, field: str) -> str:
        value = self._said.get(field)
        if value is not None and not isinstance(value, str):
            self.refuse(field, f"{field} must be text")
        return value if isinstance(value, str) else ""

    def as_title(self, text: str) -> str:
        """A text on one line, without the marks of a heading, which no reader of the file would give back."""
        words = self.linked(_flat(text), anywhere=True).split()
        while words and not words[-1].strip("#"):
            words.pop()
        while words and not words[0].strip("#"):
            words.pop(0)
        return " ".join(words)

    def body(self) -> str:
        """The body, in which no heading is one of a memory's own, since its claim would end there."""
        return _OWN_HEADING.sub("###", self._prose("body"))

    def section(self, field: str) -> str:
        """A text that comes below a heading of level 2, in which none stands that would end it."""
        prose = self._prose(field)
        if not _HIGH_HEADING.search(prose):
            return prose
        lines = prose.split("\n")
        for heading in parse(f"\n{prose}", stem="").headings:
            lines[heading.line - 2] = _HIGH_HEADING.sub(r"\1###", lines[heading.line - 2])
        return "\n".join(lines)

    def one_of(self, field: str, allowed: Sequence[Any], *, required: bool = False) -> Any:
        value = self._said.get(field)
        if isinstance(value, str) and value.strip() in allowed:
            return value.strip()
        if required or not (value is None or value == ""):
            self.refuse(field, f"{field} must be one of: {', '.join(allowed)}")
        return None

    def slugs(self, field: str) -> tuple[str, ...]:
        return self._entries(field, lambda entry: re.fullmatch(r"[\w.-]+", entry) is not None, "._-")

    def tags(self, *, may_withhold: bool) -> tuple[str, ...]:
        """The tags without their #. One that would hide the memory from its readers is the owner's to give."""
        tags = self._entries("tags", is_tag, "_-/", drop="#")
        if not may_withhold and any(tag.lower().partition("/")[0] == "private" for tag in tags):
            self.refuse("tags", "tags must not make it private: it would reach nobody")
        return tuple(tag for tag in tags if tag.lower() != "memory")

    def links(self) -> tuple[str, ...]:
        """The links that lead to a note, as they were written; the others are dropped."""
        value = self._said.get("links")
        kept: dict[str, str] = {}
        for item in value if isinstance(value, list | tuple) else ():
            name = _flat(item) if isinstance(item, str) else ""
            name = name.removeprefix("[[").removesuffix("]]").strip()
            # A name with one of these marks is another one in a link.
            if name and name.lower() in self._names and not any(mark in name for mark in "[]|#^"):
                kept.setdefault(name.lower(), name)
            elif name:
                self.dropped[name] = None
        return tuple(kept.values())

    def yes_or_no(self, field: str) -> bool:
        value = self._said.get(field)
        if value is not None and not isinstance(value, bool):
            self.refuse(field, f"{field} must be true or false")
        return value is True

    def fraction(self, field: str) -> float | None:
        """A number from 0 to 1, to three digits."""
        value = self._said.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            self.refuse(field, f"{field} must be a number from 0 to 1")
            return None
        return abs(round(float(value), 3))

    def _prose(self, field: str) -> str:
        return self.linked(_UNSEEN.sub("", normalise(self.text(field)))).strip()

    def _entries(self, field: str, fits: Callable[[str], bool], marks: str, *, drop: str = "") -> tuple[str, ...]:
        """The texts of a list, each once."""
        value = self._said.get(field)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.refuse(field, f"{field} must be an array: it may have several values")
            return ()
        if len(value) > _MOST_ENTRIES:
            self.refuse(field, f"{field} has {len(value)} entries, {_MOST_ENTRIES} at most")
            return ()
        kept: dict[str, str] = {}
        unfit: list[str] = []
        for item in value:
            entry = item.strip().lstrip(drop) if isinstance(item, str) else ""
            if fits(entry) and len(entry) <= _LONGEST_ENTRY:
                kept.setdefault(entry.lower(), entry)
            else:
                unfit.append(_shown(item))
        if unfit:
            self.refuse(field, f"{field} are simple names of letters, digits and {marks}, not {', '.join(unfit)}")
        return tuple(kept.values())

    def linked(self, text: str, *, anywhere: bool = False) -> str:
        """The text with those wikilinks only that lead somewhere; of the others what a reader would see is left."""
        # Text that replaces a link may close another one around it. Nobody nests them on purpose.
        for _ in range(4):
            lines = text.split("\n")
            for n, targets in self._dangling(text, anywhere).items():
                lines[n] = _WIKILINK.sub(partial(self._instead, targets), lines[n])
            changed = "\n".join(lines)
            if changed == text:
                return text
            text = changed
        return re.sub(r"\[{2,}", "[", text)

    def _dangling(self, text: str, anywhere: bool) -> Mapping[int, set[str]]:
        """What the links that lead nowhere name, in lower case, by line."""
        if "[[" not in text:
            return {}
        if anywhere:
            lines = enumerate(text.split("\n"))
            found = [(n, _target_of(link)) for n, line in lines for link in _WIKILINK.finditer(line)]
        else:
            # The line break keeps a rule at the start from being read as the start of properties.
            links = parse(f"\n{text}", stem="").links
            found = [(link.line - 2, link.target) for link in links if link.kind == "wiki"]
        dangling = defaultdict(set)
        for n, target in found:
            if target and target.lower() not in self._names:
                dangling[n].add(target.lower())
        return dangling

    def _instead(self, targets: Collection[str], link: re.Match[str]) -> str:
        target = _target_of(link)
        if target.lower() not in targets:
            return link[0]
        self.unlinked.setdefault(target.lower(), target)
        return (link["alias"] or "").strip() or target


# As `markdown.parse` reads them: the alias may hold single brackets.
_WIKILINK: Final = re.compile(
    r"!?\[\[(?P<target>[^\[\]|\n]*)(?:\|(?P<alias>(?:[^\[\]\n]|\[(?!\[)|\](?!\])|\](?=\]\]))*))?\]\]"
)
# What a terminal would obey, what turns the reading direction, and what no YAML may hold.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_OWN_HEADING: Final = re.compile(rf"^##(?= (?:{KNOWN}|{REACHES}|{RELATED})[ \t]*$)", re.MULTILINE)
_HIGH_HEADING: Final = re.compile(r"^( {0,3})#{1,2}(?!#)", re.MULTILINE)
_LIST_MARK: Final = re.compile(r"(?:#{1,6}|[-*+>]|\d{1,9}[.)])\s+")
_SENTENCE: Final = re.compile(r".*?(?:[.!?](?=\s+[^\sa-z\d])|[。！？]|$)")


def _target_of(link: re.Match[str]) -> str:
    return link["target"].rstrip("\\").partition("#")[0].strip()


def is_tag(text: str) -> bool:
    """Whether a text can be a tag: letters of any script, digits, `-`, `_`, and `/` between its parts."""
    # A letter's mark is a character of its own in many scripts.
    marked = all(c.isalnum() or c in "-_/" or unicodedata.category(c).startswith("M") for c in text)
    return marked and text[:1].isalnum() and not text.endswith("/")


def _flat(text: str) -> str:
    """A text on one line."""
    return " ".join(_UNSEEN.sub("", " ".join(normalise(text).split())).split())


def _first_sentence(body: str) -> str:
    """The sentence that a text begins with, or what fits of it into a title."""
    paragraph = body.partition("\n\n")[0]
    if paragraph.startswith("#"):
        paragraph = paragraph.partition("\n")[0]
    flat = _LIST_MARK.sub("", _flat(paragraph), count=1)
    found = _SENTENCE.match(flat)
    sentence = (found[0] if found else flat).rstrip(".。")
    if len(sentence) <= _LONGEST_TITLE:
        return sentence
    cut = sentence[: _LONGEST_TITLE - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > _LONGEST_TITLE // 2 else cut}…"


def _shown(value: object) -> str:
    text = _flat(_stringified(value))
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}…"'


_TAG: Final = r"(?:[A-Za-z][\w-]{0,15}:)?"
_MARKUP: Final = re.compile(
    rf"<{_TAG}parameter\s(?:[^<>]*\s)?name\s*=[^<>]*>?|</?{_TAG}(?:invoke|function_calls)(?:[\s/][^<>]*)?(?:>|\Z)",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(rf"</{_TAG}(?:invoke|function_calls|parameter)\s*>?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Markup:
    """Where markup of a tool call got into a value: the caller's arguments did not serialise.

    `offset` and `length` count characters of the value, of the list's `item` (from 1) where it is a list. `trailing`:
    without the closing tags at the very end nothing would be wrong. `received` are the names of all values.
    """

    field: str
    matched: str
    offset: int
    length: int
    item: int | None
    trailing: bool
    received: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the caller has to know, without a word of its prose."""
        where = self.field if self.item is None else f"{self.field}, item {self.item}"
        advice = (
            "So the call is probably malformed, not the prose. First look at the fields received: if one that you sent "
            "is missing, its text was folded into this one, so send all of them again. If none is missing, send the "
            "same text again with exactly one closing tag for each parameter, and do not rewrite it."
            if self.trailing
            else "So this field swallowed what came after it, and that cannot be recovered. Send every field again, "
            "each by itself and in plain prose, and look at lists with long items first."
        )
        return (
            f"the arguments did not serialise correctly: {where} holds {_shown(self.matched)} at character "
            f"{self.offset} of {self.length}. Fields received: {', '.join(self.received)}. {advice} Nothing was written"
        )


def markup_problem(said: Mapping[str, object]) -> Markup | None:
    """The first value that holds markup of a tool call, which no honest prose does."""
    for field, value in said.items():
        items = value if isinstance(value, list | tuple) else [value]
        for number, item in enumerate(items, 1):
            text = _stringified(item)
            found = _MARKUP.search(text)
            if found is not None:
                return Markup(
                    field=_flat(str(field))[:_LONGEST_ENTRY],
                    matched=found[0][:_LONGEST_TITLE],
                    offset=found.start(),
                    length=len(text),
                    item=number if items is value else None,
                    trailing=_MARKUP.search(text, 0, _closed_at(text)) is None,
                    received=tuple(_flat(str(name))[:_LONGEST_ENTRY] for name in list(said)[:_MOST_ENTRIES]),
                )
    return None


def _closed_at(text: str) -> int:
    """Where the closing tags begin that end a text."""
    end = len(text)
    while (start := text.rfind("<", 0, end)) >= 0 and _CLOSING.fullmatch(text, start, end):
        end = start
    return end


def _stringified(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in ten thousand lists
        return ""
