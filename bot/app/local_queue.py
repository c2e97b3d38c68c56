"""The queue with its servers, and the background tasks that belong to it.

Servers with `discover` are asked for their models repeatedly.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from backends.hardware.gpu_memory import GpuMemory, NvmlProbe
from backends.hardware.gpu_programs import GpuPrograms
from backends.hardware.host_control import NetworkHostControl
from bot.app import assembly
from bot.app.assembly import SharedParts
from bot.app.metering import Meters
from bot.app.reloader import Prepare
from bot.app.setup import BotSetup
from bot.app.supervisor import after, beside, keep_told, tidy
from bot.config.config import Config
from bot.monitoring.recorder import Recorder
from bot.requests.admission import AdmissionService
from bot.requests.dictation import DictationEnds
from queueing.core.catalog import Catalog
from queueing.core.concurrency import TaskGroup, came
from queueing.core.errors import BackendError
from queueing.core.ports import Backend, SystemClock
from queueing.core.specs import BackendSpec, ModelSpec
from queueing.core.status import HostActivity
from queueing.service.job_queue import JobQueue
from queueing.service.model_reader import LocalModelReader
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database

AGAIN_S = 60.0  # a list is cheap for a server, but its details take a call per model
EMPTY_AGAIN_S = 5.0  # for a server without a model, which is probably being set up

log = logging.getLogger(__name__)


class ModelDiscovery:
    """Asks servers for their models: at startup, every minute, and when a server comes back.

    A server without models is asked every few seconds, because it is probably being set up.
    `looked` is set once every server was asked.
    """

    def __init__(self, models: LocalModelReader, backends: Mapping[str, Backend]) -> None:
        self.looked = asyncio.Event()
        self._models = models
        self._backends = backends
        self._again = asyncio.Event()
        self._unheard: set[str] = set()  # servers that could not be asked
        self._empty: set[str] = set()  # servers that answered but have no model

    def ask_again(self) -> None:
        """Ask all servers at once, because their configuration changed."""
        self._again.set()

    def on_hosts(self, states: Mapping[str, HostActivity]) -> None:
        """Ask again as soon as a server is up that did not answer last time."""
        if any(not self._unheard.isdisjoint(each.servers) for each in states.values()):
            self._again.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            self._again.clear()
            await self._ask(self._listed())
            self.looked.set()
            await self._until_next()

    def _listed(self) -> Sequence[str]:
        backends = self._models.offer.catalog.backends.values()
        return [spec.name for spec in backends if spec.discover]

    async def _until_next(self) -> None:
        """Wait a minute or for `ask_again`. Until then, only ask servers without models."""
        for _ in range(round(AGAIN_S / EMPTY_AGAIN_S)):
            if await came(self._again, EMPTY_AGAIN_S):
                return
            if empty := [name for name in self._listed() if name in self._empty]:
                await self._ask(empty)

    async def _ask(self, names: Sequence[str]) -> None:
        catalog = self._models.offer.catalog
        for servers in (self._unheard, self._empty):
            servers.intersection_update(self._listed())
        async with TaskGroup() as group:
            found = {
                name: group.create_task(self._found(name, catalog.served_by(name)))
                for name in names
            }
            for name in names:  # in order: of two models with the same name, the first one is kept
                if offered := await found[name]:
                    self._models.extend(offered)

    async def _found(self, name: str, known: Sequence[ModelSpec]) -> tuple[ModelSpec, ...]:
        self._empty.discard(name)
        try:
            offered = await self._backends[name].discover(known)
        except BackendError as error:
            log.info("%s: cannot list its models: %s", name, error)
        except Exception:
            log.exception("%s: cannot read its list of models", name)
        else:
            self._unheard.discard(name)
            if not (offered or known):
                self._empty.add(name)
            return offered
        self._unheard.add(name)
        return ()


FIRST_LOOK_S = 5.0  # limits how long a hanging server delays the first requests


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalQueue:
    """A queue and its parts."""

    queue: JobQueue
    store: JobStore
    database: Database
    backends: Mapping[str, Backend]
    discovery: ModelDiscovery


async def open_queue(
    setup: BotSetup,
    database: Database,
    stack: AsyncExitStack,
    held: Callable[[], bool] = lambda: True,
) -> LocalQueue:
    """Build the queue of a database. Servers are only contacted later, while `held` returns True.

    Raises `StoreError`, and `BadModel` for a model that cannot work.
    """
    store = JobStore(database)
    await store.prepare()
    if database.alone and isinstance(setup.clock, SystemClock):
        setup.clock.start_after(await store.newest_moment())
    catalog = setup.in_force.config.catalog()
    backends = _made(setup, catalog.backends.values())
    for backend in backends.values():
        stack.push_async_callback(backend.aclose)
    _require_able(catalog, backends)
    nvidia = NvmlProbe()
    stack.push_async_callback(nvidia.aclose)
    queue = JobQueue(
        store=store,
        catalog=catalog,
        backends=backends,
        clock=setup.clock,
        rules=setup.in_force.config.scheduling.rules(),
        memory=GpuMemory(nvidia),
        gpus=GpuPrograms(nvidia),
        machines=NetworkHostControl(setup.in_force.config.proxies),
        runner=uuid4().hex,
        grace_s=setup.grace_s,
        long_queue=lambda: setup.in_force.config.logging.long_queue,
        offers=setup.in_force.rules.offer,
        held=held,
    )
    return LocalQueue(
        queue=queue,
        store=store,
        database=database,
        backends=queue.backends,
        discovery=ModelDiscovery(queue.models, queue.backends),
    )


@asynccontextmanager
async def serving(
    setup: BotSetup, parts: LocalQueue, meters: Meters | None
) -> AsyncIterator[tuple[SharedParts, AdmissionService]]:
    """Run the queue's background tasks until the block ends. The block itself runs the queue.

    Enters the block once the servers were asked for their models, or after `FIRST_LOOK_S`. Provides
    the objects between people and the queue. Raises `StoreError`.
    """
    async with AsyncExitStack() as stack:
        if meters is not None:
            await stack.enter_async_context(meters.on_queue(parts.queue, setup.clock))
        given = await setup.groundwork(parts.database, parts.queue, meters)
        admission = assembly.admission(given)
        enhancer, transcriber = (
            assembly.enhancer(given, admission),
            assembly.transcriber(given, admission),
        )
        dictated = DictationEnds(parts.queue.deliveries)
        for listener in (enhancer.on_event, transcriber.on_event, dictated.on_event):
            parts.queue.events.subscribe(listener)
        prepare = reconfiguring(setup, parts, stack)
        stack.enter_context(setup.reloader.applying(given.stored.audit, prepare))
        stack.enter_context(setup.desk.offering(assembly.operator_records(given)))
        async with (
            beside(*upkeep(setup, parts, given)),
            after(parts.discovery.looked, within_s=FIRST_LOOK_S),
            beside(enhancer.run(), transcriber.run(), dictated.run()),
        ):
            yield given, admission


def reconfiguring(setup: BotSetup, parts: LocalQueue, stack: AsyncExitStack) -> Prepare:
    """Return a function that prepares the queue for another configuration.

    New servers are closed with `stack`.
    """

    async def prepare(config: Config) -> Callable[[], None]:
        catalog = await asyncio.to_thread(config.catalog)
        known = parts.queue.models.offer.catalog
        made = _made(setup, _unlike(catalog, known))
        _require_able(catalog, {**parts.backends, **made})

        def commit() -> None:
            for backend in made.values():
                stack.push_async_callback(backend.aclose)
            parts.queue.reconfiguration.apply(catalog, made, config.scheduling.rules())
            parts.discovery.ask_again()

        return commit

    return prepare


def _unlike(catalog: Catalog, known: Catalog) -> list[BackendSpec]:
    """Return the servers that are new or whose configuration changed."""
    return [
        spec
        for name, spec in catalog.backends.items()
        if known.backends.get(name) != spec or known.hosts_of[name] != catalog.hosts_of[name]
    ]


def upkeep(
    setup: BotSetup, parts: LocalQueue, given: SharedParts
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Return the background tasks: retention, model discovery, history and webhooks.

    Webhooks run here, once for all processes that serve the API.
    """
    parts.queue.hosts.subscribe(parts.discovery.on_hosts)
    return (
        tidy(
            parts.database,
            parts.store,
            given.stored.chat_log,
            setup.clock,
            setup.in_force,
        ),
        parts.discovery.run(),
        _recorder(setup, parts, given).run(),
        *_endings(given),
    )


def _recorder(setup: BotSetup, parts: LocalQueue, given: SharedParts) -> Recorder:
    """Build the recorder of history and subscribe it to the queue."""
    made = Recorder(
        given.stored.history,
        parts.queue.promises,
        setup.clock,
        setup.in_force,
    )
    parts.queue.events.subscribe(made.on_event)
    parts.queue.hosts.subscribe(made.on_hosts)
    return made


def _endings(given: SharedParts) -> tuple[Coroutine[Any, Any, None], ...]:
    if given.config.api is None:
        return ()
    made = assembly.endings(given, given.config.api)
    given.queue.events.subscribe(made.on_event)
    return (keep_told(made),)


def _made(setup: BotSetup, specs: Iterable[BackendSpec]) -> dict[str, Backend]:
    """Build the connections to servers. Makes no requests yet."""
    return {spec.name: setup.make_backend(spec) for spec in specs}


def _require_able(catalog: Catalog, backends: Mapping[str, Backend]) -> None:
    """Raise `BadModel` for a model that cannot work."""
    for model in catalog.models.values():
        for name in model.backends:
            backends[name].check(model)
