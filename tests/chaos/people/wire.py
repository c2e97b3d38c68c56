"""A wire between the program and a real text server: passes every byte on, and records all of it.

A text server keeps no history; its requests and complete answers are known only here. The wire ends
with its server: then connections are refused, and open ones break.
"""

import asyncio
import json
import re
import time
from contextlib import suppress

from bot.requests.enhancement import OPENING
from tests.chaos.servers import number_in

_POST = re.compile(rb"POST /v1/chat/completions")
_PIECE = re.compile(rb'"content": ?("(?:[^"\\]|\\.)*")')
_MODEST = 200_000  # bytes of a request kept to look for its number


class Wire:
    """Listens on `port` and passes on to `server_port`; what counts are the numbers of requests."""

    def __init__(self) -> None:
        self.port = 0
        self.server_port = 0
        self.began: list[tuple[int, float]] = []
        self.answers: dict[int, list[str]] = {}
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        """Accept connections."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Refuse connections and break the existing ones."""
        if self._listener is not None:
            self._listener.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(
                "127.0.0.1", self.server_port
            )
        except ConnectionError:
            writer.transport.abort()
            return
        talk = _Talk(self)
        pair = {writer, server_writer}
        self._open |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, server_writer, talk.asked))
                group.create_task(_pass_on(server_reader, writer, talk.answered))
        finally:
            self._open -= pair
            for end in pair:
                end.transport.abort()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: object
) -> None:
    """Pass on until one side ends; then end the other in the same way."""
    assert callable(note)
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            note(data)
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class _Talk:
    """One connection: a request, its answer, the next request."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._request = b""
        self._number: int | None = None
        self._pieces: list[str] = []

    def asked(self, data: bytes) -> None:
        """Record bytes on their way to the server."""
        self._request = (self._request + data)[-_MODEST:]
        text = self._request.decode(errors="replace")
        number = number_in(text) if _POST.search(self._request) else None
        if number is None or OPENING in text:
            return
        self._number, self._pieces, self._request = number, [], b""
        self._wire.began.append((number, time.time()))

    def answered(self, data: bytes) -> None:
        """Record bytes on their way back."""
        if self._number is None:
            self._request = b""
            return
        self._pieces += [json.loads(piece) for piece in _PIECE.findall(data)]
        if b"data: [DONE]" in data:
            self._wire.answers.setdefault(self._number, []).append("".join(self._pieces))
            self._number = None
