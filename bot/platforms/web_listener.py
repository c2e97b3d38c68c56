"""Lets connections in: so many at once, and none that says nothing.

Strangers may connect before anybody knows who they are, and each connection takes one of the
process's few file handles, which chats, servers and the database need as well.
"""

import asyncio
import logging

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.typedefs import Handler

MAX_CONNECTIONS = 500  # of the 1024 files a process may usually open
SILENT_S = 20.0  # until the first request is whole
IDLE_S = 75.0  # between two requests

_log = logging.getLogger(__name__)


class Listener:
    """Serves an application at one address."""

    def __init__(
        self,
        app: web.Application,
        *,
        max_connections: int = MAX_CONNECTIONS,
        silent_s: float = SILENT_S,
    ) -> None:
        app.middlewares.append(self._heard)
        self._runner = web.AppRunner(
            app,
            access_log=None,  # it would write the tokens of sign-in links down
            keepalive_timeout=IDLE_S,
            logger=_quiet_logger(),
            shutdown_timeout=2.0,
        )
        self._max_connections = max_connections
        self._silent_s = silent_s
        self._silent: set[asyncio.BaseProtocol] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str | None, port: int) -> int:
        """Begin to listen and return the port. Raises `OSError` where the address is taken."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._visitor, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Let nobody in any more and end all connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _visitor(self) -> asyncio.BaseProtocol:
        """Return what serves a new connection."""
        server = self._runner.server
        if server is None or len(server.connections) >= self._max_connections:
            return _Refusal()
        visitor = server()
        self._silent.add(visitor)
        asyncio.get_running_loop().call_later(self._silent_s, self._end_if_silent, visitor)
        return visitor

    def _end_if_silent(self, visitor: web.RequestHandler) -> None:
        if visitor in self._silent:
            self._silent.discard(visitor)
            visitor.force_close()

    @web.middleware
    async def _heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        return await handler(request)


class _Refusal(asyncio.Protocol):
    """Ends a connection as soon as it is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def _quiet_logger() -> logging.Logger:
    """Return a log of the server's own faults, without a traceback for whatever strangers send."""
    log = _log.getChild("http")
    if not log.filters:
        log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    cause = record.exc_info[1] if record.exc_info else None
    return not isinstance(cause, BadHttpMessage)
