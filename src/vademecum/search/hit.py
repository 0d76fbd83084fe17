"""What an answer is made of: hits, and the places they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vademecum.access import Remembered


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
    remembered: Remembered | None = None
    """Its memories for the caller who asks, where it is the home vault."""


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
    memory: Mapping[str, Any] | None = None
    """What a memory declares; None for a note."""

    @property
    def superseded(self) -> bool:
        """Whether it is a memory that was corrected since."""
        return self.memory is not None and bool(self.memory.get("superseded"))

    @property
    def pinned(self) -> bool:
        """Whether it is a memory that its owner pinned."""
        return self.memory is not None and bool(self.memory.get("pinned"))

    @property
    def type(self) -> str:
        """The kind of hit, by the name that agents and tools match on."""
        if self.memory is not None:
            return "memory"
        return self.place.note_type if self.whole_note else self.place.chunk_type

    def as_json(self) -> dict[str, Any]:
        """The hit with the names of the wire."""
        place = self.place
        hit: dict[str, Any] = {
            "id": self.id,
            "source": "memory" if self.memory is not None else place.source,
            "type": self.type,
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
            "superseded": self.superseded,
        }
        if self.memory is not None:
            del hit["harness"]
            hit["memory"] = dict(self.memory)
        if self.private:
            hit["private"] = True
        if self.explain is not None:
            hit["explain"] = dict(self.explain)
        return hit
