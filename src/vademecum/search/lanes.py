"""Asking the lanes: what the words say, what the meaning says, what a second reading says, and what stood in the way.

Whatever fails in the meaning lane or the reranker is reported and never an error: words still answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vademecum.errors import ConfigError, ModelError, VadeError
from vademecum.index import Candidate, Filters, Index, MeaningLane, VectorSet, WordsLane, WordsQuery
from vademecum.search.fusion import Evidence, Ranked, fuse, rerank
from vademecum.search.query import meaning_of
from vademecum.search.receipt import LaneReport, NextSet, VectorsReport

if TYPE_CHECKING:
    from vademecum.access import VisibleSet
    from vademecum.embedding import Models

Lane = Literal["words", "meaning", "hybrid"]

HITS_PER_NOTE: Final = 2
RERANKED: Final = 10
"""How many of the best hits the reranker reads again."""
# Measured, the second reading alone is worse than both together (decision 0009).
_READING_WEIGHT: Final = 0.4


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of all lanes, best first, how each lane fared, and what was withheld, by document."""

    ranked: Sequence[Ranked]
    lanes: dict[str, LaneReport]
    vectors: VectorsReport
    withheld: dict[int, str]


class Asking:
    """One question, put to each lane."""

    def __init__(
        self, text: str, query: WordsQuery, filters: Filters, *, index: Index, visible: VisibleSet, models: Models
    ) -> None:
        self.text = text
        self.query = query
        self.filters = filters
        self.index = index
        self.visible = visible
        self.models = models
        self.settings = models.settings

    def rank(self, lane: Lane, *, again: bool) -> Ranking:
        """Rank by one lane or by both; `again` has the best read once more by the reranker."""
        words = WordsLane() if lane == "meaning" else self.index.words(self.query, self.visible, self.filters)
        sets = self.index.vectors.sets()
        chosen = next((s for s in sets if s.answers), None)
        meaning, report = self._meaning(lane, chosen, beside=words)
        weight = 1.0 if lane == "meaning" else float(self.settings.values["recall.meaning_weight"])
        ranked = fuse(_gather(words, meaning), weight)
        lanes = {"words": self._words_report(lane, words, ranked), "meaning": report}
        if again:
            ranked, lanes["reranker"] = self._read_again(ranked)
        return Ranking(ranked, lanes, _vectors_report(sets, meaning), {**words.withheld, **meaning.withheld})

    def _words_report(self, lane: Lane, words: WordsLane, ranked: Sequence[Ranked]) -> LaneReport:
        if lane == "meaning":
            return LaneReport("off", "not asked for")
        if ranked and not (words.chunks or words.notes):
            return LaneReport("ok", "no note holds a word of the question")
        return LaneReport("ok")

    def _meaning(self, lane: Lane, chosen: VectorSet | None, *, beside: WordsLane) -> tuple[MeaningLane, LaneReport]:
        off = self._why_off(lane, chosen)
        if off or chosen is None:
            return MeaningLane(), LaneReport("off", off)
        try:
            embedder = self.models.embedder(chosen.name)
            if not chosen.identity.startswith(embedder.identity + "+"):
                reason = "the vectors are of another version of the model; the next sync makes them anew"
                return MeaningLane(), LaneReport("degraded", reason)
            embedded = embedder.embed_query(meaning_of(self.text))
        except (ModelError, ConfigError) as exc:
            return MeaningLane(), _degraded(exc)
        found = self.index.meaning(
            self.query,
            embedded,
            chosen,
            self.visible,
            self.filters,
            beside=beside,
            backend=str(self.settings.values["index.vectors"]),
        )
        if chosen.missing:
            total = chosen.have + chosen.missing + chosen.refused
            return found, LaneReport("degraded", f"{chosen.missing:,} of {total:,} texts are not embedded yet")
        return found, LaneReport("ok")

    def _why_off(self, lane: Lane, chosen: VectorSet | None) -> str:
        if lane == "words":
            return "not asked for"
        if self.settings.model == "none":
            return "embedding.model is none"
        if self.query.empty:
            return "the question holds no word"
        if self.query.phrases and lane == "hybrid":
            return "words in quotes are answered by words alone"
        if lane == "hybrid" and not self.settings.values["recall.meaning_weight"]:
            return "recall.meaning_weight is 0"
        if chosen is None or not chosen.have:
            return self.models.why_none() or "nothing is embedded yet"
        return ""

    def _read_again(self, ranked: list[Ranked]) -> tuple[list[Ranked], LaneReport]:
        places = dict(self._best(ranked))
        if not places:
            return ranked, LaneReport("ok")
        try:
            readings = self.models.reranker().score(meaning_of(self.text), list(places.values()))
        except ModelError as exc:
            return ranked, _degraded(exc)
        return rerank(ranked, dict(zip(places, readings, strict=True)), _READING_WEIGHT), LaneReport("ok")

    def _best(self, ranked: Sequence[Ranked]) -> Iterator[tuple[int, str]]:
        """Places and texts of the candidates that would be the first hits."""
        from vademecum.markdown.plain import embedded_text

        taken, per_note = 0, Counter[int]()
        for place, candidate in enumerate(ranked):
            evidence = candidate.evidence
            if taken == RERANKED:
                return
            if per_note[evidence.document] == HITS_PER_NOTE:
                continue
            text = self.index.text(self.visible, document=evidence.document, chunk=evidence.chunk)
            if text is not None:
                taken += 1
                per_note[evidence.document] += 1
                yield place, embedded_text(text.title, text.heading_path, text.text)


def _degraded(exc: VadeError) -> LaneReport:
    """What went wrong and what to do now, in one sentence."""
    return LaneReport("degraded", f"{exc.message}; {exc.hint[:1].lower()}{exc.hint[1:].rstrip('.')}".rstrip("; "))


def _gather(words: WordsLane, meaning: MeaningLane) -> list[Evidence]:
    """The union of both lanes. A whole note is a candidate only where none of its chunks is one."""
    bm25 = {c.chunk: c.score for c in words.chunks}
    notes = {c.document: c.score for c in words.notes}
    near = {c.chunk for c in meaning.chunks}
    chunks = {c.chunk: c for c in (*words.chunks, *meaning.chunks)}
    shown = {candidate.document for candidate in chunks.values()}
    wholes = {w.document: w for w in (*words.notes, *words.named) if w.document not in shown}
    named = {candidate.document for candidate in words.named}

    def evidence(candidate: Candidate) -> Evidence:
        note = meaning.notes.get(candidate.document)
        best = None if note is None else note.best
        return Evidence(
            document=candidate.document,
            chunk=candidate.chunk,
            place=candidate.place,
            near=candidate.chunk in near,
            named=candidate.document in named,
            chunk_bm25=bm25.get(candidate.chunk, 0.0),
            note_bm25=notes.get(candidate.document, 0.0),
            cosine=best if candidate.chunk is None else meaning.cosines.get(candidate.chunk),
            note_mean=None if note is None else note.mean,
        )

    return [evidence(candidate) for candidate in (*chunks.values(), *wholes.values())]


def _vectors_report(sets: Sequence[VectorSet], meaning: MeaningLane) -> VectorsReport:
    chosen = next((s for s in sets if s.answers), None)
    built = next((s for s in sets if not s.answers), None)
    if chosen is None:
        return VectorsReport()
    return VectorsReport(
        have=chosen.have,
        pending=chosen.missing,
        refused=chosen.refused,
        model=chosen.name,
        backend=meaning.backend or None,
        next=None if built is None else NextSet(built.name, built.have, built.missing),
    )
