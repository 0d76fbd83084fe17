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

from vademecum.index import purge, shape
from vademecum.index.file import one
from vademecum.index.vectors import content_hash, drop_unused
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
    moved_from: int | None = None
    """The document that this note was under another path; its vectors stay, whatever its title is now."""


class _NewChunk(NamedTuple):
    document: int
    content: bytes
    chunk: Chunk


def put(db: apsw.Connection, source: int, notes: Sequence[IndexedNote]) -> None:
    """Put notes in. Runs inside the caller's transaction."""
    documents: list[int] = []
    chunks: list[_NewChunk] = []
    left: list[int] = []
    emptied: list[int | None] = []
    warnings: list[tuple[int, int, str]] = []
    shape.add_folders(db, source, (note.path for note in notes))
    for note in notes:
        document = _put_document(db, source, note, new=chunks, left=left, emptied=emptied)
        documents.append(document)
        warnings += ((document, d.line, d.message) for d in note.note.diagnostics)
    # After all of the batch: a folder that one note leaves may be the one that a later note comes to.
    shape.prune_folders(db, emptied)
    # Asked after the old chunks went, whose ids are given out again.
    newest = one(db, "select coalesce(max(id), 0) from chunk")
    db.executemany("insert into content(hash) values (?) on conflict do nothing", ((new.content,) for new in chunks))
    db.executemany(
        "insert into chunk(document, content, ordinal, first_line, last_line, key, headings, body)"
        " values (?, (select id from content where hash = ?), ?, ?, ?, ?, ?, ?)",
        (
            (document, content, c.ordinal, c.first_line, c.last_line, c.key, _headings(c), c.text)
            for document, content, c in chunks
        ),
    )
    # After the new chunks are in: what one note of the batch lost, another may have gained.
    drop_unused(db, left)
    db.executemany("insert into warning(document, line, message) values (?, ?, ?)", warnings)
    places = ((document, note.path) for document, note in zip(documents, notes, strict=True))
    shape.put_in(db, [(place, note.note) for place, note in zip(places, notes, strict=True)])
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
    folders = [_leave_folder(db, document) for document in documents]
    for document in documents:
        drop_unused(db, _unindex(db, document, kept=frozenset()))
        db.execute(
            "update document set removed_at = ?, title = '', aliases = '', tags = '', headings = '', properties = ''"
            " where id = ?",
            (at, document),
        )
    shape.prune_folders(db, folders)


def _leave_folder(db: apsw.Connection, document: int) -> int | None:
    """Take a note out of its folder; which one that was."""
    folder: int | None = one(db, "select folder from document where id = ?", (document,))
    db.execute("update document set folder = null where id = ?", (document,))
    return folder


def _put_document(
    db: apsw.Connection,
    source: int,
    note: IndexedNote,
    *,
    new: list[_NewChunk],
    left: list[int],
    emptied: list[int | None],
) -> int:
    """Write a note's own row; its id.

    Adds to `new` the chunks still to be written, to `left` contents it gave up, to `emptied` the folder it moved from.
    """
    if note.moved_from is not None:
        db.execute("delete from document where source = ? and path = ?", (source, note.path))
        emptied.append(_leave_folder(db, note.moved_from))
        db.execute("update document set path = ? where id = ?", (note.path, note.moved_from))
    old: Any = db.execute(
        "select id, title from document where source = ? and path = ?", (source, note.path)
    ).fetchone()
    chunks: Sequence[tuple[bytes, Chunk]] = [(_content(note, chunk), chunk) for chunk in note.chunks]
    if old is not None:
        chunks = _replace_chunks(db, old[0], note, title=old[1], chunks=chunks, left=left)
    parsed = note.note
    document: int = one(
        db,
        "insert into document(private, dated, date, size, mtime_ns, ctime_ns, inode, settled, disk_path, fingerprint,"
        " title, aliases, tags, headings, properties, source, path, folder)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?16, ?17,"
        " (select id from folder where source = ?16 and path = ?18))"
        " on conflict(source, path) do update set private = excluded.private,"
        " dated = excluded.dated, date = excluded.date, size = excluded.size, mtime_ns = excluded.mtime_ns,"
        " ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " settled = excluded.settled,"
        " disk_path = excluded.disk_path, fingerprint = excluded.fingerprint, title = excluded.title,"
        " aliases = excluded.aliases, tags = excluded.tags, headings = excluded.headings,"
        " properties = excluded.properties, folder = excluded.folder, removed_at = null returning id",
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
            shape.folder_of(note.path),
        ),
    )
    new += (_NewChunk(document, content, chunk) for content, chunk in chunks)
    return document


def _replace_chunks(
    db: apsw.Connection,
    document: int,
    note: IndexedNote,
    *,
    title: str,
    chunks: Sequence[tuple[bytes, Chunk]],
    left: list[int],
) -> list[tuple[bytes, Chunk]]:
    """Take out what a changed note no longer holds; the chunks that are new. A new title is new for every chunk."""
    same: dict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
    rows: Any = db.execute(
        "select c.headings, c.body, c.id, t.hash from chunk c join content t on t.id = c.content"
        " where c.document = ? order by c.ordinal desc",
        (document,),
    )
    for headings, body, row, content in rows:
        same[headings, body].append((row, content))
    new, kept = [], {}
    for content, chunk in chunks:
        found = same.get((_headings(chunk), chunk.text))
        row, old_content = found.pop() if found else (None, content)
        if row is not None and title == note.note.title:
            kept[row] = chunk
        else:
            # A note that only moved is embedded as it was under its old name: a new name costs no embedding.
            new.append((old_content if note.moved_from is not None else content, chunk))
    left += _unindex(db, document, kept=frozenset(kept))
    db.executemany(
        "update chunk set ordinal = ?, first_line = ?, last_line = ?, key = ? where id = ?",
        ((c.ordinal, c.first_line, c.last_line, c.key, row) for row, c in kept.items()),
    )
    return new


def _unindex(db: apsw.Connection, document: int, *, kept: frozenset[int]) -> list[int]:
    """Take a note's words out of both word indexes, and its chunks and warnings with them, but the kept chunks.

    Gives back the contents that the chunks said, which nobody may say any more.
    """
    purge.unindex_notes(db, "id = ?", document)
    rows: Any = db.execute("select id, content from chunk where document = ?", (document,))
    gone = {chunk: content for chunk, content in rows if chunk not in kept}
    listed = json.dumps(list(gone))
    purge.unindex_chunks(db, "id in (select value from json_each(?))", listed)
    db.execute("delete from chunk where id in (select value from json_each(?))", (listed,))
    db.execute("delete from warning where document = ?", (document,))
    shape.take_out(db, document)
    return list(gone.values())


def _content(note: IndexedNote, chunk: Chunk) -> bytes:
    return content_hash(note.note.title, _headings(chunk), chunk.text)


def _headings(chunk: Chunk) -> str:
    return "\n".join(chunk.heading_path)
