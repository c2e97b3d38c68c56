"""Fake command handlers: each keeps every call until the test takes it, and the test answers."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bot.commands.call.parser import words_in
from bot.core.arrivals import Arrival, Arrivals
from bot.core.asker import Asker
from bot.core.command import Command, Param, ParamKind
from bot.core.panels import HistoryPanel, Panel
from bot.core.platform import Invocation
from bot.core.refusals import Declined, Refusal
from bot.people.people import LanguageTold

COMMANDS = (
    Command(
        name="image",
        help="command.image",
        params=(
            Param(name="model", kind=ParamKind.MODEL, help="param.model", positional=True),
            Param(
                name="prompt",
                kind=ParamKind.TEXT,
                help="param.prompt",
                positional=True,
                required=True,
            ),
            Param(name="size", kind=ParamKind.SIZE, help="param.size"),
            Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=200),
            Param(name="style", kind=ParamKind.STYLE, help="param.style"),
        ),
    ),
    Command(
        name="ask",
        help="command.ask",
        params=(
            Param(name="model", kind=ParamKind.MODEL, help="param.model", positional=True),
            Param(name="prompt", kind=ParamKind.TEXT, help="param.prompt", positional=True),
        ),
        prose=True,
    ),
    Command(name="queue", help="command.queue"),
    Command(
        name="forget",
        help="command.forget",
        params=(
            Param(
                name="what",
                kind=ParamKind.CHOICE,
                help="param.what",
                positional=True,
                required=True,
                choices=("conversation", "me"),
            ),
        ),
    ),
    Command(name="preload", help="command.preload", admin=True),
    Command(name="again", help="command.again", hidden=True),
)


class ScriptedHandler:
    """Implements `CommandHandler`.

    `taken` gives the calls in their order, `held` makes them wait first.

    If it `declines`, no panel can be read.
    """

    def __init__(self, commands: Sequence[Command] = COMMANDS) -> None:
        self.commands = commands
        self.models = ["flux", "flux-fast", "sdxl"]
        self.keys: list[str] = []
        self.languages: dict[str, str] = {}
        self.open = asyncio.Event()
        self.open.set()
        self._calls: asyncio.Queue[Invocation] = asyncio.Queue()
        self._arrivals = Arrivals()
        self._hearers: set[LanguageTold] = set()
        self.answers: list[str] = []
        self.read: list[Invocation] = []
        self.declines: Refusal | None = None

    def arrived(self, user: str, chat: str) -> Arrival:
        return self._arrivals.take(user, chat)

    async def call(self, invocation: Invocation) -> None:
        self.keys.append(invocation.key)
        await self._calls.put(invocation)
        await self.open.wait()

    async def taken(self) -> Invocation:
        async with asyncio.timeout(60):
            return await self._calls.get()

    async def panel(self, invocation: Invocation) -> Panel:
        if self.declines is not None:
            raise Declined(self.declines)
        self.read.append(invocation)
        return HistoryPanel(jobs=(), before=None)

    async def language_of(self, user: str) -> str | None:
        return self.languages.get(user)

    @contextmanager
    def telling_languages(self, hearer: LanguageTold) -> Iterator[None]:
        self._hearers.add(hearer)
        yield
        self._hearers.discard(hearer)

    def answered(self, platform: str) -> None:
        self.answers.append(platform)

    def choose(self, user: str, language: str | None) -> None:
        """Let a person choose a language, or leave it to the page (None)."""
        self.languages.pop(user, None)
        if language is not None:
            self.languages[user] = language
        for hearer in self._hearers:
            hearer(user, language)

    def words_of(self, command: str, text: str) -> str:
        known = next((each for each in self.commands if each.name == command), None)
        return text if known is None else words_in(known, text, self.models.__contains__)

    def suggest(self, param: Param, typed: str, asker: Asker) -> Sequence[str]:
        values = ["noir", "sketch"] if param.kind is ParamKind.STYLE else self.models
        return [value for value in values if value.startswith(typed)]
