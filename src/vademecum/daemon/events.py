"""What happens in the daemon, told to whoever listens: server-sent events.

Told from any thread; a listener that does not keep up loses the oldest events and is told that it did.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

_KEPT: Final = 256
_PING_S: Final = 15.0


class Events:
    """Listeners, each with a queue of its own. Bound to the loop that serves."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._number = 0

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._queues)

    def begin(self) -> None:
        """Serve from the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Let every listener go."""
        self._loop = None
        for queue in self._queues:
            _put(queue, None)

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Tell all listeners; from any thread, and without waiting."""
        loop = self._loop
        if loop is not None and self._queues and not loop.is_closed():
            loop.call_soon_threadsafe(self._spread, kind, data)

    def _spread(self, kind: str, data: dict[str, Any]) -> None:
        self._number += 1
        event = f"id: {self._number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        for queue in self._queues:
            _put(queue, event)

    async def stream(self) -> AsyncIterator[bytes]:
        """The events from now on, with a sign of life in between."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_KEPT)
        self._queues.add(queue)
        try:
            yield b": listening\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _PING_S)
                except TimeoutError:
                    event = b": ping\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._queues.discard(queue)


def _put(queue: asyncio.Queue[bytes | None], event: bytes | None) -> None:
    if queue.full():  # two go, since what tells of it takes a place itself
        queue.get_nowait()
        queue.get_nowait()
        queue.put_nowait(b"event: lost\ndata: {}\n\n")
    queue.put_nowait(event)
