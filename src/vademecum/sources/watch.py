"""Who says when a source should be scanned: file system events as hints, a schedule as the truth.

The failures it is shaped against: an event that never came, a system that refuses to watch, a root that goes away
and returns, and a watcher that follows a link out of the vault. Each costs delay here, never a note: every source is
called due again and again, whatever its events say. Nothing is scanned here, and nothing is known of the index.

Each source has a thread of its own, which sleeps until something happens, so that a drive that hangs holds up nobody
else.
"""

from __future__ import annotations

import errno
import math
import os
import random
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vademecum.sources.notify import Events, OpenEvents, Seen, open_events
from vademecum.sources.registry import Source

Why = Literal["changed", "due"]
"""Something in the source was changed, or its time has come."""
Mode = Literal["events", "polling", "waiting"]

# A scan may take this share of one core: 2 % by polling, half a percent by reconciliation.
_POLLING_REST: Final = 50.0
_RECONCILE_REST: Final = 200.0
_JITTER: Final = 0.1
_START_SPREAD_S: Final = 1.0
_LIST_LOOK_S: Final = 1.0
_RETRY_S: Final = 600.0
# In a burst, events are fetched this often, not one by one: a checkout of 1,000 files wakes us ten times, not 3,000.
_BATCH_S: Final = 0.05
_AFTER_FAILURE_S: Final = 1.0
_STOP_S: Final = 4.5
_LONGEST_WAIT_S: Final = 3600.0


class WatchState(NamedTuple):
    """How a source is watched: the detail is for people, and empty when all is well."""

    mode: Mode
    detail: str
    next_scan_in_s: float


class Watch:
    """Signals each enabled source when it was changed and when it is due, from threads of its own.

    `signal` is called by several threads, must return soon, and may raise: it is called again the next time. After
    "due", whoever scans calls `scanned`; if nobody does, the source is due again all the same.

    A burst of changes is one signal, `quiet_s` after its last event and at most `longest_s` after its first; if a
    folder appeared in it, one more follows `again_s` later. `list_file` is looked at once a second, the roots every
    `poll_s`. `events` is for systems that this machine is not.
    """

    def __init__(
        self,
        sources: Callable[[], Sequence[Source]],
        signal: Callable[[str, Why], None],
        *,
        list_file: Path,
        reconcile_s: float = 60.0,
        quiet_s: float = 0.25,
        longest_s: float = 2.0,
        poll_s: float = 10.0,
        again_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        events: OpenEvents | None = None,
    ) -> None:
        self._sources = sources
        self._list_file = list_file
        self._clock = clock
        self._chance = chance
        self._poll_s = poll_s
        pace = _Pace(reconcile_s=reconcile_s, quiet_s=quiet_s, longest_s=longest_s, poll_s=poll_s, again_s=again_s)
        self._surroundings = _Surroundings(signal, pace, clock, chance, events or open_events)
        self._watched: dict[str, _SourceWatch] = {}
        self._leaving: list[_SourceWatch] = []
        self._list_stamp: tuple[int, int, int] | None = None
        self._read_at = -math.inf
        self._first = True
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vade-watch", daemon=True)

    def start(self) -> None:
        """Begin; returns at once, before any source is looked at."""
        self._thread.start()

    def stop(self) -> None:
        """End all threads, within five seconds unless a drive hangs; nothing is signalled afterwards."""
        self._ended.set()
        self._asked.set()
        until = time.monotonic() + _STOP_S
        _join(self._thread, until)
        all_watches = [*self._watched.values(), *self._leaving]
        for watch in all_watches:
            watch.end()
        for watch in all_watches:
            _join(watch.thread, until)

    def reload(self) -> None:
        """Read the list of sources again, soon, since it may have changed."""
        self._read_at = -math.inf
        self._asked.set()

    def scanned(self, source_id: str, *, cpu_s: float) -> None:
        """A scan of this source has ended and took so much processor time: the next one is counted from now."""
        watch = self._watched.get(source_id)
        if watch is not None:
            watch.scanned(cpu_s)

    def states(self) -> dict[str, WatchState]:
        """How each enabled source is watched now, by its id."""
        return {source_id: watch.state() for source_id, watch in self._watched.items()}

    def _run(self) -> None:
        while not self._ended.is_set():
            # What raises here is the list's reader: its last answer stands until it can be read again.
            with suppress(Exception):
                self._follow_list()
            self._asked.wait(_LIST_LOOK_S)
            self._asked.clear()

    def _follow_list(self) -> None:
        stamp = _stamp(self._list_file)
        if stamp == self._list_stamp and self._clock() < self._read_at:
            return
        self._list_stamp = stamp
        self._read_at = self._clock() + self._poll_s
        self._adopt({source.id: source for source in self._sources() if source.enabled})
        for watch in self._watched.values():
            watch.wake()

    def _adopt(self, wanted: dict[str, Source]) -> None:
        """Watch exactly these sources; one whose root or rules changed is a new one, and so due at once."""
        kept = {i: w for i, w in self._watched.items() if i in wanted and _is_same(w.source, wanted[i])}
        gone = [watch for source_id, watch in self._watched.items() if source_id not in kept]
        for watch in gone:
            watch.end()
        self._leaving = [watch for watch in (*self._leaving, *gone) if watch.thread.is_alive()]
        self._watched = kept
        for source_id, source in wanted.items():
            if source_id in kept or self._ended.is_set():
                continue
            spread = self._chance() * _START_SPREAD_S if self._first else 0.0
            watch = _SourceWatch(source, self._surroundings, first_due_in_s=spread)
            watch.thread.start()
            self._watched = {**self._watched, source_id: watch}
        self._first = False


def _is_same(old: Source, new: Source) -> bool:
    return (old.root, old.kind, old.exclude, old.generation) == (new.root, new.kind, new.exclude, new.generation)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _join(thread: threading.Thread, until: float) -> None:
    if thread.ident is not None and thread is not threading.current_thread():
        thread.join(max(0.0, until - time.monotonic()))


class _Pace(NamedTuple):
    reconcile_s: float
    quiet_s: float
    longest_s: float
    poll_s: float
    again_s: float


class _Surroundings(NamedTuple):
    signal: Callable[[str, Why], None]
    pace: _Pace
    clock: Callable[[], float]
    chance: Callable[[], float]
    open_events: OpenEvents


# ── one source


class _SourceWatch:
    """The thread of one source: it looks at the root, sleeps on its events, and signals."""

    def __init__(self, source: Source, around: _Surroundings, *, first_due_in_s: float) -> None:
        self.source = source
        self.thread = threading.Thread(target=self._run, name=f"vade-watch {source.id}", daemon=True)
        self._around = around
        self._events: Events | None = None
        self._mode: Mode = "waiting"
        self._detail = "not looked at yet"
        self._identity: tuple[int, int] | None = None
        self._look_at = self._retry_at = -math.inf
        self._burst = _Burst()
        # The next scan comes so long after: a moment, and a factor for the usual interval.
        self._counted = (around.clock() + first_due_in_s, 0.0)
        self._cpu_s = 0.0
        self._poked = threading.Event()
        self._ended = threading.Event()

    # Called by other threads.

    def end(self) -> None:
        self._ended.set()
        self.wake()

    def wake(self) -> None:
        # First the flag, then the events: the thread sets its events before it looks at the flag.
        self._poked.set()
        events = self._events
        if events is not None:
            events.wake()

    def scanned(self, cpu_s: float) -> None:
        self._cpu_s = max(0.0, cpu_s)
        self._count_from_now()
        self.wake()

    def state(self) -> WatchState:
        return WatchState(self._mode, self._detail, max(0.0, self._due_at() - self._around.clock()))

    # Called by its own thread.

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                try:
                    self._step()
                except Exception as exc:  # noqa: BLE001 - whatever fails here, the schedule must go on
                    self._refused(exc)
                    self._ended.wait(_AFTER_FAILURE_S)
        finally:
            self._close_events()

    def _step(self) -> None:
        self._poked.clear()
        now = self._around.clock()
        if now >= self._look_at:
            self._look(now)
        if now >= self._changed_at():
            self._tell_changed(now)
        if now >= self._due_at():
            self._tell_due()
        self._wait(min(self._look_at, self._changed_at(), self._due_at()) - self._around.clock())

    def _look(self, now: float) -> None:
        """Find out whether the root is there, is still the same folder, and can be watched."""
        self._look_at = now + self._around.pace.poll_s
        identity, why = _identity(self.source.root)
        if identity is None:
            self._lose(now, why)
        elif identity != self._identity or (self._events is None and now >= self._retry_at):
            is_first, is_other = self._retry_at == -math.inf, identity != self._identity
            self._identity = identity
            self._open(now)
            if not is_first and (is_other or self._events is not None):
                self._burst.add(now)

    def _lose(self, now: float, why: str) -> None:
        if self._identity is not None:
            self._burst.add(now)
        self._close_events()
        self._identity = None
        self._retry_at = now
        self._mode, self._detail = "waiting", why

    def _open(self, now: float) -> None:
        self._close_events()
        self._retry_at = now + _RETRY_S
        try:
            self._events = self._around.open_events(self.source, self._ended.is_set)
        except OSError as exc:
            self._refused(exc)
        else:
            self._mode, self._detail = "events", self._events.detail

    def _refused(self, exc: Exception) -> None:
        """Go on without events; what they would have said next is not known, so something may have changed."""
        now = self._around.clock()
        if isinstance(exc, FileNotFoundError | NotADirectoryError):
            self._lose(now, "the folder is not there")
            return
        if self._events is not None:
            self._burst.add(now)
        self._close_events()
        self._retry_at = now + _RETRY_S
        self._mode, self._detail = "polling", _why_refused(exc)

    def _close_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.close()

    def _wait(self, seconds: float) -> None:
        seconds = min(max(seconds, 0.0), _LONGEST_WAIT_S)
        if self._poked.is_set():
            return
        if self._events is None:
            self._poked.wait(seconds)
            return
        if self._burst.is_open:
            self._poked.wait(min(seconds, _BATCH_S))
            seconds = 0.0
        seen = self._events.wait(seconds)
        now = self._around.clock()
        if seen & Seen.LOST:
            # The same path may already hold another folder: it is looked at at once.
            self._lose(now, "the folder is not there")
            self._look_at = now
        elif seen:
            self._burst.add(now, new_folder=bool(seen & Seen.NEW_FOLDER))

    def _changed_at(self) -> float:
        return self._burst.ends_at(self._around.pace)

    def _tell_changed(self, now: float) -> None:
        self._burst.end(now, self._around.pace)
        if self._events is not None:
            self._events.settle()
        self._tell("changed")

    def _due_at(self) -> float:
        counted_from, factor = self._counted
        pace = self._around.pace
        if self._mode == "polling":
            return counted_from + factor * max(pace.poll_s, _POLLING_REST * self._cpu_s)
        return counted_from + factor * max(pace.reconcile_s, _RECONCILE_REST * self._cpu_s)

    def _tell_due(self) -> None:
        self._count_from_now()
        if self._events is not None:
            # A folder that no event told of (a mount, a mode, a lost event) is watched from here on.
            self._events.renew()
            self._detail = self._events.detail
        self._tell("due")

    def _count_from_now(self) -> None:
        self._counted = (self._around.clock(), 1.0 + _JITTER * (2.0 * self._around.chance() - 1.0))

    def _tell(self, why: Why) -> None:
        if self._ended.is_set():
            return
        # The listener's failure is the listener's affair; the next signal comes all the same.
        with suppress(Exception):
            self._around.signal(self.source.id, why)


class _Burst:
    """Changes that follow each other closely, and are one signal; and the signal once more after a new folder.

    A folder's first files may be older than the watch on it. They are there before the signal, but for those of a
    system that reports late.
    """

    def __init__(self) -> None:
        self._first_at = self._last_at = self._again_at = math.inf
        self._new_folder = False

    @property
    def is_open(self) -> bool:
        return self._first_at < math.inf

    def add(self, now: float, *, new_folder: bool = False) -> None:
        self._first_at = min(self._first_at, now)
        self._last_at = now
        self._new_folder |= new_folder

    def ends_at(self, pace: _Pace) -> float:
        if not self.is_open:
            return self._again_at
        return min(self._last_at + pace.quiet_s, self._first_at + pace.longest_s)

    def end(self, now: float, pace: _Pace) -> None:
        self._again_at = now + pace.again_s if self._new_folder else math.inf
        self._first_at = self._last_at = math.inf
        self._new_folder = False


def _identity(root: Path) -> tuple[tuple[int, int] | None, str]:
    """What makes this folder itself and no other at the same path; None, and why, when it cannot be scanned."""
    try:
        status = os.lstat(root)
        if os.path.realpath(root) != str(root):
            return None, "the folder is a link now, and links are not followed"
    except FileNotFoundError:
        return None, "the folder is not there"
    except (OSError, ValueError) as exc:
        return None, f"the folder cannot be looked at: {getattr(exc, 'strerror', None) or exc}"
    if not stat.S_ISDIR(status.st_mode):
        return None, "a file stands in the place of the folder"
    return (status.st_dev, status.st_ino), ""


def _why_refused(exc: Exception) -> str:
    match getattr(exc, "errno", None):
        case errno.ENOSPC:
            return "the system watches no more folders for this user (fs.inotify.max_user_watches)"
        case errno.EMFILE | errno.ENFILE:
            return "too many files or watchers are open (ulimit -n, fs.inotify.max_user_instances)"
        case None:
            return f"watching failed: {type(exc).__name__}"
    return f"the system refuses to watch: {getattr(exc, 'strerror', None) or exc}"
