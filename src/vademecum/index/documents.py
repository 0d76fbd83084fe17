"""The rows of single notes: putting a note in, in the place of what stood there, and taking it out.

A chunk that a change leaves as it was keeps its row: taking words out of the index securely costs milliseconds for
each row, and whatever hangs off a chunk stays valid.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from vademecum.index import purge
from vademecum.index.file import one
from vademecum.vault import FileStamp

if TYPE_CHECKING:  # a command that only asks need not load the parser
    from vademecum.markdown import Chunk, Note


class IndexedNote(NamedTuple):
    """A note ready to be put into the index. A stamp that is not `settled` will not be trusted by the next scan."""

    path: str
    disk_path: str
    stamp: FileStamp
    settled: bool
    fingerprint: bytes
    date: str
    note: Note
    chunks: Sequence[Chunk]


def put(db: apsw.Connection, source: int, notes: Sequence[IndexedNote]) -> None:
    """Put notes in. Runs inside the caller's transaction."""
    documents = []
    chunks: list[tuple[int, Chunk]] = []
    warnings: list[tuple[int, int, str]] = []
    for note in notes:
        document, new = _put_document(db, source, note)
        documents.append(document)
        chunks += ((document, chunk) for chunk in new)
        warnings += ((document, d.line, d.message) for d in note.note.diagnostics)
    # Asked after the old chunks went, whose ids are given out again.
    newest = one(db, "select coalesce(max(id), 0) from chunk")
    db.executemany(
        "insert into chunk(document, ordinal, first_line, last_line, key, headings, body) values (?, ?, ?, ?, ?, ?, ?)",
        ((document, c.ordinal, c.first_line, c.last_line, c.key, _headings(c), c.text) for document, c in chunks),
    )
    db.executemany("insert into warning(document, line, message) values (?, ?, ?)", warnings)
    # One statement for all: each INSERT … SELECT makes FTS5 write what it holds to disk before it starts.
    db.execute(
        "insert into chunk_fts(rowid, title, headings, body)"
        " select id, title, headings, body from chunk_text where id > ?",
        (newest,),
    )
    db.execute(
        "insert into note_fts(rowid, title, aliases, tags, headings, body)"
        " select id, title, aliases, tags, headings, body from note_text"
        " where id in (select value from json_each(?))",
        (json.dumps(documents),),
    )


def drop(db: apsw.Connection, documents: Sequence[int], *, at: str) -> None:
    """Take notes out, all but a row with path and hash. Runs inside the caller's transaction."""
    for document in documents:
        _unindex(db, document, kept=frozenset())
        db.execute(
            "update document set removed_at = ?, title = '', aliases = '', tags = '', headings = '', properties = ''"
            " where id = ?",
            (at, document),
        )


def _put_document(db: apsw.Connection, source: int, note: IndexedNote) -> tuple[int, Sequence[Chunk]]:
    """Write a note's own row; its id, and the chunks that still have to be written."""
    old: Any = db.execute(
        "select id, title from document where source = ? and path = ?", (source, note.path)
    ).fetchone()
    new: Sequence[Chunk] = note.chunks
    if old is not None:
        new = _replace_chunks(db, old[0], note, title=old[1])
    parsed = note.note
    document: int = one(
        db,
        "insert into document(private, dated, date, size, mtime_ns, ctime_ns, inode, settled, disk_path, fingerprint,"
        " title, aliases, tags, headings, properties, source, path)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " on conflict(source, path) do update set private = excluded.private,"
        " dated = excluded.dated, date = excluded.date, size = excluded.size, mtime_ns = excluded.mtime_ns,"
        " ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " settled = excluded.settled,"
        " disk_path = excluded.disk_path, fingerprint = excluded.fingerprint, title = excluded.title,"
        " aliases = excluded.aliases, tags = excluded.tags, headings = excluded.headings,"
        " properties = excluded.properties, removed_at = null returning id",
        (
            parsed.private,
            parsed.date is not None,
            parsed.date or note.date,
            *note.stamp,
            note.settled,
            note.disk_path,
            note.fingerprint,
            parsed.title,
            "\n".join(parsed.aliases),
            "\n".join(parsed.tags),
            "\n".join(h.text for h in parsed.headings),
            parsed.frontmatter_text,
            source,
            note.path,
        ),
    )
    return document, new


def _replace_chunks(db: apsw.Connection, document: int, note: IndexedNote, *, title: str) -> list[Chunk]:
    """Take out what a changed note no longer holds; the chunks that are new. A new title is new for every chunk."""
    same: dict[tuple[str, str], list[int]] = defaultdict(list)
    if title == note.note.title:
        rows: Any = db.execute(
            "select headings, body, id from chunk where document = ? order by ordinal desc", (document,)
        )
        for headings, body, chunk in rows:
            same[headings, body].append(chunk)
    new, kept = [], {}
    for chunk in note.chunks:
        ids = same.get((_headings(chunk), chunk.text))
        if ids:
            kept[ids.pop()] = chunk
        else:
            new.append(chunk)
    _unindex(db, document, kept=frozenset(kept))
    db.executemany(
        "update chunk set ordinal = ?, first_line = ?, last_line = ?, key = ? where id = ?",
        ((c.ordinal, c.first_line, c.last_line, c.key, row) for row, c in kept.items()),
    )
    return new


def _unindex(db: apsw.Connection, document: int, *, kept: frozenset[int]) -> None:
    """Take a note's words out of both word indexes, and its chunks and warnings with them, but the kept chunks."""
    purge.unindex_notes(db, "id = ?", document)
    gone = [row[0] for row in db.execute("select id from chunk where document = ?", (document,)) if row[0] not in kept]
    listed = json.dumps(gone)
    purge.unindex_chunks(db, "id in (select value from json_each(?))", listed)
    db.execute("delete from chunk where id in (select value from json_each(?))", (listed,))
    db.execute("delete from warning where document = ?", (document,))


def _headings(chunk: Chunk) -> str:
    return "\n".join(chunk.heading_path)
