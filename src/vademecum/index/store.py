"""The index as the rest of the product sees it: put notes in, take them out, ask.

One writer lane: a lock among threads, BEGIN IMMEDIATE among processes. A write is short (at most 256 notes, a fifth of
a second), so that another process hardly waits. Text is handed out only against a VisibleSet.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import apsw

from vademecum.access import Policy, VisibleSet
from vademecum.errors import (
    IndexUnavailable,
    SourceRemoved,
    StateReadOnly,
)
from vademecum.index import documents, file, shape
from vademecum.index import purge as purging
from vademecum.index.candidates import LOCATED, Admission, Filters, Located, located
from vademecum.index.documents import IndexedNote
from vademecum.index.graph import Graph
from vademecum.index.lexical import WordsLane, WordsQuery, matched_terms, notes_with_any, words_lane
from vademecum.index.meaning import MeaningLane, meaning_lane
from vademecum.index.vectors import Vectors, VectorSet
from vademecum.vault import FileStamp, link_name

if TYPE_CHECKING:
    from vademecum.index.matrix import Floats

SourceState = Literal["unreachable", "empty", "degraded", "healthy"]

# A reader that holds the file is named rather than waited for.
_SCRUB_WAIT_MS: Final = 2000
BATCH: Final = 256
"""Notes in one transaction."""
_KEPT_DAYS: Final = 30


class Restamp(NamedTuple):
    """A note that is as it was indexed, but for its stamp, the day of that, and perhaps its spelling on disk."""

    document: int
    disk_path: str
    date: str
    stamp: FileStamp
    settled: bool


class StoredNote(NamedTuple):
    """What a scan needs to know of a note it indexed before."""

    document: int
    fingerprint: bytes


class SourceRow(NamedTuple):
    """What the index knows of one source."""

    row: int
    source_id: str
    root: str
    state: SourceState
    stale_since: str | None
    held_since: str | None
    loss_met: bool
    last_indexed_at: str | None
    policy: Policy | None
    ignore_filters: tuple[str, ...]
    diagnostics: tuple[str, ...]
    skipped: Mapping[str, int]
    documents: int


class NoteText(NamedTuple):
    """A chunk, or the beginning of a whole note, with where it stands. `chunk_key` is None for a whole note."""

    document: int
    source_id: str
    path: str
    disk_path: str
    stamp: FileStamp
    settled: bool
    private: bool
    title: str
    chunk_key: str | None
    heading_path: tuple[str, ...]
    first_line: int
    last_line: int
    text: str

    @property
    def known(self) -> FileStamp | None:
        """The stamp that the file had; None when it is not to be believed."""
        return self.stamp if self.settled else None


class Index:
    """The index file, open. `read_only` says that the state folder refused writes and only questions can be asked."""

    def __init__(self, path: Path, connection: apsw.Connection, *, busy_timeout_s: float, read_only: bool) -> None:
        self.path = path
        self._busy_timeout_ms = int(busy_timeout_s * 1000)
        self.read_only = read_only
        self._connection = connection
        self._lane = threading.RLock()
        self._identity = _identity_of(path)
        self.vectors = Vectors(path, connection, self._write)

    @classmethod
    def open(cls, path: Path, *, busy_timeout_s: float) -> Index:
        """Open the index, making it when it is not there.

        Raises IndexBusy, IndexCorrupt, IndexUnavailable or StateReadOnly.
        """
        writable = os.access(path if path.exists() else path.parent, os.W_OK) and os.access(path.parent, os.W_OK)
        try:
            if not writable:
                connection = file.connect_read_only(path, busy_timeout_s)
                return cls(path, connection, busy_timeout_s=busy_timeout_s, read_only=True)
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            file.check_not_emptied(path)
            if not path.exists():  # SQLite alone would take the umask; never open a file that it has locked
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = file.connect(str(path), busy_timeout_s=busy_timeout_s, flags=flags)
            file.create_tables(connection, busy_timeout_s=busy_timeout_s)
        except apsw.Error as exc:
            raise file.translated(exc, path) from exc
        except OSError as exc:
            raise IndexUnavailable(f"the index {path} cannot be opened: {exc.strerror}", hint=file.PERMISSIONS) from exc
        return cls(path, connection, busy_timeout_s=busy_timeout_s, read_only=False)

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is open still stands at its path, and holds something: damage and people put others
        there, or empty it.
        """
        return self._identity == _identity_of(self.path)

    @file.translating
    def release(self) -> None:
        """Give back the memory in which pages are kept: what comes next reads them anew."""
        self._connection.execute("pragma shrink_memory")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ── the writer lane

    @contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        if self.read_only:
            raise StateReadOnly(f"the index {self.path} cannot be written")
        with self._lane, file.immediate(self._connection) as connection:
            yield connection
            self.vectors.follow(connection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Keep every question in this block on one state of the index, whatever others write meanwhile."""
        self._begin()
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._end()

    @file.translating
    def _begin(self) -> None:
        self._connection.execute("begin")

    @file.translating
    def _end(self) -> None:
        self._connection.execute("commit")

    @file.translating
    def source(self, source_id: str) -> SourceRow | None:
        """What the index knows of a source; None when it holds nothing of it."""
        row = self._connection.execute(_SOURCES + " where s.source_id = ?", (source_id,)).fetchone()
        return None if row is None else _source_row(row)

    @file.translating
    def add_source(self, source_id: str, *, kind: str, root: str) -> None:
        """Make the row of a source, to which everything else of it belongs, unless it is there."""
        with self._write() as db:
            db.execute(
                "insert into source(source_id, kind, root) values (?, ?, ?) on conflict do nothing",
                (source_id, kind, root),
            )

    @file.translating
    def put(self, source: int, notes: Sequence[IndexedNote]) -> None:
        """Put notes into the index, in the place of what stood there; findable when this returns.

        One transaction, so give at most BATCH of them. Raises SourceRemoved when the source is gone.
        """
        with self._write() as db:
            documents.put(db, source, notes)

    @file.translating
    def restamp(self, notes: Iterable[Restamp]) -> None:
        """Note that files were met with a new stamp, and perhaps another spelling, but with their old content."""
        with self._write() as db:
            db.executemany(
                "update document set size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, settled = ?, disk_path = ?,"
                " date = case when dated then date else ? end where id = ?",
                ((*note.stamp, note.settled, note.disk_path, note.date, note.document) for note in notes),
            )

    @file.translating
    def drop(self, gone: Sequence[int], *, at: str) -> None:
        """Take notes out: their text goes at once, a row with path and hash stays for thirty days."""
        if gone:
            with self._write() as db:
                documents.drop(db, gone, at=at)

    @file.translating
    def begin_bulk(self) -> None:
        """Make taking many notes out cheap until the next `scrub`, which has to follow."""
        with self._write() as db:
            purging.begin_bulk(db)

    @file.translating
    def finish_scan(
        self,
        source: int,
        *,
        state: SourceState,
        at: str,
        policy: Policy,
        ignore_filters: Sequence[str] | None,
        diagnostics: Sequence[str],
        reasons: Mapping[str, int],
        skipped: Iterable[tuple[str, str]],
        held: bool,
        asked: bool = True,
    ) -> None:
        """Record how a scan ended. `ignore_filters` None keeps the last known list. A loss that is held counts as met
        only where somebody `asked` for the scan.
        """
        with self._write() as db:
            db.execute(
                "update source set state = ?, policy = ?, diagnostics = ?, skipped = ?,"
                " ignore_filters = coalesce(?, ignore_filters),"
                " stale_since = case when ? then coalesce(stale_since, ?) end,"
                " held_since = case when ? then coalesce(held_since, ?) end, loss_met = ? and (loss_met or ?),"
                " last_indexed_at = case when ? then last_indexed_at else ? end where id = ?",
                (
                    state,
                    json.dumps(policy.as_json()),
                    json.dumps(list(diagnostics)),
                    json.dumps(dict(reasons)),
                    None if ignore_filters is None else json.dumps(list(ignore_filters)),
                    *(held, at) * 2,
                    *(held, asked),
                    *(held, at),
                    source,
                ),
            )
            if not db.changes():
                raise SourceRemoved("the source was removed while it was being indexed")
            shape.list_files(db, source, dict(skipped))
            db.execute(
                "delete from document where source = ? and removed_at < strftime('%Y-%m-%dT%H:%M:%SZ', ?, ?)",
                (source, at, f"-{_KEPT_DAYS} days"),
            )

    @file.translating
    def mark_unreachable(self, source: int, *, at: str) -> None:
        """Record an outage. Every row stays, and answers say since when they are stale."""
        with self._write() as db:
            # A loss that was held has to be met twice in a row to be believed.
            db.execute(
                "update source set state = 'unreachable', stale_since = coalesce(stale_since, ?), held_since = null,"
                " loss_met = 0"
                " where id = ?",
                (at, source),
            )

    # ── removal

    @file.translating
    def purge(self, source_id: str) -> purging.Purged:
        """Take a source out whole, in one transaction. What it counted is gone when this returns."""
        with self._write() as db:
            return purging.purge(db, source_id)

    @file.translating
    def scrub(self) -> bool:
        """Overwrite what deleted rows left in the file; False when a reader keeps it from finishing."""
        with self._lane:
            self._connection.set_busy_timeout(_SCRUB_WAIT_MS)
            try:
                return purging.scrub(self._connection)
            finally:
                self._connection.set_busy_timeout(self._busy_timeout_ms)

    @file.translating
    def scrub_pending(self) -> bool:
        """Whether deleted text may still lie in the file."""
        return file.one(self._connection, "select 1 from meta where name = 'scrub'") is not None

    @file.translating
    def reader_in_the_way(self) -> bool:
        """Whether somebody reads an older state of the index, so that a scrub could not finish; waits for nobody."""
        return purging.reader_in_the_way(self._connection)

    def blocks(self, size: int) -> Iterator[tuple[Path, Iterator[bytes]]]:
        """The bytes of the index file and of its write-ahead log, in blocks, through the connection that is open."""
        for which, path in enumerate((self.path, self.path.with_name(self.path.name + "-wal"))):
            if path.exists():
                yield path, self._blocks(which, path, size)

    def _blocks(self, which: int, path: Path, size: int) -> Iterator[bytes]:
        length = path.stat().st_size if path.exists() else 0
        for offset in range(0, length, size):
            yield self._read(which, offset, min(size, length - offset))

    @file.translating
    def _read(self, which: int, offset: int, amount: int) -> bytes:
        return self._connection.read("main", which, offset, amount)[1]

    @file.translating
    def still_holds(self, passage: str | bytes) -> bool:
        """Whether a row that has every right to be here holds this text too."""
        return purging.still_holds(self._connection, passage)

    @file.translating
    def integrity(self, *, thorough: bool) -> list[str]:
        """What SQLite finds wrong with the file; `thorough` also compares the word indexes with the text."""
        return purging.integrity(self._connection, thorough=thorough)

    # ── questions that carry no text

    @file.translating
    def sources(self) -> dict[str, SourceRow]:
        """Every source of the index, configured or not, by id."""
        rows = self._connection.execute(_SOURCES + " order by source_id")
        return {row.source_id: row for row in map(_source_row, rows)}

    @file.translating
    def document_count(self, source: int) -> int:
        """How many notes of a source are indexed."""
        count: int = file.one(
            self._connection, "select count(*) from document where source = ? and removed_at is null", (source,)
        )
        return count

    @file.translating
    def chunk_count(self, source: int) -> int:
        """How many chunks the notes of a source have."""
        sql = "select count(*) from document d join chunk c on c.document = d.id where d.source = ?"
        count: int = file.one(self._connection, sql, (source,))
        return count

    @file.translating
    def shape_counts(self, source: int) -> dict[str, int]:
        """How many folders, links, headings, blocks, tags and aliases a source has."""
        return shape.counts(self._connection, source)

    @file.translating
    def stamps(self, source: int) -> dict[str, tuple[int, ...]]:
        """The stamp of every indexed note of a source by path; () for one that may not be believed."""
        rows: Any = self._connection.execute(
            "select path, size, mtime_ns, ctime_ns, inode, settled from document"
            " where source = ? and removed_at is null",
            (source,),
        )
        return {row[0]: row[1:5] if row[5] else () for row in rows}

    @file.translating
    def stored_notes(self, source: int, paths: Iterable[str]) -> dict[str, StoredNote]:
        """The row and the fingerprint of those of these notes that are indexed, by path."""
        rows: Any = self._connection.execute(
            "select path, id, fingerprint from document where source = ? and removed_at is null"
            " and path in (select value from json_each(?))",
            (source, json.dumps(list(paths))),
        )
        return {path: StoredNote(document, fingerprint) for path, document, fingerprint in rows}

    @file.translating
    def properties(self, source_id: str, prefix: str) -> list[tuple[str, str, str]]:
        """Path, title and the text of the properties of the indexed notes whose path begins so."""
        rows: Any = self._connection.execute(
            "select d.path, d.title, d.properties from document d join source s on s.id = d.source"
            " where s.source_id = ? and d.removed_at is null and d.path >= ? and d.path < ? order by d.path",
            (source_id, prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)),
        )
        return list(rows)

    @file.translating
    def count_below(self, source_id: str, prefix: str) -> int:
        """How many indexed notes have a path that begins so."""
        last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        count: int = file.one(
            self._connection,
            "select count(*) from document d join source s on s.id = d.source"
            " where s.source_id = ? and d.path >= ? and d.path < ? and d.removed_at is null",
            (source_id, prefix, last),
        )
        return count

    @file.translating
    def indexed(self, source_id: str, paths: Sequence[str]) -> frozenset[str]:
        """Those of these paths whose notes are indexed."""
        rows: Any = self._connection.execute(
            "select d.path from source s join json_each(?) j cross join document d"
            " on d.source = s.id and d.path = j.value where s.source_id = ? and d.removed_at is null",
            (json.dumps(list(paths)), source_id),
        )
        return frozenset(path for (path,) in rows)

    @file.translating
    def skipped(self, source: int, *, limit: int) -> list[tuple[str, str]]:
        """Files that a person may miss in the index, with the reason; neither attachments nor what is excluded."""
        rows: Any = self._connection.execute(
            "select path, reason from skipped where source = ? and reason not in ('not_read', 'excluded')"
            " order by reason, path limit ?",
            (source, limit),
        )
        return list(rows)

    @file.translating
    def warnings(self, source: int, *, limit: int) -> list[tuple[str, int, str]]:
        """Diagnostics of single notes: (path, line, message)."""
        rows: Any = self._connection.execute(
            "select d.path, w.line, w.message from document d join warning w on w.document = d.id"
            " where d.source = ? order by d.path, w.line limit ?",
            (source, limit),
        )
        return list(rows)

    @file.translating
    def notes_with_warnings(self, source: int) -> int:
        """How many notes of a source have a diagnostic."""
        count: int = file.one(
            self._connection,
            "select count(distinct w.document) from document d join warning w on w.document = d.id where d.source = ?",
            (source,),
        )
        return count

    # ── questions that carry text

    @file.translating
    def words(self, query: WordsQuery, visible: VisibleSet, filters: Filters) -> WordsLane:
        """Rank chunks and notes by their words."""
        return words_lane(self._connection, query, self._admission(query, visible, filters))

    @file.translating
    def meaning(
        self,
        query: WordsQuery,
        embedded: Floats,
        chosen: VectorSet,
        visible: VisibleSet,
        filters: Filters,
        *,
        beside: WordsLane,
        backend: str,
    ) -> MeaningLane:
        """Rank chunks by how near they lie to an embedded question, and say how near those of another lane lie.

        The words of the question only exclude. `backend` is what should look for neighbours, where that is possible.
        """
        table = self.vectors.table(chosen, backend)
        admission = self._admission(query, visible, filters)
        return meaning_lane(
            self._connection, table, embedded, admission, vectors=self.vectors, chosen=chosen, beside=beside
        )

    def _admission(self, query: WordsQuery, visible: VisibleSet, filters: Filters) -> Admission:
        sources = dict(self._connection.execute("select id, source_id from source"))
        excluded = notes_with_any(self._connection, query.excluded)
        return Admission(visible, filters, sources=sources, excluded=excluded)

    @file.translating
    def graph(self, source_id: str, visible: VisibleSet) -> Graph:
        """The shape of one source, for a caller: its notes, links, headings, tags and folders."""
        return Graph(self.path, self._connection, source_id, visible)

    @file.translating
    def matched_terms(self, query: WordsQuery, *, chunk: int | None, document: int) -> list[str]:
        """Which words of the question this chunk, or this whole note, holds."""
        return matched_terms(self._connection, query, chunk=chunk, document=document)

    @file.translating
    def text(self, visible: VisibleSet, *, document: int, chunk: int | None) -> NoteText | None:
        """The text of a chunk, or of a whole note; None when the caller may not see it or it is gone."""
        sql = _CHUNK_TEXT if chunk is not None else _NOTE_TEXT
        row = self._connection.execute(sql, (document if chunk is None else chunk,)).fetchone()
        if row is None:
            return None
        found = _note_text(row)
        if found.source_id not in visible.policies:
            return None
        if visible.withheld(found.source_id, found.path, private=found.private) is not None:
            return None
        return found

    @file.translating
    def locate(self, path: str) -> list[Located]:
        """The notes whose path is this, or else ends with it at a folder's edge; with or without the suffix."""
        # By name first: to compare every path takes 6 ms for 10,000 notes.
        rows: Any = self._connection.execute(
            f"select {LOCATED} from name n cross join document d on d.id = n.document join source s on s.id = d.source"
            " where n.name in (?2, ?3) and n.alias = '' and d.removed_at is null and"
            " (d.path = ?1 or d.path = ?1 || '.md' or substr(d.path, -length(?1) - 1) = '/' || ?1"
            "  or substr(d.path, -length(?1) - 4) = '/' || ?1 || '.md') order by d.path, s.source_id",
            (path, link_name(path), link_name(path + ".md")),
        )
        found = list(map(located, rows))
        exact = (note for whole in (path, path + ".md") for note in found if note.path == whole)
        first = next(exact, None)
        return found if first is None else [note for note in found if note.path == first.path]


_SOURCES: Final = """
select s.id, s.source_id, s.root, s.state, s.stale_since, s.held_since, s.loss_met, s.last_indexed_at,
       s.policy, s.ignore_filters, s.diagnostics, s.skipped,
       (select count(*) from document d where d.source = s.id and d.removed_at is null)
from source s"""
_NOTE_COLUMNS: Final = """
select d.id, s.source_id, d.path, d.disk_path, d.private, d.title, d.settled, d.size, d.mtime_ns, d.ctime_ns, d.inode"""
_CHUNK_TEXT: Final = (
    _NOTE_COLUMNS
    + """, c.key, c.headings, c.first_line, c.last_line, c.body
from chunk c join document d on d.id = c.document join source s on s.id = d.source where c.id = ?"""
)
_NOTE_TEXT: Final = (
    _NOTE_COLUMNS
    + """, null, '', 1,
    (select coalesce(max(last_line), 1) from chunk where document = d.id),
    coalesce((select group_concat(body, char(10) order by ordinal) from chunk where document = d.id), '')
from document d join source s on s.id = d.source where d.id = ? and d.removed_at is null"""
)


def _source_row(row: tuple[Any, ...]) -> SourceRow:
    (rowid, source_id, root, state, stale, held, met, indexed, policy, filters, diagnostics, skipped, documents) = row
    return SourceRow(
        row=rowid,
        source_id=source_id,
        root=root,
        state=state,
        stale_since=stale,
        held_since=held,
        loss_met=bool(met),
        last_indexed_at=indexed,
        policy=None if policy is None else Policy.from_json(json.loads(policy)),
        ignore_filters=tuple(json.loads(filters)),
        diagnostics=tuple(json.loads(diagnostics)),
        skipped=json.loads(skipped),
        documents=documents,
    )


def _note_text(row: tuple[Any, ...]) -> NoteText:
    document, source_id, path, disk_path, private, title, settled, *stamp, key, headings, first, last, text = row
    return NoteText(
        document=document,
        source_id=source_id,
        path=path,
        disk_path=disk_path,
        stamp=FileStamp(*stamp),
        settled=bool(settled),
        private=bool(private),
        title=title,
        chunk_key=key,
        heading_path=tuple(headings.split("\n")) if headings else (),
        first_line=first,
        last_line=last,
        text=text,
    )


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size else None
