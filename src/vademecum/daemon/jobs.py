"""Syncs, one after the other: at most one runs for a source, and whatever is asked meanwhile makes one more, no more.

A job that failed says so, one that was cancelled too; what it had indexed by then stays.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vademecum import config
from vademecum.app import Vademecum
from vademecum.daemon.lane import Lane, give_back
from vademecum.errors import SourceDisabled, SourceNotFound, SourceRemoved, VadeError
from vademecum.sources.registry import now
from vademecum.sources.watch import Why

Status = Literal["queued", "running", "complete", "error", "cancelled"]
_TELL_EVERY_S: Final = 0.2
_KEPT: Final = 100
_MANY: Final = 200  # so many notes, once read, fill memory that the next sync has no use for

log = logging.getLogger("vademecum.jobs")


class Cancelled(Exception):
    """The job was told to end. Raised between two notes."""


@dataclass(slots=True)
class Job:
    """One sync of one source, as it goes."""

    id: str
    source_id: str
    force: bool = False
    accept_loss: bool = False
    automatic: bool = True
    due: bool = True
    status: Status = "queued"
    queued_at: str = field(default_factory=now)
    started_at: str | None = None
    finished_at: str | None = None
    scanned: int = 0
    total: int = 0
    current_path: str | None = None
    report: dict[str, Any] | None = None
    error: dict[str, str] | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def is_past_asking(self) -> bool:
        """Whether it may have looked already at what is asked for now, or will not look at all."""
        return self.status != "queued" or self.cancelled.is_set()

    def as_json(self) -> dict[str, Any]:
        """The job with the names of the wire. `partial`: it ended well, but not every file could be indexed."""
        report = self.report or {}
        skipped = report.get("skipped", {}).get("count", 0)
        return {
            "id": self.id,
            "source_id": self.source_id,
            "status": self.status,
            "queued_at": self.queued_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "scanned": self.scanned,
            "total": self.total,
            "indexed": report.get("added", 0) + report.get("updated", 0),
            "current_path": self.current_path,
            "skipped": skipped,
            "partial": self.status == "complete" and report.get("state", "healthy") not in ("healthy", "empty"),
            "report": self.report,
            "error": self.error,
        }


class Jobs:
    """The syncs of a daemon, in one lane."""

    def __init__(
        self, lane: Lane, *, tell: Callable[[str, dict[str, Any]], None], ended: Callable[[Job, float], None]
    ) -> None:
        self._lane = lane
        self._tell = tell
        self._when_ended = ended
        self._lock = threading.Lock()
        self._current: dict[str, Job] = {}
        self._next: dict[str, Job] = {}
        self._last: dict[str, Job] = {}
        self._over: deque[Job] = deque(maxlen=_KEPT)
        self._number = 0

    def sync(
        self,
        source_id: str,
        *,
        why: Why | Literal["asked"] = "asked",
        force: bool = False,
        accept_loss: bool = False,
    ) -> Job:
        """Have a source synced: the job that will see everything that is on disk now.

        A sync that is merely due asks only where nothing runs: a scan for its own sake needs no second one. Whatever
        is not "asked" by a person is automatic, unless a person asks for the same job.
        """
        with self._lock:
            running = self._current.get(source_id)
            if running is not None and running.is_past_asking and why != "due":
                job = self._next.get(source_id) or self._new(source_id)
                self._next[source_id] = job
            elif running is not None:
                job = running
            else:
                job = self._current[source_id] = self._new(source_id)
                self._lane.submit(lambda app: self._run(app, job))
            job.force |= force
            job.accept_loss |= accept_loss
            job.automatic &= why != "asked"
            job.due &= why == "due"
            return job

    def cancel(self, source_id: str) -> Job | None:
        """Tell the job of a source to end, and drop the one that waits behind it: the job, where there is one."""
        with self._lock:
            waiting = self._next.pop(source_id, None)
            if waiting is not None:
                self._end(waiting, "cancelled")
            job = self._current.get(source_id)
            if job is not None:
                job.cancelled.set()
            return job

    def cancel_all(self) -> None:
        """Tell every job to end."""
        for source_id in list(self._current):
            self.cancel(source_id)

    def of(self, source_id: str) -> Job | None:
        """The job of a source that runs or waits, else the last one."""
        with self._lock:
            return self._current.get(source_id) or self._last.get(source_id)

    def find(self, job_id: str) -> Job | None:
        """The job with this id: one that runs or waits, or one of the last that ended."""
        with self._lock:
            known = (*self._current.values(), *self._next.values(), *self._over)
            return next((job for job in known if job.id == job_id), None)

    @property
    def busy(self) -> int:
        """How many jobs run or wait."""
        return len(self._current) + len(self._next)

    def _new(self, source_id: str) -> Job:
        self._number += 1
        return Job(f"sync:{source_id}:{int(time.time() * 1000)}-{self._number}", source_id)

    def _run(self, app: Vademecum, job: Job) -> None:
        started = time.thread_time()
        try:
            with self._lock:
                job.status, job.started_at = "running", now()
            self._tell("job", job.as_json())
            status, job.error = self._synced(app, job)
        except Exception as exc:  # noqa: BLE001 - a job must end, whatever happens in it
            config.log_crash(exc)
            log.error("a sync of %s ended unexpectedly (%s)", job.source_id, type(exc).__name__)
            status, job.error = "error", _as_error(VadeError(f"unexpected: {type(exc).__name__}"))
        with self._lock:
            self._end(job, status)
            del self._current[job.source_id]
            self._last[job.source_id] = job
            following = self._next.pop(job.source_id, None)
            if following is not None:
                self._current[job.source_id] = following
                self._lane.submit(lambda app: self._run(app, following))
        self._tell("job", job.as_json())
        self._when_ended(job, time.thread_time() - started)

    def _synced(self, app: Vademecum, job: Job) -> tuple[Status, dict[str, str] | None]:
        try:
            if job.cancelled.is_set():
                raise Cancelled
            source = app.registry.find(job.source_id)
            report = app.sync(
                source,
                force=job.force,
                accept_loss=job.accept_loss,
                automatic=job.automatic,
                progress=self._progress(job),
            )
        except (Cancelled, SourceRemoved, SourceNotFound, SourceDisabled):
            return "cancelled", None
        except VadeError as exc:
            log.warning("a sync of %s failed: %s", job.source_id, exc.code)
            return "error", _as_error(exc)
        job.report = report.as_json()
        if job.scanned > _MANY:
            give_back(app)
        return "complete", None

    def _progress(self, job: Job) -> Callable[[int, int, str], None]:
        told = 0.0

        def progress(done: int, total: int, path: str) -> None:
            nonlocal told
            if job.cancelled.is_set():
                raise Cancelled
            job.scanned, job.total, job.current_path = done, total, path
            if time.monotonic() - told > _TELL_EVERY_S:
                told = time.monotonic()
                self._tell("job", job.as_json())

        return progress

    def _end(self, job: Job, status: Status) -> None:
        self._over.append(job)
        job.status, job.finished_at, job.current_path = status, now(), None
        job.ended.set()


def _as_error(exc: VadeError) -> dict[str, str]:
    return {"code": exc.code, "message": exc.message, "hint": exc.hint}
