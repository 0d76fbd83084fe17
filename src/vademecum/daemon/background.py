"""Vectors in the background: made in slices, so that a stop waits for one only; patient with a server that is down."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from vademecum import config
from vademecum.app import Vademecum
from vademecum.daemon.lane import Lane
from vademecum.errors import ModelMissing, VadeError
from vademecum.sources.vectors import EmbedReport

_SLICE_S: Final = 2.0
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 600.0

log = logging.getLogger("vademecum.embedding")


class Embedding:
    """A thread that fills in what lacks a vector whenever it is woken."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="vade-embedding", daemon=True)
        self.state: dict[str, Any] = {"state": "idle", "have": 0, "pending": 0, "refused": 0, "reason": ""}

    def start(self) -> None:
        """Begin, with a look at what is missing."""
        self._wake.set()
        self._thread.start()

    @property
    def is_outdated(self) -> bool:
        """Whether what was found at the last look need not hold any more, though no text is new."""
        return self._lane.is_outdated or self.state["state"] == "off"

    def wake(self) -> None:
        """There may be new text."""
        self._wake.set()

    def stop(self) -> None:
        """End after the slice that runs."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        pause: float | None = None
        while True:
            woken = self._wake.wait(pause)
            if self._stopping.is_set():
                return
            if woken:
                self._wake.clear()
            next_pause = self._until_done(pause)
            # A save is a reason to look, and none to be less patient afterwards.
            pause = pause if woken and pause and next_pause else next_pause

    def _until_done(self, pause: float | None) -> float | None:
        """Make all that is missing: None when done, else how long to wait before the next try."""
        while not self._stopping.is_set():
            try:
                report = self._lane.submit(_slice).result()
            except ModelMissing as exc:
                self._give_up("off", exc)
                return None
            except VadeError as exc:
                self._give_up("waiting", exc)
                return _longer(pause)
            except Exception as exc:  # noqa: BLE001 - the thread has to go on
                if not self._stopping.is_set():
                    config.log_crash(exc)
                    log.error("embedding ended unexpectedly (%s)", type(exc).__name__)
                return _longer(pause)
            done = report.state == "done" or not report.pending
            # A slice that ended since its time was up made some: the next one follows at once.
            stuck = not done and not report.embedded
            self.state = {
                "state": "idle" if done else "waiting" if stuck else "working",
                "have": report.have,
                "pending": report.pending,
                "refused": report.refused,
                "reason": report.reason if stuck else "",
            }
            if done:
                return None
            if stuck:
                return _longer(pause)
            pause = None
        return None

    def _give_up(self, state: str, exc: VadeError) -> None:
        """Say that no vectors are made, and why."""
        if self.state["reason"] != exc.message:
            log.warning("vectors are not made: %s", exc.code)
        self.state = {**self.state, "state": state, "reason": exc.message}


def _slice(app: Vademecum) -> EmbedReport:
    if not app.settings.index_file.exists():
        return EmbedReport(app.settings.model)
    return app.embed(budget_s=_SLICE_S)


def _longer(pause: float | None) -> float:
    return _FIRST_PAUSE_S if pause is None else min(pause * 2, _LONGEST_PAUSE_S)
