"""The receipt: what an answer covered, and what it could not.

Nothing found is not the same as did not look. One function builds it, and every surface prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from vademecum.index import SourceState


class Coverage(NamedTuple):
    """One source as the answer met it. `skipped` counts files on disk that are no document, by reason."""

    source_id: str
    name: str
    documents: int
    state: SourceState
    stale_since: str | None
    skipped: Mapping[str, int]
    sample: Sequence[tuple[str, str]]


class LaneReport(NamedTuple):
    """Whether a lane answered: `ok`, `off` (not asked or not there) or `degraded`, and why."""

    state: Literal["ok", "off", "degraded"]
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """State and reason."""
        return {"state": self.state, "reason": self.reason}


class NextSet(NamedTuple):
    """Vectors of another model that are being made, and answer when none is missing."""

    model: str
    have: int
    pending: int


class VectorsReport(NamedTuple):
    """The vectors that answered, of the whole index.

    `pending` texts have none yet, `refused` ones were given up; `backend` is what looked for neighbours, None where
    nobody did.
    """

    have: int = 0
    pending: int = 0
    refused: int = 0
    model: str | None = None
    backend: str | None = None
    next: NextSet | None = None

    def as_json(self) -> dict[str, Any]:
        """The report with the names of the wire."""
        return {**self._asdict(), "next": None if self.next is None else self.next._asdict()}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one answer covered. `memories` reach the caller; None where there is no home vault to hold any."""

    searched: tuple[Coverage, ...]
    lanes: Mapping[str, LaneReport]
    vectors: VectorsReport
    withheld: Mapping[str, int]
    memories: int | None
    empty_query: bool
    took_ms: float

    def as_json(self) -> dict[str, Any]:
        """The receipt with the names of the wire."""
        return {
            **_covered(self.searched),
            "vectors": self.vectors.as_json(),
            "lanes": {name: lane.as_json() for name, lane in self.lanes.items()},
            "withheld": _counted(self.withheld),
            **({} if self.memories is None else {"memories": {"reach_the_caller": self.memories}}),
            "empty_query": self.empty_query,
            "took_ms": self.took_ms,
        }

    def line(self) -> str:
        """The receipt in one line, for people and for models."""
        if not self.searched:
            return "Receipt: no source was searched; none is connected and enabled, or none was asked for."
        parts = _told(self.searched)
        if self.memories is not None:
            parts.append(f"{_memories(self.memories)} here")
        if self.empty_query:
            parts.append("the question holds no word to look for")
        parts += [told for name, lane in self.lanes.items() if (told := _lane(name, lane))]
        if self.vectors.next is not None:
            built = self.vectors.next
            parts.append(f"vectors of {built.model} are being made, {_count(built.pending, 'text')} to go")
        parts += _told_missing(self.searched, self.withheld)
        return f"Receipt: {'; '.join(parts)}; {self.took_ms:.0f} ms."


@dataclass(frozen=True, slots=True)
class WalkReceipt:
    """What a walk from a note covered. `cut` says of each list how many more there are than were shown."""

    searched: tuple[Coverage, ...]
    withheld: Mapping[str, int]
    cut: Mapping[str, int]
    took_ms: float

    def as_json(self) -> dict[str, Any]:
        """The receipt with the names of the wire."""
        return {
            **_covered(self.searched),
            "withheld": _counted(self.withheld),
            "cut": dict(self.cut),
            "took_ms": self.took_ms,
        }

    def line(self) -> str:
        """The receipt in one line, for people and for models."""
        parts = _told(self.searched)
        parts += [f"{number:,} more {name.replace('_', ' ')} not shown" for name, number in self.cut.items()]
        parts += _told_missing(self.searched, self.withheld)
        return f"Receipt: {'; '.join(parts)}; {self.took_ms:.0f} ms."


def _covered(searched: Sequence[Coverage]) -> dict[str, Any]:
    """The part of a receipt that every kind of answer has: the sources, and what of their files is not indexed."""
    listed = [
        {
            "source_id": s.source_id,
            "name": s.name,
            "documents": s.documents,
            "state": s.state,
            "stale_since": s.stale_since,
        }
        for s in searched
    ]
    offline = [
        {"source_id": s.source_id, "name": s.name, "stale_since": s.stale_since}
        for s in searched
        if s.state == "unreachable"
    ]
    sample = [{"source_id": s.source_id, "path": path, "reason": reason} for s in searched for path, reason in s.sample]
    skipped = {**_counted(_skipped(searched)), "sample": sample[:10]}
    return {"searched": listed, "offline": offline, "skipped": skipped}


def _counted(reasons: Mapping[str, int]) -> dict[str, Any]:
    return {"count": sum(reasons.values()), "by_reason": dict(sorted(reasons.items()))}


def _skipped(searched: Sequence[Coverage]) -> Counter[str]:
    total: Counter[str] = Counter()
    for source in searched:
        total.update(source.skipped)
    return total


def _told(searched: Sequence[Coverage]) -> list[str]:
    notes = sum(s.documents for s in searched)
    offline = [f"{s.name} is offline, its notes may be stale" for s in searched if s.state == "unreachable"]
    return [f"searched {_count(notes, 'note')} in {', '.join(s.name for s in searched)}", *offline]


def _told_missing(searched: Sequence[Coverage], withheld: Mapping[str, int]) -> list[str]:
    """What is not indexed and what was withheld, in words; nothing where there is none of it."""
    skipped = _skipped(searched)
    parts = []
    if skipped:
        parts.append(f"{_count(skipped.total(), 'file')} not indexed ({_by_reason(skipped)})")
    if withheld:
        parts.append(f"{_count(sum(withheld.values()), 'note')} withheld ({_by_reason(withheld)})")
    return parts


def _lane(name: str, lane: LaneReport) -> str:
    """What a reader has to know of a lane; "" when it did all it could."""
    if lane.state == "ok":
        return lane.reason or ""
    label = name if name == "reranker" else f"{name} lane"
    return f"{label} {lane.state} ({lane.reason})" if lane.reason else f"{label} {lane.state}"


def _memories(number: int) -> str:
    return "1 memory reaches" if number == 1 else f"{number:,} memories reach"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _by_reason(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in sorted(reasons.items()))
