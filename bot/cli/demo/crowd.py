"""Simulated people who use the demo, so that a newcomer sees a busy queue.

Their calls go through the same handler as real ones. The answers are discarded.
"""

import asyncio
import itertools
import random
from uuid import uuid4

from bot.core.content import Content
from bot.core.platform import ChatLimits, CommandHandler, Invocation, MessageRef
from queueing.core.concurrency import TaskGroup

_PAUSE_S = 45.0  # between two requests of one person, on average
_SERVED = 8  # people; a larger crowd makes as many requests as these, which the stand-ins can serve
_WISHES = (
    ("image", "flux a lighthouse in a storm"),
    ("image", "flux a fox reading the newspaper"),
    ("image", "sdxl a market street in the rain --size 3:2"),
    ("image", "sdxl a greenhouse on the moon"),
    ("image", "flux an old tram, watercolour"),
    ("ask", "llama why is the sky dark at night?"),
    ("ask", "qwen explain a semaphore to a child"),
    ("ask", "llama a short poem about waiting in line"),
)


class Crowd:
    """Simulated people, each in a separate chat. Implements `ChatPlatform`.

    `pause_s` is the mean time between two requests of one person.
    """

    name = "crowd"
    limits = ChatLimits(
        text=100_000,
        caption=100_000,
        upload=1_000_000_000,
        image=1_000_000_000,
        download=1_000_000_000,
        edit_every_s=3.0,
        chat_every_s=1.0,
        overall_per_s=1000.0,
        pings=False,
    )

    def __init__(self, people: int, *, speed: float) -> None:
        self.connected = asyncio.Event()
        self.connected.set()
        self._people = people
        self._speed = speed
        self.pause_s = _PAUSE_S * max(1.0, people / _SERVED)
        self._random = random.Random(1)  # noqa: S311  # a crowd needs no secrets
        self._numbers = itertools.count(1)

    async def run(self, handler: CommandHandler) -> None:
        """Let every person make requests repeatedly until cancelled."""
        async with TaskGroup() as group:
            for number in range(1, self._people + 1):
                group.create_task(self._live(number, handler))

    async def _live(self, number: int, handler: CommandHandler) -> None:
        pause_s = self._random.uniform(0, _PAUSE_S / 3 if number <= _SERVED else self.pause_s)
        while True:
            await asyncio.sleep(pause_s / self._speed)
            await handler.call(self._wish(number))
            pause_s = self._random.expovariate(1 / self.pause_s)

    def _wish(self, number: int) -> Invocation:
        command, text = self._random.choice(_WISHES)
        return Invocation(
            key=f"crowd:{uuid4().hex}",  # unique in every run, because the database may be kept
            platform=self.name,
            user=f"crowd:{number}",
            user_name=f"person {number}",
            chat=str(number),
            group=False,
            command=command,
            text=text,
            respond=self._respond,
        )

    async def _respond(self, content: Content, private: bool) -> MessageRef | None:  # noqa: ARG002  # the answer is not read
        return None if private else self._ref("crowd")

    def _ref(self, chat: str) -> MessageRef:
        return MessageRef(platform=self.name, chat=chat, message=str(next(self._numbers)))

    async def send(
        self,
        chat: str,
        content: Content,  # noqa: ARG002  # the message is not read
        *,
        reply_to: MessageRef | None = None,  # noqa: ARG002  # as above
        nonce: str | None = None,  # noqa: ARG002  # as above
    ) -> MessageRef:
        """Accept and discard a message."""
        return self._ref(chat)

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Accept and discard an edit."""

    async def delete(self, ref: MessageRef) -> None:
        """Accept a deletion."""

    async def check(self) -> str:
        """Return how many people there are."""
        return f"{self._people} simulated people"

    def is_group(self, chat: str) -> bool:  # noqa: ARG002  # the protocol's signature
        """Return False: each person has a separate chat."""
        return False
