"""Transports frames between processes, in order: over WebSockets, or within one process."""

import asyncio
import logging
import socket
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import aiohttp
from aiohttp import web

from bot.http.listener import NAME, Listener
from queueing.core.concurrency import timeout

FRAME_LIMIT = 512_000_000  # bytes; a call carries the files of one request

BODY_LIMIT = FRAME_LIMIT - 1000  # a frame's head is some tens of bytes


class WireBroken(Exception):
    """Raised when a connection has ended. Frames under way may or may not have arrived."""


class Wire(Protocol):
    """One end of a connection."""

    async def send(self, frame: bytes) -> None:
        """Send a frame, waiting while the other end is slow. One at a time. Raises `WireBroken`."""

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame.

        Raises `WireBroken` at the end, or if a frame exceeds `most` bytes.
        """

    def known(self) -> None:
        """Record that the other end is authenticated, so it is not an unknown visitor."""

    async def close(self) -> None:
        """Close the connection. Idempotent."""


def too_long(most: int) -> str:
    """Return the reason for rejecting a frame."""
    return f"a frame of more than {most} bytes"


_ENDED = "the connection has ended"


class MemoryWire:
    """One end of a connection within the process. Frames sent before closing still arrive."""

    def __init__(self, arriving: "_Lane", leaving: "_Lane") -> None:
        self._arriving = arriving
        self._leaving = leaving

    @classmethod
    def pair(cls) -> "tuple[MemoryWire, MemoryWire]":
        """Create both ends of a wire."""
        one, other = _Lane(), _Lane()
        return cls(one, other), cls(other, one)

    async def send(self, frame: bytes) -> None:
        """Send a frame to the other end. Raises `WireBroken`."""
        self._leaving.put(frame)

    async def receive(self, most: int = FRAME_LIMIT) -> bytes:
        """Return the next frame. Raises `WireBroken`."""
        frame = await self._arriving.next()
        if len(frame) > most:
            raise WireBroken(too_long(most))
        return frame

    def known(self) -> None:
        """Do nothing: both ends are in this process."""

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self.cut()

    def cut(self) -> None:
        """Close the connection at once. Frames sent afterwards do not arrive."""
        self._arriving.end()
        self._leaving.end()


class _Lane:
    """The frames that are under way to one end."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended = False

    def put(self, frame: bytes) -> None:
        if self._ended:
            raise WireBroken(_ENDED)
        self._frames.put_nowait(frame)

    async def next(self) -> bytes:
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)  # so that the next reader also sees the end
            raise WireBroken(_ENDED)
        return frame

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._frames.put_nowait(None)


log = logging.getLogger(__name__)

PATH = "/queue"
PIECE = 64 * 1024
"""Bytes sent at once. On a slow network, pings must not wait for a whole frame."""
CONNECT_S = 3.0
SILENT_S = 5.0  # until a connection has become a WebSocket
CLOSE_S = 1.0  # for the other end's closing handshake
_MORE, _LAST = b"\0", b"\1"

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class WebSocketWire:
    """One end of a WebSocket. Frames are sent in pieces, so that pings fit in between.

    The first byte of a piece says whether it is the last one of its frame.
    """

    def __init__(self, socket: Socket, known: Callable[[], None] = lambda: None) -> None:
        """Wrap a socket. `known` is called once the other end is authenticated."""
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
        """Record that the other end is authenticated."""
        self._known()

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()

    async def _send(self, piece: bytes) -> None:
        try:
            await self._socket.send_bytes(piece)
        except (ConnectionError, aiohttp.ClientError, RuntimeError) as error:
            raise WireBroken(str(error)) from None

    async def _piece(self) -> bytes:
        try:
            message = await self._socket.receive()
        except (ConnectionError, aiohttp.ClientError) as error:  # when it answers a ping
            raise WireBroken(str(error)) from None
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise WireBroken(f"the connection was closed ({message.type.name.lower()})")
        data: bytes = message.data
        return data


@asynccontextmanager
async def listening(
    serve: Callable[[Wire], Awaitable[None]], host: str, port: int, *, heartbeat_s: float
) -> AsyncIterator[int]:
    """Serve other processes at an address. Provides the port. Raises `OSError` if it is taken."""
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
    """Limit the system's send buffer, where possible."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if connection is not None and option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, PIECE)


def _name(request: web.Request) -> None:
    """Mark a connection as known, so that unknown visitors do not displace it."""
    if (name := request.get(NAME)) is not None:
        name("a process")


@asynccontextmanager
async def calling(*, heartbeat_s: float) -> AsyncIterator[Callable[[str], Awaitable[Wire]]]:
    """Provide a function that connects to addresses such as `10.0.0.7:8123`.

    It raises `WireBroken`.
    """
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
