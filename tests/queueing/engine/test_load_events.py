"""Every load and every unload is announced, with its cause."""

from queueing.core.errors import Unavailable
from queueing.core.events import CopyLeft, Event, LoadCause, LoadEnded
from queueing.core.snapshot import EvictionCause
from queueing.service.job_queue import JobQueue
from tests.simulation.installation import (
    Installation,
    ended,
    flux_or_sdxl,
    host,
    image_model,
    until,
)
from tests.simulation.loop import in_virtual_time


def heard(queue: JobQueue) -> list[LoadEnded | CopyLeft]:
    events: list[LoadEnded | CopyLeft] = []

    def hear(event: Event) -> None:
        if isinstance(event, LoadEnded | CopyLeft):
            events.append(event)

    queue.events.subscribe(hear)
    return events


def _why(event: LoadEnded | CopyLeft) -> LoadCause | EvictionCause:
    return event.cause if isinstance(event, LoadEnded) else event.why


@in_virtual_time
async def test_a_load_for_a_request_names_what_had_to_leave() -> None:
    """An operator would see that a GPU is busy loading, but not for whom."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        events = heard(queue)
        for model in ("flux", "sdxl"):
            await ended(queue, await installation.ask(queue, model, model))
    first, left, second = events
    assert isinstance(first, LoadEnded)
    assert isinstance(second, LoadEnded)
    assert (first.model, first.hosts, first.cause) == ("flux", ("gpu",), LoadCause.REQUEST)
    assert left == CopyLeft(model="flux", backend="comfy", hosts=("gpu",), why=EvictionCause.ROOM)
    assert (second.model, second.failed) == ("sdxl", False)
    assert second.seconds >= installation.servers["comfy"].load_s


@in_virtual_time
async def test_a_failed_load_is_announced_as_failed() -> None:
    """A model that crashes its server repeatedly would show no loads at all."""
    installation = flux_or_sdxl()
    installation.servers["comfy"].load_fates = lambda: Unavailable("it crashed")
    async with installation.queue() as queue:
        events = heard(queue)
        await ended(queue, await installation.ask(queue, "flux", "a"))
    loads = [event for event in events if isinstance(event, LoadEnded)]
    assert [load.failed for load in loads] == [True] * 3


@in_virtual_time
async def test_what_an_admin_loads_and_unloads_is_told_apart() -> None:
    """Loads by hand would count as thrashing."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        events = heard(queue)
        await queue.preloads.preload("flux", None)
        await queue.preloads.unload("flux", None)
        await until(lambda: len(events) == 2)
    assert [_why(event) for event in events] == [LoadCause.PRELOAD, EvictionCause.ADMIN]


@in_virtual_time
async def test_a_second_copy_is_told_apart() -> None:
    """A busy model on several GPUs would look like one that is unloaded and loaded repeatedly."""
    installation = Installation.of(
        [image_model("flux", "one", "two", vram_mb=16000)],
        [host("gpu-1", "one"), host("gpu-2", "two")],
    )
    async with installation.queue() as queue:
        events = heard(queue)
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(40)]
        for job in jobs:
            await ended(queue, job)
    # Either may be loaded first: both begin within the first step.
    assert sorted(_why(event) for event in events) == [LoadCause.COPY, LoadCause.REQUEST]
