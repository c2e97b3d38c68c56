"""WebSocket connections to inference servers, without redirects and with limited message size.

This module parses no messages, and raises aiohttp's exceptions.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Self

import aiohttp
from yarl import URL

from queueing.core.concurrency import timeout

CONNECT_S = 5.0
AT_ONCE_S = 1.0  # a connection that ends sooner reached a forwarder without a server
AGAIN_S = 5.0  # pause between connections that end at once although the server is still there


async def gone(host: str, port: int) -> None:
    """Wait until the server stops accepting connections, even if only briefly for a restart.

    Servers and proxies close idle connections, so a closed connection only counts if the next one
    is refused, or closed at once as by a forwarder without a server.
    """
    held = False
    while True:
        began = asyncio.get_running_loop().time()
        if not await _hold(host, port):
            return
        ended_at_once = asyncio.get_running_loop().time() - began < AT_ONCE_S
        if held and ended_at_once:
            return
        held = not ended_at_once
        if ended_at_once:
            await asyncio.sleep(AGAIN_S)


async def _hold(host: str, port: int) -> bool:
    """Hold a connection until the other side closes it; return False if it cannot be opened."""
    try:
        async with timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except OSError:  # includes timeouts
        return False
    try:
        with suppress(OSError):
            while await reader.read(4096):  # some servers send a reason before closing
                pass
    finally:
        writer.close()
    return True


MESSAGE_LIMIT = 64 * 1024 * 1024  # results may arrive as messages; aiohttp's default is 4 MiB


def listener(headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """Return a websocket session that refuses redirects."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)  # aiohttp would follow redirects here
    return aiohttp.ClientSession(headers=headers, trace_configs=[trace])


async def _refuse_redirect(
    _session: aiohttp.ClientSession,
    _context: object,
    asked: aiohttp.TraceRequestRedirectParams,
) -> None:
    asked.response.close()
    raise aiohttp.ClientError("the server redirects its websocket")


async def opens(url: URL, headers: Mapping[str, str]) -> bool:
    """Return whether a websocket can be opened."""
    try:
        async with timeout(CONNECT_S), listener(headers) as session, session.ws_connect(url):
            return True
    except (aiohttp.ClientError, OSError):  # includes timeouts
        return False


@asynccontextmanager
async def talking(
    headers: Mapping[str, str],
    url: URL,
    first: str,
    *,
    proxy: str | None,
    silence_s: float | None,
) -> AsyncIterator[AsyncIterator[str]]:
    """Open a websocket, send one message, and yield the server's text messages.

    `silence_s` limits the wait for each; a longer one raises `TimeoutError`.
    """
    async with (
        listener(headers) as session,
        session.ws_connect(url, max_msg_size=MESSAGE_LIMIT, proxy=proxy) as socket,
    ):
        await socket.send_str(first)
        yield _Texts(socket, silence_s)


class _Texts:
    """The text messages of a socket until it is closed."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, silence_s: float | None) -> None:
        self._socket = socket
        self._silence_s = silence_s

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            async with timeout(self._silence_s):
                message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                return str(message.data)
            if message.type is aiohttp.WSMsgType.ERROR:
                raise aiohttp.ClientError("the websocket failed") from message.data
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise StopAsyncIteration
