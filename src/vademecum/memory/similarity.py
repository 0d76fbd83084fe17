"""How alike two memories are, by their words: literal repeats are found here, rephrasings are search's to find.

Lexical on purpose: no model is asked on a write. The failure it is shaped against is a text without a single word that
it knows, such as one in another script, which then looks like every other one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Final

DUPLICATE: Final = 0.75
"""From here on two memories say the same."""
RELATED: Final = 0.35
"""From here on they are worth a link."""

_TITLE_WEIGHT: Final = 0.6
_BODY_WEIGHT: Final = 0.4

_FUNCTION_WORDS: Final = """
a an the and or but nor so yet for if then else because since although though unless until while as than
at by from in into of off on onto to with without within about above across after against along among around before
behind below between beyond during near per through throughout toward towards under upon via out over up down
am is are was were be been being have has had having do does did doing done can could may might must shall should
will would isn aren wasn weren don doesn didn hasn haven hadn won wouldn couldn shouldn mustn
i me my mine myself we us our ours ourselves you your yours yourself he him his himself she her hers herself it its
itself they them their theirs themselves this that these those
what which who whom whose when where why how whether
not no too very just also only own same again more most some there here
"""
_STOP_WORDS: Final = frozenset(_FUNCTION_WORDS.split())

# Written without spaces: two characters side by side stand for a word.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Letters with the marks that are characters of their own, and what holds names and versions together.
_WORD: Final = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff./-]+"
)
_VOWEL: Final = re.compile("[aeiouy]")
_HISSING: Final = ("ses", "xes", "zes", "ches", "shes")


class Bag:
    """The words of a memory, ready to be compared. Neither side is ever empty."""

    __slots__ = ("_body", "_text", "title")

    def __init__(self, title: str, body: str) -> None:
        self.title = _tokens(title)
        self._text = body
        self._body: frozenset[str] | None = None

    @property
    def body(self) -> frozenset[str]:
        """The words of the body, taken when first asked for: most memories differ by their titles already."""
        if self._body is None:
            self._body = _tokens(self._text)
        return self._body


def bag(title: str, body: str) -> Bag:
    """Take a memory's words. `body` is the claim, without the sections that are made for it."""
    return Bag(title, body)


def similarity(one: Bag, other: Bag, *, at_least: float = 0.0) -> float:
    """How alike two are, from 0 to 1: 0.6 × Jaccard of the titles + 0.4 × Jaccard of the bodies.

    A score below `at_least` may be given as 0, which is what makes it fast to compare one with thousands.
    """
    titles = _TITLE_WEIGHT * _jaccard(one.title, other.title)
    if titles + _BODY_WEIGHT < at_least or titles + _BODY_WEIGHT * _ratio(len(one.body), len(other.body)) < at_least:
        return 0.0
    return titles + _BODY_WEIGHT * _jaccard(one.body, other.body)


def score(a_title: str, a_body: str, b_title: str, b_body: str) -> float:
    """How alike two memories are, from 0 to 1."""
    return similarity(bag(a_title, a_body), bag(b_title, b_body))


def normalised(text: str) -> str:
    """A text on one line, each letter in its one form."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def fingerprint(text: str) -> str:
    """SHA-256 of a text, the same for texts that differ in case, blanks and the marks at their end."""
    return sha256(normalised(text).lower().rstrip(" .,!?;:").encode("utf-8", "replace")).hexdigest()


def _ratio(one: int, other: int) -> float:
    """The most that two sets of these sizes can have in common."""
    return one / other if one < other else other / one


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    if one.isdisjoint(other):
        return 0.0
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def _tokens(text: str) -> frozenset[str]:
    """The words of a text, or where it has none, all of it: two texts without words are alike if they are the same."""
    lowered = unicodedata.normalize("NFKC", text).lower()
    return frozenset(_words(lowered)) or frozenset((normalised(lowered),))


def _words(lowered: str) -> Iterator[str]:
    for found in _WORD.finditer(lowered):
        piece = found[0]
        if not piece.isascii() and _UNSPACED.search(piece):
            for run in _UNSPACED.findall(piece):
                yield from map("".join, pairwise(run)) if len(run) > 1 else run
            piece = _UNSPACED.sub(" ", piece)
        for part in piece.split():
            word = part.strip("._/-")
            # A single digit is a version; a single letter is nothing.
            if (len(word) > 1 or word.isdigit()) and word not in _STOP_WORDS:
                yield _singular(word)


def _singular(word: str) -> str:
    """A word without the ending of a plural. No more than that: a stemmer makes one of two technical terms."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(_HISSING):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss") and _VOWEL.search(word, 0, len(word) - 1):
        return word[:-1]
    return word
