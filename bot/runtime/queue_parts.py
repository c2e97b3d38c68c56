"""The queue with its servers, and what runs beside it in the same process."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from backends.common.memory import NvmlProbe
from bot.requests.admission import AdmissionService
from bot.runtime import assembly
from bot.runtime.assembly import Groundwork
from bot.runtime.background import discover, keep_told, tidy
from bot.runtime.enhancer import Enhancer
from bot.runtime.setup import BotSetup
from bot.runtime.transcriber import Transcriber
from queueing.core.catalog import Catalog
from queueing.core.ports import Backend
from queueing.service.jobqueue import JobQueue
from queueing.store import Database, JobStore

FIRST_LOOK_S = 5.0  # a server that hangs holds up the first requests so long, and not longer


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueParts:
    """A queue, and what it works with. `looked` is set once its servers were asked for models."""

    queue: JobQueue
    store: JobStore
    database: Database
    backends: Mapping[str, Backend]
    looked: asyncio.Event = field(default_factory=asyncio.Event)


async def open_queue(setup: BotSetup, database: Database, stack: AsyncExitStack) -> QueueParts:
    """Make the queue of a database; no server is asked yet.

    Raises `StoreError`, and `BadModel` for a model that cannot work.
    """
    store = JobStore(database)
    await store.prepare()
    catalog = setup.in_force.config.catalog()
    backends = _connect(setup, catalog, stack)
    memory = NvmlProbe()
    stack.push_async_callback(memory.aclose)
    queue = JobQueue(
        store=store,
        catalog=catalog,
        backends=backends,
        clock=setup.clock,
        rules=setup.in_force.config.scheduling.rules(),
        memory=memory,
        runner=uuid4().hex,
        grace_s=setup.grace_s,
    )
    return QueueParts(queue=queue, store=store, database=database, backends=backends)


def enhancer_of(given: Groundwork, door: AdmissionService) -> Enhancer:
    """Return what has prompts improved, listening to the queue."""
    made = assembly.enhancer(given, door)
    given.queue.events.subscribe(made.on_event)
    return made


def transcriber_of(given: Groundwork, door: AdmissionService) -> Transcriber:
    """Return what has recordings written down, listening to the queue."""
    made = assembly.transcriber(given, door)
    given.queue.events.subscribe(made.on_event)
    return made


def upkeep(
    setup: BotSetup, parts: QueueParts, given: Groundwork
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Return what keeps the database small, the offered models up to date, and programs told.

    Programs' jobs are seen to their end here, once for all processes that serve the API.
    """
    chat_log, retention = given.stored.chat_log, setup.in_force.config.retention
    return (
        tidy(parts.database, parts.store, chat_log, setup.clock, retention),
        discover(parts.queue.models, parts.backends, parts.looked),
        *_endings(given),
    )


def _endings(given: Groundwork) -> tuple[Coroutine[Any, Any, None], ...]:
    if given.config.api is None:
        return ()
    made = assembly.endings(given, given.config.api)
    given.queue.events.subscribe(made.on_event)
    return (keep_told(made),)


def _connect(setup: BotSetup, catalog: Catalog, stack: AsyncExitStack) -> Mapping[str, Backend]:
    """Return the backends without making a request yet. Raises `BadModel`."""
    backends = {spec.name: setup.make_backend(spec) for spec in catalog.backends.values()}
    for backend in backends.values():
        stack.push_async_callback(backend.aclose)
    for model in catalog.models.values():
        for name in model.backends:
            backends[name].check(model)
    return backends
