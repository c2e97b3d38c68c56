"""A web chat on a loopback port, and a client that speaks to it as the page does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any
from uuid import uuid4

import aiohttp
from PIL import Image

from bot.platforms.web.platform import Web
from queueing.core.requests import File
from tests.fakes.command_handler import ScriptedHandler

WAIT_S = 60.0


@asynccontextmanager
async def running(web: Web, handler: ScriptedHandler) -> AsyncIterator[Web]:
    """Run a web chat until the block ends."""
    task = asyncio.create_task(web.run(handler))
    try:
        async with asyncio.timeout(WAIT_S):
            await web.connected.wait()
        yield web
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Tab:
    """One open page, as the server sees it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.number = 0
        self.log = ""
        self.unread: list[dict[str, Any]] = []

    async def hello(self, log: str = "", since: int = 0) -> dict[str, Any]:
        """Open the conversation and return the welcome."""
        await self.send(type="hello", log=log, since=since)
        welcome = await self.next("welcome")
        self.log = welcome["log"]
        return welcome

    async def send(self, **message: Any) -> None:
        """Send a message."""
        await self.socket.send_json(message)

    async def say(self, text: str, key: str | None = None, **more: Any) -> str:
        """Send a message and return its key."""
        key = key or uuid4().hex
        await self.send(type="say", key=key, text=text, **more)
        return key

    async def next(self, kind: str) -> dict[str, Any]:
        """Return the next message of that type; others are kept for later."""
        for kept in self.unread:
            if kept["type"] == kind:
                self.unread.remove(kept)
                return kept
        async with asyncio.timeout(WAIT_S):
            while True:
                message: dict[str, Any] = await self.socket.receive_json()
                for entry in message.get("entries", ()):
                    self.number = max(self.number, entry["number"])
                if message["type"] == kind:
                    return message
                self.unread.append(message)

    async def entry(self, text: str) -> dict[str, Any]:
        """Return the next message entry whose text contains that."""
        while True:
            for entry in (await self.next("messages"))["entries"]:
                if text in text_of(entry):
                    return dict(entry)


def text_of(entry: dict[str, Any]) -> str:
    """Return the text an entry shows."""
    parts = entry["shown"]["body"] if entry["shown"] else ()
    return "".join(part.get("text", "<moment>") for part in parts)


@asynccontextmanager
async def tab(web: Web, *, greet: bool = True, cookie: str | None = None) -> AsyncIterator[Tab]:
    """Open a page's WebSocket."""
    async with opened(web.url, cookie=cookie) as page:
        if greet:
            await page.hello()
            await page.next("messages")
        yield page


@asynccontextmanager
async def opened(url: str, *, cookie: str | None = None) -> AsyncIterator[Tab]:
    """Open the WebSocket of the page at an address, without a greeting."""
    origin = url.rstrip("/")
    headers = {"Cookie": f"usher={cookie}"} if cookie else {}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}socket", origin=origin, headers=headers) as socket,
    ):
        yield Tab(socket)


async def uploaded(web: Web, data: bytes, name: str, mime: str) -> str:
    """Upload a file as the page does and return its id."""
    headers = {"Origin": web.url.rstrip("/"), "X-File-Name": name, "Content-Type": mime}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{web.url}upload", data=data, headers=headers) as answer,
    ):
        assert answer.status == 200
        return str((await answer.json())["id"])


def image(name: str = "cat.png", size: tuple[int, int] = (64, 48), shade: int = 90) -> File:
    """Return a small PNG."""
    data = BytesIO()
    Image.new("RGB", size, (shade, 120, 200)).save(data, "PNG")
    return File(name=name, mime="image/png", data=data.getvalue())
