"""The HTTP server below the guard: uvicorn, as a daemon wants it that is idle most of its life.

Shaped against clients that begin and never end: each has so long for the head of a request, and so long for the next
piece of a body, and is then cut off. Nothing wakes up for a connection that waits for us, or for none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 30.0
"""How long a client may take to send the head of a request, from its connection or from the first byte on."""
BODY_S: Final = 30.0
"""How long a client may send nothing while it owes a body."""

_GRACE_S: Final = 3
_Owes = Literal["nothing", "a head", "a body"]


class Connection(H11Protocol):
    """A connection whose client has to get on with what it began."""

    head_s = HEAD_S
    body_s = BODY_S
    _owed: _Owes = "nothing"
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, so long."""
        super().connection_made(transport)
        self._expect("a head")

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of it, so long."""
        super().data_received(data)
        self._expect(self._owes())

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._expect("nothing")
        super().connection_lost(exc)

    def _owes(self) -> _Owes:
        if self.transport.is_closing():
            return "nothing"
        if self.cycle is None or self.cycle.response_complete:  # also the rest of a body that was refused
            return "a head"
        return "a body" if self.cycle.more_body else "nothing"

    def _expect(self, owed: _Owes) -> None:
        if owed == "a head" and self._owed == "a head" and self._patience is not None:
            return  # the whole head has one term, however it drips
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._owed = owed
        if owed != "nothing":
            self._patience = self.loop.call_later(self.head_s if owed == "a head" else self.body_s, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        if self._owed == "a body" and self.flow.read_paused:  # it is we who do not read
            self._expect("a body")
        elif self._owes() != "nothing":
            self.transport.close()


class Server(uvicorn.Server):
    """Two things differ. uvicorn raises a signal again when it has served, and so before our own end is done:
    signals are ours here. And it looks ten times a second whether it should exit, which is most of what an idle
    daemon does (0.3 % of a core): here it is woken.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Answer what is being asked, and end. For the thread of the loop."""
        self.should_exit = True
        self._ending.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def main_loop(self) -> None:
        """Sleep until the end."""
        await self.on_tick(0)  # sets the headers that every answer has
        await self._ending.wait()


def build_server(app: Any, *, head_s: float = HEAD_S, body_s: float = BODY_S) -> Server:
    """A server of this application, for `serve` with sockets."""
    patient = type("Connection", (Connection,), {"head_s": head_s, "body_s": body_s})
    return Server(
        uvicorn.Config(
            app,
            http=patient,
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
