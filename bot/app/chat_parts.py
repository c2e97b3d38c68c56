"""Chats, and what keeps their messages true, over a queue that may be in another process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.app import assembly
from bot.app.assembly import Groundwork
from bot.app.supervisor import beside, keep_all_up
from bot.commands.dispatcher import Dispatcher
from bot.core.held import ALONE, ChatLease
from bot.core.platform import ChatPlatform
from bot.delivery.presenter import Presenter
from bot.requests.admission import AdmissionService


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatParts:
    """Some chats, what carries out their calls, and what shows them their jobs."""

    platforms: Sequence[ChatPlatform]
    gate: Dispatcher
    presenter: Presenter


def chats_of(
    given: Groundwork,
    door: AdmissionService,
    platforms: Sequence[ChatPlatform],
    *,
    lease: ChatLease = ALONE,
) -> ChatParts:
    """Make what chats need, listening to the queue; calls are carried out by the `lease`."""
    context = assembly.context(given, door)
    presenter = assembly.presenter(given, platforms, context)
    given.queue.events.subscribe(presenter.on_event)
    gate = Dispatcher(context, presenter, lease=lease)
    return ChatParts(platforms=platforms, gate=gate, presenter=presenter)


@asynccontextmanager
async def connected(chats: ChatParts, *, settle_s: float) -> AsyncIterator[None]:
    """Serve the chats until the block ends, then deliver what has ended, at most that long.

    What starts first stops last, so that messages are still edited while no calls are taken.
    """
    async with (
        beside(keep_all_up(chats.platforms, chats.gate)),
        beside(chats.presenter.run()),
    ):
        try:
            yield
        finally:
            chats.gate.close()
            await chats.presenter.settle(settle_s)
