"""Starting, finding and stopping the daemon of one state folder.

Who it is is never guessed from a name: the daemon holds a lock for life, and its record gives pid, the time at which
that process started, and a random instance that only it answers for. A record without the lock behind it is stale
and is cleared away. The lock is the truth: the record stands in the lock file too, the daemon writes anew what is
lost of both, and while the lock is held by nobody that can be told, that is an error and never "none runs".
Imported by the command line, so the standard library and our ground are all it needs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from vademecum import __version__, config
from vademecum.config import Settings
from vademecum.errors import (
    ConfigError,
    DaemonFailed,
    DaemonNotRunning,
    DaemonRunning,
    PortTaken,
    StateError,
    StateReadOnly,
    VadeError,
)
from vademecum.pump import Unanswered, ask

PROTOCOL: Final = 1
"""Raised when what a program and its daemon say to each other changes: a newer program then replaces the daemon."""

_START_S: Final = 30.0
_STOP_S: Final = 20.0
_SIGN_OF_LIFE_S: Final = 5.0
# A daemon that has just begun holds its lock for a second or two before it says who it is.
_INTRODUCTION_S: Final = 10.0
_MOST_RECORD: Final = 1 << 16
_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Running:
    """The daemon that serves a state folder."""

    pid: int
    started: str
    instance: str
    host: str
    port: int
    version: str
    protocol: int
    since: float

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return url_of(self.host, self.port)


def url_of(host: str, port: int) -> str:
    """The address that a browser of this machine opens for a daemon that listens there."""
    return f"http://{authority(host, port)}"


def authority(host: str, port: int) -> str:
    """Host and port as a browser of this machine sends them."""
    name = reached(host)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def reached(host: str) -> str:
    """The address at which this machine reaches what listens there: its own where that means every address it has."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on


def record_file(settings: Settings) -> Path:
    """Where the daemon says who it is."""
    return settings.run_dir / "daemon.json"


def lock_file(settings: Settings) -> Path:
    """What the daemon holds while it lives."""
    return settings.run_dir / "daemon.lock"


def log_file(settings: Settings) -> Path:
    """What the daemon says."""
    return settings.home / "logs" / "daemon.log"


def stream_file(settings: Settings) -> Path:
    """What a daemon prints that could not begin."""
    return settings.home / "logs" / "daemon.out"


def http_socket(settings: Settings) -> Path:
    """The socket of the HTTP API."""
    return config.socket_folder(settings) / "http.sock"


# ── who runs


class Seat:
    """The lock of the daemon of a state folder, and the record of who holds it. Any thread may call it."""

    def __init__(self, settings: Settings, descriptor: int) -> None:
        self._settings = settings
        self._descriptor = descriptor
        self._record = b""
        self._guard = threading.Lock()

    def announce(self, instance: str, *, host: str, port: int) -> Running:
        """Say who serves, once it does."""
        pid = os.getpid()
        running = Running(pid, _start_of(pid), instance, host, port, __version__, PROTOCOL, round(time.time(), 3))
        self._record = json.dumps(asdict(running), indent=2).encode()
        self.keep()
        return running

    def keep(self) -> bool:
        """Write anew what has been lost or damaged of the lock file and the record.

        False when this is not the daemon of the folder any more: the folder is gone, or another one has its lock.
        """
        with self._guard:
            if self._descriptor < 0:
                return True
            if not self._keep_lock():
                return False
            if self._record:
                with suppress(OSError, StateReadOnly):  # a disk that is full may have room the next time
                    self._keep_record()
            return True

    def leave(self) -> None:
        """Let go of the lock, and take the record away."""
        with self._guard:
            if _is_at(self._descriptor, lock_file(self._settings)):
                with suppress(OSError):
                    record_file(self._settings).unlink(missing_ok=True)
                    os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1

    def _keep_lock(self) -> bool:
        path = lock_file(self._settings)
        if _is_at(self._descriptor, path):
            return True
        if not self._settings.home.is_dir():
            return False
        try:
            config.prepare(self._settings)
            other = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (OSError, StateError):
            return True
        if not _locked(other, fcntl.LOCK_EX):
            is_only_looked_at = _locked(other, fcntl.LOCK_SH)
            os.close(other)
            return is_only_looked_at
        os.close(self._descriptor)
        self._descriptor = other
        return True

    def _keep_record(self) -> None:
        try:
            if _content(record_file(self._settings)) != self._record:
                config.replace_file(record_file(self._settings), self._record)
        finally:  # last, since whoever waits for a daemon that begins is content with this one, and reads the other
            if os.pread(self._descriptor, _MOST_RECORD, 0) != self._record:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, self._record, 0)


@contextmanager
def held_for_life(settings: Settings) -> Iterator[Seat]:
    """Be the daemon of this state folder. Raises DaemonRunning."""
    config.prepare(settings)
    try:
        descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StateReadOnly(f"{lock_file(settings)} cannot be opened: {exc.strerror}") from exc
    try:
        deadline = time.monotonic() + 2.0  # whoever only looks holds it for a moment
        # One whose lock file was deleted makes a new one soon; until then its record shows that it lives.
        while not _locked(descriptor, fcntl.LOCK_EX) or _lives(_read_record(record_file(settings))):
            if time.monotonic() > deadline:
                raise DaemonRunning(f"a daemon serves {settings.home} already")
            time.sleep(0.02)
        os.ftruncate(descriptor, 0)
        record_file(settings).unlink(missing_ok=True)
    except BaseException:
        os.close(descriptor)
        raise
    seat = Seat(settings, descriptor)
    try:
        yield seat
    finally:
        seat.leave()


def running(settings: Settings) -> Running | None:
    """The daemon of this state folder that has proven who it is, or None. What a dead one left is cleared away."""
    return _proven(settings) if is_held(settings) else None


def known(settings: Settings, *, wait_s: float = _INTRODUCTION_S) -> Running | None:
    """The daemon of this state folder; None only where none holds its lock.

    Waits for one that has just begun. Raises DaemonFailed where the lock is held and nothing proves by whom.
    """
    deadline = time.monotonic() + wait_s
    while is_held(settings):
        found = _proven(settings)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise DaemonFailed(
                f"a process holds {lock_file(settings)}, and nothing proves which one it is",
                hint="It is left alone. Find it with `fuser` or `lsof` on that file, and end it yourself.",
            )
        with suppress(Unanswered):  # asked for its status, a daemon writes its record anew
            ask(str(http_socket(settings)), "GET", "/api/status", timeout_s=1.0)
        time.sleep(0.05)
    return None


def is_held(settings: Settings) -> bool:
    """Whether a daemon lives: it holds the lock, or the lock file is gone and its record names a process that lives."""
    try:
        descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _proven(settings) is not None
    except OSError:
        return False
    try:
        if not _locked(descriptor, fcntl.LOCK_SH):
            return True
        with suppress(OSError):
            record_file(settings).unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that is open still stands at its path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _proven(settings: Settings) -> Running | None:
    """Whom the record names, in its own file or in that of the lock, if that very process lives."""
    for path in (record_file(settings), lock_file(settings)):
        found = _read_record(path)
        if _lives(found):
            return found
    return None


def _lives(found: Running | None) -> bool:
    return found is not None and bool(found.started) and _start_of(found.pid) == found.started


def _read_record(path: Path) -> Running | None:
    try:
        told = json.loads(_content(path))
        found = Running(**{name: told[name] for name in Running.__slots__})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (found.started, found.instance, found.host, found.version)
    numbers = (found.pid, found.port, found.protocol)
    if not all(type(text) is str for text in texts) or not all(type(number) is int for number in numbers):
        return None
    # A signal to 0 or below reaches a whole group of processes.
    return found if found.pid > 0 and type(found.since) in (int, float) else None


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_RECORD)
    except OSError:
        return b""


def _start_of(pid: int) -> str:
    """When a process started, in whatever words the system has for it; "" for none, and for one that has ended."""
    try:
        # The name in the second field may hold anything, so what counts begins after its last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    asked = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    state, _, started = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


# ── asking it


def call(settings: Settings, method: str, target: str, body: Any = None, *, timeout_s: float = 30.0) -> Any:
    """Ask the daemon: the JSON of its answer. Raises DaemonNotRunning, or the error that it answers."""
    sent = None if body is None else json.dumps(body).encode()
    address = str(http_socket(settings))
    try:
        if timeout_s > _SIGN_OF_LIFE_S:  # one that hangs is not waited for as long as one that works
            ask(address, "GET", "/health", timeout_s=_SIGN_OF_LIFE_S, connect_s=1.0)
        status, content = ask(address, method, target, sent, timeout_s=timeout_s, connect_s=1.0)
        answer = json.loads(content) if content else {}
    except (Unanswered, ValueError) as exc:
        raise DaemonNotRunning(f"the daemon does not answer: {exc}", hint="`vade restart` starts it anew.") from exc
    if status >= 400:
        raise _error(status, answer)
    return answer


def _error(status: int, answer: Any) -> VadeError:
    """The error that the daemon answered, as if it had been met here."""
    told = answer.get("error", {}) if isinstance(answer, dict) else {}
    message, hint = str(told.get("message", f"the daemon answered with status {status}")), told.get("hint")
    kind = next((kind for kind in _all_errors(VadeError) if kind.code == told.get("code")), DaemonFailed)
    return kind(message, hint=hint)


def _all_errors(root: type[VadeError]) -> Iterator[type[VadeError]]:
    yield root
    for child in root.__subclasses__():
        yield from _all_errors(child)


# ── starting and stopping


def start(settings: Settings) -> tuple[Running, bool]:
    """Have a daemon, and say whether it is a new one. An older program's daemon is replaced.

    Raises PortTaken, ConfigError, DaemonFailed with the last lines of its log.
    """
    found = known(settings)
    if found is not None and found.protocol >= PROTOCOL:
        return found, False
    if found is not None:
        stop(settings)
    host, port = address(settings)
    if port:
        listen(host, port).close()
    config.prepare(settings)
    log = stream_file(settings)
    with _begun(log) as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "vademecum", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
    return _awaited(settings, child, log)


def _begun(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError as exc:
        raise StateReadOnly(f"{path} cannot be written: {exc.strerror}") from exc


def _awaited(settings: Settings, child: subprocess.Popen[bytes], log: Path) -> tuple[Running, bool]:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        found = running(settings)
        if found is not None and _answers(settings, found):
            if found.pid != child.pid:  # somebody else was first: ours, which waits for the lock, must not follow later
                child.terminate()
                child.wait()
            child.returncode = child.returncode or 0  # it lives on: not waited for, and no warning about that
            return found, found.pid == child.pid
        if child.poll() is not None and not is_held(settings):
            break
        time.sleep(0.03)
    else:
        child.terminate()
    said = log.read_bytes().decode("utf-8", "replace").strip().split("\n")[-5:]
    raise DaemonFailed(f"the daemon did not start: {' | '.join(said) or 'it said nothing'}")


def _answers(settings: Settings, found: Running) -> bool:
    with suppress(VadeError):
        return bool(call(settings, "GET", "/health", timeout_s=2.0).get("instance") == found.instance)
    return False


def stop(settings: Settings) -> Running | None:
    """End the daemon and wait until it is gone: the one that was, or None. Raises DaemonFailed."""
    found = known(settings)
    if found is None:
        return None
    for number, patience in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 5.0)):
        if running(settings) != found:  # looked at again, so that no stranger with its number is hit
            return found
        with suppress(ProcessLookupError):
            os.kill(found.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not is_held(settings):
                return found
            time.sleep(0.03)
    raise DaemonFailed(f"the daemon (process {found.pid}) does not end")


def address(settings: Settings) -> tuple[str, int]:
    """Where the daemon is to listen. Raises ConfigError where other machines would reach it unasked."""
    host, port = str(settings.values["daemon.host"]), int(settings.values["daemon.port"])
    if host not in _LOCAL and not settings.values["daemon.allow_remote"]:
        raise ConfigError(
            f"daemon.host is {host}, which other machines can reach",
            hint="Set daemon.host to 127.0.0.1, or agree: `vade config set daemon.allow_remote true`.",
        )
    return host, port


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises PortTaken, which names a port that is free, or ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
    except (PermissionError, socket.gaierror) as exc:
        found.close()
        raise ConfigError(f"the daemon may not listen on {host}:{port}: {exc.strerror}") from exc
    except OSError as exc:
        found.close()
        hint = f"`vade config set daemon.port {_free_port(family, host)}` takes a free one, or set VADE_PORT."
        raise PortTaken(f"another program listens on {host}:{port}", hint=hint) from exc
    return found


def _free_port(family: int, host: str) -> int:
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
    return 8234
