"""Taking text out of the file so that not even its bytes stay, and proving it.

Deleting a row does not remove its words: full-text segments keep deleted words until they are merged, and pages keep
copies in their gaps until the file is vacuumed (decision 0004 has the measurements). So a removal deletes in one
transaction, merges the word indexes, vacuums, and empties the write-ahead log; the proof then searches the bytes.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

from vademecum.index.schema import one

# Passages of the removed text that the proof looks for. Each costs one pass over every file of the state.
_WITNESSES: Final = 64
_WITNESS_CHARACTERS: Final = 48
_WITNESS_LEAST: Final = 12


@dataclass(frozen=True, slots=True)
class Witness:
    """A passage of removed text whose bytes must not be found any more."""

    text: str


@dataclass(slots=True)
class Purged:
    """How many rows of each kind a removal took, and the passages by which it can be proven."""

    documents: int = 0
    chunks: int = 0
    words: int = 0
    warnings: int = 0
    skipped: int = 0
    sources: int = 0
    witnesses: list[Witness] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Documents and chunks together."""
        return self.documents + self.chunks

    def as_json(self) -> dict[str, int]:
        """The counts by kind of row."""
        return {
            "documents": self.documents,
            "chunks": self.chunks,
            "word_rows": self.words,
            "warnings": self.warnings,
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True)
class Proof:
    """What the search for residue did and found.

    residue    (file, passage) pairs: bytes of removed text that are still there
    blocked_by processes that hold the index open and kept the file from being cleaned
    """

    files: int
    bytes: int
    passages: int
    residue: tuple[tuple[str, str], ...] = ()
    blocked_by: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is left, as far as the search could see, and nothing hindered it."""
        return not (self.residue or self.blocked_by or self.problems)


def secure_delete(db: apsw.Connection, *, on: bool) -> None:
    """Whether deleting a row from the word indexes also wipes its words at once."""
    for table in ("chunk_fts", "note_fts"):
        db.execute(f"insert into {table}({table}, rank) values ('secure-delete', ?)", (int(on),))


def optimise(db: apsw.Connection) -> None:
    """Merge each word index into one segment, which drops every deleted word."""
    for table in ("chunk_fts", "note_fts"):
        db.execute(f"insert into {table}({table}) values ('optimize')")


def unindex(db: apsw.Connection, chunks: str, notes: str, value: int) -> int:
    """Take entries out of both word indexes, by a condition on each of the two views; how many."""
    db.execute(
        "insert into chunk_fts(chunk_fts, rowid, title, headings, body)"
        f" select 'delete', id, title, headings, body from chunk_text where {chunks}",
        (value,),
    )
    taken = db.changes()
    db.execute(
        "insert into note_fts(note_fts, rowid, title, aliases, tags, headings, body)"
        f" select 'delete', id, title, aliases, tags, headings, body from note_text where {notes}",
        (value,),
    )
    return taken + db.changes()


def purge(db: apsw.Connection, source_id: str) -> Purged:
    """Delete a source and all that hangs off it. Runs inside the caller's transaction."""
    purged = Purged()
    source = one(db, "select id from source where source_id = ?", (source_id,))
    if source is None:
        return purged
    purged.witnesses = _witnesses(db, source)
    counts: Any = db.execute(
        "select (select count(*) from document where source = ?1),"
        " (select count(*) from document d join chunk c on c.document = d.id where d.source = ?1),"
        " (select count(*) from document d join warning w on w.document = d.id where d.source = ?1),"
        " (select count(*) from skipped where source = ?1)",
        (source,),
    ).fetchone()
    purged.documents, purged.chunks, purged.warnings, purged.skipped = counts
    secure_delete(db, on=False)
    purged.words = unindex(db, "document in (select id from document where source = ?)", "source = ?", source)
    db.execute("delete from source where id = ?", (source,))
    purged.sources = 1
    optimise(db)
    secure_delete(db, on=True)
    db.execute("insert or ignore into pending values ('scrub')")
    return purged


def scrub(db: apsw.Connection) -> bool:
    """Rewrite the file without its gaps and empty the log; False when a reader stands in the way."""
    try:
        db.execute("vacuum")
        db.execute("delete from pending where what = 'scrub'")
        blocked = one(db, "pragma wal_checkpoint(truncate)")
    except apsw.BusyError:
        blocked = 1
    if blocked:
        db.execute("insert or ignore into pending values ('scrub')")
    return not blocked


def integrity(db: apsw.Connection, *, thorough: bool) -> list[str]:
    """What is wrong with the file, empty when nothing is."""
    found = [str(row[0]) for row in db.execute("pragma quick_check") if row[0] != "ok"]
    if thorough:
        for table in ("chunk_fts", "note_fts"):
            try:
                db.execute(f"insert into {table}({table}, rank) values ('integrity-check', 1)")
            except apsw.CorruptError:
                found.append(f"{table} does not agree with the text it indexes")
    if one(db, "select 1 from document limit 1") is None:
        for vocabulary in ("chunk_vocabulary", "note_vocabulary"):
            left = one(db, f"select count(*) from {vocabulary}")
            if left:
                found.append(f"{left} words are left in {vocabulary} though no note is")
    return found


def _witnesses(db: apsw.Connection, source: int) -> list[Witness]:
    """Passages spread evenly over the source's chunks, and over its paths."""
    texts = _spread(db, "chunk c join document d on d.id = c.document", "c.body", source, _WITNESSES)
    paths = _spread(db, "document d", "d.path", source, _WITNESSES // 4)
    passages = [_passage(text) for text in texts]
    return [Witness(text) for text in dict.fromkeys([*passages, *paths]) if len(text) >= _WITNESS_LEAST]


def _spread(db: apsw.Connection, table: str, column: str, source: int, count: int) -> list[str]:
    sql = (
        f"select t from (select {column} t, row_number() over () n, count(*) over () total from {table}"
        f" where d.source = ?) where n % max(total / {count}, 1) = 0 limit {count}"
    )
    return [str(row[0]) for row in db.execute(sql, (source,))]


def _passage(text: str) -> str:
    """The longest stretch of one line: the least likely to stand anywhere else by chance."""
    line = max(text.split("\n"), key=len).strip()
    return line[-_WITNESS_CHARACTERS:]


def still_holds(db: apsw.Connection, witness: Witness) -> bool:
    """Whether a remaining row rightly holds this passage."""
    chunks = "select 1 from chunk where instr(body, ?1) or instr(headings, ?1) limit 1"
    documents = (
        "select 1 from document where instr(path, ?1) or instr(title, ?1) or instr(aliases, ?1) or instr(tags, ?1)"
        " or instr(headings, ?1) or instr(properties, ?1) limit 1"
    )
    return any(one(db, sql, (witness.text,)) for sql in (chunks, documents))


def search_bytes(files: Iterable[Path], witnesses: Sequence[Witness]) -> tuple[int, int, list[tuple[Path, Witness]]]:
    """Look for every passage in the bytes of every file: files read, bytes read, what was found."""
    needles = [(witness, witness.text.encode()) for witness in witnesses]
    count, size, found = 0, 0, []
    for path in files:
        try:
            with open(path, "rb") as file:
                length = os.fstat(file.fileno()).st_size
                if not length:
                    continue
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    found += [(path, witness) for witness, needle in needles if content.find(needle) >= 0]
        except FileNotFoundError:
            continue
        count, size = count + 1, size + length
    return count, size, found


def holders(path: Path) -> list[str]:
    """The other processes that have this file open, as far as the system tells: "name (pid)"."""
    real, own, found = os.path.realpath(path), os.getpid(), []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(own):
            continue
        try:
            if any(os.path.realpath(fd) == real for fd in (process / "fd").iterdir()):
                name = (process / "comm").read_text().strip()
                found.append(f"{name} ({process.name})")
        except OSError:
            continue
    return sorted(found)
