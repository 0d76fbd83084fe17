"""People's words → what the lanes look for.

Whatever is typed is data: there is no syntax that can be wrong. Three things mean something: "quotes" ask for a
phrase, a leading minus leaves notes out, and English function words are dropped when other words remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from vademecum.errors import UsageError
from vademecum.index import WordsQuery

_MAX_CHARACTERS: Final = 8_000
_MAX_TERMS: Final = 64
# About what the model reads at once: a question that is longer would be several, and their mean is none of them.
_MAX_EMBEDDED: Final = 2_000
_MAX_TERM: Final = 200

# Measured on the questions of a help vault: dropping these from a query lifts the mean reciprocal rank from .59 to
# .63; a list of 33 words gives almost nothing (decision 0005).
_FUNCTION_WORDS: Final = """
a about above after again against all also am an and any anybody anyone anything are aren as at be because been before
being below between both but by can cannot could couldn did didn do does doesn doing don down during each either else
ever every everything few for from further get gets getting give go goes going got had hadn has hasn have haven having
he her here hers herself him himself his how however i if in instead into is isn it its itself just let like ll make
many may me might mine more most much must my myself need neither no nor not now of off often on once one only onto or
other otherwise our ours out over own please rather re really same shall she should shouldn since so some somebody
someone something somewhere such than that the their theirs them themselves then there these they thing things this
those though through to together too under until up upon us use used using ve very want was wasn way we were weren what
whatever when where whether which while who whom whose why will with within without won would wouldn yes yet you your
yours yourself
"""
STOP_WORDS: Final = frozenset(_FUNCTION_WORDS.split())

_MARKS: Final = "\u0300-\u036f\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_LETTERS: Final = rf"(?:[^\W_]|[{_MARKS}])+"
_WORD: Final = re.compile(rf"{_LETTERS}(?:[-_.'\u2019]+{_LETTERS})*")
_PIECE: Final = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"|(?P<bare>[^\s"]+))')
_CLITIC: Final = re.compile(r"['\u2019](?:s|t|re|ve|ll|d|m)$", re.IGNORECASE)


def parse_query(text: str, *, without: Sequence[str] = ()) -> WordsQuery:
    """Read a question. Never raises; a question without a word gives an empty query.

    `without` are words that leave a note out whatever they look like; a leading minus does so only for a word that
    starts with a letter, and only while something to look for remains.
    """
    phrases: list[str] = []
    words: list[str] = []
    minus: list[str] = []
    pieces = list(_pieces(text))
    for piece in pieces:
        if piece.excludes:
            minus.append(" ".join(piece.words))
        elif piece.is_phrase:
            phrases.append(" ".join(piece.words))
        else:
            words += piece.words
    if not (phrases or words):
        words, minus = [word for item in minus for word in item.split()], []
    parts = [part for word in words for part in _parts(word)]
    telling = [word for word in words + parts if word.casefold() not in STOP_WORDS]
    terms = telling or ([] if phrases else words)
    excluded = minus + [" ".join(_words(word)) for word in without]
    return WordsQuery(
        terms=_distinct(terms),
        phrases=_distinct(phrases),
        excluded=tuple(word for word in _distinct(excluded) if word),
        name=tuple(word for piece in pieces if not piece.excludes for word in piece.words)[:_MAX_TERMS],
    )


def meaning_of(text: str) -> str:
    """A question as a model reads it: as it was typed, without quotes and without what is to be left out."""
    pieces = list(_pieces(text))
    asked = " ".join(p.typed for p in pieces if not p.excludes) or " ".join(p.typed for p in pieces)
    return asked[:_MAX_EMBEDDED]


class _Piece(NamedTuple):
    typed: str
    words: list[str]
    is_phrase: bool
    excludes: bool


def _pieces(text: str) -> Iterator[_Piece]:
    """The phrases and words of a question that hold anything to look for, in order."""
    text = text[:_MAX_CHARACTERS]
    if text.count('"') % 2:  # an unfinished quote is no quote
        head, _, tail = text.rpartition('"')
        text = f"{head} {tail}"
    for piece in _PIECE.finditer(text):
        typed = piece["phrase"] or piece["bare"] or ""
        if found := _words(typed):
            excludes = piece["minus"] is not None and found[0][0].isalpha()
            yield _Piece(typed, found, piece["phrase"] is not None, excludes)


def _words(text: str) -> list[str]:
    return [_CLITIC.sub("", word)[:_MAX_TERM] for word in _WORD.findall(text)]


def _parts(word: str) -> list[str]:
    """The words of a hyphenated one ("note-taking"), which a note may well write apart; an identifier has none."""
    return word.split("-") if "-" in word and word.replace("-", "").isalpha() else []


def _distinct(words: Sequence[str]) -> tuple[str, ...]:
    """The first so many different ones, as they were first written."""
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.casefold(), word)
    return tuple(first.values())[:_MAX_TERMS]


def parse_day(text: str | None, name: str) -> str:
    """A day as ISO text, from ISO text or "30d" (days) or "6w" (weeks) ago; "" when none was given.

    Raises UsageError, which calls it `name`.
    """
    if text is None:
        return ""
    ago = re.fullmatch(r"(\d{1,5})([dw])", text.strip())
    try:
        if ago:
            days = int(ago[1]) * (7 if ago[2] == "w" else 1)
            return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
        return date.fromisoformat(text.strip()).isoformat()
    except (ValueError, OverflowError) as exc:
        raise UsageError(f"{name} takes a day, not {text!r}", hint="Write 2026-01-31, or 30d for 30 days ago.") from exc
