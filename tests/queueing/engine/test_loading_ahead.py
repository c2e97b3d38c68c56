"""How loading ahead on a host affects people who ask for something else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from queueing.core.errors import Unavailable
from queueing.core.events import LoadCause, LoadEnded
from queueing.core.snapshot import Residency
from queueing.planning.ahead import IDLE_S
from queueing.service.job_queue import JobQueue
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time

LOAD_S = 10.0  # of a fake server


@asynccontextmanager
async def settled(**given: Any) -> AsyncIterator[tuple[Installation, JobQueue]]:
    """Run a GPU that holds flux or sdxl and loads ahead: flux is more likely, and sdxl loaded."""
    models = [image_model(name, vram_mb=16000, idle_unload_s=3600.0) for name in ("flux", "sdxl")]
    installation = Installation.of(models, [replace(host("gpu", "comfy"), loads_ahead=True)])
    installation = replace(installation, **given)
    async with installation.queue() as queue:
        for model in ("flux",) * 6 + ("sdxl",):
            await ended(queue, await installation.ask(queue, model, model))
        yield installation, queue
        assert installation.violations == []


def state(queue: JobQueue, model: str) -> tuple[Residency, bool] | None:
    """Return whether the model's only copy is loading or ready, and whether it was loaded ahead."""
    [status] = [each for each in queue.status.snapshot().models if each.name == model]
    return next(((copy.residency, copy.ahead) for copy in status.copies), None)


def causes(installation: Installation) -> list[LoadCause]:
    return [each.cause for each in installation.events if isinstance(each, LoadEnded)]


AHEAD = (Residency.LOADING, True)
READY = (Residency.READY, False)


@in_virtual_time
async def test_the_next_request_finds_its_model_loaded() -> None:
    """A model would be loaded ahead for nobody."""
    async with settled() as (installation, queue):
        before = installation.clock.now()
        await until(lambda: state(queue, "flux") == AHEAD)
        assert installation.clock.now() - before >= IDLE_S - 1
        await until(lambda: state(queue, "flux") == READY)
        assert causes(installation)[-1] is LoadCause.AHEAD
        asked = installation.clock.now()
        await ended(queue, await installation.ask(queue, "flux", "next"))
        assert installation.clock.now() - asked < LOAD_S


@in_virtual_time
async def test_a_request_for_another_model_stops_a_load_ahead() -> None:
    """The person would wait for a load that nobody asked for."""
    async with settled() as (installation, queue):
        await until(lambda: state(queue, "flux") == AHEAD)
        asked = installation.clock.now()
        job = await ended(queue, await installation.ask(queue, "sdxl", "now"))
        assert job.started_at is not None
        assert job.started_at - asked < LOAD_S + 2.0
        assert causes(installation)[-1] is LoadCause.REQUEST


@in_virtual_time
async def test_a_request_waits_where_the_server_cannot_stop_a_load() -> None:
    """Its memory would count as free while the server loads on."""
    async with settled() as (installation, queue):
        installation.servers["comfy"].stubborn = True
        await until(lambda: state(queue, "flux") == AHEAD)
        await ended(queue, await installation.ask(queue, "sdxl", "now"))
        assert causes(installation)[-2:] == [LoadCause.AHEAD, LoadCause.REQUEST]


@in_virtual_time
async def test_a_request_for_the_model_that_loads_ahead_uses_that_load() -> None:
    """The load would be stopped and started again."""
    async with settled() as (installation, queue):
        await until(lambda: state(queue, "flux") == AHEAD)
        await ended(queue, await installation.ask(queue, "flux", "now"))
        assert causes(installation)[-1] is LoadCause.AHEAD


@in_virtual_time
async def test_what_an_admin_unloads_stays_out_until_it_is_asked_for() -> None:
    """A GPU that a person has just emptied would fill again by itself."""
    async with settled() as (installation, queue):
        await until(lambda: state(queue, "flux") == READY)
        await queue.preloads.unload("flux", None)
        loads = len(causes(installation))
        late = installation.clock.now() + 10 * IDLE_S
        await until(lambda: installation.clock.now() > late)
        assert state(queue, "flux") is None
        assert set(causes(installation)[loads:]) <= {
            LoadCause.AHEAD
        }  # sdxl may have taken its place


@in_virtual_time
async def test_a_load_ahead_that_fails_is_not_tried_again_by_itself() -> None:
    """A model that does not load would keep a GPU busy forever, and use up its next job's tries."""
    async with settled() as (installation, queue):
        installation.servers["comfy"].load_fates = lambda: Unavailable("it crashed")
        await until(lambda: causes(installation)[-1] is LoadCause.AHEAD)
        installation.servers["comfy"].load_fates = lambda: None
        failed = len(causes(installation))
        late = installation.clock.now() + 10 * IDLE_S
        await until(lambda: installation.clock.now() > late)
        assert state(queue, "flux") is None
        await ended(queue, await installation.ask(queue, "flux", "now"))
        assert LoadCause.REQUEST in causes(installation)[failed:]


@in_virtual_time
async def test_what_nobody_may_use_any_more_is_not_loaded_ahead() -> None:
    """A GPU would prepare for requests that are refused."""
    async with settled(offers=lambda _, model: model != "flux") as (installation, queue):
        await asyncio.sleep(10 * IDLE_S)
        assert LoadCause.AHEAD not in causes(installation)
        assert state(queue, "sdxl") == READY
