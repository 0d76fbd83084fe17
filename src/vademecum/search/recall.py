"""The one way from a question to hits.

visible set → lanes → one score per hit → live before superseded → at most two hits a note, each survivor proven
readable on disk → notes and memories mixed → receipt. No surface has a second read path.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vademecum.access import (
    UNKNOWN,
    Caller,
    Policy,
    Remembered,
    ShownMemory,
    VisibleSet,
    policy_of,
    readable_note,
    visible_notes,
)
from vademecum.errors import NoteError, NoteEvicted, NoteNotFound, NoteUnreadable, NoteWithheld, OutsideRoot
from vademecum.index import Filters, Index, Located, NoteText, SourceRow, WordsQuery
from vademecum.search.fusion import Part, Ranked
from vademecum.search.hit import Hit, Place
from vademecum.search.lanes import HITS_PER_NOTE, Asking, Lane
from vademecum.search.mixing import mix
from vademecum.search.query import parse_query
from vademecum.search.receipt import Coverage, Receipt

if TYPE_CHECKING:
    from vademecum.embedding import Models

_CONTENT_CHARACTERS: Final = 900
_LEAST_EXCERPT: Final = 20
_SAMPLE: Final = 5
_MOST_PINNED: Final = 100

ANY_NOTE: Final = Filters()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what its hits must satisfy."""

    text: str
    limit: int
    lane: Lane = "hybrid"
    without: tuple[str, ...] = ()
    filters: Filters = ANY_NOTE
    wanted: Callable[[Mapping[str, Any]], bool] | None = None
    """Which memories are asked for, by what they declare, and nothing else then."""
    explain: bool = False
    rerank: bool | None = None
    """Whether the reranker reads the best hits again; as it is set when None."""


@dataclass(frozen=True, slots=True)
class Recall:
    """An answer: hits, best first, and the receipt."""

    query: str
    hits: tuple[Hit, ...]
    receipt: Receipt

    def as_json(self) -> dict[str, Any]:
        """The answer with the names of the wire."""
        return {
            "query": self.query,
            "hits": [hit.as_json() for hit in self.hits],
            "receipt": self.receipt.as_json(),
        }


def visible_in(
    index: Index, places: Mapping[str, Place], caller: Caller
) -> tuple[VisibleSet, dict[str, SourceRow], frozenset[str]]:
    """What the caller may see of these sources, what the index knows of them, and which of them are offline.

    The policy is read from the source itself; while that is offline, the one of its last scan stands.
    """
    rows = {key: row for key, row in index.sources().items() if key in places}
    offline = frozenset(key for key in places if not _holds_something(places[key].root, rows.get(key)))
    policies: dict[str, Policy] = {}
    for key, place in places.items():
        kept = rows[key].policy if key in rows else None
        home = place.remembered is not None
        policies[key] = (kept or UNKNOWN) if key in offline else policy_of(place.root, home=home)[0]
    remembered = {key: place.remembered for key, place in places.items() if place.remembered is not None}
    return visible_notes(caller, policies, remembered), rows, offline


def recall(question: Question, index: Index, places: Mapping[str, Place], caller: Caller, models: Models) -> Recall:
    """Answer a question from these sources for this caller."""
    with index.snapshot():
        return _recall(question, index, places, caller, models)


def _recall(question: Question, index: Index, places: Mapping[str, Place], caller: Caller, models: Models) -> Recall:
    started = time.perf_counter()
    chosen = question.filters.sources
    places = {key: p for key, p in places.items() if chosen is None or key in chosen}
    if question.filters.include == "memories" or question.wanted is not None:
        places = {key: place for key, place in places.items() if place.remembered is not None}
    visible, rows, offline = visible_in(index, places, caller)
    if question.wanted is not None:
        question = replace(question, filters=replace(question.filters, memories=_chosen(visible, question.wanted)))
    query = parse_query(question.text, without=question.without)
    again = bool(models.settings.values["recall.rerank"]) if question.rerank is None else question.rerank
    asking = Asking(question.text, query, question.filters, index=index, visible=visible, models=models)
    ranking = asking.rank(question.lane, again=again)
    withheld: Counter[str] = Counter(ranking.withheld.values())
    answer = _Answer(question, query, index, visible, places=places, offline=offline, withheld=withheld)
    hits = tuple(answer.hits(ranking.ranked))
    receipt = Receipt(
        searched=tuple(
            coverage(places[key], rows.get(key), index, visible, offline=key in offline) for key in sorted(places)
        ),
        lanes=ranking.lanes,
        vectors=ranking.vectors,
        withheld=dict(withheld),
        memories=sum(len(memories.shown) for memories in visible.remembered.values()) if visible.remembered else None,
        empty_query=query.empty,
        took_ms=round((time.perf_counter() - started) * 1000, 1),
    )
    return Recall(question.text, hits, receipt)


def _chosen(visible: VisibleSet, wanted: Callable[[Mapping[str, Any]], bool]) -> frozenset[str]:
    every = (memory for remembered in visible.remembered.values() for memory in remembered.shown.values())
    return frozenset(memory.path for memory in every if wanted(memory.facets()))


class _Answer:
    """Turns ranked candidates into hits, as long as there is room."""

    def __init__(
        self,
        question: Question,
        query: WordsQuery,
        index: Index,
        visible: VisibleSet,
        *,
        places: Mapping[str, Place],
        offline: frozenset[str],
        withheld: Counter[str],
    ) -> None:
        self.question = question
        self.query = query
        self.index = index
        self.visible = visible
        self.places = places
        self.offline = offline
        self.withheld = withheld
        self._refused: set[int] = set()

    def hits(self, ranked: Sequence[Ranked]) -> list[Hit]:
        """The best notes, at most two hits each, and the best memories, each proven readable now."""
        notes, memories = list[Ranked](), list[Ranked]()
        for item in ranked:
            (notes if self._memory_of(item) is None else memories).append(item)
        limit = self.question.limit
        found = list(islice(self._proven(notes), limit))
        if not self.visible.remembered:
            return found
        memories.sort(key=lambda item: self._is_superseded(item))
        placed = {item.evidence.place[:2] for item in memories}
        told = [*self._proven(memories), *self._unplaced(placed)]
        told.sort(key=lambda hit: hit.superseded)
        return mix(found, told[: max(limit, _MOST_PINNED)], limit)

    def _memory_of(self, item: Ranked) -> ShownMemory | None:
        source_id, path, _ = item.evidence.place
        return self.visible.memory(source_id, path)

    def _is_superseded(self, item: Ranked) -> bool:
        memory = self._memory_of(item)
        return memory is not None and memory.is_superseded

    def _proven(self, ranked: Sequence[Ranked]) -> Iterator[Hit]:
        per_note = Counter[int]()
        for item in ranked:
            document, memory = item.evidence.document, self._memory_of(item)
            most = HITS_PER_NOTE if memory is None else 1
            if document in self._refused or per_note[document] == most:
                continue
            hit = self._hit(item, memory)
            if hit is not None:
                per_note[document] += 1
                yield hit

    def _hit(self, item: Ranked, memory: ShownMemory | None) -> Hit | None:
        evidence = item.evidence
        chunk = evidence.chunk if memory is None else None
        text = self.index.text(self.visible, document=evidence.document, chunk=chunk)
        if text is None:
            return None
        place = self.places[text.source_id]
        try:
            stale, private = prove(text, place, self.visible, offline=text.source_id in self.offline)
        except NoteError as exc:
            self._refused.add(evidence.document)
            self.withheld[reason_of(exc)] += 1
            return None
        lanes = (*(["words"] if evidence.words else []), *(["meaning"] if evidence.near else []))
        explained = self._explained(item) if self.question.explain else None
        score = round(item.score, 4)
        if memory is not None:
            hit = self._remembered(memory, place, score=score, lanes=lanes, explain=explained)
            return replace(hit, stale=stale, line_start=text.first_line, line_end=text.last_line)
        path = place.root / text.disk_path
        whole = text.chunk_key is None
        note_id = f"{text.source_id}:{text.path}"
        return Hit(
            id=note_id if whole else f"{note_id}#{text.chunk_key}",
            place=place,
            path=text.path,
            source_path=str(path),
            title=text.title,
            whole_note=whole,
            heading_path=text.heading_path,
            line_start=text.first_line,
            line_end=text.last_line,
            content=_content(text.text, self.query, header=f"[{place.note_header}: {path}]\n" if whole else ""),
            score=score,
            lanes=lanes,
            stale=stale,
            private=private,
            explain=explained,
        )

    def _remembered(
        self,
        memory: ShownMemory,
        place: Place,
        *,
        score: float,
        lanes: tuple[str, ...],
        explain: Mapping[str, Any] | None,
    ) -> Hit:
        """A memory as a hit: all of it, or what it was promoted to."""
        remembered = self.visible.remembered[place.source_id]
        text, facets = remembered.served(memory.path)
        return Hit(
            id=memory.path,
            place=place,
            path=memory.path,
            source_path=str(place.root / memory.path),
            title=memory.title,
            whole_note=True,
            heading_path=(),
            line_start=1,
            line_end=memory.words.count("\n") + 1,
            content=_content(text, self.query, header=""),
            score=score,
            lanes=lanes,
            stale=False,
            private=memory.private,
            explain=explain,
            memory=facets,
        )

    def _unplaced(self, placed: Collection[tuple[str, str]]) -> Iterator[Hit]:
        """The memories that no lane placed: those the index does not hold yet, by the words of the question, and, where
        nothing but memories was asked for, all others in the order in which they rank without a question.
        """
        filters = self.question.filters
        if filters.include == "sources":
            return
        for source_id, remembered in self.visible.remembered.items():
            place = self.places[source_id]
            missing = self._unindexed(source_id, remembered)
            if not missing and filters.include != "memories":
                continue
            scored: list[tuple[float, ShownMemory]] = []
            for path, memory in remembered.shown.items():
                if (source_id, path) in placed or not filters.admit_memory(source_id, memory):
                    continue
                share = _share(self.query, memory.words) if path in missing else 0.0
                if _is_excluded(self.query, memory.words):
                    continue
                if share or filters.include == "memories":
                    scored.append((share, memory))
            scored.sort(key=lambda pair: -pair[0])
            for share, memory in scored:
                lanes = ("words",) if share else ()
                yield self._remembered(memory, place, score=round(share, 4), lanes=lanes, explain=None)

    def _unindexed(self, source_id: str, remembered: Remembered) -> Collection[str]:
        """The memories that the index does not hold. As many rows as there are files: then it holds them all."""
        paths = [*remembered.shown, *remembered.withheld]
        folder = self.visible.policies[source_id].memory_root
        if self.index.count_below(source_id, f"{folder}/") >= len(paths):
            return ()
        return remembered.shown.keys() - self.index.indexed(source_id, paths)

    def _explained(self, item: Ranked) -> dict[str, Any]:
        """The parts of the score, which add up to it, and the words that were met."""
        evidence = item.evidence
        return {
            "parts": _parts(item.parts, round(item.score, 4)),
            "matched_terms": self.index.matched_terms(self.query, chunk=evidence.chunk, document=evidence.document),
        }


def _parts(parts: Sequence[Part], score: float) -> list[dict[str, Any]]:
    """The parts to four digits; what rounding loses is in the largest of them, so that they still add up."""
    values = [round(part.value, 4) for part in parts]
    if values:
        values[values.index(max(values))] += round(score - sum(values), 4)
    return [
        {
            "name": part.name,
            "value": round(value, 4),
            **{name: round(figure, 4) for name, figure in part.figures.items()},
        }
        for part, value in zip(parts, values, strict=True)
    ]


def prove(note: NoteText | Located, place: Place, visible: VisibleSet, *, offline: bool) -> tuple[bool, bool]:
    """Whether an indexed note is stale, and whether it is private, by its file as it is now, unless that is offline.

    Raises NoteError when it may not be shown.
    """
    if offline:
        return True, note.private
    try:
        now = readable_note(visible, note, root=place.root)
    except NoteEvicted:
        if not visible.caller.is_owner:  # it may have been made private before a cloud took it
            raise
        return True, note.private
    return now.stamp != note.stamp, now.private


def reason_of(exc: NoteError) -> str:
    """Why a note cannot be shown, in the words of a receipt."""
    match exc:
        case NoteNotFound():
            return "vanished"
        case NoteEvicted():
            return "evicted"
        case NoteUnreadable():
            return "unreadable"
        case OutsideRoot():
            return "outside_root"
        case NoteWithheld():
            return "private"
    return exc.code


def _share(query: WordsQuery, words: str) -> float:
    """How many of the words that were asked for a text holds, as a share of them; for what the index cannot tell."""
    folded = words.casefold()
    wanted = [*query.terms, *query.phrases]
    return sum(word.casefold() in folded for word in wanted) / len(wanted) if wanted else 0.0


def _is_excluded(query: WordsQuery, words: str) -> bool:
    folded = words.casefold()
    return any(word.casefold() in folded for word in query.excluded)


def _content(text: str, query: WordsQuery, *, header: str) -> str:
    """At most 900 characters: the header, then the text around the first word that was asked for."""
    header = header[:_CONTENT_CHARACTERS]
    room = _CONTENT_CHARACTERS - len(header)
    if room < _LEAST_EXCERPT:
        return header.rstrip("\n")
    body = text.strip("\n")
    if len(body) <= room:
        return header + body
    folded = body.casefold()
    places = [folded.find(word.casefold()[:12]) for word in (*query.phrases, *query.terms)]
    first = min((place for place in places if place >= 0), default=0)
    start = max(0, min(first - room // 4, len(body) - room + 2))
    if start:
        start = body.find(" ", start, start + 40) + 1 or start
    head, tail = ("…" if start else ""), ("…" if start + room < len(body) else "")
    return header + head + body[start : start + room - 2].rstrip() + tail


def coverage(place: Place, row: SourceRow | None, index: Index, visible: VisibleSet, *, offline: bool) -> Coverage:
    """One source as an answer met it."""
    if row is None:
        return Coverage(place.source_id, place.name, 0, "unreachable" if offline else "empty", None, {}, ())
    return Coverage(
        source_id=place.source_id,
        name=place.name,
        documents=row.documents,
        state="unreachable" if offline else row.state,
        stale_since=row.stale_since,
        skipped=row.skipped,
        # Whether a note that was not read is private cannot be told, so that only its owner learns its name.
        sample=[
            (path, reason)
            for path, reason in index.skipped(row.row, limit=_SAMPLE)
            if visible.withheld(place.source_id, path, private=True) is None
        ],
    )


def _holds_something(root: Path, row: SourceRow | None) -> bool:
    """Whether a root can be trusted to tell what is there. One that is suddenly empty, as a mount point is when its
    drive is gone, one whose loss of notes is held, or one that has become a link to somewhere else, cannot.
    """
    if row is not None and row.held_since is not None:
        return False
    try:
        with os.scandir(root) as entries:
            holds = row is None or not row.documents or next(entries, None) is not None
            return holds and os.path.realpath(root) == str(root)
    except OSError:
        return False
