"""A silent connection shows that a server has gone."""

import asyncio
from collections.abc import AsyncIterator
from math import inf

import pytest

from backends.common import websocket
from tests.fakes.ports import port_of


class ClosingServer:
    """Accepts connections and ends them when asked to."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def open(self) -> None:
        self.port = port_of(self)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.put_nowait(writer)

    async def end_next(self, *last_words: bytes) -> None:
        """Wait for a connection and end it."""
        writer = await self.came.get()
        writer.writelines(last_words)
        writer.close()

    async def aclose(self) -> None:
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def door() -> AsyncIterator[ClosingServer]:
    door = ClosingServer()
    await door.open()
    yield door
    await door.aclose()


async def test_a_server_nobody_can_reach_has_gone(door: ClosingServer) -> None:
    """The bot would wait for a server that had died before the call."""
    await door.aclose()
    async with asyncio.timeout(60):
        await websocket.gone("127.0.0.1", door.port)


async def test_a_silent_connection_may_end(
    door: ClosingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends idle connections would seem to restart all the time."""
    monkeypatch.setattr(websocket, "AT_ONCE_S", 0.0)
    gone = asyncio.create_task(websocket.gone("127.0.0.1", door.port))
    for _ in range(5):
        await door.end_next(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    last = await door.came.get()
    assert not gone.done()
    door._server.close()
    last.close()
    async with asyncio.timeout(60):
        await gone


async def test_a_forwarder_that_has_nobody_behind_it_shows_it(
    door: ClosingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart behind a tunnel would not be seen."""
    monkeypatch.setattr(websocket, "AT_ONCE_S", 0.0)
    gone = asyncio.create_task(websocket.gone("127.0.0.1", door.port))
    await door.end_next()
    last = await door.came.get()
    monkeypatch.setattr(websocket, "AT_ONCE_S", inf)
    last.close()
    async with asyncio.timeout(60):
        await gone


async def test_a_server_that_never_holds_a_silent_connection_shows_nothing(
    door: ClosingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs would be retried without a pause."""
    monkeypatch.setattr(websocket, "AT_ONCE_S", inf)
    monkeypatch.setattr(websocket, "AGAIN_S", 0.0)
    gone = asyncio.create_task(websocket.gone("127.0.0.1", door.port))
    for _ in range(5):
        await door.end_next()
    assert not gone.done()
    gone.cancel()
    await asyncio.wait([gone])
