"""The one way from a question to hits.

visible set → lanes → one score per hit → at most two hits a note → each survivor proven readable on disk → receipt.
Memories join here later; no surface has a second read path.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from vademecum.access import UNKNOWN, Caller, Policy, VisibleSet, policy_of, readable_note, visible_notes
from vademecum.errors import NoteError, NoteEvicted, NoteNotFound, NoteUnreadable, NoteWithheld, OutsideRoot
from vademecum.index import Filters, Index, Located, NoteText, SourceRow, WordsQuery
from vademecum.search.fusion import Part, Ranked
from vademecum.search.lanes import HITS_PER_NOTE, Asking, Lane
from vademecum.search.query import parse_query
from vademecum.search.receipt import Coverage, Receipt

if TYPE_CHECKING:
    from vademecum.embedding import Models

Include = Literal["all", "memories", "sources"]

_CONTENT_CHARACTERS: Final = 900
_LEAST_EXCERPT: Final = 20
_SAMPLE: Final = 5

ANY_NOTE: Final = Filters()


class Place(NamedTuple):
    """A source as recall needs it: where it lies, and the names its hits carry."""

    source_id: str
    name: str
    kind: str
    root: Path
    display_root: str | None
    source: str
    chunk_type: str
    note_type: str
    note_header: str
    harness: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what its hits must satisfy."""

    text: str
    limit: int
    lane: Lane = "hybrid"
    include: Include = "all"
    without: tuple[str, ...] = ()
    filters: Filters = ANY_NOTE
    explain: bool = False
    rerank: bool | None = None
    """Whether the reranker reads the best hits again; as it is set when None."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked chunk or note, with where it stands and why it ranked.

    `path` is relative to the source's root; `source_path` is absolute, the handle by which a tool opens the file.
    `score` is between 0 and 1 and comparable within one answer only. Lines are 1-based and inclusive.
    """

    id: str
    place: Place
    path: str
    source_path: str
    title: str
    whole_note: bool
    heading_path: tuple[str, ...]
    line_start: int
    line_end: int
    content: str
    score: float
    lanes: tuple[str, ...]
    stale: bool
    private: bool
    explain: Mapping[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """The hit with the names of the wire."""
        place = self.place
        hit: dict[str, Any] = {
            "id": self.id,
            "source": place.source,
            "type": place.note_type if self.whole_note else place.chunk_type,
            "source_id": place.source_id,
            "source_kind": place.kind,
            "source_root": str(place.root),
            "source_name": place.name,
            "harness": place.harness,
            "source_path": self.source_path,
            "path": self.path,
            "title": self.title,
            "heading_path": list(self.heading_path),
            "line_start": self.line_start,
            "line_end": self.line_end,
            "content": self.content,
            "score": self.score,
            "lanes": list(self.lanes),
            "stale": self.stale,
            "superseded": False,
        }
        if self.private:
            hit["private"] = True
        if self.explain is not None:
            hit["explain"] = dict(self.explain)
        return hit


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
        policies[key] = (kept or UNKNOWN) if key in offline else policy_of(place.root)[0]
    return visible_notes(caller, policies), rows, offline


def recall(question: Question, index: Index, places: Mapping[str, Place], caller: Caller, models: Models) -> Recall:
    """Answer a question from these sources for this caller."""
    with index.snapshot():
        return _recall(question, index, places, caller, models)


def _recall(question: Question, index: Index, places: Mapping[str, Place], caller: Caller, models: Models) -> Recall:
    started = time.perf_counter()
    chosen = question.filters.sources
    places = {key: p for key, p in places.items() if chosen is None or key in chosen}
    if question.include == "memories":
        places = {}
    visible, rows, offline = visible_in(index, places, caller)
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
        empty_query=query.empty,
        took_ms=round((time.perf_counter() - started) * 1000, 1),
    )
    return Recall(question.text, hits, receipt)


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

    def hits(self, ranked: Sequence[Ranked]) -> Iterator[Hit]:
        """At most two hits a note, best first, each proven readable now."""
        given, per_note = 0, Counter[int]()
        for item in ranked:
            document = item.evidence.document
            if given == self.question.limit:
                return
            if document in self._refused or per_note[document] == HITS_PER_NOTE:
                continue
            hit = self._hit(item)
            if hit is not None:
                given += 1
                per_note[document] += 1
                yield hit

    def _hit(self, item: Ranked) -> Hit | None:
        evidence = item.evidence
        text = self.index.text(self.visible, document=evidence.document, chunk=evidence.chunk)
        if text is None:
            return None
        place = self.places[text.source_id]
        try:
            stale, private = prove(text, place, self.visible, offline=text.source_id in self.offline)
        except NoteError as exc:
            self._refused.add(evidence.document)
            self.withheld[reason_of(exc)] += 1
            return None
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
            content=_content(text, self.query, header=f"[{place.note_header}: {path}]\n" if whole else ""),
            score=round(item.score, 4),
            lanes=(*(["words"] if evidence.words else []), *(["meaning"] if evidence.near else [])),
            stale=stale,
            private=private,
            explain=self._explained(item) if self.question.explain else None,
        )

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


def _content(text: NoteText, query: WordsQuery, *, header: str) -> str:
    """At most 900 characters: the header, then the text around the first word that was asked for."""
    header = header[:_CONTENT_CHARACTERS]
    room = _CONTENT_CHARACTERS - len(header)
    if room < _LEAST_EXCERPT:
        return header.rstrip("\n")
    body = text.text.strip("\n")
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
