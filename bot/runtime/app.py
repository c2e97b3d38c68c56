"""Composes everything: the one place that knows database, queue, backends, presenter and chats.

What starts first stops last: chats, then presenter, then queue; so messages are still edited while
running jobs get their grace.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from backends.common.memory import NvmlProbe
from backends.registry import connect
from bot.chat.api.base import ChatPlatform
from bot.chat.api.chat_settings import ChatSettingsTable
from bot.chat.delivery.presenter import Presenter
from bot.chat.dispatch.dispatcher import Dispatcher
from bot.chat.records.stored_log import StoredLog
from bot.chat.records.stored_records import MIGRATIONS, StoredRecords
from bot.config.load import Config
from bot.gateway.fetching.fetcher import Fetcher
from bot.gateway.gateway import Gateway
from bot.requests.admission import AdmissionService
from bot.runtime import assembly
from bot.runtime.assembly import Groundwork
from bot.runtime.background import beside, discover, keep_all_up, keep_served, tidy
from bot.runtime.bot_records import read_records
from bot.runtime.enhancer import Enhancer
from bot.runtime.platforms import Fittings, platforms
from bot.runtime.retention import most_mb
from queueing.core.catalog import Catalog
from queueing.core.clock import SystemClock
from queueing.core.ports import Backend, Clock
from queueing.core.posts import Tenure
from queueing.service.jobqueue import JobQueue
from queueing.store import Database, JobStore, open_database

log = logging.getLogger(__name__)

_GRACE_S = 4.0  # for running jobs at an orderly stop
_SETTLE_S = 1.5  # then for their last messages; undelivered results are kept
_HAND_OVER_S = 0.2  # for either where another process goes on with both


@dataclass(frozen=True, kw_only=True, slots=True)
class BotParts:
    """A running bot's parts, for the demo and for tests."""

    queue: JobQueue
    database: Database
    store: JobStore
    gate: Dispatcher
    presenter: Presenter
    enhancer: Enhancer
    records: StoredRecords
    chat_log: StoredLog
    platforms: Sequence[ChatPlatform]
    gateway: Gateway | None
    backends: Mapping[str, Backend]


MakePlatforms = Callable[[Fittings], Sequence[ChatPlatform]]


class App:
    """The bot of one configuration."""

    def __init__(
        self,
        config: Config,
        *,
        database_url: str,
        clock: Clock,
        make_platforms: MakePlatforms,
        make_backend: Callable[..., Backend],
        make_fetcher: Callable[[], Fetcher],
        inline: bool,
        grace_s: float,
        tenure: Tenure | None,
    ) -> None:
        self._config = config
        self._access = config.access()
        self._database_url = database_url
        self._clock = clock
        self._make_platforms = make_platforms
        self._make_backend = make_backend
        self._make_fetcher = make_fetcher
        self._inline = inline
        self._grace_s = grace_s
        self._tenure = tenure

    async def run(self) -> None:
        """Run until cancelled, then stop in order.

        Raises `StoreError` when the database cannot be used, `BadModel` for a model that cannot
        work, and `ChatRefused` when no chat lets the bot in.
        """
        async with self.running() as parts:
            await parts.queue.run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BotParts]:
        """Provide the parts with chats and presenter running; the caller runs the queue."""
        async with AsyncExitStack() as stack:
            parts = await self._open(stack)
            async with (
                beside(
                    keep_all_up(parts.platforms, parts.gate),
                    tidy(
                        parts.database,
                        parts.store,
                        parts.chat_log,
                        self._clock,
                        self._config.retention,
                    ),
                    discover(parts.queue.models, parts.backends),
                ),
                beside(parts.presenter.run(), parts.enhancer.run()),
                beside(*([keep_served(parts.gateway)] if parts.gateway else [])),
            ):
                try:
                    yield parts
                finally:
                    parts.gate.close()
                    await parts.presenter.settle(_HAND_OVER_S if self._tenure else _SETTLE_S)

    async def _open(self, stack: AsyncExitStack) -> BotParts:
        database = await self._open_database(stack)
        store = JobStore(database)
        await store.prepare()
        catalog = self._config.catalog()
        backends = self._connect(catalog, stack)
        rooms = self._config.rooms
        given = Groundwork(
            config=self._config,
            access=self._access,
            clock=self._clock,
            queue=self._make_queue(store, catalog, backends, stack),
            stored=await read_records(database, self._config, self._clock),
            chat_settings=ChatSettingsTable(
                by_key={name: room.settings() for name, room in rooms.items()}
            ),
        )
        return self._parts(given, database=database, store=store, backends=backends, stack=stack)

    def _parts(
        self,
        given: Groundwork,
        *,
        database: Database,
        store: JobStore,
        backends: Mapping[str, Backend],
        stack: AsyncExitStack,
    ) -> BotParts:
        """Make the parts between people and the queue, and have them hear of its events."""
        made = self._make_platforms(assembly.fittings(given))
        door = assembly.admission(given)
        context = assembly.context(given, door)
        presenter = assembly.presenter(given, made, context)
        enhancer = assembly.enhancer(given, door)
        given.queue.events.subscribe(presenter.on_event)
        given.queue.events.subscribe(enhancer.on_event)
        return BotParts(
            queue=given.queue,
            database=database,
            store=store,
            gate=Dispatcher(context, presenter),
            presenter=presenter,
            enhancer=enhancer,
            records=given.stored.records,
            chat_log=given.stored.chat_log,
            platforms=made,
            gateway=self._gateway(given, door, stack),
            backends=backends,
        )

    def _gateway(
        self, given: Groundwork, door: AdmissionService, stack: AsyncExitStack
    ) -> Gateway | None:
        api = self._config.api
        if api is None:
            return None
        fetcher = self._make_fetcher() if api.fetch else None
        if fetcher is not None:
            stack.callback(fetcher.close)
        return assembly.gateway(given, api, door, fetcher)

    async def _open_database(self, stack: AsyncExitStack) -> Database:
        database = await open_database(
            self._database_url,
            migrations=(MIGRATIONS,),
            inline=self._inline,
            most_mb=most_mb(self._config.retention),
            tenure=self._tenure,
        )
        stack.push_async_callback(database.aclose)
        return database

    def _connect(self, catalog: Catalog, stack: AsyncExitStack) -> Mapping[str, Backend]:
        """Return the backends without making a request yet. Raises `BadModel`."""
        backends = {spec.name: self._make_backend(spec) for spec in catalog.backends.values()}
        for backend in backends.values():
            stack.push_async_callback(backend.aclose)
        for model in catalog.models.values():
            for name in model.backends:
                backends[name].check(model)
        return backends

    def _make_queue(
        self,
        store: JobStore,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        stack: AsyncExitStack,
    ) -> JobQueue:
        memory = NvmlProbe()
        stack.push_async_callback(memory.aclose)
        return JobQueue(
            store=store,
            catalog=catalog,
            backends=backends,
            clock=self._clock,
            rules=self._config.scheduling.rules(),
            memory=memory,
            runner=uuid4().hex,
            grace_s=self._grace_s,
        )


def build(
    config: Config,
    *,
    database_url: str | None = None,
    clock: Clock | None = None,
    make_platforms: MakePlatforms | None = None,
    make_backend: Callable[..., Backend] = connect,
    make_fetcher: Callable[[], Fetcher] = Fetcher,
    inline: bool = False,
    grace_s: float | None = None,
    tenure: Tenure | None = None,
) -> App:
    """Return the bot of a configuration; nothing is opened or connected yet.

    With a `tenure` it is one of several processes, and another goes on when it stops. The overrides are for the demo and for tests: other chats, other servers, virtual time (with
    `inline`, the database works in the calling thread).
    """
    usual_s = _GRACE_S if tenure is None else _HAND_OVER_S
    return App(
        config,
        database_url=config.database_url if database_url is None else database_url,
        clock=clock or SystemClock(),
        make_platforms=make_platforms or (lambda fittings: platforms(config.chats, fittings)),
        make_backend=make_backend,
        make_fetcher=make_fetcher,
        inline=inline,
        grace_s=usual_s if grace_s is None else grace_s,
        tenure=tenure,
    )
