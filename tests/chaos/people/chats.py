"""The chats of a trial: how people ask there, press Cancel, and what they see as an answer.

All have the same interface: what a chat shows is read as a person would read it. The web chat is in
`web.py`.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.platforms.discord.commands import FURTHER
from tests.fakes.discord import discord_state
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram import telegram_state
from tests.fakes.telegram.telegram import FakeTelegram

PEOPLE = 8  # on each platform
RARE = {"steps"}  # options without a field of their own on Discord
GROUP = -1001
ANSWERED_WITHIN_S = 10.0  # a call on its way for longer than this reached no one
_OF_JOB = re.compile(r"job:(\d+):.*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A message of the bot as it is now."""

    chat: str
    text: str
    images: tuple[bytes, ...]
    buttons: tuple[str, ...]
    raw: Any = field(repr=False)


@dataclass(kw_only=True, eq=False)
class Asked:
    """A person's request; `pressed` tells whether they pressed Cancel afterwards, or hung up.

    `job` is the job it became, once that is known.
    """

    number: int
    model: str
    chats: "Chats"
    person: Any
    chat: str
    call: Any = None
    pressed: bool = False
    job: int | None = None
    at: float = field(default_factory=time.monotonic)

    @property
    def is_fresh(self) -> bool:
        """Return whether it may still be on its way."""
        return time.monotonic() - self.at < ANSWERED_WITHIN_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What a person types: a command, its model, its topic, and options by name."""

    command: str
    model: str
    prompt: str
    options: dict[str, int] = field(default_factory=dict)


class Chats(Protocol):
    """One platform as the crowd uses it."""

    keeps_calls: bool
    """What is asked while no one listens is handed over later; otherwise the person is told."""

    def is_there(self) -> bool:
        """Return whether a person can ask now."""

    def someone(self, number: int, *, in_group: bool) -> tuple[Any, str]:
        """Return a person and the chat in which they ask."""

    async def ask(self, request: Asked, words: Words) -> None:
        """Ask; raises `ConnectionError` or `TimeoutError` if no one can receive it."""

    def replies(self, request: Asked) -> list[Seen]:
        """Return what the bot wrote in answer to a request."""

    async def press_cancel(self, request: Asked, message: Seen) -> None:
        """Press the button."""

    def everything(self) -> Iterator[Seen]:
        """Yield every message of the bot's."""

    def unread(self) -> int:
        """Return how many calls and presses wait to be handed over."""


class OnTelegram:
    """People in private chats with the bot, and in a group."""

    keeps_calls = True

    def __init__(self, fake: FakeTelegram) -> None:
        self.fake = fake
        self._group = fake.group(GROUP)
        self._people = [fake.person(number) for number in range(1, PEOPLE + 1)]

    def is_there(self) -> bool:
        return True

    def someone(self, number: int, *, in_group: bool) -> tuple[Any, str]:
        person = self._people[number % PEOPLE]
        return person, f"telegram {self._group.id if in_group else person.chat.id}"

    async def ask(self, request: Asked, words: Words) -> None:
        options = "".join(f" --{name} {value}" for name, value in words.options.items())
        text = f"/{words.command} {words.model} {words.prompt}{options}"
        request.call = request.person.says(text, chat=self._chat(request))

    def replies(self, request: Asked) -> list[Seen]:
        chat = self._chat(request)
        return [self._seen(chat, m) for m in chat.from_bot if m.reply_to == request.call.id]

    async def press_cancel(self, request: Asked, message: Seen) -> None:
        request.person.presses(message.raw, "Cancel")

    def everything(self) -> Iterator[Seen]:
        for chat in self.fake.api.chats.values():
            yield from (self._seen(chat, message) for message in chat.from_bot)

    def unread(self) -> int:
        return len(self.fake.api.updates)

    def _chat(self, request: Asked) -> telegram_state.FakeChat:
        return self.fake.api.chats[int(request.chat.split()[1])]

    def _seen(self, chat: telegram_state.FakeChat, message: telegram_state.FakeMessage) -> Seen:
        return Seen(
            chat=f"telegram {chat.id}",
            text=message.shown,
            images=(message.file.data,) if message.file else (),
            buttons=tuple(each.label for each in message.buttons),
            raw=message,
        )


class OnDiscord:
    """People in direct messages with the bot, and in a channel of a server.

    A slash command leaves no message of the person's; its answers are the first answer, and any
    message with buttons of its job.
    """

    keeps_calls = False

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        self._people = [fake.person(number) for number in range(1, PEOPLE + 1)]

    def is_there(self) -> bool:
        return bool(self.fake.gateway.connected.is_set() and self.fake.rest.commands)

    def someone(self, number: int, *, in_group: bool) -> tuple[Any, str]:
        person = self._people[number % PEOPLE]
        return person, f"discord {(self.fake.channel() if in_group else person.direct).id}"

    async def ask(self, request: Asked, words: Words) -> None:
        request.call = await request.person.slash(
            words.command,
            in_channel=self._channel(request),
            model=words.model,
            prompt=words.prompt,
            **_as_slash(words.options),
        )

    def replies(self, request: Asked) -> list[Seen]:
        first = request.call.message
        return [
            self._seen(message)
            for message in self._channel(request).all_messages
            if not message.thinking
            and (message is first or (request.job is not None and request.job == _job(message)))
        ]

    async def press_cancel(self, request: Asked, message: Seen) -> None:
        await request.person.click(message.raw, "Cancel")

    def everything(self) -> Iterator[Seen]:
        for channel in self.fake.rest.channels.values():
            yield from (self._seen(message) for message in channel.all_messages)

    def unread(self) -> int:
        return 0

    def _channel(self, request: Asked) -> discord_state.Channel:
        return self.fake.channel(int(request.chat.split()[1]))

    def _seen(self, message: discord_state.FakeMessage) -> Seen:
        return Seen(
            chat=f"discord {message.channel_id}",
            text=message.shown,
            images=tuple(file.data for file in message.files),
            buttons=tuple(each.label for each in message.buttons),
            raw=message,
        )


def _job(message: discord_state.FakeMessage) -> int | None:
    """Return the job whose buttons a message carries."""
    named = (_OF_JOB.fullmatch(button.custom_id) for button in message.buttons)
    return next((int(found[1]) for found in named if found), None)


def _as_slash(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as Discord offers them: the rare ones share a field."""
    rare = {name: value for name, value in options.items() if name in RARE}
    further = {FURTHER: " ".join(f"--{name} {value}" for name, value in rare.items())}
    return {name: value for name, value in options.items() if name not in RARE} | (
        further if rare else {}
    )
