"""An ASGI application served for real, by the server that the daemon uses."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn


@contextmanager
def serving(make: Callable[[int], Any], socket_path: str | Path | None = None) -> Iterator[int]:
    """Run what `make` gives for a port, on that port of this machine and on a socket, if one is named."""
    listened = [socket.socket()]
    listened[0].bind(("127.0.0.1", 0))
    if socket_path is not None:
        listened.append(socket.socket(socket.AF_UNIX))
        listened[1].bind(str(socket_path))
    port = listened[0].getsockname()[1]
    plain: Any = {"log_config": None, "log_level": "critical", "access_log": False, "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(make(port), **plain))
    thread = threading.Thread(target=server.run, kwargs={"sockets": listened})
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join()
