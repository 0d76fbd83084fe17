"""What lives in the daemon, wired together once: lanes, jobs, watcher, vectors, events, and how they end."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final

from vademecum import __version__, config
from vademecum.access import OWNER
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.daemon.background import Embedding
from vademecum.daemon.events import Events
from vademecum.daemon.guard import Logins
from vademecum.daemon.jobs import Job, Jobs
from vademecum.daemon.lane import Current, Lane
from vademecum.daemon.picker import Picker
from vademecum.errors import SourceNotFound
from vademecum.sources import Registry, Source
from vademecum.sources.removal import Removal
from vademecum.sources.watch import Watch, Why

_CANCEL_S: Final = 10.0

log = logging.getLogger("vademecum.daemon")


class Daemon:
    """The long-lived half of one state folder. `keep` looks after the lock and the record of the process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.instance = os.urandom(16).hex()
        self.since = time.monotonic()
        self.port = 0
        self.url = ""
        self.keep: Callable[[], None] = lambda: None
        self.remarks: list[str] = []
        current = Current(settings, self._remark)
        self.answers = Lane("answers", current, self._remark)
        self.upkeep = Lane("upkeep", current, self._remark)
        self._work = Lane("work", current, self._remark)
        self._vectors = Lane("vectors", current, self._remark)
        self.events = Events()
        self.logins = Logins()
        self.picker = Picker(config.directory_picker())
        self.embedding = Embedding(self._vectors)
        self.jobs = Jobs(self._work, tell=self.events.tell, ended=self._job_ended)
        self.registry = Registry(settings)
        self.watch = Watch(
            self._listed,
            self._signalled,
            list_file=settings.sources_file,
            reconcile_s=float(settings.values["daemon.reconcile_s"]),
        )

    # ── life

    def begin(self) -> None:
        """Start everything; what a killed removal left is finished in the background. Waits for none of it."""
        self.events.begin()
        self.upkeep.submit(_finish_removals)
        self.answers.submit(_warm)
        self.watch.start()
        self.embedding.start()

    def end(self) -> None:
        """End everything, each step whatever became of the one before."""
        steps: tuple[Callable[[], object], ...] = (
            self.events.end,
            self.picker.close,
            self.watch.stop,
            self.jobs.cancel_all,
            self.embedding.stop,
            self._work.close,
            self._vectors.close,
            self.upkeep.close,
            self.answers.close,
        )
        for step in steps:
            try:
                step()
            except Exception as exc:  # noqa: BLE001 - the next step must come
                config.log_crash(exc)
                log.error("a step of the end failed (%s)", type(exc).__name__)

    def _listed(self) -> tuple[Source, ...]:
        """The list of sources. The watcher reads it every ten seconds, so this wakes nobody who would sleep."""
        self.keep()
        return self.registry.all()

    def _remark(self, sentence: str) -> None:
        self.remarks = [*self.remarks[-19:], sentence]

    def _signalled(self, source_id: str, why: Why) -> None:
        self.jobs.sync(source_id, why=why)

    def _job_ended(self, job: Job, cpu_s: float) -> None:
        self.watch.scanned(job.source_id, cpu_s=cpu_s)
        report = job.report or {}
        if any(report.get(name) for name in ("added", "updated", "removed")):
            self.events.tell("changed", {"source_id": job.source_id, **_numbers(report)})
        # Vectors may also be missing since another model is wanted, or was pulled, or the index was built anew.
        # A change that other processes indexed themselves, as `vade remember` does, is none to the sync that follows.
        if not job.due or report.get("added") or report.get("updated") or self.embedding.is_outdated:
            self.embedding.wake()

    # ── what the API asks for that takes more than one lane

    def remove(self, wanted: str) -> Removal:
        """Disconnect a source and purge it, its running sync first told to end. Waits; not for a lane's thread."""
        try:
            source_id = self.registry.find(wanted).id
        except SourceNotFound:
            source_id = wanted
        job = self.jobs.cancel(source_id)
        if job is not None and job.status == "running":
            job.ended.wait(_CANCEL_S)  # if it does not end, its next write is refused by the foreign key
        removal = self.upkeep.submit(lambda app: app.remove(wanted)).result()
        self.watch.reload()
        self.events.tell("removed", {"source_id": source_id})
        return removal

    def status(self, app: Vademecum) -> dict[str, Any]:
        """Everything about the daemon and its sources. Whoever lost sight of the daemon asks for this, so its record
        is looked after first.
        """
        self.keep()
        path = self.settings.index_file
        answering = next((s for s in app.vector_sets() if s.answers), None) if path.exists() else None
        return {
            "version": __version__,
            "protocol": control.PROTOCOL,
            "pid": os.getpid(),
            "instance": self.instance,
            "port": self.port,
            "uptime_s": round(time.monotonic() - self.since, 1),
            "home": str(self.settings.home),
            "index": {"file": str(path), "bytes": path.stat().st_size if path.exists() else 0},
            "vectors": None
            if answering is None
            else {"model": answering.name, "have": answering.have, "pending": answering.missing},
            "embedding": self.embedding.state,
            "jobs": self.jobs.busy,
            "remarks": self.remarks,
            "sources": [{**self.source(app, found), "watch": self.watched(found.id)} for found in app.registry.all()],
        }

    def source(self, app: Vademecum, source: Source) -> dict[str, Any]:
        """One source as lists show it: its entry, what the index knows, and its job."""
        return {**app.describe(source), "job": self.job_of(source.id)}

    def job_of(self, source_id: str) -> dict[str, Any] | None:
        """The newest job of a source."""
        job = self.jobs.of(source_id)
        return None if job is None else job.as_json()

    def watched(self, source_id: str) -> dict[str, Any] | None:
        """How a source is watched; None for one that is switched off."""
        state = self.watch.states().get(source_id)
        return None if state is None else {"mode": state.mode, "detail": state.detail}


def _numbers(report: dict[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in ("documents", "added", "updated", "removed")}


def _finish_removals(app: Vademecum) -> None:
    if app.settings.index_file.exists():
        app.finish_removals()


def _warm(app: Vademecum) -> None:
    """Open the index, made where it is not there yet, and the model, before the first question does."""
    if app.index.sources():
        app.recall(app.question("warm", limit=1), OWNER)
