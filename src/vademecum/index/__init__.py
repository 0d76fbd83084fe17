"""What is stored: one SQLite file that can be deleted at any time and costs minutes to rebuild.

All SQL of the product lives here, and nothing above this package knows which engine runs.
"""

from vademecum.index.documents import IndexedNote
from vademecum.index.file import inode_of, quarantine
from vademecum.index.lexical import Candidate, Filters, WordsLane, WordsQuery
from vademecum.index.purge import Purged
from vademecum.index.store import (
    BATCH,
    Index,
    Located,
    NoteText,
    Restamp,
    SourceRow,
    SourceState,
    StoredNote,
)

__all__ = [
    "BATCH",
    "Candidate",
    "Filters",
    "Index",
    "IndexedNote",
    "Located",
    "NoteText",
    "Purged",
    "Restamp",
    "SourceRow",
    "SourceState",
    "StoredNote",
    "WordsLane",
    "WordsQuery",
    "inode_of",
    "quarantine",
]
