"""A folder of notes on disk: which files it holds, which are ignored, and how one is read.

Nothing in this package writes below a root, and no path leaves it: links are never followed.
"""

from vademecum.vault.manifest import Manifest, load_manifest
from vademecum.vault.tree import (
    DEFAULT_GLOBS,
    PLAUSIBLE_LOSS,
    FileStamp,
    Ignores,
    Scan,
    check_globs,
    contained,
    is_binary,
    leads_out,
    note_key,
    read_declaration,
    read_note_bytes,
    stamp_of,
    user_ignore_filters,
    walk,
)

__all__ = [
    "DEFAULT_GLOBS",
    "PLAUSIBLE_LOSS",
    "FileStamp",
    "Ignores",
    "Manifest",
    "Scan",
    "check_globs",
    "contained",
    "is_binary",
    "leads_out",
    "load_manifest",
    "note_key",
    "read_declaration",
    "read_note_bytes",
    "stamp_of",
    "user_ignore_filters",
    "walk",
]
