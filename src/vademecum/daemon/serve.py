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
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from vademecum import config
from vademecum.config import Settings
from vademecum.daemon import control
from vademecum.errors import StateError, StateReadOnly

_LOG_BYTES: Final = 1 << 20
_GRACE_S: Final = 3
_SWITCH_S: Final = 0.001
log = logging.getLogger("vademecum.daemon")


def serve(settings: Settings) -> None:
    """Be the daemon until a signal ends it. Raises DaemonRunning, PortTaken, ConfigError, StateError."""
    with control.held_for_life(settings):
        os.umask(0o077)
        _log_to_file(settings)
        # The indexing thread is pure Python: with the usual 5 ms an answer would wait that long at every turn.
        sys.setswitchinterval(_SWITCH_S)
        with _doors(settings) as (sockets, mcp, port):
            asyncio.run(_serve(settings, sockets, mcp, port))


async def _serve(settings: Settings, sockets: list[socket.socket], mcp: socket.socket, port: int) -> None:
    from vademecum.daemon.api import build
    from vademecum.daemon.guard import Guard, read_or_make_token
    from vademecum.daemon.host import Daemon

    daemon = Daemon(settings)
    daemon.port = port
    host = str(settings.values["daemon.host"])
    names = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", host))
    token = read_or_make_token(settings.run_dir / "token")

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        daemon.begin()
        yield

    app = Guard(build(daemon, lifespan=lifespan), token=token, hosts=lambda: names, logins=daemon.logins)
    server = _server(app)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, server, daemon)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    echo = await asyncio.start_unix_server(_echo, sock=mcp)
    ready = asyncio.create_task(_announce(server, settings, daemon.instance, host, port))
    try:
        await server.serve(sockets=sockets)
    finally:
        ready.cancel()
        echo.close()
        await asyncio.to_thread(daemon.end)
        control.record_file(settings).unlink(missing_ok=True)
        log.info("ended")


def _server(app: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        """Two things differ. uvicorn raises a signal again when it has served, and so before our own end is done:
        signals are ours here. And it looks ten times a second whether it should exit, which is most of what an idle
        daemon does (0.3 % of a core): here it is woken.
        """

        ending = asyncio.Event()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def main_loop(self) -> None:
            await self.on_tick(0)  # sets the headers that every answer has
            await self.ending.wait()

    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # nothing would keep it right
            proxy_headers=False,  # nobody stands between: what they say would be the client's own word
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=_GRACE_S,
        )
    )


def _end(server: Any, daemon: Any) -> None:
    daemon.events.end()  # listeners would be waited for
    server.should_exit = True
    server.ending.set()


async def _announce(server: Any, settings: Settings, instance: str, host: str, port: int) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    control.write_record(settings, instance=instance, host=host, port=port)
    log.info("serving on port %d", port)


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
    logging.Formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("vademecum").setLevel(logging.INFO)
