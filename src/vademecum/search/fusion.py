"""Two lanes into one ranking.

Pure: no index, no model. Each lane gives a candidate a raw score from its best chunk and from the whole of its note;
the two are brought to one scale and added. Every part is kept, so that an answer can show how its order came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

NOTE_WEIGHT: Final = 0.7
"""What a note as a whole adds to its best chunk, in either lane (decisions 0005 and 0009)."""
NAME_WEIGHT: Final = 0.5
"""What it counts that a note is called just what was asked for (decision 0009)."""


LEAST_SPREAD: Final = 0.3
"""How far apart the raw scores of meaning have to lie for the least of them to count nothing: of two candidates that a
narrow filter left, both near the question, the worse one must not look unrelated."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the lanes say of one candidate: a chunk, or a whole note when `chunk` is None.

    `place` (source id, path, ordinal) orders equal scores. `near` says that it is among the nearest by meaning,
    `named` that its note is called what was asked for. A cosine is None where there is no vector.
    """

    document: int
    chunk: int | None
    place: tuple[str, str, int]
    near: bool = False
    named: bool = False
    chunk_bm25: float = 0.0
    note_bm25: float = 0.0
    cosine: float | None = None
    note_mean: float | None = None

    @property
    def words(self) -> float:
        """The raw score of the words lane."""
        return self.chunk_bm25 + NOTE_WEIGHT * self.note_bm25

    @property
    def meaning(self) -> float | None:
        """The raw score of the meaning lane."""
        if self.cosine is None:
            return None
        return self.cosine + NOTE_WEIGHT * (self.cosine if self.note_mean is None else self.note_mean)


class Part(NamedTuple):
    """One summand of a score, with the figures it comes from."""

    name: str
    value: float
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Scales:
    """What brings the raw scores of one answer's candidates to one scale."""

    weight: float
    most: float
    least: float
    greatest: float

    def score(self, words: float, meaning: float | None) -> float:
        """Both raw scores as one, from 0 to 1."""
        weight = self.weight if meaning is not None else 0.0
        score = 0.0
        if self.most > 0 and weight < 1:
            score = (1 - weight) * words / self.most
        if meaning is not None and weight > 0:
            score += weight * (meaning - self.least) / (self.greatest - self.least)
        return score

    def parts(self, e: Evidence) -> list[Part]:
        """The summands of that score."""
        parts: list[Part] = []
        weight = self.weight if e.meaning is not None else 0.0
        if self.most > 0 and weight < 1:
            share = (1 - weight) / self.most
            figures = {"most": self.most, "weight": 1 - weight}
            parts.append(Part("words.chunk", e.chunk_bm25 * share, {"bm25": e.chunk_bm25, **figures}))
            figures = {"bm25": e.note_bm25, "note_weight": NOTE_WEIGHT, **figures}
            parts.append(Part("words.note", e.note_bm25 * NOTE_WEIGHT * share, figures))
        if e.meaning is not None and e.cosine is not None and weight > 0:
            figures = {
                "cosine": e.cosine,
                "note_mean": e.cosine if e.note_mean is None else e.note_mean,
                "note_weight": NOTE_WEIGHT,
                "least": self.least,
                "greatest": self.greatest,
                "weight": weight,
            }
            parts.append(Part("meaning", self.score(0, e.meaning), figures))
        return parts


class Judgement(NamedTuple):
    """One thing more that a candidate is judged by, from 0 to 1, and what it counts beside all before it."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score, from 0 to 1, and what that comes from."""

    evidence: Evidence
    score: float
    scales: Scales
    judgements: tuple[Judgement, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that add up to the score. Made when asked for: to make those of every candidate takes 1 ms."""
        parts = self.scales.parts(self.evidence)
        for name, value, weight in self.judgements:
            parts = [Part(part, before * (1 - weight), figures) for part, before, figures in parts]
            if value:
                parts.append(Part(name, weight * value, {"judgement": value, "weight": weight}))
        return tuple(parts)


def fuse(evidence: Iterable[Evidence], weight: float) -> list[Ranked]:
    """Combine the lanes by a convex sum: score = weight · meaning′ + (1 − weight) · words / max(words).

    meaning′ is min–max over all candidates, 1 where they are all equal, and stretched no further than LEAST_SPREAD. A
    candidate without a vector is judged by its words alone, which then count whole: one that is not embedded yet must
    not fall behind for that. Where no candidate has words, meaning counts whole. Best first; equal scores stand in the
    order of their places, so that answers are reproducible. Where a note is called what was asked for, that counts
    NAME_WEIGHT beside all else.

    Raises ValueError if weight is outside 0…1.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"a weight of {weight} is outside 0…1")
    found = [(e, e.words, e.meaning) for e in evidence]
    most = max((words for _, words, _ in found), default=0.0)
    nearness = [meaning for _, _, meaning in found if meaning is not None]
    if not nearness:
        weight = 0.0
    elif most <= 0:
        weight = 1.0
    greatest = max(nearness, default=0.0)
    scales = Scales(weight, most, min([*nearness, greatest - LEAST_SPREAD]), greatest)
    ranked = [Ranked(e, scales.score(words, meaning), scales) for e, words, meaning in found]
    if any(e.named for e, _, _ in found):
        ranked = [_judged(r, "name", float(r.evidence.named), NAME_WEIGHT) for r in ranked]
    ranked.sort(key=lambda r: (-r.score, r.evidence.place))
    return ranked


def rerank(ranked: list[Ranked], readings: Mapping[int, float], weight: float) -> list[Ranked]:
    """Let a second reading of the best candidates decide with the first: (1 − weight) · score + weight · reading.

    `readings` maps places in `ranked` to what the reranker said, from 0 to 1. Whatever was not read again keeps the
    first part alone, and so stays below what was, in its old order.
    """
    again = [_judged(r, "reranker", readings.get(place, 0.0), weight) for place, r in enumerate(ranked)]
    again.sort(key=lambda r: (-r.score, r.evidence.place))
    return again


def _judged(r: Ranked, name: str, value: float, weight: float) -> Ranked:
    """A candidate judged by one thing more."""
    score = (1 - weight) * r.score + weight * value
    return Ranked(r.evidence, score, r.scales, (*r.judgements, Judgement(name, value, weight)))
