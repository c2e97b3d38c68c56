"""Wires over WebSockets: listening for other processes, and calling the one that holds the queue."""

import asyncio
import logging
import socket
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
from aiohttp import web

from bot.app.cluster.wire import FRAME_LIMIT, Wire, WireBroken, too_long
from bot.http.listener import NAME, Listener
from queueing.core.concurrency import timeout

log = logging.getLogger(__name__)

PATH = "/queue"
PIECE = 64 * 1024
"""Bytes that are sent at once: on a slow network, a sign of life must not wait for a whole frame."""
CONNECT_S = 3.0
SILENT_S = 5.0  # until a connection has become a WebSocket
CLOSE_S = 1.0  # for the farewell of the other end
_MORE, _LAST = b"\0", b"\1"

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class WebSocketWire:
    """One end of a WebSocket. A frame goes in pieces, between which signs of life find room.

    The first byte of a piece says whether it is the last one of its frame.
    """

    def __init__(self, socket: Socket, known: Callable[[], None] = lambda: None) -> None:
        """Take the socket; `known` is called once the other end is."""
        self._socket = socket
        self._known = known

    async def send(self, frame: bytes) -> None:
        """Send a frame. Raises `WireBroken`."""
        start = 0
        while len(frame) - start > PIECE:
            await self._send(_MORE + frame[start : start + PIECE])
            start += PIECE
        await self._send(_LAST + frame[start:])

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame. Raises `WireBroken`."""
        piece = await self._piece()
        pieces, size = [piece[1:]], len(piece)
        while piece[:1] == _MORE and size <= most:
            piece = await self._piece()
            pieces.append(piece[1:])
            size += len(piece)
        if size > most + len(pieces):
            raise WireBroken(too_long(most))
        return b"".join(pieces)

    def known(self) -> None:
        """Record that the other end has proven who it is."""
        self._known()

    async def close(self) -> None:
        """End the connection."""
        await self._socket.close()

    async def _send(self, piece: bytes) -> None:
        try:
            await self._socket.send_bytes(piece)
        except (ConnectionError, aiohttp.ClientError, RuntimeError) as error:
            raise WireBroken(str(error)) from None

    async def _piece(self) -> bytes:
        try:
            message = await self._socket.receive()
        except (ConnectionError, aiohttp.ClientError) as error:  # it answers pings by itself
            raise WireBroken(str(error)) from None
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise WireBroken(f"the connection was closed ({message.type.name.lower()})")
        data: bytes = message.data
        return data


@asynccontextmanager
async def listening(
    serve: Callable[[Wire], Awaitable[None]], host: str, port: int, *, heartbeat_s: float
) -> AsyncIterator[int]:
    """Serve other processes at an address; provide the port. Raises `OSError` if it is taken."""
    served: set[asyncio.Task[None]] = set()

    async def handle(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse(
            heartbeat=heartbeat_s, max_msg_size=2 * PIECE, timeout=CLOSE_S, compress=False
        )
        await answer.prepare(request)
        if request.transport is not None:
            _keep_short(request.transport.get_extra_info("socket"))
        serving = asyncio.ensure_future(serve(WebSocketWire(answer, partial(_name, request))))
        served.add(serving)
        try:
            await asyncio.wait({serving})
        finally:
            serving.cancel()
            served.discard(serving)
        return answer

    app = web.Application()
    app.router.add_get(PATH, handle)
    listener = Listener(app, silent_s=SILENT_S, cancels=True)
    try:
        yield await listener.open(host, port)
    finally:
        for each in served:
            each.cancel()
        await listener.close()


def _keep_short(connection: TransportSocket | None) -> None:
    """Let little wait in the system for being sent, where it can be told so."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if connection is not None and option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, PIECE)


def _name(request: web.Request) -> None:
    """Keep strangers from taking the place of a process that is served."""
    if (name := request.get(NAME)) is not None:
        name("a process")


@asynccontextmanager
async def calling(*, heartbeat_s: float) -> AsyncIterator[Callable[[str], Awaitable[Wire]]]:
    """Provide a way to connect to addresses such as `10.0.0.7:8123`; it raises `WireBroken`."""
    limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_connect=CONNECT_S)
    async with aiohttp.ClientSession(timeout=limits, trust_env=False) as session:

        async def call(address: str) -> Wire:
            try:
                async with timeout(2 * CONNECT_S):
                    opened = await session.ws_connect(
                        f"http://{address}{PATH}",
                        heartbeat=heartbeat_s,
                        max_msg_size=2 * PIECE,
                        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
                    )
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                raise WireBroken(f"{address}: {error or 'no answer in time'}") from None
            _keep_short(opened.get_extra_info("socket"))
            return WebSocketWire(opened)

        yield call
