"""What the system says happens below a source's root, sifted: only what can concern the index counts.

The failures it is shaped against: events followed out of the vault through a link, thousands of watches on folders
that nobody reads (.git), and a new folder whose first files nobody reports.
"""

from __future__ import annotations

import errno
import math
import os
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Flag
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from vademecum.sources.registry import Source
from vademecum.vault import NOTE_SUFFIXES, Ignores, note_key

if TYPE_CHECKING:
    import ctypes

_MANIFEST: Final = "vault-manifest.json"
_OBSIDIAN: Final = ".obsidian"
_OBSIDIAN_FILTERS: Final = "app.json"
# A hidden file by which iCloud says that it holds the note itself.
_PLACEHOLDER: Final = ".icloud"


class Seen(Flag):
    """What a batch of events amounts to."""

    NOTHING = 0
    CHANGED = 1
    NEW_FOLDER = 2
    LOST = 4


class Events(Protocol):
    """The events of one source; used by one thread, but for `wake`. Opening one raises OSError where it is refused."""

    @property
    def detail(self) -> str:
        """What it cannot see, for people."""

    def wait(self, seconds: float) -> Seen:
        """Sleep until something happens, but no longer, and say what. Raises OSError when it can see no more."""

    def wake(self) -> None:
        """End the wait of the other thread."""

    def settle(self) -> None:
        """Forget folders that were moved away. Raises OSError."""

    def renew(self) -> None:
        """Find the folders to watch anew, whatever events said. Raises OSError."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""


OpenEvents = Callable[[Source, Callable[[], bool]], Events]
"""Opens the events of a source; the second argument says that nobody waits for them any more."""


def open_events(source: Source, ended: Callable[[], bool]) -> Events:
    """The events of a source in the way that suits this system. Raises OSError."""
    return FolderEvents(source, ended) if sys.platform == "linux" else TreeEvents(source, ended)


class _Scope:
    """Which happenings can concern the index of a source. In doubt, all do."""

    def __init__(self, source: Source) -> None:
        self.ignores = Ignores(source.exclude, ())
        self._is_vault = source.kind == "obsidian"

    def enters(self, folder: str, name: str) -> bool:
        """Whether this folder in a folder is watched."""
        if folder == "" and name == _OBSIDIAN:
            return self._is_vault
        return folder != _OBSIDIAN and self.ignores.reason(note_key(_below(folder, name)), name) is None

    def counts(self, folder: str, name: str, *, modified: bool) -> bool:
        """Whether this entry of a folder that is entered counts; `modified`: it was there before, and still is."""
        if folder == _OBSIDIAN:
            return name == _OBSIDIAN_FILTERS
        if folder == "" and name == _OBSIDIAN:
            return self._is_vault and not modified
        # Links name files of any kind, so that these count when they come and go, but their content does not.
        if modified and not name.lower().endswith(NOTE_SUFFIXES) and (folder, name) != ("", _MANIFEST):
            return False
        return self.ignores.reason(note_key(_below(folder, name)), name) is None or name.endswith(_PLACEHOLDER)


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


_IN_MODIFY: Final = 0x2
_IN_ATTRIB: Final = 0x4
_IN_CLOSE_WRITE: Final = 0x8
_IN_MOVED_FROM: Final = 0x40
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_IN_UNMOUNT: Final = 0x2000
_IN_Q_OVERFLOW: Final = 0x4000
_IN_IGNORED: Final = 0x8000
_IN_ISDIR: Final = 0x40000000
_IN_ONLYDIR: Final = 0x1000000
_IN_DONT_FOLLOW: Final = 0x2000000
_IN_EXCL_UNLINK: Final = 0x4000000

_IN_COME_OR_GONE: Final = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE
# Reading is not asked for: our own scans would fill the queue.
_IN_ASKED: Final = _IN_COME_OR_GONE | _IN_MODIFY | _IN_ATTRIB | _IN_CLOSE_WRITE
_IN_ROOT: Final = _IN_DELETE_SELF | _IN_MOVE_SELF
_IN_HOW: Final = _IN_ONLYDIR | _IN_DONT_FOLLOW | _IN_EXCL_UNLINK
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16
# So many reads at a time: a writer that is faster than us must not keep us from signalling.
_MOST_READS: Final = 32
# What a folder below the root answers that vanished, became a link, or cannot be listed, by a scan neither.
_PASSED_OVER: Final = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ESTALE)
)


class FolderEvents:
    """Linux: one inotify watch on each folder that is not ignored, and no link followed.

    watchfiles is not used here. It follows links (measured: one link to a folder of 2,000 folders made 504 watches
    2,504, and reported files there), watches .git, cannot add a folder, and asks 20 times a second whether something
    happened, where this thread sleeps.
    """

    def __init__(self, source: Source, ended: Callable[[], bool]) -> None:
        self._root = str(source.root)
        self._scope = _Scope(source)
        self._ended = ended
        self._folders: dict[int, str] = {}
        self._unreadable: set[str] = set()
        self._stale = False
        self._lock = threading.Lock()
        self._descriptors: list[int] = []
        try:
            self._notify = _inotify("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
            self._descriptors.append(self._notify)
            self._woken, self._waker = os.pipe()
            self._descriptors += (self._woken, self._waker)
            for descriptor in (self._woken, self._waker):
                os.set_blocking(descriptor, False)
            self._poll = select.poll()
            self._poll.register(self._notify, select.POLLIN)
            self._poll.register(self._woken, select.POLLIN)
            self._place("")
        except BaseException:
            self.close()
            raise

    @property
    def detail(self) -> str:
        """What it cannot see, for people."""
        return f"not watched, since they cannot be read: {len(self._unreadable)} folders" if self._unreadable else ""

    def wait(self, seconds: float) -> Seen:
        """Sleep until something happens, but no longer, and say what. Raises OSError when it can see no more."""
        self._poll.poll(math.ceil(seconds * 1000))
        with suppress(BlockingIOError):
            os.read(self._woken, _READ_BYTES)
        seen = Seen.NOTHING
        for _ in range(_MOST_READS):
            try:
                happened = os.read(self._notify, _READ_BYTES)
            except BlockingIOError:
                break
            for watch, mask, name in _parsed(happened):
                seen |= self._understood(watch, mask, name)
        return seen

    def wake(self) -> None:
        """End the wait of the other thread."""
        with self._lock, suppress(BlockingIOError):
            if self._descriptors:
                os.write(self._waker, b"\0")

    def settle(self) -> None:
        """Forget folders that were moved away. Raises OSError."""
        if self._stale:
            self.renew()

    def renew(self) -> None:
        """Find the folders to watch anew, whatever events said. Raises OSError."""
        old, self._folders = self._folders, {}
        self._stale, self._unreadable = False, set()
        self._place("")
        for watch in old.keys() - self._folders.keys():
            with suppress(OSError):  # the system has dropped it with its folder
                _inotify("inotify_rm_watch", self._notify, watch)

    def close(self) -> None:
        """Let go of everything; may be called twice."""
        with self._lock:
            while self._descriptors:
                os.close(self._descriptors.pop())

    def _understood(self, watch: int, mask: int, name: str) -> Seen:
        if mask & _IN_Q_OVERFLOW:
            self._stale = True
            return Seen.CHANGED
        folder = self._folders.get(watch)
        if folder is None:
            return Seen.NOTHING
        if mask & _IN_IGNORED:
            del self._folders[watch]
        if mask & (_IN_IGNORED | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_UNMOUNT):
            if folder == "":
                return Seen.LOST
            return Seen.CHANGED if mask & _IN_UNMOUNT else Seen.NOTHING
        if not name:  # of a folder itself; the folder above tells the same with its name
            return Seen.NOTHING if folder else Seen.CHANGED
        return self._understood_entry(folder, name, mask)

    def _understood_entry(self, folder: str, name: str, mask: int) -> Seen:
        came, is_folder = bool(mask & (_IN_CREATE | _IN_MOVED_TO)), bool(mask & _IN_ISDIR)
        if is_folder and mask & (_IN_CREATE | _IN_MOVED_TO | _IN_ATTRIB) and self._scope.enters(folder, name):
            self._place(_below(folder, name))
        if is_folder and mask & _IN_MOVED_FROM:
            self._stale = True
        if not self._scope.counts(folder, name, modified=not is_folder and not mask & _IN_COME_OR_GONE):
            return Seen.NOTHING
        return Seen.CHANGED | Seen.NEW_FOLDER if came and is_folder else Seen.CHANGED

    def _place(self, top: str) -> None:
        """Watch a folder and those below it. First the watch, then the look, so that nothing falls in between."""
        folders = [top]
        while folders and not self._ended():
            folder = folders.pop()
            if self._add(folder):
                folders += (_below(folder, name) for name in self._entered(folder))

    def _add(self, folder: str) -> bool:
        """Watch one folder; whether that could be done. Raises OSError where the system refuses any more."""
        mask = _IN_ASKED | _IN_HOW | (0 if folder else _IN_ROOT)
        path = os.fsencode(os.path.join(self._root, folder) if folder else self._root)
        try:
            watch = _inotify("inotify_add_watch", self._notify, path, mask)
        except OSError as exc:
            if folder and exc.errno in _PASSED_OVER:
                if exc.errno in (errno.EACCES, errno.EPERM):
                    self._unreadable.add(folder)
                return False
            raise
        self._folders[watch] = folder
        return True

    def _entered(self, folder: str) -> Iterator[str]:
        with suppress(OSError), os.scandir(os.path.join(self._root, folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and self._scope.enters(folder, entry.name):
                    yield entry.name


def _parsed(happened: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(happened):
        watch, mask, _, length = _EVENT.unpack_from(happened, at)
        at += _EVENT.size + length
        yield watch, mask, os.fsdecode(happened[at - length : at].rstrip(b"\0"))


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _inotify(function: str, *arguments: int | bytes) -> int:
    """Call one of the functions of inotify(7). Raises OSError."""
    import ctypes

    answer: int = getattr(_libc(), function)(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


class TreeEvents:
    """Systems that watch a whole tree at no cost and follow no link in it, such as macOS, by way of watchfiles."""

    detail = ""

    def __init__(self, source: Source, ended: Callable[[], bool]) -> None:
        import watchfiles

        del ended  # nothing is walked
        self._root = str(source.root)
        self._scope = _Scope(source)
        self._stop = threading.Event()
        self._changes = watchfiles.watch(
            self._root,
            watch_filter=None,
            debounce=50,
            rust_timeout=100,
            yield_on_timeout=True,
            stop_event=self._stop,
        )
        self._pending = self._next()  # this opens it

    def _next(self) -> set[tuple[int, str]]:
        try:
            return {(int(change), path) for change, path in next(self._changes, ())}
        except RuntimeError as exc:
            raise OSError(errno.EIO, str(exc)) from exc

    def wait(self, seconds: float) -> Seen:
        """Sleep a moment, whatever was asked, since nothing else can end this wait, and say what happened."""
        del seconds
        pending, self._pending = self._pending or self._next(), set()
        seen = Seen.NOTHING
        for change, path in pending:
            seen |= self._understood(change, path)
        return seen

    def wake(self) -> None:
        """Do nothing: it wakes by itself ten times a second."""

    def settle(self) -> None:
        """Do nothing: there is one watch, on the root."""

    def renew(self) -> None:
        """Do nothing: there is one watch, on the root."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""
        self._stop.set()
        self._changes.close()

    def _understood(self, change: int, path: str) -> Seen:
        added, modified, deleted = (change == number for number in (1, 2, 3))
        if path == self._root:
            return Seen.LOST if deleted else Seen.NOTHING
        folder, _, name = path.removeprefix(self._root).strip("/").rpartition("/")
        if folder and folder != _OBSIDIAN and self._scope.ignores.covers(note_key(folder)):
            return Seen.NOTHING
        if not self._scope.counts(folder, name, modified=modified):
            return Seen.NOTHING
        return Seen.CHANGED | Seen.NEW_FOLDER if added and os.path.isdir(path) else Seen.CHANGED
