"""A cable from one machine to a service: passes everything on, stays silent, or breaks.

The service recognises the calling process by its address: every life of a machine has its own.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self

CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a connection that is closed is reset


class Cable:
    """Listens on `host` and `port` and passes on to `service_port`, under the address `source`."""

    def __init__(self, service_port: int, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.source = "127.0.0.1"
        self.service_port = service_port
        self._whole = asyncio.Event()
        self._whole.set()
        self._refuses = False
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> None:
        """Let nothing through any more, without telling either side."""
        self._whole.clear()

    def cut(self) -> None:
        """Reset every connection, and every attempt at one."""
        self._refuses = True
        for writer in list(self._open):
            _reset(writer)

    def mend(self) -> None:
        """Let everything through, also what was sent during a silence."""
        self._refuses = False
        self._whole.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            await self._connect(reader, writer, self.source)
        finally:
            self._open.discard(writer)
            _reset(writer)
            self._tasks.discard(task)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: str
    ) -> None:
        await self._whole.wait()
        if self._refuses:
            return
        try:
            service_reader, service = await asyncio.open_connection(
                "127.0.0.1", self.service_port, local_addr=(source, 0)
            )
        except OSError:
            return
        self._open.add(service)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, service))
                group.create_task(self._pass_on(service_reader, writer))
        finally:
            self._open.discard(service)
            _reset(service)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until one side ends; then end the other."""
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        await self._whole.wait()
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side is told at once."""
    connection = writer.get_extra_info("socket")
    if connection is not None and not writer.is_closing():
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
