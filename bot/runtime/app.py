"""Composes everything: the one place that knows database, queue, backends, presenter and chats.

What starts first stops last: chats, then presenter, then queue; so messages are still edited while
running jobs get their grace.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from backends.common.memory import NvmlProbe
from backends.registry import connect
from bot.chat.api.base import ChatPlatform
from bot.chat.api.chat_settings import ChatSettingsTable
from bot.chat.commands.context import Context
from bot.chat.commands.registry import COMMANDS, work
from bot.chat.delivery.links import Links, key_of
from bot.chat.delivery.originals import OriginalHints
from bot.chat.delivery.presenter import Presenter
from bot.chat.dispatch.dispatcher import Dispatcher
from bot.chat.records.stored_link_ends import StoredLinkEnds
from bot.chat.records.stored_log import StoredLog
from bot.chat.records.stored_records import MIGRATIONS, StoredRecords
from bot.config.load import Config
from bot.gateway.answering import WaitLimits
from bot.gateway.fetching.fetcher import Fetcher
from bot.gateway.gateway import Gateway, Settings
from bot.gateway.jobs.hook_calls import HookSettings
from bot.gateway.jobs.hooks import derived_key
from bot.people import api_keys
from bot.people.audit_log import AuditLog
from bot.people.invites import Invites
from bot.people.received import Received
from bot.people.stored_api_keys import StoredApiKeys
from bot.people.stored_audit import StoredAuditLog
from bot.people.stored_invites import StoredInvites
from bot.people.stored_people import StoredPeople
from bot.people.stored_uploads import StoredUploads
from bot.people.users import People
from bot.requests.admission import AdmissionService
from bot.requests.limits import RequestLimits
from bot.requests.model_choice import Defaults
from bot.runtime.background import discover, keep_all_up, keep_served, tidy
from bot.runtime.enhancer import Enhancer
from bot.runtime.overview import overview
from bot.runtime.past_pictures import ResultPictures
from bot.runtime.platforms import Fittings, platforms
from bot.runtime.retention import most_mb
from queueing.core.catalog import Catalog
from queueing.core.clock import SystemClock
from queueing.core.ports import Backend, Clock
from queueing.service.jobqueue import JobQueue
from queueing.store import Database, JobStore, StoredFiles, open_database

log = logging.getLogger(__name__)

_GRACE_S = 4.0  # for running jobs at an orderly stop
_SETTLE_S = 1.5  # then for their last messages; undelivered results are kept


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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """What the bot itself stores in the database."""

    records: StoredRecords
    people: People
    keys: StoredApiKeys
    audit: AuditLog
    chat_log: StoredLog
    invites: Invites | None
    links: Links
    uploads: StoredUploads
    past: ResultPictures
    hook_key: bytes


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
    ) -> None:
        self._config = config
        self._access = config.access()
        self._database_url = database_url
        self._clock = clock
        self._make_platforms = make_platforms
        self._make_backend = make_backend
        self._make_fetcher = make_fetcher
        self._inline = inline

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
                _beside(
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
                _beside(parts.presenter.run(), parts.enhancer.run()),
                _beside(*([keep_served(parts.gateway)] if parts.gateway else [])),
            ):
                try:
                    yield parts
                finally:
                    parts.gate.close()
                    await parts.presenter.settle(_SETTLE_S)

    async def _open(self, stack: AsyncExitStack) -> BotParts:
        database = await open_database(
            self._database_url,
            migrations=(MIGRATIONS,),
            inline=self._inline,
            most_mb=most_mb(self._config.retention),
        )
        stack.push_async_callback(database.aclose)
        store, stored = JobStore(database), await self._read_stored(database)
        await store.prepare()
        catalog = self._config.catalog()
        backends = self._connect(catalog, stack)
        queue = self._make_queue(store, catalog, backends, stack)
        made = self._make_platforms(self._fittings(queue, stored))
        chat_settings = ChatSettingsTable(
            by_key={name: room.settings() for name, room in self._config.rooms.items()}
        )
        context = self._context(queue, stored, chat_settings)
        presenter = Presenter(
            queue=queue,
            records=stored.records,
            platforms={platform.name: platform for platform in made},
            clock=self._clock,
            work=partial(work, context),
            chat_settings=chat_settings,
            originals=OriginalHints(stored.links, on_page=self._config.chats.web is not None),
            busy_after_s=self._config.limits.busy_after_s,
        )
        enhancer = Enhancer(
            submitter=queue.submitter,
            jobs=queue.jobs,
            deliveries=queue.deliveries,
            erasure=queue.erasure,
            admission=context.admission,
            clock=self._clock,
            chat_settings=chat_settings,
        )
        queue.events.subscribe(presenter.on_event)
        queue.events.subscribe(enhancer.on_event)
        return BotParts(
            queue=queue,
            database=database,
            store=store,
            gate=Dispatcher(context, presenter),
            presenter=presenter,
            enhancer=enhancer,
            records=stored.records,
            chat_log=stored.chat_log,
            platforms=made,
            gateway=self._gateway(queue, stored, context.admission, stack),
            backends=backends,
        )

    async def _read_stored(self, database: Database) -> _Stored:
        web = self._config.chats.web
        records, people = StoredRecords(database), StoredPeople(database)
        files, key = StoredFiles(database), await key_of(records)
        links = Links(
            files,
            StoredLinkEnds(database),
            people,
            self._clock,
            key=key,
            page=web.page() if web and web.url else None,
            days=self._config.retention.days,
        )
        return _Stored(
            records=records,
            people=people,
            keys=StoredApiKeys(database),
            audit=StoredAuditLog(database),
            chat_log=StoredLog(database),
            invites=await StoredInvites.read(database, web.page()) if web and web.token else None,
            links=links,
            uploads=StoredUploads(database),
            past=ResultPictures(files, links),
            hook_key=derived_key(key),
        )

    def _gateway(
        self,
        queue: JobQueue,
        stored: _Stored,
        admission: AdmissionService,
        stack: AsyncExitStack,
    ) -> Gateway | None:
        api = self._config.api
        if api is None:
            return None
        everywhere = self._config.rooms.get("*")
        settings = Settings(
            host=api.host,
            port=api.port,
            url=api.url,
            open=api.open,
            names=api.all_names(),
            origins=api.cors,
            proxies=api.proxies,
            unwanted=everywhere.words if everywhere else (),
            patience=WaitLimits(hold_s=api.hold_s, wait_s=api.wait_s),
            hooks=HookSettings(origins=api.webhooks, key=stored.hook_key, url=api.url),
        )
        fetcher = self._make_fetcher() if api.fetch else None
        if fetcher is not None:
            stack.callback(fetcher.close)
        return Gateway(
            settings,
            queue=queue,
            admission=admission,
            keys=stored.keys,
            people=stored.people,
            uploads=stored.uploads,
            clock=self._clock,
            links=stored.links,
            fetcher=fetcher,
        )

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
            grace_s=_GRACE_S,
        )

    def _fittings(self, queue: JobQueue, stored: _Stored) -> Fittings:
        return Fittings(
            notes=stored.records,
            access=self._access,
            clock=self._clock,
            chat_log=stored.chat_log,
            overview=lambda: overview(queue.status.snapshot().models),
            web_people=stored.invites,
            originals=stored.links,
            past=stored.past,
            files_per_hour_mb=self._config.limits.files_per_hour_mb,
        )

    def _context(
        self, queue: JobQueue, stored: _Stored, chat_settings: ChatSettingsTable
    ) -> Context:
        return Context(
            queue=queue,
            admission=self._admission(queue),
            records=stored.records,
            people=stored.people,
            audit=stored.audit,
            access=self._access,
            clock=self._clock,
            commands=COMMANDS,
            chat_settings=chat_settings,
            chat_logs={"web": stored.chat_log},
            invites=stored.invites,
            naming={**self._config.chats.naming(), **api_keys.NAMING},
            idle_s=self._config.conversation.idle,
            links=stored.links,
            api_keys=stored.keys if self._config.api is not None else None,
        )

    def _admission(self, queue: JobQueue) -> AdmissionService:
        defaults = self._config.defaults
        return AdmissionService(
            submitter=queue.submitter,
            jobs=queue.jobs,
            models=queue.models,
            limits=RequestLimits(
                submitter=queue.submitter,
                jobs=queue.jobs,
                models=queue.models,
                status=queue.status,
                access=self._access,
                received=Received(self._config.limits.files_per_hour_mb, self._clock),
                clock=self._clock,
            ),
            styles={name: style.style() for name, style in self._config.styles.items()},
            defaults=Defaults(image=defaults.image, ask=defaults.ask),
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
) -> App:
    """Return the bot of a configuration; nothing is opened or connected yet.

    The overrides are for the demo and for tests: other chats, other servers, virtual time (with
    `inline`, the database works in the calling thread).
    """
    return App(
        config,
        database_url=config.database_url if database_url is None else database_url,
        clock=clock or SystemClock(),
        make_platforms=make_platforms or (lambda fittings: platforms(config.chats, fittings)),
        make_backend=make_backend,
        make_fetcher=make_fetcher,
        inline=inline,
    )


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work beside the body: its failure stops the body, the body's end cancels it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
