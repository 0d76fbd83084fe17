"""The connector for a plain folder of Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from vademecum.sources.connector import Labels
from vademecum.vault import FileStamp, Ignores, Scan, read_note_bytes, walk


class FolderConnector:
    """Lists and reads Markdown files below a folder."""

    labels: ClassVar[Labels] = Labels(
        source="source_folder",
        chunk_type="source_folder_chunk",
        note_type="source_folder_markdown",
        note_header="Folder note",
        harness="folder",
    )

    def ignore_filters(self, root: Path) -> tuple[tuple[str, ...] | None, list[str]]:
        """A plain folder has no ignore list of its own."""
        del root
        return (), []

    def scan(self, root: Path, *, exclude: Sequence[str], filters: Sequence[str], max_files: int) -> Scan:
        """List the notes. Raises SourceRootMissing."""
        return walk(root, Ignores(exclude, filters), max_files=max_files)

    def read(self, root: Path, disk_path: str, *, max_bytes: int) -> tuple[bytes, FileStamp]:
        """The bytes of one note, with the stamp they had. Raises NoteUnreadable or NoteNotFound."""
        return read_note_bytes(os.path.join(root, disk_path), max_bytes=max_bytes)
