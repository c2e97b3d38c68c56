"""Shared by the Discord tests: a command table, a handler that records calls, a running bot."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from bot.core.arrivals import Arrival, Arrivals
from bot.core.asker import Asker
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content
from bot.core.panels import Panel
from bot.core.platform import ChatPlatform, Invocation
from bot.people.people import LanguageTold
from bot.platforms.discord.platform import Discord
from tests.fakes.discord.discord import FakeDiscord

COMMANDS = (
    Command(
        name="image",
        help="help.image",
        topic=Topic.MAKE,
        params=(
            Param(name="model", kind=ParamKind.MODEL, help="param.model", positional=True),
            Param(name="prompt", kind=ParamKind.TEXT, help="param.prompt", required=True),
            Param(name="size", kind=ParamKind.SIZE, help="param.size"),
            Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=50),
            Param(name="seed", kind=ParamKind.WHOLE, help="param.seed", least=0, most=2**64 - 1),
            Param(name="guidance", kind=ParamKind.DECIMAL, help="param.guidance", least=0, most=30),
            Param(name="style", kind=ParamKind.CHOICE, help="param.style", choices=("oil", "ink")),
            Param(name="no-enhance", kind=ParamKind.FLAG, help="param.raw"),
            Param(name="image", kind=ParamKind.IMAGE, help="param.image"),
        ),
    ),
    Command(
        name="cancel",
        help="help.cancel",
        params=(Param(name="id", kind=ParamKind.JOB, help="param.job"),),
    ),
    Command(name="queue", help="help.queue"),
    Command(
        name="preload",
        help="help.preload",
        admin=True,
        params=(
            Param(name="model", kind=ParamKind.MODEL, help="param.model", required=True),
            Param(name="host", kind=ParamKind.HOST, help="param.host"),
        ),
    ),
    Command(name="retry", help="help.retry", hidden=True),
)


def says(*parts: str) -> Content:
    return Content(body=parts)


@dataclass
class RecordingHandler:
    """A handler that records every call and then does what the test wants."""

    commands: Sequence[Command] = COMMANDS
    then: Callable[[Invocation], Awaitable[None]] | None = None
    calls: list[Invocation] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    models: Sequence[str] = ("flux", "sdxl", "gemma")
    _called: asyncio.Event = field(default_factory=asyncio.Event)
    _arrivals: Arrivals = field(default_factory=Arrivals)

    def arrived(self, user: str, chat: str) -> Arrival:
        return self._arrivals.take(user, chat)

    async def call(self, invocation: Invocation) -> None:
        self.calls.append(invocation)
        self._called.set()
        if self.then is not None:
            await self.then(invocation)

    async def panel(self, invocation: Invocation) -> Panel:
        raise NotImplementedError

    async def language_of(self, user: str) -> str | None:
        return None

    def telling_languages(self, hearer: LanguageTold) -> AbstractContextManager[None]:
        return nullcontext()

    def answered(self, platform: str) -> None:
        self.answers.append(platform)

    def words_of(self, command: str, text: str) -> str:
        return text

    def suggest(self, param: Param, typed: str, asker: Asker) -> Sequence[str]:
        return [name for name in self.models if name.startswith(typed)]

    async def called(self, times: int = 1) -> Invocation:
        """Wait for this many calls in all and return the newest."""
        async with asyncio.timeout(60):
            while len(self.calls) < times:
                self._called.clear()
                await self._called.wait()
        return self.calls[-1]


@dataclass
class NotesInMemory:
    """The notes a bot keeps across restarts."""

    kept: dict[str, str] = field(default_factory=dict)

    async def noted(self, name: str) -> str | None:
        return self.kept.get(name)

    async def note_first(self, name: str, value: str) -> str:
        return self.kept.setdefault(name, value)

    async def note(self, name: str, value: str) -> None:
        self.kept[name] = value


@asynccontextmanager
async def running(
    fake: FakeDiscord, handler: RecordingHandler, platform: Discord | None = None
) -> AsyncIterator[Discord]:
    """Provide a bot that is connected to the fake, and stop it."""
    chat = platform or Discord(fake.token)
    as_everybody_sees_it: ChatPlatform = chat  # checked by mypy
    assert as_everybody_sees_it.name
    task = asyncio.create_task(chat.run(handler))
    try:
        await fake.connected()
        yield chat
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
