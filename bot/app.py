"""Composes everything: the one place that knows database, queue, backends, presenter and chats.

What starts first stops last: chats, then presenter, then queue; so while running jobs get their
grace, their messages are still edited.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from backends import connect
from backends.memory import NvmlProbe
from bot.audit import AuditLog
from bot.chat_log import SqliteLog
from bot.clock import SystemClock
from bot.commands.context import Context, Defaults
from bot.commands.registry import COMMANDS
from bot.config import Config
from bot.door import Gate
from bot.enhance import Enhancer
from bot.invites import Invites
from bot.people import People
from bot.platforms.base import ChatPlatform, ChatRefused
from bot.platforms.registry import Fittings, platforms
from bot.platforms.web_wire import ModelLine
from bot.presenter import Presenter
from bot.records import MIGRATIONS, Records
from bot.retention import let_go
from bot.rooms import Rooms
from queueing.errors import BackendError
from queueing.jobqueue import JobQueue
from queueing.ports import Backend, Clock
from queueing.reports import ModelStatus
from queueing.store import SqliteStore, open_database
from queueing.world import Residency

log = logging.getLogger(__name__)

_GRACE_S = 4.0  # for running jobs at an orderly stop
_SETTLE_S = 1.5  # then for their last messages; what is not delivered is kept
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_DISCOVER_EVERY_S = 60.0
_TIDY_EVERY_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """A running bot's parts, for those who look inside: the demo and tests."""

    queue: JobQueue
    store: SqliteStore
    gate: Gate
    presenter: Presenter
    enhancer: Enhancer
    records: Records
    chat_log: SqliteLog
    platforms: Sequence[ChatPlatform]
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
        inline: bool,
    ) -> None:
        self._config = config
        self._database_url = database_url
        self._clock = clock
        self._make_platforms = make_platforms
        self._make_backend = make_backend
        self._inline = inline

    async def run(self) -> None:
        """Run until cancelled, then stop in order.

        Raises `StoreError` when the database cannot be used, `BadModel` for a model that cannot
        work, and `ChatRefused` when no chat at all lets the bot in.
        """
        async with self.running() as parts:
            await parts.queue.run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Parts]:
        """Provide the parts with chats and presenter at work; the caller runs the queue."""
        async with AsyncExitStack() as stack:
            parts = await self._open(stack)
            chats = [self._keep(platform, parts.gate) for platform in parts.platforms]
            async with (
                _beside(self._all_chats(chats), self._tidy(parts), self._discover(parts)),
                _beside(parts.presenter.run(), parts.enhancer.run()),
            ):
                try:
                    yield parts
                finally:
                    parts.gate.close()
                    await parts.presenter.settle(_SETTLE_S)

    async def _open(self, stack: AsyncExitStack) -> Parts:
        config = self._config
        database = await open_database(
            self._database_url, migrations=(MIGRATIONS,), inline=self._inline
        )
        stack.push_async_callback(database.aclose)
        store, records, people = SqliteStore(database), Records(database), People(database)
        catalog = config.catalog()
        backends = {spec.name: self._make_backend(spec) for spec in catalog.backends.values()}
        for backend in backends.values():
            stack.push_async_callback(backend.aclose)
        for model in catalog.models.values():
            for name in model.backends:
                backends[name].check(model)
        memory = NvmlProbe()
        stack.push_async_callback(memory.aclose)
        queue = JobQueue(
            store=store,
            catalog=catalog,
            backends=backends,
            clock=self._clock,
            rules=config.scheduling.rules(),
            memory=memory,
            runner=uuid4().hex,
            grace_s=_GRACE_S,
        )
        web = config.chats.web
        invites = await Invites.read(database, web.page()) if web and web.token else None
        access = config.access()
        chat_log = SqliteLog(database)
        fittings = Fittings(
            records=records,
            access=access,
            clock=self._clock,
            chat_log=chat_log,
            overview=lambda: _overview(queue),
            web_people=invites,
        )
        made = self._make_platforms(fittings)
        rooms = Rooms(by_key={name: room.room() for name, room in config.rooms.items()})
        presenter = Presenter(
            queue=queue,
            records=records,
            people=people,
            platforms={platform.name: platform for platform in made},
            clock=self._clock,
            rooms=rooms,
            busy_after_s=config.limits.busy_after_s,
        )
        enhancer = Enhancer(queue, self._clock, rooms)
        queue.subscribe(presenter.notice)
        queue.subscribe(enhancer.notice)
        context = Context(
            queue=queue,
            catalog=lambda: queue.catalog,
            records=records,
            people=people,
            audit=AuditLog(database),
            access=access,
            clock=self._clock,
            defaults=Defaults(image=config.defaults.image, ask=config.defaults.ask),
            commands=COMMANDS,
            rooms=rooms,
            styles={name: style.style() for name, style in config.styles.items()},
            chat_logs={"web": chat_log},
            invites=invites,
        )
        return Parts(
            queue=queue,
            store=store,
            gate=Gate(context, presenter),
            presenter=presenter,
            enhancer=enhancer,
            records=records,
            chat_log=chat_log,
            platforms=made,
            backends=backends,
        )

    async def _all_chats(self, chats: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run every chat; end with `ChatRefused` only when none of them can ever be used."""
        if chats:
            await asyncio.gather(*chats)
            raise ChatRefused("no chat lets the bot in; the log says why")

    async def _keep(self, platform: ChatPlatform, gate: Gate) -> None:
        """Keep one platform up: it may fail, the others go on."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await platform.run(gate)
            except ChatRefused as refused:
                log.error("%s is off: %s", platform.name, refused)  # noqa: TRY400  no bug of ours
                return
            except Exception:
                log.exception("%s failed; it starts again in %.0f s", platform.name, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _tidy(self, parts: Parts) -> None:
        """Let go of what retention no longer keeps, once an hour."""
        kept = self._config.retention
        while True:
            try:
                await let_go(parts.store, parts.chat_log, kept, self._clock.now())
            except Exception:
                log.exception("retention failed; it is tried again")
            await asyncio.sleep(_TIDY_EVERY_S)

    async def _discover(self, parts: Parts) -> None:
        """Offer what servers with `discover: true` have, and what they gain later."""
        asked = [spec.name for spec in parts.queue.catalog.backends.values() if spec.discover]
        while asked:
            for name in asked:
                known = parts.queue.catalog.served_by(name)
                try:
                    parts.queue.extend(await parts.backends[name].discover(known))
                except BackendError as error:
                    log.info("%s: what it offers could not be asked: %s", name, error)
                except Exception:
                    log.exception("%s: what it offers could not be read", name)
            await asyncio.sleep(_DISCOVER_EVERY_S)


def build(
    config: Config,
    *,
    database_url: str | None = None,
    clock: Clock | None = None,
    make_platforms: MakePlatforms | None = None,
    make_backend: Callable[..., Backend] = connect,
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
        inline=inline,
    )


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work beside the body: a failure of it stops the body, the body's end cancels it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def _overview(queue: JobQueue) -> tuple[ModelLine, ...]:
    return tuple(
        ModelLine(
            model=model.name,
            waiting=model.waiting,
            running=model.running,
            memory=_memory_word(model),
        )
        for model in queue.models()
        if model.waiting or model.running or model.copies
    )


def _memory_word(model: ModelStatus) -> Literal["absent", "loading", "ready"]:
    places = {copy.residency for copy in model.copies}
    if Residency.READY in places:
        return "ready"
    return "loading" if Residency.LOADING in places else "absent"
