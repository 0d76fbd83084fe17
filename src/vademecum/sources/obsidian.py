"""The connector for an Obsidian vault: a folder that also says itself what to ignore."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from vademecum.sources.connector import Labels
from vademecum.sources.folder import FolderConnector
from vademecum.vault import user_ignore_filters


class ObsidianConnector(FolderConnector):
    """Lists and reads the notes of a vault, without what its settings exclude."""

    labels: ClassVar[Labels] = Labels(
        source="source_obsidian",
        chunk_type="source_obsidian_chunk",
        note_type="source_obsidian_markdown",
        note_header="Obsidian vault note",
        harness="obsidian",
    )

    def ignore_filters(self, root: Path) -> tuple[tuple[str, ...] | None, list[str]]:
        """The vault's `userIgnoreFilters`."""
        return user_ignore_filters(root)
