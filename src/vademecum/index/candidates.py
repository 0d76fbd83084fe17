"""What a lane may offer: candidates, the filters they have to satisfy, and which of them the caller may see at all."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from vademecum.access import ShownMemory, VisibleSet
from vademecum.vault import FileStamp

CANDIDATES: Final = 100
"""Rows that each table contributes to a lane."""


Include = Literal["all", "memories", "sources"]


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit has to satisfy. Dates are ISO days, inclusive; a tag also stands for the tags nested below it.

    `memories` are the paths of the memories that are wanted, None for all of them.
    """

    sources: frozenset[str] | None = None
    path_prefix: str = ""
    tags: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    include: Include = "all"
    memories: frozenset[str] | None = None

    def admit_kind(self, path: str, *, is_memory: bool) -> bool:
        """Whether notes, or this memory, were asked for."""
        if not is_memory:
            return self.include != "memories" and self.memories is None
        return self.include != "sources" and (self.memories is None or path in self.memories)

    def admit_memory(self, source_id: str, memory: ShownMemory) -> bool:
        """Whether a memory passes, by what its file says."""
        tags = "\n".join(("memory", *memory.tags))
        return self.admit_kind(memory.path, is_memory=True) and self.admit(source_id, memory.path, memory.date, tags)

    def admit(self, source_id: str, path: str, date: str, tags: str) -> bool:
        """Whether a note passes. `tags` are its tags, one a line."""
        if self.sources is not None and source_id not in self.sources:
            return False
        if not path.startswith(self.path_prefix):
            return False
        if (self.since and date < self.since) or (self.until and date > self.until):
            return False
        if not self.tags:
            return True
        held = unicodedata.normalize("NFC", tags).casefold().split("\n")
        return all(any(t == tag or t.startswith(tag + "/") for t in held) for tag in self.tags)


class Candidate(NamedTuple):
    """A chunk, or a whole note when `chunk` is None, with its bm25 turned so that more is better.

    `place` (source id, path, ordinal) orders equal scores, whatever order the notes were indexed in.
    """

    chunk: int | None
    document: int
    score: float
    place: tuple[str, str, int]


class Located(NamedTuple):
    """Where a note lies, and what `access` needs to judge it; no text."""

    document: int
    source_id: str
    path: str
    disk_path: str
    private: bool
    title: str
    stamp: FileStamp
    settled: bool

    @property
    def known(self) -> FileStamp | None:
        """The stamp that the file had; None when it is not to be believed."""
        return self.stamp if self.settled else None


LOCATED: Final = (
    "d.id, s.source_id, d.path, d.disk_path, d.private, d.title, d.settled, d.size, d.mtime_ns, d.ctime_ns, d.inode"
)
"""The columns of a `Located`."""


def located(row: tuple[Any, ...]) -> Located:
    """A row of the columns LOCATED."""
    document, source_id, path, disk_path, private, title, settled, *stamp = row
    return Located(document, source_id, path, disk_path, bool(private), title, FileStamp(*stamp), bool(settled))


class Admission:
    """Decides which rows of a lane count, and notes what had to be withheld, by document.

    A row is (chunk or None, score, document, source, path, private, date, tags, ordinal). `sources` maps the index's
    row ids of sources to their ids; `excluded` are documents that the question rules out.
    """

    def __init__(
        self, visible: VisibleSet, filters: Filters, *, sources: Mapping[int, str], excluded: frozenset[int]
    ) -> None:
        self.withheld: dict[int, str] = {}
        self._visible = visible
        self._filters = filters
        self._sources = sources
        self._excluded = excluded

    def admits(self, row: tuple[Any, ...]) -> bool:
        """Whether the row's note may be offered."""
        _, _, document, source, path, private, date, tags, _ = row
        source_id = self._sources.get(source)
        if source_id is None or source_id not in self._visible.policies or document in self._excluded:
            return False
        is_memory = self._visible.is_memory(source_id, path)
        if not self._filters.admit_kind(path, is_memory=is_memory):
            return False
        if not self._filters.admit(source_id, path, date, tags):
            return False
        reason = self._visible.withheld(source_id, path, private=bool(private))
        if reason is not None:
            self.withheld[document] = reason
        return reason is None

    def place(self, row: tuple[Any, ...]) -> tuple[str, str, int]:
        """Where a row's chunk stands: source id, path, ordinal."""
        return (self._sources[row[3]], row[4], row[8])
