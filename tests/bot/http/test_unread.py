"""Visitors who do not read, or who leave abruptly, cost neither memory nor lines of the log."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from bot.api.calls.bodies import take_turn, until_sent
from bot.api.calls.errors import ApiError
from bot.http import files
from bot.http.files import DownloadSlots
from bot.http.listener import Listener
from queueing.core.jobs import stand_in
from queueing.core.requests import Chat, ChatMessage, TextToImage

BODY = 12_000_000
WAIT_S = 60.0
RESET = struct.pack("ii", 1, 0)


async def whole(_request: web.Request) -> web.Response:
    return web.Response(body=bytes(BODY))


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 1000)


async def talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.send_str("hello")
    async for _ in socket:
        pass
    return socket


@contextlib.asynccontextmanager
async def serving(unread_s: float = 0.6) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/whole", whole)
    app.router.add_get("/endless", endless)
    app.router.add_get("/socket", talk)
    listener = Listener(app, unread_s=unread_s, cancels=True)
    try:
        yield await listener.open("127.0.0.1", 0)
    finally:
        await listener.close()


def asking(port: int, path: str, more: str = "", *, window: int = 4096) -> socket.socket:
    asked = socket.socket()
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    asked.connect(("127.0.0.1", port))
    asked.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode())
    asked.setblocking(False)
    return asked


async def test_an_unread_response_is_ended_and_a_slow_reader_gets_all() -> None:
    """Unsent data would stay in memory for as long as the visitor likes."""
    loop = asyncio.get_running_loop()
    async with serving() as port, asyncio.timeout(WAIT_S):
        unread = [asking(port, path) for path in ("/whole", "/endless")]
        slow = asking(port, "/whole", window=100_000)
        got = 0
        while piece := await loop.sock_recv(slow, 1_000_000):
            got += len(piece)
            await asyncio.sleep(0.01)
            if got >= BODY:
                break
        assert got >= BODY
        await asyncio.sleep(1.0)
        assert [await rest(each) < BODY for each in unread] == [True, True]
        for each in (*unread, slow):
            each.close()


async def rest(ended: socket.socket) -> int:
    """Return how many bytes a connection delivers until its end."""
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := await asyncio.get_running_loop().sock_recv(ended, 1_000_000):
            got += len(piece)
            await asyncio.sleep(0)
    return got


HANDSHAKE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def test_who_leaves_with_a_reset_leaves_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """Strangers could fill the operator's disk through the log."""
    caplog.set_level(logging.INFO)
    async with serving() as port:
        for path, more in (("/socket", HANDSHAKE), ("/whole", ""), ("/endless", "")) * 20:
            leaving = asking(port, path, more)
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            leaving.close()
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
    assert not caplog.records


async def test_results_that_nobody_reads_are_not_all_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred calls would hold a hundred results; answers of text never wait."""
    monkeypatch.setattr(files, "WAIT_S", 0.01)
    turns = DownloadSlots(each=1)
    image = replace(stand_in(1, "flux", 0.0), request=TextToImage(prompt="a cat"))
    text = replace(image, request=Chat(messages=(ChatMessage(role="user", text="hi"),)))
    async with until_sent():
        await take_turn(turns, image)
        await take_turn(turns, text)

        async def second() -> None:
            async with until_sent():
                await take_turn(turns, image)

        with pytest.raises(ApiError) as refused:
            await asyncio.create_task(second())
        assert refused.value.code == "unread"
    async with until_sent():
        await take_turn(turns, image)
