"""Chats that refuse what Discord and Telegram refuse, in virtual time, and count it.

Requests and answers take some time to arrive, so requests sent evenly do not arrive evenly.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from bot.core.content import Content
from bot.core.errors import SlowDown
from bot.core.platform import Invocation, MessageRef
from bot.platforms.discord.platform import Discord
from bot.platforms.telegram.platform import Telegram
from bot.platforms.web.platform import Web
from tests.fakes.chat import FakeChat

if TYPE_CHECKING:
    from collections.abc import Callable

_WAY_S = (0.02, 0.15)  # one way between us and the platform, in seconds
_OLD_S = 3600.0
_OLD_MESSAGES_OF = "old messages of "


@dataclass
class Window:
    """At most this many requests in any period of this many seconds."""

    most: int
    per_s: float
    taken: deque[float] = field(default_factory=deque)

    def wait_s(self, now: float) -> float:
        """Return how long there is no room for one more request; 0.0 if there is room."""
        while self.taken and self.taken[0] <= now - self.per_s:
            self.taken.popleft()
        return self.taken[0] + self.per_s - now if len(self.taken) >= self.most else 0.0

    def take(self, now: float) -> None:
        """Count a request."""
        self.taken.append(now)


class StrictChat(FakeChat):
    """A chat service that accepts no more than its windows allow.

    Subclasses define which windows a request to a chat must pass, and what it costs to answer a
    call.
    """

    def __init__(self, name: str, random: Random) -> None:
        super().__init__(name)
        self._random = random
        self._windows: dict[str, tuple[Window, ...]] = {}
        self.refused = 0
        self.edits = 0
        self.on_show: Callable[[str, Content], None] = lambda _chat, _content: None

    def windows_of(self, chat: str) -> tuple[Window, ...]:
        """Return new windows: for a chat, its old messages, or (empty) the whole bot."""
        raise NotImplementedError

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        """Post a message, unless a window is full."""
        await self._way()
        self._admit(chat)
        ref = await super().send(chat, content, reply_to=reply_to, nonce=nonce)
        await self._way()
        return ref

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Edit a message, unless a window is full."""
        await self._way()
        self._admit(ref.chat, ref)
        self.edits += 1
        await super().edit(ref, content)
        await self._way()

    def _show(self, number: str, content: Content) -> None:
        super()._show(number, content)
        self.on_show(self.messages[number].chat, content)

    async def _way(self) -> None:
        await asyncio.sleep(self._random.uniform(*_WAY_S))

    def _admit(self, chat: str, ref: MessageRef | None = None) -> None:
        now = asyncio.get_running_loop().time()
        of_old = self._of_message(ref, now)
        windows = (*self._of(""), *self._of(chat), *of_old)
        wait_s = max(window.wait_s(now) for window in windows)
        if wait_s > 0:
            self.refused += 1
            raise SlowDown(wait_s, old_message=any(window.wait_s(now) for window in of_old))
        for window in windows:
            window.take(now)

    def _of(self, key: str) -> tuple[Window, ...]:
        if key not in self._windows:
            self._windows[key] = self.windows_of(key)
        return self._windows[key]

    def _of_message(self, ref: MessageRef | None, now: float) -> tuple[Window, ...]:
        if ref is None or now - self.messages[ref.message].times[0] < _OLD_S:
            return ()
        return self._of(_OLD_MESSAGES_OF + ref.chat)


@dataclass(frozen=True, slots=True)
class Person:
    """A person who asks, and where."""

    chat: StrictChat
    room: str
    user: str

    def call(self, text: str) -> Invocation:
        """Return the call that the person's text makes."""
        return self.chat.call(text, chat=self.room, user=self.user)


class StrictTelegram(StrictChat):
    """About one request a second and chat with short bursts, 20 a minute in groups, 30/s in all."""

    def __init__(self, random: Random) -> None:
        super().__init__("telegram", random)
        self.limits = Telegram.limits

    def windows_of(self, chat: str) -> tuple[Window, ...]:
        """Return Telegram's windows."""
        if not chat:
            return (Window(30, 1.0),)
        if chat.startswith(_OLD_MESSAGES_OF):
            return ()
        burst = (Window(2, 1.0), Window(5, 4.0))
        return (*burst, Window(20, 60.0)) if self.is_group(chat) else burst


class StrictDiscord(StrictChat):
    """Five requests in five seconds and channel, 50/s in all; answers to calls are free.

    Messages over an hour old have a small budget of their own (error 30046); its true size is
    unpublished.
    """

    def __init__(self, random: Random) -> None:
        super().__init__("discord", random)
        self.limits = Discord.limits

    def windows_of(self, chat: str) -> tuple[Window, ...]:
        """Return Discord's windows."""
        if chat.startswith(_OLD_MESSAGES_OF):
            return (Window(3, 300.0),)
        return (Window(5, 5.0),) if chat else (Window(50, 1.0),)

    def call(
        self, text: str, *, chat: str = "1", user: str = "fake:1", **fields: object
    ) -> Invocation:
        """Return a call whose first answer counts against no limit, as an interaction's does."""

        async def respond(content: Content, private: bool) -> MessageRef | None:
            await self._way()
            if private:
                return None
            return await FakeChat.send(self, chat, content)

        return super().call(text, chat=chat, user=user, **({"respond": respond} | fields))


class StrictPage(StrictChat):
    """The web page, which has no limits."""

    def __init__(self, random: Random) -> None:
        super().__init__("web", random)
        self.limits = Web.limits

    def windows_of(self, chat: str) -> tuple[Window, ...]:
        """Return a window too large to fill."""
        return (Window(1000, 1.0),)
