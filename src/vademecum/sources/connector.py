"""How one kind of source is listed and read. There is no way to write.

A connector raises SourceRootMissing when it cannot tell what is there; it never answers "everything is gone".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from vademecum.vault import FileStamp, Scan


class Labels(NamedTuple):
    """The names by which hits of one kind of source are known to agents and tools, who match on them."""

    source: str
    chunk_type: str
    note_type: str
    note_header: str
    harness: str


class Connector(Protocol):
    """Lists and reads one kind of source."""

    @property
    def labels(self) -> Labels:
        """What its hits are called."""

    def ignore_filters(self, root: Path) -> tuple[tuple[str, ...] | None, list[str]]:
        """What the source itself asks to ignore (None: cannot be told, keep the last list), and diagnostics."""

    def scan(self, root: Path, *, exclude: Sequence[str], filters: Sequence[str], max_files: int) -> Scan:
        """List the notes. Raises SourceRootMissing."""

    def read(self, root: Path, disk_path: str, *, max_bytes: int) -> tuple[bytes, FileStamp]:
        """The bytes of one note, with the stamp they had. Raises NoteUnreadable or NoteNotFound."""
