"""An open page of the web chat without a browser.

It does over HTTP what `bot/platforms/web/page/connection.js` does: it signs in by a link,
reconnects by itself, asks for what it missed, and sends its person's messages one after the other
until each is confirmed. Now and then it is reloaded: then it only keeps what is still to be sent.
"""

import asyncio
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from random import Random
from typing import Any

import aiohttp

CONFIRM_S = 10.0
RETRY_LEAST_S = 0.4
RETRY_MOST_S = 8.0
TOO_FAST_S = 2.0
IMAGE_AGAIN_S = 2.0
RELOADS = 0.3  # of the times that its connection broke
IMPATIENT_S = 1.5  # without a connection: then its person reloads it

Entry = dict[str, Any]
"""A message as a page gets it: its id, its number and place, and what it shows."""


class Page:
    """A person's open page; `token` returns that of their link, or None while they have none.

    `entries` are the messages it shows, `files` the images it has received, `jobs` those whose
    buttons a message ever had, `refused` the reasons by key.
    """

    def __init__(self, url: str, token: Callable[[], str | None], random: Random) -> None:
        self.entries: dict[str, Entry] = {}
        self.files: dict[str, bytes] = {}
        self.jobs: dict[str, int] = {}
        self.outbox: list[dict[str, Any]] = []
        self.refused: dict[str, str] = {}
        self._url = url
        self._token = token
        self._random = random
        self._log, self._number, self._first, self._whole = "", 0, math.inf, False
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._confirm: asyncio.TimerHandle | None = None
        self._fetching: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_settled(self) -> bool:
        """Return whether it is connected, its messages are confirmed, and its images came."""
        return bool(self._socket and self._whole and not self.outbox and not self._missing())

    # ------------------------------------------------------------ what its person does

    def say(self, text: str) -> str:
        """Send a message; return its key."""
        return self._deliver({"type": "say", "text": text, "uploads": [], "reply_to": None})

    def press(self, message: str, button: dict[str, Any]) -> str:
        """Press a button of a message; return the key."""
        what = {name: button[name] for name in ("command", "job", "number")}
        return self._deliver({"type": "press", "message": message, **what})

    def _deliver(self, message: dict[str, Any]) -> str:
        key = secrets.token_hex(16)
        self.outbox.append(message | {"key": key})
        if len(self.outbox) == 1:
            self._flush()
        return key

    def _reload(self) -> None:
        self._log, self._number, self._first, self._whole = "", 0, math.inf, False
        self.entries.clear()

    # ------------------------------------------------------------ its connection

    async def run(self) -> None:
        """Keep it open until cancelled."""
        delay, away = RETRY_LEAST_S, 0.0
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            while True:
                with suppress(aiohttp.ClientError, TimeoutError):
                    if await self._connect(session):
                        delay, away = RETRY_LEAST_S, 0.0
                pause = delay * self._random.uniform(0.5, 1.0)
                delay, away = min(delay * 2, RETRY_MOST_S), away + pause
                if away > IMPATIENT_S or self._random.random() < RELOADS:
                    self._reload()
                    delay, away = RETRY_LEAST_S, 0.0
                await asyncio.sleep(pause)

    async def _connect(self, session: aiohttp.ClientSession) -> bool:
        """Connect, and follow until the connection ends; return whether there was one."""
        token = self._token()
        if token is None:
            return False
        async with session.get(f"{self._url}?token={token}", allow_redirects=False):
            pass
        origin = self._url.rstrip("/")
        async with session.ws_connect(f"{self._url}socket", origin=origin) as socket:
            await socket.send_json({"type": "hello", "log": self._log, "since": self._number})
            try:
                return await self._follow(socket, session)
            finally:
                self._socket = None
                self._watch()

    async def _follow(
        self, socket: aiohttp.ClientWebSocketResponse, session: aiohttp.ClientSession
    ) -> bool:
        while True:
            frame = await socket.receive()
            if frame.type is not aiohttp.WSMsgType.TEXT:
                return self._socket is not None
            self._take(json.loads(frame.data), socket)
            for file in set(self._missing()) - self._fetching:
                self._begin(self._fetch(session, file))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ what comes

    def _take(self, message: dict[str, Any], socket: aiohttp.ClientWebSocketResponse) -> None:
        match message["type"]:
            case "welcome":
                if message["fresh"]:
                    self._reload()
                self._log, self._socket = message["log"], socket
                self._flush()
            case "messages":
                self._apply(message)
            case "earlier":
                self._earlier(message)
            case "taken":
                self._settle(message["key"])
            case "refused" if message["reason"] == "too-fast":
                asyncio.get_running_loop().call_later(TOO_FAST_S, self._flush)
            case "refused":
                self.refused[message["key"]] = message["reason"]
                self._settle(message["key"])

    def _apply(self, message: dict[str, Any]) -> None:
        entries = message["entries"]
        self._number = max([self._number, *(entry["number"] for entry in entries)])
        if message["fresh"]:
            self.entries.clear()
            self._first = math.inf
            self._earlier(message)
            return
        if self._first == math.inf:
            self._first = min((entry["place"] for entry in entries), default=math.inf)
        self._show(entry for entry in entries if entry["place"] >= self._first)

    def _earlier(self, message: dict[str, Any]) -> None:
        """Show what came, and read back to the start: everything counts."""
        self._first = min([self._first, *(entry["place"] for entry in message["entries"])])
        self._show(message["entries"])
        self._whole = not message["more"]
        if message["more"]:
            self._write({"type": "earlier", "before": self._first})

    def _show(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            known = self.entries.get(entry["message"])
            if known is not None and known["number"] >= entry["number"]:
                continue
            if entry["shown"] is None:
                self.entries.pop(entry["message"], None)
                continue
            self.entries.setdefault(entry["message"], {}).update(entry)
            for button in (each for row in entry["shown"]["buttons"] for each in row):
                self.jobs[entry["message"]] = button["job"]

    # ------------------------------------------------------------ what goes

    def _settle(self, key: str) -> None:
        self.outbox = [message for message in self.outbox if message["key"] != key]
        self._flush()

    def _flush(self) -> None:
        """Send the first unsent message; the next follows when it is confirmed."""
        if self.outbox:
            self._write(self.outbox[0])
        self._watch()

    def _watch(self) -> None:
        """Regard a connection as dead that confirms nothing for a while."""
        if self._confirm is not None:
            self._confirm.cancel()
            self._confirm = None
        if self._socket is not None and self.outbox:
            loop = asyncio.get_running_loop()
            self._confirm = loop.call_later(CONFIRM_S, self._give_up, self._socket)

    def _give_up(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async def close() -> None:
            await socket.close()

        self._begin(close())

    def _write(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            self._begin(self._send(self._socket, message))

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, message: dict[str, Any]) -> None:
        with suppress(ConnectionError):  # it is sent again with the next connection
            await socket.send_json(message)

    # ------------------------------------------------------------ images

    def _missing(self) -> list[str]:
        files = (file for entry in self.entries.values() for file in entry["shown"]["files"])
        return [file["id"] for file in files if file["id"] not in self.files]

    async def _fetch(self, session: aiohttp.ClientSession, file: str) -> None:
        """Fetch an image, for as long as it is shown."""
        self._fetching.add(file)
        while file in self._missing():
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(f"{self._url}files/{file}") as answer:
                    if answer.status == 200:
                        self.files[file] = await answer.read()
                        break
            await asyncio.sleep(IMAGE_AGAIN_S)
        self._fetching.discard(file)
