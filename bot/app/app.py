"""The bot as a single process: the queue, the chats and the API on one database.

Background tasks start first, then the API, then the chats, and they stop in reverse order. The
queue runs inside all of them and stops first, so messages are still edited while running jobs
finish.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bot.api.server import ApiServer
from bot.app import assembly
from bot.app.assembly import SharedParts
from bot.app.local_queue import LocalQueue, open_queue, serving
from bot.app.metering import Meters, metering
from bot.app.setup import SETTLE_S, BotSetup
from bot.app.supervisor import beside, keep_all_up, keep_rights_fresh, keep_served
from bot.commands.dispatcher import Dispatcher
from bot.core.platform import ALONE, ChatLease, ChatPlatform
from bot.delivery.presenter import Presenter
from bot.delivery.records import MessageRecords
from bot.platforms.web.chat.chat_log import ChatLog
from bot.requests.admission import AdmissionService
from queueing.core.leases import Lease
from queueing.service.job_queue import JobQueue
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatParts:
    """Connected chats, with the dispatcher of their calls and the presenter of their jobs."""

    platforms: Sequence[ChatPlatform]
    dispatcher: Dispatcher
    presenter: Presenter


@asynccontextmanager
async def chats_served(
    given: SharedParts,
    admission: AdmissionService,
    platforms: Sequence[ChatPlatform],
    *,
    lease: ChatLease = ALONE,
    settle_s: float,
) -> AsyncIterator[ChatParts]:
    """Serve chats until the block ends, then deliver results for at most `settle_s` seconds.

    Calls are only accepted while `lease` is held. The presenter stops last, so it still edits
    messages once calls are no longer accepted.
    """
    context = assembly.context(given, admission)
    presenter = assembly.presenter(given, platforms, context)
    given.queue.events.subscribe(presenter.on_event)
    dispatcher = Dispatcher(context, presenter, lease=lease)
    work = [keep_all_up(platforms, dispatcher)]
    if context.carried is not None:
        work += [keep_rights_fresh(context.carried, platforms, given.access, given.clock)]
    async with beside(*work), beside(presenter.run()):
        try:
            yield ChatParts(platforms=platforms, dispatcher=dispatcher, presenter=presenter)
        finally:
            dispatcher.close()
            await presenter.settle(settle_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class BotParts:
    """The parts of a running bot, for the demo and for tests."""

    queue: JobQueue
    database: Database
    store: JobStore
    dispatcher: Dispatcher
    presenter: Presenter
    records: MessageRecords
    chat_log: ChatLog
    platforms: Sequence[ChatPlatform]
    gateway: ApiServer | None
    meters: Meters | None


class App:
    """The bot of one configuration."""

    def __init__(self, setup: BotSetup) -> None:
        self._setup = setup

    async def run(self) -> None:
        """Run until cancelled, then shut down in order.

        Raises `StoreError` if the database cannot be used, `BadModel` for a model that cannot work,
        and `ChatRefused` if no chat can be used.
        """
        async with self.running() as parts:
            await parts.queue.run()

    @asynccontextmanager
    async def running(self, *, lease: Lease | None = None) -> AsyncIterator[BotParts]:
        """Start the chats and the presenter, and provide all parts. The caller runs the queue.

        With a `lease`, the database rejects writes once another process has taken that lease.
        """
        setup = self._setup
        async with AsyncExitStack() as stack:
            database = await setup.open_database(stack, lease=lease)
            parts = await open_queue(setup, database, stack)
            meters = await stack.enter_async_context(metering(setup.config.metrics, setup.version))
            given, admission = await stack.enter_async_context(serving(setup, parts, meters))
            platforms = setup.platforms(assembly.fittings(given, admission))
            gateway = gateway_of(setup, given, admission)
            async with (
                beside(*([keep_served(gateway.run)] if gateway else [])),
                chats_served(given, admission, platforms, settle_s=SETTLE_S) as chats,
            ):
                yield _parts(given, parts, chats, gateway, meters=meters)


def gateway_of(
    setup: BotSetup, given: SharedParts, admission: AdmissionService
) -> ApiServer | None:
    """Build the HTTP API, or return None if it is not configured."""
    api = setup.in_force.config.api
    if api is None:
        return None
    return assembly.gateway(given, api, admission)


def _parts(
    given: SharedParts,
    parts: LocalQueue,
    chats: ChatParts,
    gateway: ApiServer | None,
    *,
    meters: Meters | None,
) -> BotParts:
    return BotParts(
        queue=parts.queue,
        database=parts.database,
        store=parts.store,
        dispatcher=chats.dispatcher,
        presenter=chats.presenter,
        records=given.stored.records,
        chat_log=given.stored.chat_log,
        platforms=chats.platforms,
        gateway=gateway,
        meters=meters,
    )
