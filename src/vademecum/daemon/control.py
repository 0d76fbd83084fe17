"""Starting, finding and stopping the daemon of one state folder.

Who it is is never guessed from a name: the daemon holds a lock for life, and its record gives pid, the time at which
that process started, and a random instance that only it answers for. A record without the lock behind it is stale
and is cleared away. Imported by the command line, so the standard library and our ground are all it needs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
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
    StateReadOnly,
    VadeError,
)
from vademecum.pump import Unanswered, ask

PROTOCOL: Final = 1
"""Raised when what a program and its daemon say to each other changes: a newer program then replaces the daemon."""

_START_S: Final = 30.0
_STOP_S: Final = 20.0
_SIGN_OF_LIFE_S: Final = 5.0
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
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


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


@contextmanager
def held_for_life(settings: Settings) -> Iterator[None]:
    """Be the daemon of this state folder. Raises DaemonRunning."""
    config.prepare(settings)
    try:
        descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StateReadOnly(f"{lock_file(settings)} cannot be opened: {exc.strerror}") from exc
    try:
        deadline = time.monotonic() + 2.0  # whoever only looks holds it for a moment
        while not _locked(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise DaemonRunning(f"a daemon serves {settings.home} already")
            time.sleep(0.02)
        record_file(settings).unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


def write_record(settings: Settings, *, instance: str, host: str, port: int) -> Running:
    """Say who serves, once it does."""
    running = Running(
        os.getpid(), _start_of(os.getpid()), instance, host, port, __version__, PROTOCOL, round(time.time(), 3)
    )
    config.replace_file(record_file(settings), json.dumps(asdict(running), indent=2).encode())
    return running


def running(settings: Settings) -> Running | None:
    """The daemon of this state folder, or None. What a dead one left is cleared away."""
    if not _is_held(settings):
        return None
    found = _record(settings)
    return found if found is not None and _start_of(found.pid) == found.started else None


def _is_held(settings: Settings) -> bool:
    try:
        descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CLOEXEC)
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


def _record(settings: Settings) -> Running | None:
    try:
        return Running(**json.loads(record_file(settings).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _start_of(pid: int) -> str:
    """When a process started, in whatever words the system has for it; "" for none."""
    try:
        # The name in the second field may hold anything, so what counts begins after its last bracket.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()


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
        raise DaemonNotRunning(f"the daemon does not answer: {exc}") from exc
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
    found = running(settings)
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
        if child.poll() is not None and running(settings) is None:
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
    found = running(settings)
    if found is None:
        return None
    for number, patience in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 5.0)):
        if running(settings) != found:  # looked at again, so that no stranger with its number is hit
            return found
        with suppress(ProcessLookupError):
            os.kill(found.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not _is_held(settings):
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
