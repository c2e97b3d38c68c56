"""A chat service in memory: it shows what a person would see, and fails as it is told to."""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.core.content import Content
from bot.core.errors import ChatError, MessageGone
from bot.core.platform import ALONE, ChatLease, ChatLimits, CommandHandler, Invocation, MessageRef
from bot.texts.catalogue import plain

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = ChatLimits(
    text=4000,
    caption=1000,
    upload=1_000_000,
    image=1_000_000,
    download=1_000_000,
    edit_every_s=3.0,
    chat_every_s=1.0,
    overall_per_s=30.0,
    group_per_minute=20,
    burst=5,
)


@dataclass
class Message:
    """A message as a person sees it: every content it had, and when."""

    chat: str
    contents: list[Content] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    reply_to: MessageRef | None = None
    nonce: str | None = None

    @property
    def text(self) -> str:
        return plain(self.contents[-1].body)

    @property
    def texts(self) -> list[str]:
        return [plain(content.body) for content in self.contents]


class FakeChat:
    """Implements `ChatPlatform`; groups are chats whose name begins with "g"."""

    def __init__(
        self, name: str = "fake", limits: ChatLimits = LIMITS, lease: ChatLease = ALONE
    ) -> None:
        self.name = name
        self.lease = lease
        self.connected = asyncio.Event()
        self.connected.set()
        self.limits = limits
        self.messages: dict[str, Message] = {}
        self.private: list[tuple[str, str]] = []
        self.private_contents: list[Content] = []
        self.failures: deque[ChatError] = deque()
        self.fail_when: Callable[[str], ChatError | None] = lambda chat: None
        self.refuse: Callable[[Content], ChatError | None] = lambda content: None
        self.asked: list[tuple[float, str]] = []  # every request, refused or not: when, and where
        self.handler: CommandHandler | None = None  # of the platform that runs
        self._numbers = itertools.count(1)
        self._calls = itertools.count(1)

    @property
    def answers(self) -> list[str]:
        """The private answers."""
        return [text for _, text in self.private]

    async def run(self, handler: CommandHandler) -> None:
        self.handler = handler
        await asyncio.Event().wait()

    async def check(self) -> str:
        return "a fake"

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        self._maybe_fail(chat, content)
        number = str(next(self._numbers))
        self.messages[number] = Message(chat=chat, reply_to=reply_to, nonce=nonce)
        self._show(number, content)
        return MessageRef(platform=self.name, chat=chat, message=number)

    async def edit(self, ref: MessageRef, content: Content) -> None:
        self._maybe_fail(ref.chat, content)
        if ref.message not in self.messages:
            raise MessageGone("deleted")
        self._show(ref.message, content)

    async def delete(self, ref: MessageRef) -> None:
        self.lease.require()
        self.messages.pop(ref.message, None)

    def is_group(self, chat: str) -> bool:
        return chat.startswith("g")

    def _show(self, number: str, content: Content) -> None:
        self.messages[number].contents.append(content)
        self.messages[number].times.append(asyncio.get_running_loop().time())

    async def says(self, call: Invocation) -> None:
        """Let a person make a call; without its role the platform receives none."""
        assert self.handler is not None
        if self.lease.held:
            await self.handler.call(call)

    def _maybe_fail(self, chat: str, content: Content) -> None:
        self.lease.require()
        self.asked.append((asyncio.get_running_loop().time(), chat))
        if self.failures:
            raise self.failures.popleft()
        error = self.fail_when(chat) or self.refuse(content)
        if error is not None:
            raise error

    def call(
        self, text: str, *, chat: str = "1", user: str = "fake:1", **fields: object
    ) -> Invocation:
        """Return the call that a person's text makes here."""
        command, _, rest = text.removeprefix("/").partition(" ")

        async def respond(content: Content, private: bool) -> MessageRef | None:
            if private:
                self._maybe_fail(chat, content)
                self.private.append((chat, plain(content.body)))
                self.private_contents.append(content)
                return None
            return await self.send(chat, content)

        async def aside(call: Invocation) -> Invocation:
            own = user.partition(":")[2]
            return call.moved(own, self.call(text, chat=own, user=user).respond)

        given: dict[str, object] = {
            "key": f"{self.name}:{next(self._calls)}",
            "platform": self.name,
            "user": user,
            "user_name": "somebody",
            "chat": chat,
            "group": self.is_group(chat),
            "command": command,
            "text": rest,
            "respond": respond,
            "aside": aside,
        }
        return Invocation(**(given | fields))  # type: ignore[arg-type]
