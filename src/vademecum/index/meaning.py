"""The meaning lane: chunks whose vectors lie nearest to the question's, filters applied inside.

A note counts as its words do in the other lane, by its best chunk and by the whole of it: how near all of its chunks
lie on average (decision 0009 has the measurements). Nothing is searched that the caller may not see: when too few of
the nearest are admitted, more are looked at, up to all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw

from vademecum.index.candidates import CANDIDATES, Admission, Candidate
from vademecum.index.lexical import WordsLane

if TYPE_CHECKING:
    from vademecum.index.matrix import Floats, VectorTable
    from vademecum.index.vectors import Vectors, VectorSet

# More than are wanted, since some may not be admitted; but each one costs, and few questions need a second look.
_FIRST_LOOK: Final = CANDIDATES + 20
_WIDER: Final = 4
_TOLD: Final = 10
# Where the hundred nearest come from fewer notes than this, further ones are looked for.
_LEAST_NOTES: Final = 20
_OF_A_CROWD: Final = 5

_CHUNKS: Final = """
select c.id, v.id, c.document, d.source, d.path, d.private, d.date, d.tags, c.ordinal
from json_each(?) j
cross join vector v on v.id = j.value
cross join chunk c on c.content = v.content
cross join document d on d.id = c.document"""
_OF_NOTES: Final = """
select c.document, c.id, v.id
from json_each(?) j
cross join chunk c on c.document = j.value
cross join vector v on v.content = c.content and v.model = ?"""


class NoteNearness(NamedTuple):
    """How near a note lies: its best chunk's cosine, and the mean of all its chunks'."""

    best: float
    mean: float


@dataclass(slots=True)
class MeaningLane:
    """What the meaning lane found.

    chunks   best first, each with its cosine as its score
    cosines  of those chunks and of every chunk of a note that any lane found, by chunk
    notes    how near those notes lie, by document; a note without a vector is not there
    backend  what looked for neighbours
    withheld notes that lie as near as the best ten that may be shown, and may not, by document with the reason
    """

    backend: str = ""
    chunks: list[Candidate] = field(default_factory=list)
    cosines: dict[int, float] = field(default_factory=dict)
    notes: dict[int, NoteNearness] = field(default_factory=dict)
    withheld: dict[int, str] = field(default_factory=dict)


def meaning_lane(
    connection: apsw.Connection,
    table: VectorTable,
    query: Floats,
    admission: Admission,
    *,
    vectors: Vectors,
    chosen: VectorSet,
    beside: WordsLane,
) -> MeaningLane:
    """Rank chunks by their cosine with an embedded question."""
    lane = MeaningLane()
    lane.chunks, lane.withheld = _nearest(connection, table, query, admission)
    lane.backend = table.backend  # told afterwards: a mirror that proves damaged hands over
    documents = {c.document for c in lane.chunks} | {c.document for c in (*beside.chunks, *beside.notes, *beside.named)}
    _measure_notes(connection, lane, query, documents, vectors=vectors, chosen=chosen)
    return lane


def _nearest(
    connection: apsw.Connection, table: VectorTable, query: Floats, admission: Admission
) -> tuple[list[Candidate], dict[int, str]]:
    """The nearest that are admitted, best first, and what had to be withheld among the best of them."""
    count = _FIRST_LOOK
    while True:
        near = table.nearest(query, count)
        cosines = dict(near)
        found, refused = [], []
        for row in connection.execute(_CHUNKS, (json.dumps(list(cosines)),)):
            if admission.admits(row):
                found.append(Candidate(row[0], row[2], cosines[row[1]], admission.place(row)))
            elif row[2] in admission.withheld:
                refused.append((cosines[row[1]], row[2]))
        found.sort(key=lambda candidate: (-candidate.score, candidate.place))
        crowded = len({candidate.document for candidate in found[:CANDIDATES]}) < _LEAST_NOTES
        # Unless the last one kept lies nearer than the last one looked at, its equals may have been left out.
        enough = len(found) >= CANDIDATES and found[CANDIDATES - 1].score > near[-1].cosine and not crowded
        if enough or len(near) < count:
            break
        if crowded and len(_first_of_each(found)) >= CANDIDATES:
            break
        count *= _WIDER
    if crowded:
        found = _first_of_each(found)
    # Every note is near to some degree: only what would have been among the first hits is told of.
    least = found[_TOLD - 1].score if len(found) >= _TOLD else -1.0
    return found[:CANDIDATES], {note: admission.withheld[note] for cosine, note in refused if cosine >= least}


def _first_of_each(found: Sequence[Candidate]) -> list[Candidate]:
    """The best few of each note, so that one long note about the matter leaves room for others."""
    taken = Counter[int]()
    kept = []
    for candidate in found:
        taken[candidate.document] += 1
        if taken[candidate.document] <= _OF_A_CROWD:
            kept.append(candidate)
    return kept


def _measure_notes(
    connection: apsw.Connection,
    lane: MeaningLane,
    query: Floats,
    documents: Iterable[int],
    *,
    vectors: Vectors,
    chosen: VectorSet,
) -> None:
    """Take the cosine of every chunk of these notes."""
    rows: list[Any] = connection.execute(_OF_NOTES, (json.dumps(sorted(documents)), chosen.row)).fetchall()
    cosines = vectors.cosines(chosen, query, [row[2] for row in rows])
    lane.cosines = dict(zip((row[1] for row in rows), cosines, strict=True))
    start = 0
    for note, of_note in groupby(row[0] for row in rows):  # they come note by note
        own = cosines[start : start + sum(1 for _ in of_note)]
        start += len(own)
        lane.notes[note] = NoteNearness(max(own), sum(own) / len(own))
