"""A window in which a person chooses a folder: the program that they named, or one of the desktop's.

Shaped against a request that hangs and a folder that nobody chose. Without a graphical session it says so at once; a
window is closed after two minutes, together with whatever its program started; a person who cancels has answered,
so no second window opens; and what a program prints counts only if it is an existing folder.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from vademecum.errors import PickerBusy, PickerError, PickerMissing

_TITLE: Final = "Choose folder"
_MOST_BYTES: Final = 1 << 16  # no path is longer
_BLINK_S: Final = 0.05
_SESSION_S: Final = 3.0
_KILLED_S: Final = 5.0

# The title comes as an argument: spliced into the text it could be more of the script.
_SCRIPT: Final = ("on run argv", "POSIX path of (choose folder with prompt (item 1 of argv))", "end run")
# Programs without a display end as if a person had cancelled; GTK and Qt word it so.
_NO_DISPLAY: Final = ("open display", "connect to display")


@dataclass(frozen=True, slots=True)
class Picked:
    """The folder that a person chose; a `path` of None is a cancel."""

    path: str | None


class Picker:
    """Opens one window at a time. `override` is the user's own program, run alone instead of the desktop's."""

    def __init__(
        self,
        override: str,
        *,
        environment: Mapping[str, str] = os.environ,
        system: str = sys.platform,
        timeout_s: float = 120.0,
    ) -> None:
        self._override = override
        self._environment = environment
        self._system = system
        self._timeout_s = timeout_s
        self._window = threading.Lock()
        self._closed = threading.Event()

    def pick(self, title: str = _TITLE) -> Picked:
        """Wait until a person has chosen a folder: for a worker thread.

        Raises PickerBusy while a window is open, PickerMissing where none can be opened, PickerError when nobody
        chose in time, or what was chosen is no folder.
        """
        if not self._window.acquire(blocking=False):
            raise PickerBusy("a window to choose a folder in is open already")
        try:
            return self._ask_each(_plain(title))
        finally:
            self._window.release()

    def close(self) -> None:
        """Close the window that is open, as if cancelled, and open no more: a daemon that ends waits for nobody."""
        self._closed.set()

    def _ask_each(self, title: str) -> Picked:
        refusals = []
        for command in self._commands(title):
            try:
                ended = self._run(command, self._timeout_s)
                if self._is_cancel(ended):
                    return Picked(None)
                return Picked(_folder(ended.path_bytes(), command[0]))
            except _Cancelled:
                return Picked(None)
            except _Unusable as exc:
                refusals.append(f"{command[0]} {exc}")
            except TimeoutError as exc:
                hint = "Choose again, or type or paste the path of the folder."
                raise PickerError(f"no folder was chosen within {self._timeout_s:g} s", hint=hint) from exc
        raise PickerMissing(f"no window to choose a folder in could be opened: {'; '.join(refusals)}")

    def _commands(self, title: str) -> list[list[str]]:
        """The programs to try in turn. Raises PickerMissing where no window can be shown."""
        if self._override:
            return [[self._override]]
        if self._system == "darwin":
            self._check_login()
            statements = [word for line in _SCRIPT for word in ("-e", line)]
            return [["osascript", *statements, "--", title]]
        if not (self._environment.get("DISPLAY") or self._environment.get("WAYLAND_DISPLAY")):
            raise PickerMissing("there is no graphical session: neither DISPLAY nor WAYLAND_DISPLAY is set")
        home = self._environment.get("HOME") or "/"
        return [
            ["zenity", "--file-selection", "--directory", "--title", title],
            ["kdialog", "--title", title, "--getexistingdirectory", home],
        ]

    def _check_login(self) -> None:
        """Raise PickerMissing outside a graphical login, where osascript would wait for a window that never shows."""
        try:
            said = self._run(["launchctl", "managername"], _SESSION_S).out.decode(errors="replace").strip()
            why = "" if said == "Aqua" else f"launchctl says {said!r} instead of Aqua"
        except _Cancelled:
            why = "the daemon is ending"
        except _Unusable as exc:
            why = f"launchctl {exc}"
        except TimeoutError:
            why = f"launchctl did not answer within {_SESSION_S:g} s"
        if why:
            raise PickerMissing(f"there is no graphical session: {why}")

    def _is_cancel(self, ended: _Ended) -> bool:
        """Whether a person cancelled. Raises _Unusable when the program failed by itself."""
        if self._override:
            return ended.status != 0 or not ended.path_bytes()
        if self._system == "darwin" and "(-128)" in ended.said:
            return True
        without_display = any(sign in ended.said.lower() for sign in _NO_DISPLAY)
        if self._system != "darwin" and ended.status == 1 and not ended.out and not without_display:
            return True
        if ended.status != 0 or not ended.path_bytes():
            raise _Unusable(f"ended with status {ended.status}{ended.said and ': '}{ended.said}")
        return False

    def _run(self, command: Sequence[str], timeout_s: float) -> _Ended:
        """Run a program to its end. Raises _Unusable, _Cancelled, TimeoutError."""
        program = shutil.which(command[0], path=self._environment.get("PATH", os.defpath))
        if program is None:
            raise _Unusable("is no program that can be run" if self._override else "is not installed")
        try:
            child = subprocess.Popen(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # a group of its own, which can be killed whole
            )
        except OSError as exc:
            raise _Unusable(f"cannot be started: {exc.strerror}") from exc
        try:
            return self._hear(child, time.monotonic() + timeout_s)
        except BaseException:
            _kill(child)
            raise

    def _hear(self, child: subprocess.Popen[bytes], deadline: float) -> _Ended:
        """What a program writes until it ends. One that it left behind may hold the pipes, and is not waited for."""
        out, said = bytearray(), bytearray()
        assert child.stdout is not None and child.stderr is not None
        with child.stdout, child.stderr, selectors.DefaultSelector() as pipes:
            pipes.register(child.stdout, selectors.EVENT_READ, out)
            pipes.register(child.stderr, selectors.EVENT_READ, said)
            while True:
                ended = child.poll() is not None
                ready = pipes.select(0 if ended else _BLINK_S) if pipes.get_map() else []
                if ended and not ready:
                    return _Ended(child.returncode, bytes(out), _last_line(said))
                for key, _ in ready:
                    _read(pipes, key)
                if len(out) > _MOST_BYTES:
                    raise _Unusable(f"printed more than {_MOST_BYTES:,} bytes")
                self._check_time(deadline)
                if not pipes.get_map():
                    self._closed.wait(_BLINK_S)  # both pipes are shut, and it still runs

    def _check_time(self, deadline: float) -> None:
        if self._closed.is_set():
            raise _Cancelled
        if time.monotonic() >= deadline:
            raise TimeoutError


class _Unusable(Exception):
    """This program let nobody choose; the text says why, to be put after its name."""


class _Cancelled(Exception):
    """The window was closed by us."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a program ended, what it printed, and the last line of its complaints."""

    status: int
    out: bytes
    said: str

    def path_bytes(self) -> bytes:
        """What it printed, without the end of the line and the slash at the end of a folder."""
        line = self.out.removesuffix(b"\n")
        return line.removesuffix(b"/") or line


def _plain(title: str) -> str:
    """The title without control characters, and without what no argument can hold."""
    return "".join(c for c in title if unicodedata.category(c) not in ("Cc", "Cs")) or _TITLE


def _read(pipes: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Keep what a pipe holds, up to a bound; past it the rest is read and dropped, so that nobody is held up."""
    piece = os.read(key.fd, 1 << 16)
    if not piece:
        pipes.unregister(key.fileobj)
    elif len(key.data) <= _MOST_BYTES:
        key.data.extend(piece)


def _last_line(said: bytearray) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""


def _folder(printed: bytes, program: str) -> str:
    """The folder that a program printed. Raises PickerError for anything else."""
    try:
        path = printed.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise PickerError(f"{program} gave a path that is not UTF-8: {printed[:200]!r}") from exc
    if not os.path.isabs(path) or not os.path.isdir(path):
        raise PickerError(f"{program} gave something that is no folder here: {path[:200]!r}")
    return path


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel must not hang us
        child.wait(_KILLED_S)
