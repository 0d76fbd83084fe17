"""A folder of notes on disk: which files it holds, which are ignored, and how one is read.

Nothing in this package writes below a root, and no path leaves it: links are never followed.
"""

from vademecum.vault.conflicts import ConflictCopy, conflict_copies
from vademecum.vault.discovery import CAPTURED, Found, find_memories, memory_folder, platforms_of
from vademecum.vault.manifest import Manifest, load_manifest
from vademecum.vault.tree import (
    DEFAULT_GLOBS,
    LINKED_SUFFIXES,
    NOTE_SUFFIXES,
    Away,
    FileStamp,
    Ignores,
    Scan,
    check_globs,
    contained,
    is_binary,
    is_dataless,
    leads_out,
    link_name,
    note_key,
    read_declaration,
    read_note_bytes,
    stamp_of,
    user_ignore_filters,
    walk,
)

__all__ = [
    "CAPTURED",
    "DEFAULT_GLOBS",
    "LINKED_SUFFIXES",
    "NOTE_SUFFIXES",
    "Away",
    "ConflictCopy",
    "FileStamp",
    "Found",
    "Ignores",
    "Manifest",
    "Scan",
    "check_globs",
    "conflict_copies",
    "contained",
    "find_memories",
    "is_binary",
    "is_dataless",
    "leads_out",
    "link_name",
    "load_manifest",
    "memory_folder",
    "note_key",
    "platforms_of",
    "read_declaration",
    "read_note_bytes",
    "stamp_of",
    "user_ignore_filters",
    "walk",
]
