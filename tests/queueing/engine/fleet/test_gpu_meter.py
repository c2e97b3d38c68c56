"""What a job uses of its GPU, from its start to the row that counts it."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.errors import Unavailable
from queueing.core.jobs import JobState, SubmitLimits
from queueing.engine.fleet.running_jobs import GpuMeter
from tests.fakes.clock import SetClock
from tests.fakes.servers.backend import Fate
from tests.queueing.service.test_recovery import end_of, left_running
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100), st.sampled_from(("begin", "rest", "go_on")), st.integers(1, 4)
        ),
        max_size=40,
    )
)
def test_jobs_take_together_what_their_gpu_worked(steps: list[tuple[float, str, int]]) -> None:
    """A shared GPU would be paid for several times, or partly by no one."""
    clock = SetClock()
    meter = GpuMeter(clock)
    running: set[int] = set()
    begun: dict[int, float] = {}
    worked_s = dropped_s = 0.0
    for seconds, step, job_id in steps:
        clock.at += seconds
        worked_s += seconds if running else 0.0
        if step == "begin":
            dropped_s += meter.taken_s(job_id)
            meter.begin(job_id, ["gpu"])
            begun[job_id] = clock.at
            running.add(job_id)
        elif step == "rest":
            meter.rest(job_id)
            running.discard(job_id)
        else:
            meter.go_on(job_id)
            running |= {job_id} & begun.keys()
    taken = {job_id: meter.taken_s(job_id) for job_id in begun}
    assert sum(taken.values()) + dropped_s == pytest.approx(worked_s)
    for job_id, seconds in taken.items():
        assert -1e-6 <= seconds <= clock.at - begun[job_id] + 1e-6


def test_a_gpu_is_split_among_its_jobs_and_others_are_not_touched() -> None:
    """Four people who talk at once would each pay for the whole GPU."""
    clock = SetClock()
    meter = GpuMeter(clock)
    meter.begin(1, ["gpu"])
    meter.begin(9, ["other"])
    clock.at += 10
    meter.begin(2, ["gpu"], taken_s=3.0)
    clock.at += 10
    meter.rest(1)
    clock.at += 10
    assert [meter.taken_s(job) for job in (1, 2, 9, 4)] == [15.0, 18.0, 30.0, 0.0]


def two_at_once(*, service_s: float = 10.0) -> Installation:
    models = [image_model("flux", parallel=2, load_s=1.0)]
    installation = Installation.of(models, [host("gpu", "comfy")])
    installation.servers["comfy"].service_s = service_s
    return installation


@in_virtual_time
async def test_a_completed_job_is_counted_and_one_that_failed_is_not() -> None:
    """People would pay for the servers' failures, or nothing would ever be counted."""
    installation = two_at_once()
    server = installation.servers["comfy"]
    fates = iter([Fate(error=Unavailable("reset")), Fate()])
    server.fates = lambda work: next(fates)
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat", owner="ada")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        used = await queue.jobs.gpu_used(0.0)
    assert used == {"ada": pytest.approx(10.0, abs=0.5)}


@in_virtual_time
async def test_a_cancelled_job_counts_what_it_used() -> None:
    """Cancelling a video at the last moment would be a way round the limit."""
    installation = two_at_once(service_s=60.0)
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        waiting = [
            await installation.ask(queue, "flux", str(number), owner="ada") for number in range(3)
        ]
        await until(lambda: len(server.running) == 2)
        await asyncio.sleep(20)
        for job in reversed(waiting):
            await queue.submitter.cancel(job.id)
            await queue.submitter.cancel(job.id)
        used = await queue.jobs.gpu_used(0.0)
    assert used == {"ada": pytest.approx(20.0, abs=0.5)}


@in_virtual_time
async def test_a_job_that_a_killed_process_left_running_is_counted_once(tmp_path: Path) -> None:
    """After a restart it would be free, or charged for the night in which the bot was down."""
    installation, job_id = await left_running(tmp_path, service_s=30.0)
    await asyncio.sleep(10)
    async with installation.queue() as queue:
        assert (await end_of(queue, job_id)).state is JobState.COMPLETED
        used = await queue.jobs.gpu_used(0.0)
    # 5 s, a usual job's time, for all before the restart, and what it ran on after it.
    assert used == {"web:1": pytest.approx(17.0, abs=1.5)}
    async with installation.queue() as queue:
        assert await queue.jobs.gpu_used(0.0) == used


@in_virtual_time
async def test_a_limited_person_holds_what_the_queue_expects(tmp_path: Path) -> None:
    """Nothing would be reserved within a limit, or only a guess of the chat, which has no times."""
    installation = two_at_once()
    async with installation.queue() as queue:
        new = installation.new("flux", "cat", owner="ada")
        limits = SubmitLimits(max_gpu_s=60.0)
        job = await queue.submitter.submit(new, limits=limits)
        assert job.gpu_s == 5.0  # as configured; nothing is learned yet
        assert (await queue.jobs.gpu_time("ada", 0.0)).held_s == 5.0
        await ended(queue, job)
        again = installation.new("flux", "cat", owner="ada")
        assert (await queue.submitter.submit(again, limits=limits)).gpu_s > 9.0


def test_a_job_on_two_gpus_takes_its_part_of_each() -> None:
    """A model on two GPUs would cost its person no more than one on a single GPU."""
    clock = SetClock()
    meter = GpuMeter(clock)
    meter.begin(1, ["left", "right"])
    meter.begin(2, ["right"])
    clock.at += 10.0

    assert meter.taken_s(1) == pytest.approx(15.0)
    assert meter.taken_s(2) == pytest.approx(5.0)
