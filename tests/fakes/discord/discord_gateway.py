"""The fake Discord's gateway: one WebSocket that greets, identifies, beats and delivers events."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.discord.discord_json import Json

AUTHENTICATION_FAILED = 4004
INVALID_SHARD = 4010
SHARDING_REQUIRED = 4011
DISALLOWED_INTENTS = 4014
PRIVILEGED = (1 << 1) | (1 << 8) | (1 << 15)
HEARTBEAT_MS = 41_250
LISTENS = {2: "identify", 6: "resume"}

Shard = tuple[int, int]  # its number, and of how many


class Gateway:
    """Speaks gateway protocol version 10 with any number of bots, uncompressed.

    An event reaches the sessions of the shard its server belongs to; direct messages, the first.
    """

    def __init__(self, token: str, on_change: Callable[[], None]) -> None:
        self.token = token
        self._on_change = on_change
        self.url = ""
        # READY and what follows, for one of so many connections
        self.ready_events: Callable[[list[int]], list[tuple[str, Json]]] = lambda _shard: []
        self.too_few: int | None = None  # connections that are closed for being too few
        self.identified: list[Json] = []
        self.resumed = 0
        self.connected = asyncio.Event()
        self.called_from: Callable[[str, str], None] = lambda _address, _what: None
        self.identify_every_s = 0.0  # a session that begins sooner after another is ended at once
        self.ended_at_once = 0
        self.ended: list[int | None] = []  # sessions, with which code
        self.deaf = False  # whether their ends remain unconfirmed
        self._identified_at = float("-inf")
        self._sockets: dict[web.WebSocketResponse, Shard] = {}
        self._sequence = 0

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoclose=not self.deaf)
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": HEARTBEAT_MS}})
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                received = json.loads(frame.data)
                if received["op"] in LISTENS:
                    self.called_from(request.remote or "", LISTENS[received["op"]])
                await self._receive(socket, received, f"ws://{request.host}/gateway")
        self._sockets.pop(socket, None)
        if not self._sockets:
            self.connected.clear()
        self.ended.append(socket.close_code)
        self._on_change()
        if self.deaf:
            await asyncio.Event().wait()
        return socket

    async def _receive(self, socket: web.WebSocketResponse, frame: Json, here: str) -> None:
        match frame["op"]:
            case 1:
                await socket.send_json({"op": 11})
            case 2:
                await self._identify(socket, frame["d"], here)
            case 6:
                self.resumed += 1
                _, number, of = frame["d"]["session_id"].split("-")
                self._open(socket, (int(number), int(of)))
                await self._event(socket, "RESUMED", {})
            case _:
                pass

    async def _identify(self, socket: web.WebSocketResponse, body: Json, here: str) -> None:
        self.identified.append(body)
        if body["token"] != self.token:
            await socket.close(code=AUTHENTICATION_FAILED)
            return
        if body["intents"] & PRIVILEGED:
            await socket.close(code=DISALLOWED_INTENTS)
            return
        shard = body.get("shard", [0, 1])
        if not 0 <= shard[0] < shard[1]:
            await socket.close(code=INVALID_SHARD)
            return
        if self.too_few is not None and shard[1] <= self.too_few:
            await socket.close(code=SHARDING_REQUIRED)
            return
        now = asyncio.get_running_loop().time()
        if now - self._identified_at < self.identify_every_s:
            self.ended_at_once += 1
            self._on_change()
            await socket.send_json({"op": 9, "d": False})
            return
        self._identified_at = now
        for name, data in self.ready_events(shard):
            told = data | {"resume_gateway_url": here} if name == "READY" else data
            await self._event(socket, name, told)
        self._open(socket, (shard[0], shard[1]))

    def _open(self, socket: web.WebSocketResponse, shard: Shard) -> None:
        self._sockets.pop(socket, None)
        self._sockets[socket] = shard
        self.connected.set()
        self._on_change()

    async def _event(self, socket: web.WebSocketResponse, name: str, data: Json) -> None:
        self._sequence += 1
        await socket.send_json({"op": 0, "t": name, "s": self._sequence, "d": data})

    @property
    def shards(self) -> list[Shard]:
        """The shards of all open sessions, in the order in which they began."""
        return list(self._sockets.values())

    async def deliver(self, name: str, data: Any) -> None:
        """Send an event to the bot.

        Raises if none is connected, as people would then see an error.
        """
        guild = int(data.get("guild_id") or 0)
        hearing = [
            socket for socket, (number, of) in self._sockets.items() if (guild >> 22) % of == number
        ]
        if not hearing:
            raise ConnectionError("no bot is connected to the fake gateway")
        for socket in hearing:
            with suppress(ConnectionError):  # its process has just ended
                await self._event(socket, name, data)

    async def disconnect(self, code: int = 4000) -> None:
        """Close every connection, as Discord does now and then."""
        for socket in list(self._sockets):
            await socket.close(code=code)
