"""Walking from one note: what it links to, what links to it, its outline, its tags and its folder.

Only notes that the caller may see are named, each proven readable as it is now. Where a link leads does not depend on
who asks: one that leads to a note which is not served says so, and is not sent to another note instead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from vademecum.access import Caller, VisibleSet
from vademecum.errors import NoteError, NoteWithheld
from vademecum.graph import Candidate, Form, Links, Origin, OutLink, Topology, written
from vademecum.index import BlockRow, Graph, HeadingRow, Index, LinkRow, Located
from vademecum.markdown import find_heading
from vademecum.search.hit import Place
from vademecum.search.reading import find_note
from vademecum.search.recall import coverage, prove, reason_of, visible_in
from vademecum.search.receipt import Coverage, WalkReceipt

State = Literal["resolved", "not_indexed", "withheld", "away", "unresolved"]
"""Where a link leads: to a note; to a file that is no note of the index; to a note that is not served to the caller; to
one that has just gone or cannot be read; nowhere."""

T = TypeVar("T")

_MOST_AROUND: Final = 500
_WITHHELD: Final = "Its owner can see it: run the command at a terminal, or with --as-owner."


class Neighbour(NamedTuple):
    """A note beside the one that was asked about."""

    path: str
    source_path: str
    title: str

    def as_json(self) -> dict[str, str]:
        """The note with the names of the wire."""
        return self._asdict()


def _said(row: LinkRow) -> dict[str, Any]:
    """What a note says in a link, with the names of the wire."""
    return {
        "target": row.target,
        "heading": row.heading,
        "block": row.block,
        "label": row.label,
        "property": row.property,
        "embed": row.embed,
        "line": row.line,
    }


class LinkOut(NamedTuple):
    """A link that the note holds, and where it leads.

    `file` is the path of what is no note. `candidates` are the paths of other files that it could mean as well, ten
    at most. `anchor_found` is None for a link to a whole note.
    """

    link: OutLink
    state: State
    note: Neighbour | None
    file: str | None
    reason: str | None
    candidates: tuple[str, ...]
    anchor_found: bool | None

    def as_json(self) -> dict[str, Any]:
        """The link with the names of the wire."""
        row, meant = self.link.row, self.link.meant
        return {
            **_said(row),
            "state": self.state,
            "via": meant.via if self.state in ("resolved", "not_indexed") else None,
            "note": None if self.note is None else self.note.as_json(),
            "file": self.file,
            "reason": self.reason,
            "anchor_found": self.anchor_found,
            "candidates": list(self.candidates),
        }


class LinkBack(NamedTuple):
    """A link that leads to the note, and the note that holds it."""

    link: OutLink
    note: Neighbour

    def as_json(self) -> dict[str, Any]:
        """The link with the names of the wire."""
        return {"note": self.note.as_json(), **_said(self.link.row), "via": self.link.meant.via}


class Folder(NamedTuple):
    """A folder: the notes in it beside the one that was asked about, and the folders below it."""

    path: str
    notes: tuple[Neighbour, ...]
    folders: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The folder with the names of the wire."""
        return {"path": self.path, "notes": [n.as_json() for n in self.notes], "folders": list(self.folders)}


class Around(NamedTuple):
    """A note further away: how many links lie between, and the path of the note over which it was reached."""

    distance: int
    note: Neighbour
    over: str

    def as_json(self) -> dict[str, Any]:
        """The note with the names of the wire."""
        return {"distance": self.distance, "note": self.note.as_json(), "over": self.over}


@dataclass(frozen=True, slots=True)
class Expansion:
    """One note and what lies around it."""

    place: Place
    note: Neighbour
    private: bool
    stale: bool
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    headings: tuple[HeadingRow, ...]
    blocks: tuple[BlockRow, ...]
    links_out: tuple[LinkOut, ...]
    links_back: tuple[LinkBack, ...]
    folder: Folder
    around: tuple[Around, ...]
    receipt: WalkReceipt

    def as_json(self) -> dict[str, Any]:
        """The note with the names of the wire."""
        place = self.place
        note: dict[str, Any] = {
            "source_id": place.source_id,
            "source_kind": place.kind,
            "source_root": str(place.root),
            "source_name": place.name,
            **self.note.as_json(),
            "aliases": list(self.aliases),
            "tags": list(self.tags),
            "stale": self.stale,
        }
        return {
            "note": {**note, "private": True} if self.private else note,
            "headings": [{"level": h.level, "text": h.text, "line": h.line} for h in self.headings],
            "blocks": [{"id": b.name, "line_start": b.first_line, "line_end": b.last_line} for b in self.blocks],
            "links_out": [link.as_json() for link in self.links_out],
            "links_back": [link.as_json() for link in self.links_back],
            "unresolved": list(dict.fromkeys(x.link.row.target for x in self.links_out if x.state == "unresolved")),
            "ambiguous": [_ambiguity(link) for link in self.links_out if link.candidates],
            "folder": self.folder.as_json(),
            "around": [note.as_json() for note in self.around],
            "receipt": self.receipt.as_json(),
        }


def _ambiguity(link: LinkOut) -> dict[str, Any]:
    chosen = link.note.path if link.note is not None else link.file
    return {"target": link.link.row.target, "chosen": chosen, "candidates": list(link.candidates)}


def expand(
    address: str, index: Index, places: Mapping[str, Place], caller: Caller, *, depth: int = 1, limit: int = 50
) -> Expansion:
    """Walk from the note that an address means, over at most `depth` links; lists hold at most `limit` each.

    Raises OutsideRoot, NoteNotFound, NoteAmbiguous, NoteWithheld or NoteUnreadable.
    """
    started = time.perf_counter()
    with index.snapshot():
        visible, rows, offline = visible_in(index, places, caller)
        note, _ = find_note(address, index, places, visible)
        place = places[note.source_id]
        away = place.source_id in offline
        walk = _Walk(index.graph(note.source_id, visible), place, visible, offline=away, limit=limit)
        try:
            stale, private = walk.prove(note)
        except NoteWithheld as exc:  # what is withheld is not named in full either
            raise NoteWithheld(f"{address} is not served to this caller", hint=exc.hint) from exc
        return Expansion(
            place=place,
            note=walk.neighbour(note),
            private=private,
            stale=stale,
            aliases=walk.aliases(note),
            tags=walk.tags(note),
            headings=walk.headings(note),
            blocks=walk.blocks(note),
            links_out=walk.links_out(note),
            links_back=walk.links_back(note),
            folder=walk.folder(note),
            around=walk.around(note, depth=depth),
            # Last, since it tells what was met on the way.
            receipt=walk.receipt(
                coverage(place, rows.get(place.source_id), index, visible, offline=away), started=started
            ),
        )


class _Walk:
    """One walk: what was met on it, what had to be held back, and what there was no room for."""

    def __init__(self, graph: Graph, place: Place, visible: VisibleSet, *, offline: bool, limit: int) -> None:
        self.graph = graph
        self._links = Links(graph)
        self._place = place
        self._root = str(place.root)
        self._visible = visible
        self._offline = offline
        self._limit = limit
        self._refused: dict[int, str] = {}
        self._proven: dict[int, tuple[bool, bool]] = {}
        self._cut: dict[str, int] = {}

    def receipt(self, searched: Coverage, *, started: float) -> WalkReceipt:
        """What the walk covered."""
        withheld = Counter(self._refused.values()) + Counter(self.graph.withheld.values())
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        return WalkReceipt((searched,), dict(withheld), self._cut, took_ms)

    def aliases(self, note: Located) -> tuple[str, ...]:
        """The aliases of a note."""
        return tuple(self._fitting("aliases", self.graph.aliases(note.document)))

    def tags(self, note: Located) -> tuple[str, ...]:
        """The tags of a note."""
        return tuple(self._fitting("tags", self.graph.tags([note.document])[note.document]))

    def headings(self, note: Located) -> tuple[HeadingRow, ...]:
        """The outline of a note."""
        return tuple(self._fitting("headings", self.graph.headings([note.document])))

    def blocks(self, note: Located) -> tuple[BlockRow, ...]:
        """The blocks of a note that have an id."""
        return tuple(self._fitting("blocks", self.graph.blocks([note.document], named=True)))

    def folder(self, note: Located) -> Folder:
        """The folder of a note: what else lies in it."""
        path = note.path.rpartition("/")[0]
        others = [other for other in self.graph.notes_in(path) if other.document != note.document]
        shown = [other for other in self._fitting("notes_of_the_folder", others) if self._problem(other) is None]
        folders = self._fitting("folders", self.graph.folders_in(path, self._is_shown))
        return Folder(path, tuple(map(self.neighbour, shown)), tuple(folders))

    def _fitting(self, name: str, items: Sequence[T]) -> Sequence[T]:
        if len(items) > self._limit:
            self._cut[name] = len(items) - self._limit
        return items[: self._limit]

    def topology(self, *, outline: bool) -> Topology:
        """The whole graph of the source."""
        place = self._place
        origin = Origin(place.source_id, place.kind, str(place.root), place.name)
        return Topology(self.graph, origin, self._is_shown, outline=outline)

    # ── single notes

    def prove(self, note: Located) -> tuple[bool, bool]:
        """Whether a note is stale, and whether it is private. Raises NoteError when it may not be shown."""
        known = self._proven.get(note.document)
        if known is not None:
            return known
        known = prove(note, self._place, self._visible, offline=self._offline)
        if not self.graph.shows(note.document):
            raise NoteWithheld(f"{note.path} is not served to this caller", hint=_WITHHELD)
        self._proven[note.document] = known
        return known

    def _problem(self, note: Located) -> str | None:
        """Why a note that is indexed may not be shown now; None when it may."""
        if note.document not in self._refused:
            try:
                self.prove(note)
            except NoteError as exc:
                self._refused[note.document] = reason_of(exc)
        return self._refused.get(note.document)

    def _is_shown(self, note: Located) -> bool:
        return self._problem(note) is None

    def neighbour(self, note: Located) -> Neighbour:
        """A note as it is named in an answer."""
        return Neighbour(note.path, f"{self._root}/{note.disk_path}", note.title)

    # ── links

    def links_out(self, note: Located) -> tuple[LinkOut, ...]:
        """The links that a note holds, in their order."""
        links = self._links.resolved(self._fitting("links_out", self.graph.links_of([note.document])))
        notes = self.graph.notes(document for _, document in _leading_to_notes(links))
        anchored = {document for link, document in _leading_to_notes(links) if _has_anchor(link)}
        anchors = _Anchors(self.graph, sorted(anchored & notes.keys()))
        return tuple(self._link_out(link, notes, anchors) for link in links)

    def links_back(self, note: Located) -> tuple[LinkBack, ...]:
        """The links that lead to a note, by the path of what holds them."""
        found = sorted(self._links.into([note.document]), key=lambda link: (link.note.path, link.row.line))
        links = self._fitting("links_back", found)
        return tuple(LinkBack(link, self.neighbour(link.note)) for link in links if self._problem(link.note) is None)

    def _link_out(self, link: OutLink, notes: Mapping[int, Located], anchors: _Anchors) -> LinkOut:
        file = link.meant.file
        if file is None:
            return LinkOut(link, "unresolved", None, None, None, (), None)
        candidates = tuple(c.path for c in link.meant.others if self._may_name(c))
        if file.document is None:
            if not self._may_name(file):
                return LinkOut(link, "withheld", None, None, None, (), None)
            return LinkOut(link, "not_indexed", None, file.path, file.reason, candidates, None)
        note = notes.get(file.document)
        problem = "withheld" if note is None else self._problem(note)
        if note is None or problem is not None:
            state: State = "away" if problem in ("vanished", "unreadable", "evicted") else "withheld"
            return LinkOut(link, state, None, None, problem if state == "away" else None, (), None)
        return LinkOut(link, "resolved", self.neighbour(note), None, None, candidates, anchors.holds(link))

    def _may_name(self, candidate: Candidate) -> bool:
        if candidate.document is None:
            return self.graph.may_name(candidate.path, candidate.reason, self._is_shown)
        return any(map(self._is_shown, self.graph.notes([candidate.document]).values()))

    # ── further away

    def around(self, note: Located, *, depth: int) -> tuple[Around, ...]:
        """Notes two and more links away, the nearest first, then by path."""
        seen = {note.document}
        layer = {note.document: note}
        found: list[Around] = []
        for distance in range(1, depth + 1 if depth > 1 else 1):
            over: dict[int, Located] = {}
            layer = self._reached(layer, seen, over)
            seen |= layer.keys()
            if distance > 1:
                found += (Around(distance, self.neighbour(far), over[d].path) for d, far in layer.items())
        return tuple(self._fitting("around", found))

    def _reached(self, layer: Mapping[int, Located], seen: set[int], over: dict[int, Located]) -> dict[int, Located]:
        """Notes one link away from a layer, by path, some hundreds at most; `over` is told from where in the layer."""
        pairs = [(document, link.note) for link, document in _leading_to_notes(self._links.out_of(layer))]
        for link, document in _leading_to_notes(self._links.into(list(layer))):
            pairs.append((link.row.document, layer[document]))
        for document, origin in sorted(pairs, key=lambda pair: pair[1].path):
            if document not in seen:
                over.setdefault(document, origin)
        reached = sorted(self.graph.notes(over).values(), key=lambda note: note.path)
        if len(reached) > _MOST_AROUND:
            self._cut["reached"] = self._cut.get("reached", 0) + len(reached) - _MOST_AROUND
        return {note.document: note for note in reached[:_MOST_AROUND] if self._problem(note) is None}


class _Anchors:
    """Whether the headings and blocks that links name are there."""

    def __init__(self, graph: Graph, documents: Sequence[int]) -> None:
        self._headings: dict[int, list[tuple[int, str]]] = {document: [] for document in documents}
        self._blocks: dict[int, set[str]] = {document: set() for document in documents}
        for heading in graph.headings(documents):
            self._headings[heading.document].append((heading.level, heading.text))
        for block in graph.blocks(documents, named=True):
            self._blocks[block.document].add((block.name or "").lower())

    def holds(self, link: OutLink) -> bool | None:
        """Whether the note has what the link points at in it; None for a link to a whole note."""
        row, file = link.row, link.meant.file
        if file is None or file.document not in self._headings or not _has_anchor(link):
            return None
        if row.block is not None:
            return row.block.lower() in self._blocks[file.document]
        return find_heading(self._headings[file.document], row.heading or "") is not None


def _has_anchor(link: OutLink) -> bool:
    return link.row.heading is not None or link.row.block is not None


def _leading_to_notes(links: Iterable[OutLink]) -> Iterator[tuple[OutLink, int]]:
    """The links that lead to a note, each with the document of that."""
    for link in links:
        if link.meant.file is not None and link.meant.file.document is not None:
            yield link, link.meant.file.document


def export(
    form: Form,
    index: Index,
    places: Mapping[str, Place],
    caller: Caller,
    *,
    outline: bool,
    tell: Callable[[str], None],
) -> Iterator[str]:
    """The graphs of these sources, as far as the caller may see them, in one of the forms, piece by piece.

    JSON holds the receipt itself; of the other forms `tell` is given its line at the end.
    """
    started = time.perf_counter()
    with index.snapshot():
        visible, rows, offline = visible_in(index, places, caller)
        chosen = sorted(places.items())
        walks = [
            _Walk(index.graph(key, visible), place, visible, offline=key in offline, limit=0) for key, place in chosen
        ]
        searched = [coverage(place, rows.get(key), index, visible, offline=key in offline) for key, place in chosen]

        def receipt() -> WalkReceipt:
            return _summed([walk.receipt(one, started=started) for walk, one in zip(walks, searched, strict=True)])

        yield from written(form, [walk.topology(outline=outline) for walk in walks], lambda: receipt().as_json())
        if form != "json":
            tell(receipt().line())


def _summed(receipts: Sequence[WalkReceipt]) -> WalkReceipt:
    """One receipt of several walks."""
    withheld = sum((Counter(receipt.withheld) for receipt in receipts), Counter[str]())
    took_ms = max((receipt.took_ms for receipt in receipts), default=0.0)
    return WalkReceipt(tuple(s for r in receipts for s in r.searched), withheld, {}, took_ms)
