"""Keep the index equal to what lies below one root.

scan → compare stamps → read what differs → parse, cut, put (findable at once) → drop what is gone. The failures it
is shaped against: an outage taken for a deletion, one bad file that ends the run, and work done twice.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from vademecum.access import policy_of
from vademecum.config import Settings, file_lock
from vademecum.errors import NoteEvicted, NoteNotFound, NoteUnreadable, SourceRemoved, SourceRootMissing
from vademecum.index import BATCH, Index, IndexedNote, Restamp, SourceRow, SourceState, StoredNote
from vademecum.markdown import Diagnostic
from vademecum.sources.outage import KEPT, Unread, copies_of_sync_tools, implausible, unlisted_folders
from vademecum.sources.registry import Registry, Source, now
from vademecum.vault import FileStamp, Ignores, Scan, conflict_copies, is_binary, stamp_of

# A file saved twice within the clock's grain keeps its stamp, so a stamp is believed only when it is older than this.
_SETTLING_NS: Final = 2_000_000_000
# Wiping the old words of so many changed notes one by one takes longer than cleaning the whole file once.
_BULK: Final = 200
_LOCK_WAIT_S: Final = 600.0
_BLANK: Final = "\ufeff \t\r\n\f\v\xa0"
_EARLIEST: Final = "0001-01-01"
# Ways to be lost: not there, or there with nothing in it that anybody wrote. Too large is what a setting made of it.
_LOST: Final = ("vanished", "empty", "binary")
_ALL: Final = 1 << 31


@dataclass(slots=True)
class SyncReport:
    """What one sync did.

    skipped counts every file on disk that is no document, by reason; `documents` and it add up to the files there.
    held says that the source looked emptied and nothing was dropped yet. conflict_copies counts notes that a sync
    tool seems to have left.
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
    conflict_copies: int = 0
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
            "conflict_copies": self.conflict_copies,
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

    def as_json(self) -> dict[str, Any]:
        """The preview with the names of the wire."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "skipped": {"count": sum(self.skipped.values()), "by_reason": dict(self.skipped)},
            "sample": list(self.sample),
            "diagnostics": list(self.diagnostics),
        }


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
    accept_loss: bool = False,
    automatic: bool = False,
    progress: Progress | None = None,
    waiting: Callable[[], None] | None = None,
) -> SyncReport:
    """Bring one source's rows up to date. Only one process does so at a time; another waits, then looks again.

    Where nearly all notes are gone at once, the first run that meets it keeps them, and the next one that was begun
    afterwards believes it, unless that is `automatic`: what no person asked for is no second opinion. `accept_loss`
    believes it at once. An unreachable root is not an error: the report says so
    and every row stays. Raises SourceRemoved when the source is removed meanwhile, StateBusy, StateReadOnly, IndexBusy.
    """
    waited: list[bool] = []

    def wait() -> None:
        waited.append(True)
        if waiting is not None:
            waiting()

    with file_lock(_lock_of(source, settings), wait_s=_LOCK_WAIT_S, what=f"the source {source.name}", waiting=wait):
        started = time.perf_counter()
        row = _open_row(source, registry, index)
        # A run that waited was asked for before the other one looked: it is no second opinion.
        believing = accept_loss or (row.loss_met and not waited and not automatic)
        sync = _Sync(source, index, settings, force=force, believing=believing, automatic=automatic, progress=progress)
        report = sync.run(row)
        report.took_ms = round((time.perf_counter() - started) * 1000)
        return report


def sync_notes(
    source: Source, paths: Sequence[str], registry: Registry, index: Index, settings: Settings, *, wait_s: float
) -> bool:
    """Bring the rows of these notes alone up to date, without looking for others; whether all that are there are in.

    For whoever has just written them. False also for a source that was never synced: its first sync looks at all.
    Raises StateBusy after `wait_s` behind another sync, SourceRemoved, StateReadOnly, IndexBusy.
    """
    with file_lock(_lock_of(source, settings), wait_s=wait_s, what=f"the source {source.name}"):
        row = _open_row(source, registry, index)
        if row.last_indexed_at is None:
            return False
        sync = _Sync(source, index, settings, force=False, believing=False, automatic=True, progress=None)
        return sync.run_for(row, paths)


def _lock_of(source: Source, settings: Settings) -> Path:
    return settings.run_dir / f"sync-{source.id.replace(':', '-')}.lock"


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
        self,
        source: Source,
        index: Index,
        settings: Settings,
        *,
        force: bool,
        believing: bool,
        automatic: bool,
        progress: Progress | None,
    ) -> None:
        self.automatic = automatic
        self.source = source
        self.index = index
        self.settings = settings
        self.force = force
        self.believing = believing
        self.progress = progress
        self.report = SyncReport(source.id)
        self.skipped: list[tuple[str, str]] = []
        self.unread = Unread()
        # Why notes could not be looked at by the last run.
        self._before: dict[str, str] = {}
        self._stamps: Mapping[str, tuple[int, ...]] = {}
        # Documents whose files turned out to be nothing to index, by reason.
        self._turned: dict[str, list[int]] = {}
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
        for path, (reason, why) in scan.away.items():
            self.unread.add(path, reason, why=why)
        self._stamps = self.index.stamps(row.row)
        pending = self._pending(row, scan)
        self.report.unchanged = len(scan.files) - len(pending)
        missing = self._stamps.keys() - scan.files.keys()
        stored = self.index.stored_notes(row.row, [*pending, *missing]) if pending or missing else {}
        bulk = len(stored) > _BULK
        if bulk:
            self.index.begin_bulk()
        ignores = Ignores(self.source.exclude, ignored)
        for path, note in stored.items():
            if _has_gone(path, scan, ignores):
                self._gone.setdefault(note.fingerprint, []).append(note.document)
        self._index(row, scan, pending, stored=stored)
        away = self._look_again(scan)
        if away is None:
            self._drop_missing(row, scan, stored, ignores)
        if bulk:
            self.index.scrub()
        if away is not None:
            return self._outage(row, away)
        self._finish(row, scan, filters)
        return self.report

    def run_for(self, row: SourceRow, paths: Sequence[str]) -> bool:
        """Look at these notes alone; whether all that are there are indexed now."""
        ignores = Ignores(self.source.exclude, row.ignore_filters)
        scan = Scan()
        for path in paths:
            with suppress(OSError):
                status = os.lstat(self.source.root / path)
                if stat.S_ISREG(status.st_mode) and not ignores.covers(path):
                    scan.files[path] = stamp_of(status)
        stored = self.index.stored_notes(row.row, paths)
        self._index(row, scan, list(scan.files), stored=stored)
        gone = [note.document for path, note in stored.items() if path not in scan.files]
        turned = [document for documents in self._turned.values() for document in documents]
        self.index.drop([*gone, *turned], at=now())
        there = [path for path in paths if os.path.lexists(self.source.root / path)]
        return self.index.stored_notes(row.row, there).keys() == set(there)

    def _pending(self, row: SourceRow, scan: Scan) -> list[str]:
        """The notes to read. Those that the last run could not read come last, in no order, so that however little
        patience is left for them, each has its turn one day.
        """
        pending = [path for path, stamp in scan.files.items() if self.force or self._stamps.get(path) != stamp]
        if pending and row.state == "degraded":
            listed = self.index.skipped(row.row, limit=_ALL)
            self._before = {path: reason for path, reason in listed if reason in KEPT and reason != "postponed"}
            again = [path for path in pending if path in self._before]
            random.shuffle(again)
            pending = [path for path in pending if path not in self._before] + again
        return pending

    def _look_again(self, scan: Scan) -> str | None:
        """What is wrong with the root, which may have gone away under the reading; None when it is there.

        Where it holds no note any more, what vanished proves nothing; the next scan will tell.
        """
        if not scan.files:
            return None
        try:
            probe = self.source.connector.scan(self.source.root, exclude=self.source.exclude, filters=(), max_files=0)
        except SourceRootMissing as exc:
            return str(exc)
        if not probe.files:
            self._turned.pop("vanished", None)
        return None

    def _outage(self, row: SourceRow, what: str) -> SyncReport:
        self.index.mark_unreachable(row.row, at=now())
        stored = self.index.stored_notes(row.row, self.index.stamps(row.row))
        ignores = Ignores(self.source.exclude, row.ignore_filters)
        ignored = [note.document for path, note in stored.items() if ignores.covers(path)]
        self.index.drop(ignored, at=now())
        self.report.state = "unreachable"
        self.report.removed += len(ignored)
        self.report.documents = self.index.document_count(row.row)
        self.report.skipped.clear()
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
        if scan.files[path].size > limit:
            return "too_large"
        if not self.unread.worth_trying(path):
            reason = self._before.get(path, "postponed")
            self.unread.add(path, reason)
            return reason
        started = time.monotonic()
        try:
            content, stamp = self.source.connector.read(self.source.root, disk_path, max_bytes=limit)
        except NoteNotFound:
            return "vanished"
        except NoteUnreadable as exc:
            offloaded = isinstance(exc, NoteEvicted)
            if offloaded and old is not None and self._as_indexed(path, scan.files[path]):
                stamp = scan.files[path]
                return Restamp(old.document, disk_path, _day(stamp.mtime_ns), stamp, _settled(stamp))
            reason = "evicted" if offloaded else "unreadable"
            self.unread.add(path, reason, why=exc.why, took_s=time.monotonic() - started)
            return reason
        if len(content) > limit:
            return "too_large"
        file = _File(path, disk_path, content, stamp)
        if old is not None and old.fingerprint == file.fingerprint:
            return Restamp(old.document, disk_path, _day(stamp.mtime_ns), stamp, file.settled)
        if is_binary(content):
            return "binary"
        text, problems = _decoded(content)
        if not text.strip(_BLANK):
            return "empty"
        return _parsed(file, text, problems, moved_from=self._moved_from(file) if old is None else None)

    def _as_indexed(self, path: str, stamp: FileStamp) -> bool:
        """Whether a file that a cloud holds is the one that was indexed: only being moved there touched its status."""
        known = self._stamps.get(path)
        if not known or known == stamp:
            return False
        return FileStamp(*known)._replace(ctime_ns=stamp.ctime_ns) == stamp

    def _moved_from(self, file: _File) -> int | None:
        """The document of a note that has gone from another path with just these bytes: it was moved, not written."""
        gone = self._gone.get(file.fingerprint)
        if not gone:
            return None
        self.report.removed += 1
        return gone.pop()

    def _leave_out(self, path: str, reason: str, old: StoredNote | None) -> None:
        """Account for a file that is not indexed. What was indexed of it goes, unless it only cannot be read now."""
        if reason != "vanished":
            self.skipped.append((path, reason))
            if reason in KEPT and old is not None:
                self.report.unchanged += 1
                return
            self.report.skipped[reason] += 1
        if old is not None:
            self._turned.setdefault(reason, []).append(old.document)

    def _drop_missing(self, row: SourceRow, scan: Scan, stored: Mapping[str, StoredNote], ignores: Ignores) -> None:
        """Drop what is gone, unless its absence proves nothing, and in any case what is ignored now."""
        ignored = []
        for path, note in stored.items():
            if path in scan.files:
                continue
            if path in scan.away:
                self._keep(scan.away[path].reason)
            elif ignores.covers(path):
                ignored.append(note.document)
        gone = [document for documents in self._gone.values() for document in documents]
        indexed = row.documents - len(ignored)
        lost = len(gone) + sum(len(self._turned.get(reason, ())) for reason in _LOST)
        if implausible(lost, of=indexed) and not self.believing:
            self._hold(lost, of=indexed)
            gone = []
        turned = [document for documents in self._turned.values() for document in documents]
        self.report.removed += len(gone) + len(ignored) + len(turned)
        self.index.drop([*gone, *ignored, *turned], at=now())

    def _hold(self, lost: int, *, of: int) -> None:
        """Keep what seems lost, until a later run agrees."""
        self.report.held = True
        self.report.diagnostics.append(
            f"{lost:,} of {of:,} notes are gone at once, as if a drive were away; they are kept. The next sync"
            " that is asked for and misses them takes them out,"
            f" `vade sources sync {self.source.id} --accept-loss` does so now"
        )
        for reason in _LOST:
            kept = len(self._turned.pop(reason, ()))
            self._keep(reason, kept if reason != "vanished" else 0)

    def _keep(self, reason: str, count: int = 1) -> None:
        """Count notes that were indexed, and are not what was indexed now, as the documents they still are."""
        self.report.skipped[reason] -= count
        self.report.skipped += Counter()  # drops what came down to nothing
        self.report.unchanged += count

    def _finish(self, row: SourceRow, scan: Scan, filters: tuple[str, ...] | None) -> None:
        report = self.report
        policy, diagnostic = policy_of(self.source.root, home=self.source.root == self.settings.home_vault)
        if report.held:  # what the source says of itself may be gone with the rest
            policy, filters = row.policy or policy, None
        if diagnostic:
            report.diagnostics.append(diagnostic)
        report.diagnostics += self.unread.diagnostics() + unlisted_folders(scan.unlisted)
        copies = conflict_copies(scan.files, scan.files)
        report.conflict_copies = len(copies)
        report.diagnostics += copies_of_sync_tools(copies)
        if scan.truncated:
            report.diagnostics.append(f"more than {self.settings.max_files} notes; the rest was not looked at")
        report.documents = self.index.document_count(row.row)
        report.warnings = self.index.notes_with_warnings(row.row)
        unsound = report.held or scan.unlisted or scan.truncated or self.unread
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
            asked=not self.automatic,
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
        return _settled(self.stamp)


def _settled(stamp: FileStamp) -> bool:
    return stamp.inode != -1 and time.time_ns() - stamp.newest_ns > _SETTLING_NS


def _has_gone(path: str, scan: Scan, ignores: Ignores) -> bool:
    """Whether the absence of a note that was indexed means that it is gone, rather than that it was not looked at."""
    if path in scan.files or path in scan.away or ignores.covers(path):
        return False
    return not scan.truncated and not path.startswith(tuple(folder + "/" for folder in scan.unlisted))


def _decoded(content: bytes) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text of a note, whatever its bytes are, and what was wrong with them."""
    try:
        return content.decode("utf-8"), ()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        return content.decode("utf-8", "replace"), (
            Diagnostic(line, "is not valid UTF-8 from here on; what cannot be read is replaced"),
        )


def _parsed(file: _File, text: str, problems: tuple[Diagnostic, ...], *, moved_from: int | None) -> IndexedNote:
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
        note=replace(note, diagnostics=(*note.diagnostics, *problems)) if problems else note,
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
