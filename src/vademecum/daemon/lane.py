"""One thread with an index of its own: what is asked of it happens there, one thing after the other.

An apsw connection may not be used by two threads at once, and a question must never wait for a scan. So the daemon
has a few lanes, each for one kind of work, and nothing but a lane touches the index.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from vademecum import config
from vademecum.app import Vademecum
from vademecum.config import Settings
from vademecum.embedding import Models
from vademecum.errors import VadeError

T = TypeVar("T")


class Current:
    """The settings as config.toml has them now, and the models that they name: the same for all lanes.

    While config.toml cannot be read, what it said before holds.
    """

    def __init__(self, settings: Settings, notify: Callable[[str], None]) -> None:
        self._settings = settings
        self._models = Models(settings)
        self._notify = notify
        self._stamp = _stamp_of(settings.config_file)
        self._lock = threading.Lock()

    def read(self) -> tuple[Settings, Models]:
        """The settings, the same object until they change, and the models."""
        with self._lock:
            stamp = _stamp_of(self._settings.config_file)
            if stamp != self._stamp:
                self._stamp = stamp
                self._load()
            return self._settings, self._models

    def _load(self) -> None:
        old = self._settings
        try:
            new = Settings(old.home, config.load().values, old.models)
        except VadeError as exc:
            self._notify(f"{exc.message}; the settings stay as they were.")
            return
        self._settings = new
        if _about_models(new) != _about_models(old):  # a loaded model is not thrown away for any other setting
            self._models = Models(new)
        else:
            self._models.settings = new


class Lane:
    """A thread and its `Vademecum`. Settings that changed in config.toml hold from the next thing that is asked."""

    def __init__(self, name: str, current: Current, notify: Callable[[str], None]) -> None:
        self._wanted = current
        self._notify = notify
        self._app: Vademecum | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"vade-{name}")

    @property
    def is_outdated(self) -> bool:
        """Whether the settings or the index file are others than when something was last asked."""
        app, (settings, _) = self._app, self._wanted.read()
        return app is None or app.settings is not settings or not app.index_is_in_place

    def submit(self, act: Callable[[Vademecum], T]) -> Future[T]:
        """Have this done in the lane's thread, after what was asked before."""
        return self._thread.submit(lambda: act(self._current()))

    async def run(self, act: Callable[[Vademecum], T]) -> T:
        """`submit` for a coroutine. When that is cancelled, what has not begun does not begin."""
        return await asyncio.wrap_future(self.submit(act))

    def close(self) -> None:
        """Drop what has not begun, wait for what has, and let go of the index."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._close()  # the thread has ended, so this is still one thread at a time

    def _current(self) -> Vademecum:
        settings, models = self._wanted.read()
        # A lane that met damage has put a new index in the place of the one that the others still hold open.
        if self._app is None or self._app.settings is not settings or not self._app.index_is_in_place:
            self._close()
            self._app = Vademecum(settings, notify=self._notify, models=models)
        return self._app

    def _close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = None


def give_back(app: Vademecum) -> None:
    """Give back what a large piece of work left in memory: the pages of its index, and what the allocator keeps."""
    app.index.release()
    if sys.platform == "linux":
        with suppress(AttributeError):  # glibc has it; other libraries give back by themselves, or cannot
            ctypes.CDLL(None).malloc_trim(0)


def _about_models(settings: Settings) -> dict[str, object]:
    return {name: value for name, value in settings.values.items() if name.startswith("embedding.")}


def _stamp_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
