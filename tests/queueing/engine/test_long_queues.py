"""A long queue causes one warning: not one per job, and another only after it was short."""

import logging

import pytest

from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.simulation.installation import Installation, ended, flux_or_sdxl, until
from tests.simulation.loop import in_virtual_time, run


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "jobs wait for" in each]


async def fill(
    queue: JobQueue, installation: Installation, count: int, model: str = "flux"
) -> None:
    for number in range(count):
        await installation.ask(queue, model, str(number))


@in_virtual_time
async def test_a_deep_line_is_told_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """The log would be flooded just when something else in it matters."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        await queue.admin.pause(model="flux")
        await fill(queue, installation, 49)
        await fill(queue, installation, 49, "sdxl")
        await until(lambda: queue.status.snapshot().models[0].waiting == 49)
        assert warnings(caplog) == []
        await fill(queue, installation, 30)
        await until(lambda: queue.status.snapshot().models[0].waiting == 79)
        (told,) = warnings(caplog)
        assert told.startswith("50 jobs wait for flux: ")
        assert "paused" in told


@in_virtual_time
async def test_it_is_told_again_only_after_it_was_short(caplog: pytest.LogCaptureFixture) -> None:
    """A queue that goes up and down around the limit would fill the log."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        await fill(queue, installation, 60)
        jobs = await queue.jobs.open_jobs()
        await ended(queue, jobs[29])
        await fill(queue, installation, 30)  # it was never below 25
        await until(lambda: queue.status.snapshot().models[0].waiting >= 50)
        assert len(warnings(caplog)) == 1
        jobs = await queue.jobs.open_jobs()
        await ended(queue, jobs[-10])
        await fill(queue, installation, 50)
        await until(lambda: len(warnings(caplog)) == 2)


@in_virtual_time
async def test_a_line_found_deep_at_the_start_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """After a restart no one would hear of it until the next job comes."""
    installation = flux_or_sdxl()
    store = JobStore(await open_database("sqlite://", inline=True))
    await store.prepare()
    queue = installation.build(store, installation.connect())
    await queue.admin.pause()
    await fill(queue, installation, 55)
    async with installation.queue(store):
        await until(lambda: bool(warnings(caplog)))
    assert warnings(caplog)[0].startswith("55 jobs wait for flux")


def test_none_is_told_where_the_setting_is_0(caplog: pytest.LogCaptureFixture) -> None:
    """An operator could not turn it off."""
    installation = flux_or_sdxl()
    installation.long_queue = 0

    async def scenario() -> None:
        async with installation.queue() as queue:
            await fill(queue, installation, 60)
            await until(lambda: queue.status.snapshot().models[0].waiting >= 50)
            assert warnings(caplog) == []

    with caplog.at_level(logging.WARNING):
        run(scenario())
