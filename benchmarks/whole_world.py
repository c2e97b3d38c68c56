"""What the whole bot is measured between: a chat without limits and servers that answer at once."""

import asyncio
import io
import itertools
import time
from dataclasses import dataclass, field

from PIL import Image

from bot.chat.api.base import ChatLimits, CommandHandler, Invocation, MessageRef
from bot.chat.api.content import Content, Markdown
from queueing.core.catalog import BackendSpec, ModelSpec
from queueing.core.ports import Fetch, Recorded, Report, at_once
from queueing.core.requests import File, Output, TextToImage, Work
from tests.fakes.backend import Card, FakeBackend, FakeServer


def picture() -> bytes:
    """Return a small picture."""
    made = io.BytesIO()
    Image.effect_noise((64, 64), 40.0).save(made, "PNG")
    return made.getvalue()


class Instant(FakeBackend):
    """A server that answers at once, or never where it is stuck."""

    def __init__(self, spec: BackendSpec) -> None:
        super().__init__(FakeServer(spec.name, Card(24_000, 24_000), load_s=0.0))
        self._stuck = spec.name == "stuck"
        self._drawn = Output(files=(File(name="cat.png", mime="image/png", data=picture()),))
        self._written = Output(text="Air scatters blue light more than red.")

    async def run(
        self,
        model: ModelSpec,  # noqa: ARG002  all are alike
        work: Work,
        report: Report,  # noqa: ARG002  it says nothing on the way
        recorded: Recorded = at_once,
    ) -> Fetch:
        """Be done with an attempt as soon as its start is written down."""
        await recorded()
        if self._stuck:
            await asyncio.get_running_loop().create_future()
        made = self._drawn if isinstance(work.request, TextToImage) else self._written

        async def fetch() -> Output:
            return made

        return fetch


@dataclass
class Asked:
    """One call, and when it was made, accepted, first heard of and delivered."""

    at: float
    delivered: asyncio.Event = field(default_factory=asyncio.Event)
    accepted_s: float = 0.0
    first_s: float | None = None


class Chat:
    """A chat that takes whatever comes at once. Implements `ChatPlatform`."""

    name = "free"
    limits = ChatLimits(
        text=100_000,
        caption=100_000,
        upload=1_000_000_000,
        picture=1_000_000_000,
        download=1_000_000_000,
        edit_every_s=0.0,
        chat_every_s=0.0,
        overall_per_s=1_000_000.0,
        pings=False,
    )

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.connected.set()
        self._numbers = itertools.count(1)
        self._asked: dict[str, Asked] = {}
        self._told_by: dict[str, Asked] = {}  # by message
        self.requests = 0
        self._handler: asyncio.Future[CommandHandler] = asyncio.get_running_loop().create_future()

    async def run(self, handler: CommandHandler) -> None:
        """Provide the handler to the benchmark's callers."""
        self._handler.set_result(handler)
        await asyncio.get_running_loop().create_future()

    async def check(self) -> str:
        """Return who the bot is."""
        return "nobody"

    async def ask(self, chat: str, command: str, text: str, *, wait: bool = True) -> Asked:
        """Make one call and wait until its result is shown."""
        handler = await self._handler
        began = time.perf_counter()
        asked = self._asked[chat] = Asked(began)
        await handler.call(
            Invocation(
                key=f"{chat}/{next(self._numbers)}",
                platform=self.name,
                user=f"{self.name}:{chat}",
                user_name="somebody",
                chat=chat,
                group=False,
                command=command,
                text=text,
                respond=lambda content, _private: self.send(chat, content),
            )
        )
        asked.accepted_s = time.perf_counter() - began
        if wait:
            await asked.delivered.wait()
        return asked

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,  # noqa: ARG002  no one reads it
        nonce: str | None = None,  # noqa: ARG002  as above
    ) -> MessageRef:
        """Post a message."""
        ref = MessageRef(platform=self.name, chat=chat, message=str(next(self._numbers)))
        self._told_by[ref.message] = self._asked[chat]
        self._show(ref, content)
        return ref

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Show another content."""
        self._show(ref, content)

    def _show(self, ref: MessageRef, content: Content) -> None:
        self.requests += 1
        asked = self._told_by[ref.message]
        if asked.first_s is None:
            asked.first_s = time.perf_counter() - asked.at
        whole = content.files or any(isinstance(part, Markdown) for part in content.body)
        if whole and content.buttons and content.buttons[0][0].command != "cancel":
            asked.delivered.set()

    async def delete(self, ref: MessageRef) -> None:
        """Remove a message."""

    def is_group(self, chat: str) -> bool:  # noqa: ARG002  no one else is there
        """Return whether several people read a chat."""
        return False
