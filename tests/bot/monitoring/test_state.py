"""The state of a queue, and what became of its promises and loads, in virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from prometheus_client import generate_latest

from bot.app.metering import Meters
from bot.monitoring.metrics import Metrics
from queueing.core.errors import OutOfMemory, Unavailable
from queueing.core.jobs import Job
from queueing.core.specs import WakeSpec
from queueing.service.job_queue import JobQueue
from tests.bot.monitoring.scraped import Scraped
from tests.fakes.servers.backend import FakeProbe, Fate
from tests.simulation.installation import (
    NO_LIMITS,
    Installation,
    ended,
    host,
    image_model,
    until,
)
from tests.simulation.loop import in_virtual_time


def one_gpu() -> Installation:
    """Return a GPU that holds either flux or sdxl."""
    models = [image_model("flux", vram_mb=16000), image_model("sdxl", vram_mb=16000)]
    return Installation.of(models, [host("gpu", "comfy")])


def _always(fate: Fate, _work: object) -> Fate:
    return fate


def new_meters() -> tuple[Meters, Callable[[], Scraped]]:
    """Return meters, and what they show."""
    instruments = Metrics("")
    meters = Meters(instruments, cast("Any", None))
    return meters, lambda: Scraped(generate_latest(cast("Any", instruments.now())).decode())


@asynccontextmanager
async def metered(
    installation: Installation,
) -> AsyncIterator[tuple[JobQueue, Callable[[], Scraped]]]:
    """Run the queue, and return it with what its meters show."""
    meters, read = new_meters()
    async with installation.queue() as queue, meters.on_queue(queue, installation.clock):
        yield queue, read


async def asked(queue: JobQueue, installation: Installation, model: str, **fields: str) -> Job:
    new = installation.new(model, "a cat", **fields)
    return await queue.submitter.submit(new, limits=NO_LIMITS)


@in_virtual_time
async def test_a_server_that_goes_away_is_shown() -> None:
    """No alert would be raised."""
    installation = one_gpu()
    async with metered(installation) as (_, read):
        await until(lambda: read().of("usher_backend_up", backend="comfy") == 1)
        installation.servers["comfy"].die(-1)
        await until(lambda: read().of("usher_backend_up", backend="comfy") == 0)


@in_virtual_time
async def test_a_machine_that_sleeps_is_told_from_one_that_is_away() -> None:
    """An alert would be raised each night."""
    wake = WakeSpec(mac="001a2b3c4d5e", takes_s=60.0)
    installation = Installation.of(
        [image_model("flux", "comfy"), image_model("sdxl", "far")],
        [host("gpu", "comfy"), replace(host("cellar", "far"), wake=wake)],
    )
    for server in installation.servers.values():
        server.up = False
    async with metered(installation) as (queue, read):
        await until(lambda: read().of("usher_host_state", host="cellar", state="asleep") == 1)
        assert read().of("usher_host_state", host="gpu", state="open") == 1
        assert read().of("usher_host_state", host="cellar") == 1
        assert read().of("usher_backend_up") == 0
        await queue.admin.pause(host="gpu")
        await asked(queue, installation, "flux")
        await until(lambda: read().of("usher_host_state", host="gpu", state="paused") == 1)
        await until(lambda: read().of("usher_queue_reason", model_name="flux") == 1)
        assert read().of("usher_queue_reason", model_name="sdxl") == 0


@in_virtual_time
async def test_memory_taken_by_others_is_shown() -> None:
    """An operator would not see why no model fits any more."""
    installation = one_gpu()
    installation.memory = FakeProbe(installation.gpus)
    async with metered(installation) as (_, read):
        before = read().of("usher_host_memory_bytes", kind="free")
        installation.gpus["gpu"].other_mb = 6000
        await until(lambda: read().of("usher_host_memory_bytes", kind="foreign") > 0)
        assert read().of("usher_host_memory_bytes", kind="foreign") == 6000 * 2**20
        assert read().of("usher_host_memory_bytes", kind="free") < before
        assert read().of("usher_host_memory_bytes", kind="budget") == before


@in_virtual_time
async def test_lanes_are_told_apart() -> None:
    """The queue of those who wait longest would be hidden in the sum."""
    installation = one_gpu()
    async with metered(installation) as (queue, read):
        await queue.admin.pause()
        for lane in ("vip", "relaxed", "relaxed"):
            await asked(queue, installation, "flux", lane=lane)
        await until(lambda: read().of("usher_jobs_waiting") == 3)
        assert read().of("usher_jobs_waiting", model_name="flux", lane="relaxed") == 2
        assert read().of("usher_jobs_waiting", model_name="flux", lane="vip") == 1


@in_virtual_time
async def test_loads_that_fail_are_counted_and_their_jobs_as_failed() -> None:
    """A model that crashes its server would look like one that no one asks for."""
    installation = one_gpu()
    installation.servers["comfy"].load_fates = lambda: Unavailable("it crashed")
    async with metered(installation) as (queue, read):
        job = await asked(queue, installation, "flux")
        await ended(queue, job)
    assert read().of("usher_model_load_failures_total", model_name="flux", host="gpu") == 3
    assert read().of("usher_model_loads_total") == 0
    assert read().of("usher_jobs_total", model_name="flux", outcome="failed") == 1
    assert read().of("usher_attempts_total") == 0


@in_virtual_time
async def test_attempts_are_counted_by_their_end() -> None:
    """Retries would be seen nowhere, and a job that needed three would look like any other."""
    installation = one_gpu()
    fates = [Fate(error=OutOfMemory("full"))]
    installation.servers["comfy"].fates = lambda _work: fates.pop() if fates else Fate()
    async with metered(installation) as (queue, read):
        job = await asked(queue, installation, "flux")
        await ended(queue, job)
        other = await asked(queue, installation, "sdxl")
        await until(lambda: read().of("usher_jobs_running", model_name="sdxl") == 1)
        await queue.submitter.cancel(other.id)
    assert read().of("usher_attempts_total", outcome="completed") == 1
    assert read().of("usher_attempts_total", outcome="retried") == 1
    assert read().of("usher_attempts_total", outcome="cancelled") == 1
    assert read().of("usher_attempts_total") == 3
    assert read().of("usher_job_wait_seconds_count", model_name="flux") == 1
    assert read().of("usher_jobs_total", outcome="cancelled") == 1


@in_virtual_time
async def test_promises_are_compared_with_what_happened() -> None:
    """No one would notice that the promised times are wrong."""
    installation = one_gpu()
    async with metered(installation) as (queue, read):
        queue.promises.follow()
        for took_s in (5.0, 100.0):
            fate = Fate(service_s=took_s)
            installation.servers["comfy"].fates = partial(_always, fate)
            job = await asked(queue, installation, "flux")
            await until(lambda: read().of("usher_jobs_running") == 1)
            current = await queue.jobs.get(job.id)
            assert current is not None
            await queue.status.standings([current])
            await ended(queue, job)
    assert read().of("usher_estimates_given_total", lane="normal") == 2
    assert read().of("usher_estimates_kept_total", lane="normal") == 1
    assert read().of("usher_estimate_error_seconds_sum", lane="normal") > 60


@in_virtual_time
async def test_a_queue_that_moves_away_takes_its_lines_along() -> None:
    """Each process that ever held the queue would report its length, and all would be added up."""
    installation = one_gpu()
    meters, read = new_meters()
    for held in (1, 2):
        async with installation.queue() as queue:
            async with meters.on_queue(queue, installation.clock):
                job = await asked(queue, installation, "flux")
                await ended(queue, job)
                assert "usher_jobs_waiting" in read().text
            assert "usher_jobs_waiting" not in read().text
            assert "usher_backend_up" not in read().text
            assert read().of("usher_jobs_total", outcome="completed") == held


@in_virtual_time
async def test_a_job_found_running_is_counted_when_it_ends() -> None:
    """After each restart a GPU would look idle for as long as a video takes."""
    installation = one_gpu()
    meters, read = new_meters()
    async with installation.queue() as queue:
        job = await asked(queue, installation, "flux")
        await until(lambda: bool(installation.servers["comfy"].running))
        async with meters.on_queue(queue, installation.clock):
            await ended(queue, job)
    assert read().of("usher_attempts_total", outcome="completed") == 1
    assert read().of("usher_job_wait_seconds_count") == 0, "it began in an earlier run"
