"""What is stored: one SQLite file that can be deleted at any time and costs minutes to rebuild.

All SQL of the product lives here, and nothing above this package knows which engine runs.
"""

from vademecum.index.candidates import Candidate, Filters, Include, Located
from vademecum.index.documents import IndexedNote
from vademecum.index.file import inode_of, quarantine
from vademecum.index.graph import BlockRow, Graph, HeadingRow, LinkRow, NamedFile
from vademecum.index.lexical import WordsLane, WordsQuery
from vademecum.index.meaning import MeaningLane, NoteNearness
from vademecum.index.purge import Purged
from vademecum.index.store import (
    BATCH,
    Index,
    NoteText,
    Restamp,
    SourceRow,
    SourceState,
    StoredNote,
)
from vademecum.index.vectors import MOST_ATTEMPTS, ChunkSaid, Vectors, VectorSet

__all__ = [
    "BATCH",
    "MOST_ATTEMPTS",
    "BlockRow",
    "Candidate",
    "ChunkSaid",
    "Filters",
    "Graph",
    "HeadingRow",
    "Include",
    "Index",
    "IndexedNote",
    "LinkRow",
    "Located",
    "MeaningLane",
    "NamedFile",
    "NoteNearness",
    "NoteText",
    "Purged",
    "Restamp",
    "SourceRow",
    "SourceState",
    "StoredNote",
    "VectorSet",
    "Vectors",
    "WordsLane",
    "WordsQuery",
    "inode_of",
    "quarantine",
]
