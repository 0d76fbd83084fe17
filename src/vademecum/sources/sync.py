"""Keep the index equal to what lies below one root.

scan → compare stamps → read what differs → parse, cut, put (findable at once) → drop what is gone. The failures it
is shaped against: an outage taken for a deletion, one bad file that ends the run, and work done twice.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from vademecum.access import policy_of
from vademecum.config import Settings, file_lock
from vademecum.errors import NoteNotFound, NoteUnreadable, SourceRemoved, SourceRootMissing
from vademecum.index import BATCH, Index, IndexedNote, Restamp, SourceRow, SourceState, StoredNote
from vademecum.sources.registry import Registry, Source, now
from vademecum.vault import PLAUSIBLE_LOSS, FileStamp, Ignores, Scan, is_binary

# A file saved twice within the clock's grain keeps its stamp, so a stamp is believed only when it is older than this.
_SETTLING_NS: Final = 2_000_000_000
# Wiping the old words of so many changed notes one by one takes longer than cleaning the whole file once.
_BULK: Final = 200
_LOCK_WAIT_S: Final = 600.0
_BLANK: Final = "\ufeff \t\r\n\f\v\xa0"
_EARLIEST: Final = "0001-01-01"


@dataclass(slots=True)
class SyncReport:
    """What one sync did.

    skipped counts every file on disk that is no document, by reason; `documents` and it add up to the files there.
    held says that the source looked emptied and nothing was dropped yet.
    """

    source_id: str
    state: SourceState = "healthy"
    documents: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    warnings: int = 0
    diagnostics: list[str] = field(default_factory=list)
    held: bool = False
    took_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """The report with the names that `--json` prints."""
        return {
            "source_id": self.source_id,
            "state": self.state,
            "documents": self.documents,
            "added": self.added,
            "updated": self.updated,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "skipped": {"count": self.skipped.total(), "by_reason": dict(sorted(self.skipped.items()))},
            "warnings": self.warnings,
            "diagnostics": self.diagnostics,
            "held": self.held,
            "took_ms": self.took_ms,
        }


Progress = Callable[[int, int, str], None]
"""Told after each note: how many are done, of how many, and which."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a root holds, by names alone."""

    files: int
    bytes: int
    skipped: Mapping[str, int]
    sample: tuple[str, ...]
    diagnostics: tuple[str, ...]


def preview(source: Source, settings: Settings) -> Preview:
    """What a sync of this source would index, without reading a note. Raises SourceRootMissing."""
    filters, diagnostics = source.connector.ignore_filters(source.root)
    scan = source.connector.scan(
        source.root, exclude=source.exclude, filters=filters or (), max_files=settings.max_files
    )
    size = sum(stamp.size for stamp in scan.files.values())
    return Preview(len(scan.files), size, dict(scan.reasons), tuple(islice(scan.files, 10)), tuple(diagnostics))


def sync_source(
    source: Source,
    registry: Registry,
    index: Index,
    settings: Settings,
    *,
    force: bool = False,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
) -> SyncReport:
    """Bring one source's rows up to date. Only one process does so at a time; another waits, then looks again.

    An unreachable root is not an error: the report says so and every row stays. Raises SourceRemoved when the source
    is removed meanwhile, StateBusy, StateReadOnly, IndexBusy.
    """
    lock = settings.run_dir / f"sync-{source.id.replace(':', '-')}.lock"
    with file_lock(lock, wait_s=_LOCK_WAIT_S, what=f"the source {source.name}", waiting=waiting):
        started = time.perf_counter()
        row = _open_row(source, registry, index)
        report = _Sync(source, index, settings, force=force, progress=progress).run(row)
        report.took_ms = round((time.perf_counter() - started) * 1000)
        return report


def _open_row(source: Source, registry: Registry, index: Index) -> SourceRow:
    """The index's row of a source. It is made only while the source is on the list and nobody can take it off, so
    that a sync which waited behind a removal does not bring the removed source back.
    """
    if index.source(source.id) is None:
        with registry.locked():
            if source.id not in registry.ids():
                raise SourceRemoved(f"{source.name} was removed")
            index.add_source(source.id, kind=source.kind, root=str(source.root))
    row = index.source(source.id)
    if row is None:
        raise SourceRemoved(f"{source.name} was removed")
    return row


class _Sync:
    """One run. Its steps share what the scan found and what the index held before."""

    def __init__(
        self, source: Source, index: Index, settings: Settings, *, force: bool, progress: Progress | None
    ) -> None:
        self.source = source
        self.index = index
        self.settings = settings
        self.force = force
        self.progress = progress
        self.report = SyncReport(source.id)
        self.skipped: list[tuple[str, str]] = []
        self._emptied: list[int] = []
        # Notes that have gone from their path, by what they held, until one of them turns up somewhere else.
        self._gone: dict[bytes, list[int]] = {}

    def run(self, row: SourceRow) -> SyncReport:
        filters, self.report.diagnostics = self.source.connector.ignore_filters(self.source.root)
        ignored = row.ignore_filters if filters is None else filters
        try:
            scan = self.source.connector.scan(
                self.source.root, exclude=self.source.exclude, filters=ignored, max_files=self.settings.max_files
            )
        except SourceRootMissing as exc:
            return self._outage(row, str(exc))
        self.report.skipped.update(scan.reasons)
        self.skipped += scan.skipped
        stamps = self.index.stamps(row.row)
        pending = [path for path, stamp in scan.files.items() if self.force or stamps.get(path) != stamp]
        self.report.unchanged = len(scan.files) - len(pending)
        missing = stamps.keys() - scan.files.keys()
        stored = self.index.stored_notes(row.row, [*pending, *missing]) if pending or missing else {}
        bulk = len(stored) > _BULK
        if bulk:
            self.index.begin_bulk()
        ignores = Ignores(self.source.exclude, ignored)
        for path, note in stored.items():
            if _has_gone(path, scan, ignores):
                self._gone.setdefault(note.fingerprint, []).append(note.document)
        self._index(row, scan, pending, stored=stored)
        self._drop_missing(row, scan, stored, ignores)
        if bulk:
            self.index.scrub()
        self._finish(row, scan, filters)
        return self.report

    def _outage(self, row: SourceRow, what: str) -> SyncReport:
        self.index.mark_unreachable(row.row, at=now())
        stored = self.index.stored_notes(row.row, self.index.stamps(row.row))
        ignores = Ignores(self.source.exclude, row.ignore_filters)
        ignored = [note.document for path, note in stored.items() if ignores.covers(path)]
        self.index.drop(ignored, at=now())
        self.report.state = "unreachable"
        self.report.removed = len(ignored)
        self.report.documents = row.documents - len(ignored)
        self.report.diagnostics.append(what)
        return self.report

    def _index(self, row: SourceRow, scan: Scan, pending: Sequence[str], *, stored: Mapping[str, StoredNote]) -> None:
        """Read what may have changed, and put it into the index batch by batch."""
        done = 0
        for start in range(0, len(pending), BATCH):
            notes: list[IndexedNote] = []
            restamped: list[Restamp] = []
            for path in pending[start : start + BATCH]:
                old = stored.get(path)
                outcome = self._read(path, scan, old)
                if isinstance(outcome, str):
                    self._leave_out(path, outcome, old)
                elif isinstance(outcome, IndexedNote):
                    notes.append(outcome)
                    self.report.added += old is None
                    self.report.updated += old is not None
                else:
                    restamped.append(outcome)
                    self.report.unchanged += 1
                done += 1
                if self.progress is not None:
                    self.progress(done, len(pending), path)
            if notes:
                self.index.put(row.row, notes)
            if restamped:
                self.index.restamp(restamped)

    def _read(self, path: str, scan: Scan, old: StoredNote | None) -> IndexedNote | Restamp | str:
        """A note to put, or the new stamp of one that is as it was, or the reason why the file is left out."""
        limit = self.settings.max_file_bytes
        disk_path = scan.disk_path(path)
        try:
            if scan.files[path].size > limit:
                return "too_large"
            content, stamp = self.source.connector.read(self.source.root, disk_path, max_bytes=limit)
        except NoteNotFound:
            return "vanished"
        except NoteUnreadable:
            return "unreadable"
        if len(content) > limit:
            return "too_large"
        file = _File(path, disk_path, content, stamp)
        if old is not None and old.fingerprint == file.fingerprint:
            return Restamp(old.document, disk_path, _day(stamp.mtime_ns), stamp, file.settled)
        if is_binary(content):
            return "binary"
        text = content.decode("utf-8", "replace")
        if not text.strip(_BLANK):
            return "empty"
        return _parsed(file, text, moved_from=self._moved_from(file) if old is None else None)

    def _moved_from(self, file: _File) -> int | None:
        """The document of a note that has gone from another path with just these bytes: it was moved, not written."""
        gone = self._gone.get(file.fingerprint)
        if not gone:
            return None
        self.report.removed += 1
        return gone.pop()

    def _leave_out(self, path: str, reason: str, old: StoredNote | None) -> None:
        """Account for a file that is not indexed, and take out what was indexed of it before."""
        if reason == "vanished":
            self._emptied += [] if old is None else [old.document]
            return
        self.skipped.append((path, reason))
        if reason == "unreadable" and old is not None:
            # Unreadable is not gone: what was indexed stays, and counts as a document.
            self.report.unchanged += 1
            self.report.diagnostics.append(f"{path} cannot be read; what was indexed of it stays")
            return
        self.report.skipped[reason] += 1
        self._emptied += [] if old is None else [old.document]

    def _drop_missing(self, row: SourceRow, scan: Scan, stored: Mapping[str, StoredNote], ignores: Ignores) -> None:
        """Drop what is gone, unless its absence proves nothing, and in any case what is ignored now."""
        ignored = []
        for path, note in stored.items():
            if path in scan.files:
                continue
            if path in scan.unreadable:
                self._keep_unreadable(path)
            elif ignores.covers(path):
                ignored.append(note.document)
        gone = [document for documents in self._gone.values() for document in documents]
        if not scan.files and len(gone) >= PLAUSIBLE_LOSS and row.held_since is None:
            self.report.held = True
            self.report.diagnostics.append(
                f"the root holds no note while {len(gone)} are indexed; they are kept until the next sync agrees"
            )
            gone = []
        self.report.removed += len(gone) + len(ignored) + len(self._emptied)
        self.index.drop([*gone, *ignored, *self._emptied], at=now())

    def _keep_unreadable(self, path: str) -> None:
        """Count a note that was indexed and cannot be looked at now as the document it still is."""
        self.report.skipped["unreadable"] -= 1
        self.report.skipped += Counter()  # drops what came down to nothing
        self.report.unchanged += 1
        self.report.diagnostics.append(f"{path} cannot be read; what was indexed of it stays")

    def _finish(self, row: SourceRow, scan: Scan, filters: tuple[str, ...] | None) -> None:
        report = self.report
        policy, diagnostic = policy_of(self.source.root)
        if diagnostic:
            report.diagnostics.append(diagnostic)
        report.diagnostics += [
            f"{folder or 'the root'} cannot be listed; what was indexed stays" for folder in scan.unlisted
        ]
        if scan.truncated:
            report.diagnostics.append(f"more than {self.settings.max_files} notes; the rest was not looked at")
        report.documents = self.index.document_count(row.row)
        report.warnings = self.index.notes_with_warnings(row.row)
        unsound = report.held or scan.unlisted or scan.truncated or any(r == "unreadable" for _, r in self.skipped)
        report.state = "empty" if not scan.files else "degraded" if unsound else "healthy"
        self.index.finish_scan(
            row.row,
            state=report.state,
            at=now(),
            policy=policy,
            ignore_filters=filters,
            diagnostics=report.diagnostics,
            reasons=report.skipped,
            skipped=self.skipped,
            held=report.held,
        )


class _File(NamedTuple):
    """A note as it was just read."""

    path: str
    disk_path: str
    content: bytes
    stamp: FileStamp

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.content).digest()

    @property
    def settled(self) -> bool:
        """Whether the stamp may be believed: it did not change under the reading, and is no longer young."""
        return self.stamp.inode != -1 and time.time_ns() - self.stamp.newest_ns > _SETTLING_NS


def _has_gone(path: str, scan: Scan, ignores: Ignores) -> bool:
    """Whether the absence of a note that was indexed means that it is gone, rather than that it was not looked at."""
    if path in scan.files or path in scan.unreadable or ignores.covers(path):
        return False
    return not scan.truncated and not path.startswith(tuple(folder + "/" for folder in scan.unlisted))


def _parsed(file: _File, text: str, *, moved_from: int | None) -> IndexedNote:
    from vademecum.markdown import cut, parse

    name = file.path.rpartition("/")[2]
    note = parse(text, stem=name.rpartition(".")[0] or name)
    return IndexedNote(
        path=file.path,
        disk_path=file.disk_path,
        stamp=file.stamp,
        settled=file.settled,
        fingerprint=file.fingerprint,
        date=_day(file.stamp.mtime_ns),
        note=note,
        chunks=cut(note),
        moved_from=moved_from,
    )


def _day(mtime_ns: int) -> str:
    """The day of a modification time as ISO; times that no calendar holds become the earliest day."""
    try:
        year, month, day, *_ = time.gmtime(mtime_ns // 1_000_000_000)
    except (ValueError, OverflowError, OSError):
        return _EARLIEST
    return f"{year:04d}-{month:02d}-{day:02d}" if 0 < year < 10_000 else _EARLIEST
