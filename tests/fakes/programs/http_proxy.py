"""An HTTP proxy on a loopback port that records its requests and sends all to one server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class FakeProxy:
    """Passes every connection to `upstream`, whatever name is requested.

    `asked` has the first line of each connection, such as "CONNECT api.telegram.org:443". With a
    `status`, it refuses every connection.
    """

    def __init__(self, upstream: str, *, status: str = "", login: str = "") -> None:
        self.asked: list[str] = []
        self.logins: list[str] = []
        self.url = ""
        self._upstream = urlsplit(upstream)
        self._status = status
        self._login = login
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeProxy"]:
        """Serve until the block ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://{self._login}127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.asked.append(first.rpartition(" ")[0])
        self.logins += [line for line in lines if line.lower().startswith("proxy-authorization")]
        if self._status:
            writer.write(f"HTTP/1.1 {self._status}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        there = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        if first.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there[1].write(head)
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(_pass_on(source, target))
            self._tasks.add(task)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.close()
