"""A person's requests in one chat are accepted in order, whatever each of them needs first.

On every platform, with the real handler, queue and store behind it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from bot.commands.dispatcher import Dispatcher
from bot.core.platform import Invocation
from queueing.core.events import Event, JobChanged
from queueing.core.requests import Chat
from tests.bot.results import QWEN
from tests.contracts.chat.chat_harness import STAGES, Stage, running
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import bot
from tests.simulation.installation import Installation, host

if TYPE_CHECKING:
    from bot.core.platform import CommandHandler


class Watched:
    """The bot's handler, with what it accepted, in order, and the commands it has finished."""

    def __init__(self, gate: Dispatcher) -> None:
        self._gate = gate
        self.accepted: list[str] = []
        self.done: list[str] = []
        self._changed = asyncio.Event()

    def on_event(self, event: Event) -> None:
        if isinstance(event, JobChanged) and event.event is None:
            assert isinstance(event.job.request, Chat)
            self.accepted.append(event.job.request.messages[-1].text)
            self._changed.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    async def call(self, invocation: Invocation) -> None:
        await self._gate.call(invocation)
        self.done.append(invocation.command)
        self._changed.set()

    async def until(self, what: list[str], entry: str) -> None:
        """Wait until something was accepted or done."""
        async with asyncio.timeout(60):
            while entry not in what:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def the_bot_on(stage: Stage) -> AsyncIterator[Watched]:
    installation = Installation.of([QWEN], [host("gpu-1", "comfy")])
    platform = stage.platform()
    async with bot(installation, FakeChat("spare"), platform) as parts:
        handler = Watched(parts.dispatcher)
        parts.queue.events.subscribe(handler.on_event)
        async with running(stage, cast("CommandHandler", handler), platform):
            yield handler


WAYS = [(name, what) for name, stage in STAGES.items() for what in stage.slow]


@pytest.mark.parametrize(("name", "what"), WAYS)
async def test_what_one_person_asks_is_accepted_in_order_whatever_it_needs_first(
    name: str, what: str
) -> None:
    """The second question would be answered before the first, in the wrong conversation."""
    fetched = asyncio.Event()
    async with STAGES[name].opened() as stage, the_bot_on(stage) as handler:
        await stage.says_slowly("/ask one", what, fetched)
        await stage.says("/ask two")
        if not stage.alone:
            await stage.other_says("/ask three")
            await handler.until(handler.accepted, "three")
            await stage.says("/queue")
            await handler.until(handler.done, "queue")
            assert handler.accepted == ["three"]
        fetched.set()
        await handler.until(handler.accepted, "two")
        assert [each for each in handler.accepted if each != "three"] == ["one", "two"]
