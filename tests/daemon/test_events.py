"""Events reach whoever listens, and a listener that falls behind is told that it missed some."""

import asyncio
from collections.abc import AsyncIterator

from vademecum.daemon.events import Events


async def read(stream: AsyncIterator[bytes], count: int) -> list[bytes]:
    return [await asyncio.wait_for(anext(stream), 10) for _ in range(count)]


def test_a_listener_that_falls_behind_gets_the_newest_and_is_told() -> None:
    async def listen() -> list[bytes]:
        events = Events()
        events.begin()
        stream = events.stream()
        await read(stream, 1)  # from here on it listens
        for number in range(300):
            events.tell("changed", {"number": number})
        await asyncio.sleep(0)  # they are spread by the loop
        events.end()
        return [event async for event in stream]

    said = asyncio.run(listen())
    assert len(said) <= 256
    assert b"event: lost\ndata: {}\n\n" in said
    assert b'"number": 299' in said[-1] or b'"number": 299' in said[-2]
    assert b'"number": 0}' not in b"".join(said)


def test_one_that_keeps_up_misses_nothing_and_ends_with_the_daemon() -> None:
    async def listen() -> tuple[list[bytes], int, int]:
        events = Events()
        events.begin()
        stream = events.stream()
        await read(stream, 1)
        listening = events.listeners
        said = []
        for number in range(300):
            events.tell("changed", {"number": number})
            said += await read(stream, 1)
        events.end()
        assert [event async for event in stream] == []
        return said, listening, events.listeners

    said, listening, left = asyncio.run(listen())
    assert [f'"number": {number}}}'.encode() in event for number, event in enumerate(said)] == [True] * 300
    assert (listening, left) == (1, 0)
