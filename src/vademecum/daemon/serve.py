"""The daemon's process: its lock, its doors, and the loop between them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.daemon.control import Running, Seat
from vademecum.errors import StateError, StateReadOnly

_LOG_BYTES: Final = 1 << 20
_SWITCH_S: Final = 0.001
log = logging.getLogger("vademecum.daemon")


def serve(settings: Settings, *, tell: Callable[[Running], None] = lambda _: None) -> None:
    """Be the daemon until a signal ends it; `tell` is called once it serves.

    Raises DaemonRunning, PortTaken, ConfigError, StateError.
    """
    with control.held_for_life(settings) as seat:
        os.umask(0o077)
        _log_to_file(settings)
        # The indexing thread is pure Python: with the usual 5 ms an answer would wait that long at every turn.
        sys.setswitchinterval(_SWITCH_S)
        with _doors(settings) as (sockets, mcp, port):
            asyncio.run(_serve(settings, seat, sockets, mcp, port, tell))


async def _serve(
    settings: Settings,
    seat: Seat,
    sockets: list[socket.socket],
    mcp: socket.socket,
    port: int,
    tell: Callable[[Running], None],
) -> None:
    from vademecum.daemon.api import build
    from vademecum.daemon.guard import Guard, keep_token, read_or_make_token
    from vademecum.daemon.host import Daemon
    from vademecum.daemon.server import build_server

    daemon = Daemon(settings)
    host = str(settings.values["daemon.host"])
    daemon.url = control.url_of(host, port)
    daemon.port = port
    own = (control.authority(name, port) for name in ("127.0.0.1", "::1", "localhost", host))
    names = frozenset(name.lower() for name in (*own, f"{host}:{port}"))
    token_file = settings.run_dir / "token"
    token = read_or_make_token(token_file)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        daemon.begin()
        yield

    app = Guard(build(daemon, lifespan=lifespan), token=token, hosts=lambda: names, logins=daemon.logins)
    server = build_server(app)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` has it
            loop.add_signal_handler(number, _end, server, daemon)

    def keep() -> None:
        if seat.keep():
            keep_token(token_file, token)
        else:
            loop.call_soon_threadsafe(_end, server, daemon)

    daemon.keep = keep
    echo = await asyncio.start_unix_server(_echo, sock=mcp)
    ready = asyncio.create_task(_announce(server, lambda: seat.announce(daemon.instance, host=host, port=port), tell))
    try:
        await server.serve(sockets=sockets)
    finally:
        ready.cancel()
        echo.close()
        await asyncio.to_thread(daemon.end)
        log.info("ended")


def _end(server: Any, daemon: Any) -> None:
    daemon.events.end()  # listeners would be waited for
    server.end()


async def _announce(server: Any, announce: Callable[[], Running], tell: Callable[[Running], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    found = announce()
    log.info("serving on port %d", found.port)
    tell(found)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What is said on mcp.sock comes back: the MCP session takes its place."""
    with suppress(OSError, ValueError):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    writer.close()


# ── doors


@contextmanager
def _doors(settings: Settings) -> Iterator[tuple[list[socket.socket], socket.socket, int]]:
    address = control.address(settings)
    folder = _own_folder(config.socket_folder(settings))
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(control.listen(*address))
        http, mcp = (stack.enter_context(_unix(folder / name)) for name in ("http.sock", "mcp.sock"))
        stack.callback(_clear, folder)
        yield [http, tcp], mcp, int(tcp.getsockname()[1])


def _own_folder(folder: Path) -> Path:
    """The folder of the sockets, made or found to be ours alone. Raises StateError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise StateError(f"{folder} belongs to somebody else", hint="Remove it, or set XDG_RUNTIME_DIR.")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise StateError(f"{folder} cannot be made: {exc.strerror}") from exc
    return folder


def _unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of a daemon that is dead: the lock is ours
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.bind(str(path))
    path.chmod(0o600)
    found.listen(128)
    return found


def _clear(folder: Path) -> None:
    for name in ("http.sock", "mcp.sock"):
        with suppress(OSError):
            (folder / name).unlink()


def _log_to_file(settings: Settings) -> None:
    """Log what happens, with ids and codes: no text, title or path of a note, since a removal must leave none."""
    path = control.log_file(settings)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=2, encoding="utf-8")
    except OSError as exc:
        raise StateReadOnly(f"{path} cannot be written: {exc.strerror}") from exc
    handler.addFilter(_in_one_line)
    logging.Formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("vademecum").setLevel(logging.INFO)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Whether to log it; without a traceback, whose last line may quote a note. The crash log has its place.

    A request that was cut off because the daemon ends is no error, and the server says that there were some.
    """
    exc = record.exc_info[1] if record.exc_info else None
    if isinstance(exc, asyncio.CancelledError):
        return False
    if exc is not None:
        config.log_crash(exc)
        record.msg = f"{record.getMessage().strip()} ({type(exc).__name__}); logs/crash.log has the place"
        record.args, record.exc_info, record.exc_text = (), None, None
    return True
