"""What is stored is published, even if its caller is cancelled at that moment."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from queueing.core.errors import StaleJob
from queueing.core.events import JobChanged, Produced, QueuesMoved
from queueing.core.jobs import Job, JobEvent
from queueing.engine.event_bus import EventBus
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.simulation.installation import Installation, ended, image_model, one_gpu, until
from tests.simulation.loop import in_virtual_time

CHANGES = frozenset({"add", "apply", "move_first", "replace_request"})


@dataclass
class HeldStore:
    """A store that delays the answers to changes it has made, while it is told to."""

    store: JobStore
    open: asyncio.Event = field(default_factory=asyncio.Event)
    made: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.store, name)
        if name not in CHANGES:
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await value(*args, **kwargs)
            self.made.append(name)
            await self.open.wait()
            return result

        return call


@in_virtual_time
async def test_what_a_job_produced_is_told_once_it_is_stored() -> None:
    """A caller would have a result that no restart knows, or be told of the end too early."""
    installation = one_gpu(image_model("flux"))
    store = HeldStore(JobStore(await open_database(installation.url, inline=True)))
    store.open.set()
    async with installation.queue(store) as queue:
        job = await installation.ask(queue, "flux", "cat")
        await until(lambda: JobEvent.START in installation.history(job.id))
        store.open.clear()
        store.made.clear()
        await until(lambda: store.made)
        assert not any(isinstance(event, Produced) for event in installation.events)
        store.open.set()
        await ended(queue, job)
        output = await queue.jobs.output(job)
    assert output is not None
    told = [e for e in installation.events if isinstance(e, Produced | JobChanged)]
    assert told[-2] == Produced(job_id=job.id, output=output)
    assert isinstance(told[-1], JobChanged)
    assert told[-1].event is JobEvent.COMPLETE


Calls = Callable[[Installation, JobQueue, Job], Awaitable[Any]]
CALLS: dict[str, tuple[Calls, JobEvent | None]] = {
    "submit": (lambda i, q, _: i.ask(q, "flux", "dog"), None),
    "replace": (lambda i, q, job: q.submitter.replace_request(job.id, job.request), None),
    "cancel": (lambda _, q, job: q.submitter.cancel(job.id), JobEvent.CANCEL),
    "clear": (lambda _, q, job: q.admin.clear(job.model), JobEvent.CANCEL),
}


@pytest.mark.parametrize("name", CALLS)
@in_virtual_time
async def test_a_change_is_published_though_its_caller_has_gone(name: str) -> None:
    """A person who left a call would leave all others with an old place in the queue."""
    call, event = CALLS[name]
    installation = one_gpu(image_model("flux"))
    store = HeldStore(JobStore(await open_database(installation.url, inline=True)))
    queue = installation.build(store, installation.connect())  # not running: all jobs wait
    store.open.set()
    job = await installation.ask(queue, "flux", "cat")
    store.open.clear()
    store.made.clear()
    installation.events.clear()
    caller = asyncio.ensure_future(call(installation, queue, job))
    await until(lambda: store.made)
    caller.cancel()
    await asyncio.wait([caller])
    assert not installation.events
    store.open.set()
    await until(lambda: installation.events, within_s=5.0)
    (changed,) = installation.events
    assert isinstance(changed, JobChanged)
    assert changed.event is event
    await store.aclose()


@in_virtual_time
async def test_a_moved_job_has_its_line_looked_at_though_the_caller_has_gone() -> None:
    """The places of a whole queue would stay unchanged until something else moved it."""
    installation = one_gpu(image_model("flux"))
    store = HeldStore(JobStore(await open_database(installation.url, inline=True)))
    store.open.set()
    async with installation.queue(store) as queue:
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(4)]
        await until(lambda: installation.servers["comfy"].running)
        store.open.clear()
        store.made.clear()
        caller = asyncio.ensure_future(queue.admin.move_first(jobs[-1].id))
        await until(lambda: store.made)
        caller.cancel()
        await asyncio.wait([caller])
        installation.events.clear()
        store.open.set()

        def told() -> bool:
            return any(isinstance(event, QueuesMoved) for event in installation.events)

        await until(told, within_s=1.0)


@in_virtual_time
async def test_a_finished_job_is_published_though_its_attempt_was_cancelled() -> None:
    """A result stored as the bot stops would only reach its chat after the next start."""
    installation = one_gpu(image_model("flux"))
    store = HeldStore(JobStore(await open_database(installation.url, inline=True)))
    store.open.set()
    queue = installation.build(store, installation.connect())
    running = asyncio.create_task(queue.run())
    job = await installation.ask(queue, "flux", "cat")
    await until(lambda: JobEvent.START in installation.history(job.id))
    store.open.clear()
    store.made.clear()
    await until(lambda: store.made)
    running.cancel()
    asyncio.get_running_loop().call_later(60.0, store.open.set)
    await asyncio.wait([running])
    assert installation.history(job.id) == [None, JobEvent.START, JobEvent.COMPLETE]
    await store.aclose()


@in_virtual_time
async def test_a_change_that_fails_after_its_caller_has_gone_raises_no_alarm() -> None:
    """The operator would read of a bug whenever a person leaves a call at the wrong moment."""
    alarms, bus, fails = list[Any](), EventBus(), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: alarms.append(told))

    async def change() -> None:
        await fails.wait()
        raise StaleJob("1")

    caller = asyncio.ensure_future(bus.after(change(), lambda _: None))
    await asyncio.sleep(1)
    caller.cancel()
    await asyncio.wait([caller])
    del caller  # it refers to the change, whose end would be told of when both are gone
    fails.set()
    await bus.settle()
    await asyncio.sleep(1)
    gc.collect()
    assert not alarms


class Interrupted(BaseException):
    """An end that is no `Exception`."""


@pytest.mark.parametrize(
    "ending",
    [StaleJob("1"), Interrupted(), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
@in_virtual_time
async def test_whatever_ends_a_change_its_caller_hears_of_it(ending: BaseException) -> None:
    """A call would wait forever, and its caller with it."""
    bus = EventBus()

    async def change() -> None:
        raise ending

    caller = asyncio.ensure_future(bus.after(change(), lambda _: None))
    await asyncio.wait([caller], timeout=60.0)
    heard = asyncio.CancelledError() if caller.cancelled() else caller.exception()
    assert isinstance(heard, type(ending))
