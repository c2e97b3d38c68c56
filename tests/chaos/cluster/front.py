"""The one address of the page: asks every machine and uses the one that answers, like a proxy."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from tests.chaos.cluster.cable import CHUNK

ANSWERS_WITHIN_S = 1.5
ELSEWHERE = b"HTTP/1.1 503 "  # it serves the page no longer, and says so
_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Front:
    """Listens on `port` and passes a connection on to the machine that answers its first request.

    `answered` is called with the machine's number when one has answered a visitor.
    """

    def __init__(self, port: int, ports: Sequence[int], answered: Callable[[int], None]) -> None:
        self._port = port
        self._ports = ports
        self._answered = answered
        self._newest = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError):
                if request := await reader.read(CHUNK):
                    await self._pass_on(request, reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(
        self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for tried in range(len(self._ports)):
            number = (self._newest + tried) % len(self._ports)
            ends = await self._answer_of(self._ports[number], request)
            if ends is not None:
                break
        else:
            return
        answer, (page_reader, page) = ends
        self._newest = number
        self._answered(number)
        writer.write(answer)
        pumps = [
            asyncio.create_task(_pump(reader, page)),
            asyncio.create_task(_pump(page_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await writer.drain()
        finally:
            for pump in pumps:
                pump.cancel()
            page.transport.abort()

    async def _answer_of(self, port: int, request: bytes) -> tuple[bytes, _Ends] | None:
        """Return a machine's first bytes and the connection to it, or None without an answer."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return None
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                writer.write(request)
                answer = await reader.read(CHUNK)
                if answer and not answer.startswith(ELSEWHERE):
                    return answer, (reader, writer)
        writer.transport.abort()
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
