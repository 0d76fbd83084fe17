"""Taking text out of the file so that not even its bytes stay, and proving it.

Deleting a row does not remove its words: full-text segments keep deleted words until they are merged, and pages keep
copies in their gaps until the file is vacuumed (decision 0004 has the measurements). So a removal deletes in one
transaction, merges the word indexes or makes them anew, vacuums, and empties the write-ahead log; the proof then
searches the bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import apsw

from vademecum.index.file import immediate, one
from vademecum.index.vectors import drop_unused

# How many passages of each text column the proof looks for. Each costs one pass over every file of the state.
_PASSAGES: Final = {
    "c.body": 64,
    "d.path": 16,
    "d.title": 16,
    "d.headings": 16,
    "d.properties": 16,
    "d.aliases": 8,
    "d.tags": 8,
    "l.target": 16,
}
# Where the columns of each letter stand, and what identifies a row there.
_TABLES: Final = {
    "c": ("document d join chunk c on c.document = d.id", "chunk c", "c.id", "0"),
    "d": ("document d", "document d", "d.id", "0"),
    "l": ("document d join link l on l.document = d.id", "link l", "l.document", "l.ordinal"),
}
_PASSAGE_CHARACTERS: Final = 48
# A reader that stays longer is named rather than waited for.
_READERS_WAIT_S: Final = 2.0
# And of how many vectors, a stretch of each.
_NUMBERS: Final = """
select substr(v.embedding, 1 + length(v.embedding) / 2, 48) from (
    select v.id, row_number() over () n, count(*) over () total from vector v
    where v.content in (select c.content from chunk c join document d on d.id = c.document where d.source = ?1)
    and not exists (select 1 from chunk c join document d on d.id = c.document
                    where c.content = v.content and d.source <> ?1)
) chosen cross join vector v on v.id = chosen.id where n * 16 / total > (n - 1) * 16 / total"""
# Nothing hangs off these tables in turn.
_HANGING_OFF_NOTES: Final = """
select distinct m.name from sqlite_schema m, pragma_foreign_key_list(m.name) f
where m.type = 'table' and f."table" = 'document'"""
_REMOVED_VECTORS: Final = "select coalesce(sum(removed), 0) from model"
_PASSAGE_LEAST: Final = 12


class Purged(NamedTuple):
    """How many rows of each kind a removal took, and passages of the removed text by which it can be proven."""

    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    word_rows: int = 0
    warnings: int = 0
    skipped: int = 0
    passages: tuple[str, ...] = ()
    numbers: tuple[bytes, ...] = ()
    """Stretches of the bytes of vectors that are gone."""

    @property
    def total(self) -> int:
        """Documents and chunks together."""
        return self.documents + self.chunks

    def as_json(self) -> dict[str, int]:
        """The counts by kind of row."""
        return {name: getattr(self, name) for name in self._fields if name not in ("passages", "numbers")}


def secure_delete(db: apsw.Connection, *, on: bool) -> None:
    """Whether deleting a row from the word indexes also wipes its words at once."""
    for table in ("chunk_fts", "note_fts"):
        db.execute(f"insert into {table}({table}, rank) values ('secure-delete', ?)", (int(on),))


def optimise(db: apsw.Connection) -> None:
    """Merge each word index into one segment, which drops every deleted word."""
    for table in ("chunk_fts", "note_fts"):
        db.execute(f"insert into {table}({table}) values ('optimize')")


def rebuild(db: apsw.Connection) -> None:
    """Make each word index anew from the text that is there."""
    for table in ("chunk_fts", "note_fts"):
        db.execute(f"insert into {table}({table}) values ('rebuild')")


def unindex_chunks(db: apsw.Connection, condition: str, value: int | str) -> int:
    """Take the chunks that meet a condition on `chunk_text` out of the word index; how many."""
    db.execute(
        "insert into chunk_fts(chunk_fts, rowid, title, headings, body)"
        f" select 'delete', id, title, headings, body from chunk_text where {condition}",
        (value,),
    )
    return db.changes()


def unindex_notes(db: apsw.Connection, condition: str, value: int) -> int:
    """Take the notes that meet a condition on `note_text` out of the word index, before their chunks go; how many."""
    db.execute(
        "insert into note_fts(note_fts, rowid, title, aliases, tags, headings, body)"
        f" select 'delete', id, title, aliases, tags, headings, body from note_text where {condition}",
        (value,),
    )
    return db.changes()


def purge(db: apsw.Connection, source_id: str) -> Purged:
    """Delete a source and all that hangs off it. Runs inside the caller's transaction."""
    source = one(db, "select id from source where source_id = ?", (source_id,))
    if source is None:
        return Purged()
    passages = _passages(db, source)
    counts: Any = db.execute(
        "select (select count(*) from document where source = ?1 and removed_at is null),"
        " (select count(*) from document d join chunk c on c.document = d.id where d.source = ?1),"
        " (select count(*) from document d join warning w on w.document = d.id where d.source = ?1),"
        " (select count(*) from skipped where source = ?1)",
        (source,),
    ).fetchone()
    documents, chunks, warnings, skipped = counts
    begin_bulk(db)
    numbers = tuple(row[0] for row in db.execute(_NUMBERS, (source,)) if _is_telling(row[0]))
    removed_before = one(db, _REMOVED_VECTORS)
    with _leaving_free_pages(db):
        # To take a word out costs what it costs to put one in, and then the whole index is merged.
        anew = chunks > one(db, "select count(*) from chunk") - chunks
        if not anew:
            unindex_notes(db, "source = ?", source)
            unindex_chunks(db, "document in (select id from document where source = ?)", source)
        _delete_notes(db, source)
        db.execute("delete from source where id = ?", (source,))
        drop_unused(db)
        rebuild(db) if anew else optimise(db)
    vectors = one(db, _REMOVED_VECTORS) - removed_before
    secure_delete(db, on=True)
    return Purged(documents, chunks, vectors, documents + chunks, warnings, skipped, passages, numbers)


def _delete_notes(db: apsw.Connection, source: int) -> None:
    """Delete what hangs off the notes of a source, table by table: note by note takes half as long again, and of
    100,000 notes half a minute. What no other source has rows in is made anew, which is quicker still.
    """
    alone = one(db, "select 1 from document where source <> ? limit 1", (source,)) is None
    for table in [row[0] for row in db.execute(_HANGING_OFF_NOTES)]:
        if alone:
            made: Any = db.execute(
                "select sql from sqlite_schema where tbl_name = ? and sql is not null order by type <> 'table'",
                (table,),
            ).fetchall()
            db.execute(f"drop table {table}")
            for (sql,) in made:
                db.execute(sql)
        else:
            db.execute(f"delete from {table} where document in (select id from document where source = ?)", (source,))


@contextmanager
def _leaving_free_pages(db: apsw.Connection) -> Iterator[None]:
    """Let pages that become free keep their bytes until `scrub` rewrites the file: to wipe them writes each of them
    once more, and in the log at that.
    """
    db.pragma("secure_delete", "fast")
    try:
        yield
    finally:
        db.pragma("secure_delete", 1)


def begin_bulk(db: apsw.Connection) -> None:
    """Let deleted words lie until `scrub`, which is noted as due: wiping them at once costs milliseconds a row."""
    secure_delete(db, on=False)
    db.execute("insert or replace into meta values ('scrub', hex(randomblob(8)))")


def scrub(db: apsw.Connection) -> bool:
    """Wipe whatever deleted text still lies in the file and empty the log; False when a reader stands in the way."""
    try:
        asked_for = one(db, "select value from meta where name = 'scrub'")
        with immediate(db):
            secure_delete(db, on=True)
            optimise(db)
        if not _readers_leave(db):
            return False
        db.execute("vacuum")
        if one(db, "pragma wal_checkpoint(truncate)"):
            return False
        # Only what was due when this began: another process may have asked for the next cleaning meanwhile.
        db.execute("delete from meta where name = 'scrub' and value = ?", (asked_for,))
    except apsw.BusyError:
        return False
    return True


def reader_in_the_way(db: apsw.Connection) -> bool:
    """Whether somebody reads an older state of the file, so that the log cannot be emptied; waits for nobody."""
    row: Any = db.execute("pragma wal_checkpoint(passive)").fetchone()
    busy, in_log, copied = row
    return bool(busy) or copied < in_log


def _readers_leave(db: apsw.Connection) -> bool:
    """Whether nobody reads an older state any more, at last. Emptying the log would wait for it too, but keep every
    writer waiting meanwhile.
    """
    deadline = time.monotonic() + _READERS_WAIT_S
    while reader_in_the_way(db):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


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


def _passages(db: apsw.Connection, source: int) -> tuple[str, ...]:
    """Passages from the text columns of the source's notes, spread evenly over them."""
    found: dict[str, None] = {}
    for column, count in _PASSAGES.items():
        found |= dict.fromkeys(map(_passage, _spread(db, column, source, count)))
    # A single word may stand in the word index for another note's sake; several words in a row do not stand there.
    return tuple(passage for passage in found if len(passage) >= _PASSAGE_LEAST and (" " in passage or "/" in passage))


def _is_telling(numbers: bytes) -> bool:
    """Whether a stretch of a vector can stand nowhere by chance: one that is mostly zeros stands in any file."""
    return 2 * numbers.count(0) < len(numbers)


def _spread(db: apsw.Connection, column: str, source: int, count: int) -> list[str]:
    """So many texts of a column, evenly over its rows. Only keys are numbered: SQLite keeps what a window numbers, in
    a temporary file when it is much, and a whole vault's text does not belong there.
    """
    rows, table, first, second = _TABLES[column[0]]
    sql = (
        f"select {column} from (select {first} k, {second} k2, row_number() over () n, count(*) over () total"
        f" from {rows} where d.source = ? and d.removed_at is null)"
        f" cross join {table} on {first} = k and {second} = k2"
        f" where n * {count} / total > (n - 1) * {count} / total"
    )
    return [str(row[0]) for row in db.execute(sql, (source,))]


def _passage(text: str) -> str:
    """The longest stretch of one line: the least likely to stand anywhere else by chance."""
    line = max(text.split("\n"), key=len).strip()
    return line[-_PASSAGE_CHARACTERS:]


def still_holds(db: apsw.Connection, passage: str | bytes) -> bool:
    """Whether a remaining row rightly holds this passage, or these numbers of a vector."""
    if isinstance(passage, bytes):
        return one(db, "select 1 from vector where instr(embedding, ?) limit 1", (passage,)) is not None
    chunks = "select 1 from chunk where instr(body, ?1) or instr(headings, ?1) limit 1"
    documents = (
        "select 1 from document where instr(path, ?1) or instr(title, ?1) or instr(aliases, ?1) or instr(tags, ?1)"
        " or instr(headings, ?1) or instr(properties, ?1) limit 1"
    )
    others = (
        "select 1 from source where instr(root, ?1) or instr(diagnostics, ?1) or instr(ignore_filters, ?1)"
        " union all select 1 from skipped where instr(path, ?1)"
        " union all select 1 from warning where instr(message, ?1)"
        " union all select 1 from link where instr(target, ?1) or instr(label, ?1) or instr(heading, ?1) limit 1"
    )
    return any(one(db, sql, (passage,)) for sql in (chunks, documents, others))
