"""A Discord on loopback: a gateway and a REST API for real discord.py, and people who use the bot.

    async with FakeDiscord() as fake:
        call = await fake.person(7).slash("image", model="flux", prompt="cat")
        await fake.wait_for(lambda: call.answer)
        assert fake.channel().messages[0].shown == "…"

Leaving the block fails when a request or an answer did not fit Discord's own API document.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import discord.gateway
import discord.http
import yarl
from aiohttp import web

from tests.fakes.discord import discord_json as shapes
from tests.fakes.discord.discord_gateway import Gateway
from tests.fakes.discord.discord_people import Person
from tests.fakes.discord.discord_rest import Rest
from tests.fakes.discord.discord_state import (
    APPLICATION_ID,
    GUILD_ID,
    Channel,
    FakeFile,
    FakeMessage,
    Fault,
    Ids,
    Limits,
    transcript,
)
from tests.fakes.ports import port_of

TOKEN = "fake.discord.token-that-must-never-be-logged"
GENERAL = 100  # the server's first channel

T = TypeVar("T")


@contextmanager
def discord_at(url: str) -> Iterator[None]:
    """Point discord.py at a server, given as "http://host:port", and back afterwards."""
    route, socket = discord.http.Route, discord.gateway.DiscordWebSocket
    base, gateway = route.BASE, socket.DEFAULT_GATEWAY
    route.BASE = f"{url}/api/v10"
    socket.DEFAULT_GATEWAY = yarl.URL(f"{url}/gateway".replace("http", "ws", 1))
    try:
        yield
    finally:
        route.BASE, socket.DEFAULT_GATEWAY = base, gateway


class FakeDiscord:
    """One Discord with one server ("guild") and one bot.

    `limits` enforces Discord's limits and counts refusals in `limits.refused`; with
    `announce_limits` answers also carry the headers that make discord.py wait in advance.
    `later(s)` lets time pass for Discord only. `check_specs=False` saves time in benchmarks.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        announce_limits: bool = False,
        check_specs: bool = True,
        token: str = TOKEN,
    ) -> None:
        self.token = token
        self.url = ""
        self.limits = limits
        self._offset_s = 0.0
        self.ids = Ids(self.now)
        self.gateway = Gateway(token, self._notify)
        self.rest = Rest(
            token=token,
            now=self.now,
            ids=self.ids,
            limits=limits,
            announce_limits=announce_limits,
            check_specs=check_specs,
            on_change=self._notify,
            roles=lambda person: self._people[person].roles,
        )
        self._people: dict[int, Person] = {}
        self.permissions: dict[int, int] = {}  # of roles; before the bot connects
        self._files: dict[int, FakeFile] = {}
        self._changed = asyncio.Event()
        self.add_channel(GENERAL)

    # ------------------------------------------------------------ what is there

    def now(self) -> float:
        return time.time() + self._offset_s

    def later(self, seconds: float) -> None:
        """Let this much time pass on Discord's side: time limits end, messages age."""
        self._offset_s += seconds

    def add_channel(
        self,
        channel_id: int,
        *,
        thread: bool = False,
        parent: int | None = None,
        forum: bool = False,
        told: bool = True,
        guild: int = GUILD_ID,
    ) -> Channel:
        """Make a channel of the server; before the bot connects, so that the bot is told of it.

        `parent` is a channel's category, or a thread's channel (the general one). The bot is never
        told of a channel in another `guild`.
        """
        if thread and parent is None:
            parent = GENERAL
        told = told and guild == GUILD_ID
        channel = Channel(
            id=channel_id, thread=thread, parent=parent, forum=forum, told=told, guild=guild
        )
        self.rest.channels[channel_id] = channel
        return channel

    def channel(self, channel_id: int = GENERAL) -> Channel:
        return self.rest.channels[channel_id]

    def person(self, person_id: int, name: str = "", *, locale: str = "en-US") -> Person:
        """Return the person with that id, created at first use."""
        if person_id not in self._people:
            self._people[person_id] = Person(
                fake=self, id=person_id, name=name or f"Person{person_id}", locale=locale
            )
            self.rest.members[person_id] = self._people[person_id].name
        return self._people[person_id]

    def message(self, message_id: int | str) -> FakeMessage | None:
        """Return a message of any channel, or None if it is gone."""
        found = (each.find(int(message_id)) for each in self.rest.channels.values())
        return next((each for each in found if each is not None), None)

    def keep_file(self, file: FakeFile) -> FakeFile:
        self._files[file.id] = file
        return file

    def forget_file(self, file: FakeFile) -> None:
        """Let a file's signed address expire."""
        del self._files[file.id]

    # ------------------------------------------------------------ what goes wrong

    def fail(self, method: str, path: str, **how: Any) -> None:
        """Answer the next matching requests with a fault; `path` may contain "*" for one segment.

        `how` is `Fault`'s fields: status, code, times, retry_after, acting, drop, page.
        """
        pattern = re.compile(re.escape(path).replace(r"\*", "[^/]+"))
        self.rest.faults.append(Fault(method=method, path=pattern, **how))

    def kick(self) -> None:
        """Remove the bot from the server."""
        for channel in self.rest.channels.values():
            if channel.owner is None:
                channel.refusal = (403, 50001)

    # ------------------------------------------------------------ waiting

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(self, condition: Callable[[], T], *, timeout_s: float = 240.0) -> T:
        """Return the first true value of a condition; fails with all channels' texts."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (value := condition()):
                    await self._changed.wait()
                return value
        except TimeoutError:
            shown = transcript(iter(self.rest.channels.values()))
            raise AssertionError(f"nothing of that kind happened:\n{shown}") from None

    async def connected(self) -> None:
        """Wait until the bot receives events."""
        await asyncio.wait_for(self.gateway.connected.wait(), 60)

    # ------------------------------------------------------------ up and down

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/gateway/", self.gateway.handle)
        app.router.add_get("/gateway", self.gateway.handle)
        app.router.add_get("/attachments/{id}/{name}", self._serve_file)
        app.router.add_route("*", "/api/v10/{path:.*}", self.rest.handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port_of(self))
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self.rest.base_url = self.url
        self.gateway.ready_events = self._ready_events
        self._pointed = discord_at(self.url)
        self._pointed.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pointed.__exit__(None, None, None)
        await self.gateway.disconnect(1000)
        await self._runner.cleanup()
        if error is None and self.rest.mismatches:
            raise AssertionError("\n".join(self.rest.mismatches))

    def _ready_events(self, shard: list[int]) -> list[tuple[str, shapes.Json]]:
        number, of = shard
        here = (GUILD_ID >> 22) % of == number
        told = [each for each in self.rest.channels.values() if each.owner is None and each.told]
        channels = [shapes.channel(each) for each in told if not each.thread]
        threads = [shapes.channel(each) for each in told if each.thread and not each.archived]
        roles = {role for person in self._people.values() for role in person.roles}
        shown_roles = [shapes.role(each, self.permissions.get(each, 0)) for each in sorted(roles)]
        ready = {
            "v": 10,
            "user": shapes.me(),
            "guilds": [{"id": str(GUILD_ID), "unavailable": True}] if here else [],
            "session_id": f"session-{number}-{of}",
            "application": {"id": str(APPLICATION_ID), "flags": 0},
            "private_channels": [],
            "shard": shard,
        }
        shown = shapes.guild(channels, threads, shown_roles, self.rest.tier)
        guild = [("GUILD_CREATE", shown)] if here else []
        return [("READY", ready), *guild]

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        number = int(request.match_info["id"])
        sent = [
            file
            for channel in self.rest.channels.values()
            for message in channel.all_messages
            for file in message.files
        ]
        files = self._files | {file.id: file for file in sent}
        if number not in files:
            return web.Response(status=404)
        file = files[number]
        if file.until is not None:
            await file.until.wait()
        if file.moved_to is not None:
            raise web.HTTPFound(file.moved_to)
        return web.Response(body=file.data, content_type=file.mime)
