"""Machines that sleep: woken by waiting jobs, put to sleep when idle, in virtual time."""

import asyncio
import logging
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from queueing.core.jobs import Job, JobState
from queueing.core.snapshot import WaitCause
from queueing.core.specs import SleepSpec, Timeouts, WakeSpec
from queueing.core.status import Standing
from queueing.engine.change_tracker import code
from queueing.service.job_queue import JobQueue
from queueing.store.jobs.job_store import JobStore
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time, run
from tests.simulation.machines import TAKES_S, FakeHostControl

WAKE = WakeSpec(mac="001a2b3c4d5e", takes_s=60.0)
SLEEP = SleepSpec(after_s=1200.0, command=("suspend",))


def machine(*, asleep: bool = True, sleeps: bool = False) -> tuple[Installation, FakeHostControl]:
    """Return a server on a machine that can be woken, and perhaps be put to sleep."""
    far = replace(host("gpu-2", "far"), wake=WAKE, sleep=SLEEP if sleeps else None)
    endless = Timeouts(first_s=None, idle_s=None, total_s=None)
    flux = image_model("flux", "far", load_s=10.0, timeouts=endless)
    installation = Installation.of([flux], [far])
    installation.servers["far"].up = not asleep
    installation.machines = machines = FakeHostControl(installation.servers)
    return installation, machines


def stored(queue: JobQueue) -> JobStore:
    assert isinstance(queue.jobs, JobStore)
    return queue.jobs


def why(told: Standing) -> WaitCause | None:
    return None if told.reason is None else told.reason.why


async def submit(queue: JobQueue, installation: Installation, model: str = "flux") -> Job:
    return await installation.ask(queue, model, "cat")


async def standing(queue: JobQueue, job: Job) -> Standing:
    now = await queue.jobs.get(job.id)
    assert now is not None
    return (await queue.status.standings([now]))[job.id]


@in_virtual_time
async def test_a_waiting_job_wakes_its_machine_and_is_promised_an_end() -> None:
    """A rarely used machine would run day and night, or its models be offline by day."""
    installation, machines = machine()
    async with installation.queue() as queue:
        await asyncio.sleep(20)
        assert machines.calls == []
        began = installation.clock.now()
        job = await submit(queue, installation)
        await asyncio.sleep(1)
        told = await standing(queue, job)
        assert why(told) is WaitCause.WAKING
        assert told.reason is not None
        assert code(told.reason).startswith("waking host=gpu-2")
        assert told.ends is not None
        assert told.ends.at == pytest.approx(began + 60 + 10 + 5, abs=3)
        done = await ended(queue, job)
        assert done.state is JobState.COMPLETED
        assert done.finished_at is not None
        assert done.finished_at - began < TAKES_S + 10 + 5 + 10
        calls = machines.calls
        assert 4 <= len(calls) <= 6
        assert all(b - a == pytest.approx(10, abs=5.1) for a, b in pairwise(calls))


@in_virtual_time
async def test_the_time_a_machine_takes_is_learned_and_stored() -> None:
    """The promise would stay wrong by as much as the operator's guess."""
    installation, _ = machine()
    async with installation.queue() as queue:
        await ended(queue, await submit(queue, installation))
        await asyncio.sleep(30)
        (row,) = [row for row in await stored(queue).learned() if not row.model]
        assert row.median_s == pytest.approx(TAKES_S, abs=6)
        installation.servers["far"].up = False
        await until(lambda: queue.status.snapshot().hosts[0].rest is not None)
        began = installation.clock.now()
        job = await submit(queue, installation)
        await asyncio.sleep(1)
        told = await standing(queue, job)
        assert told.ends is not None
        assert told.ends.at == pytest.approx(began + row.median_s + 5, abs=3)


def test_a_machine_that_does_not_wake_is_told_as_down_and_is_called_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """People would be promised a time again and again; or it would never be tried again."""

    async def scenario() -> None:
        installation, machines = machine()
        machines.takes_s = None
        async with installation.queue() as queue:
            job = await submit(queue, installation)
            await asyncio.sleep(170)
            assert why(await standing(queue, job)) is WaitCause.WAKING
            await asyncio.sleep(30)
            told = await standing(queue, job)
            assert why(told) is WaitCause.OFFLINE
            assert told.ends is None
            calls = len(machines.calls)
            await asyncio.sleep(600)
            assert 8 <= len(machines.calls) - calls <= 11
            assert why(await standing(queue, job)) is WaitCause.OFFLINE
            machines.takes_s = TAKES_S
            assert (await ended(queue, job)).state is JobState.COMPLETED

    with caplog.at_level(logging.INFO):
        run(scenario())
    (error,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert error.getMessage().startswith("gpu-2 does not wake")
    assert not [each for each in caplog.records if each.levelno == logging.WARNING]


@in_virtual_time
async def test_an_idle_machine_is_put_to_sleep_and_woken_again() -> None:
    """The GPU would use a hundred watts all night."""
    installation, machines = machine(asleep=False, sleeps=True)
    async with installation.queue() as queue:
        await ended(queue, await submit(queue, installation))
        ended_at = asyncio.get_running_loop().time()
        await until(lambda: machines.asleep)
        assert machines.asleep[0] - ended_at == pytest.approx(1200, abs=12)
        await asyncio.sleep(60)
        (shown,) = queue.status.snapshot().hosts
        assert shown.rest is not None
        assert shown.rest.why is WaitCause.ASLEEP
        assert (await ended(queue, await submit(queue, installation))).attempt == 1


@in_virtual_time
async def test_a_request_that_comes_while_the_machine_falls_asleep_wakes_it_again() -> None:
    """It would be sent to a server that is about to stop, or wait until the next request."""
    installation, machines = machine(asleep=False, sleeps=True)
    machines.sinks_s = 20.0
    async with installation.queue() as queue:
        await until(lambda: machines.asleep)
        job = await submit(queue, installation)
        machines.takes_s = None  # a packet before it sleeps has no effect
        await asyncio.sleep(21)
        machines.takes_s = TAKES_S
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)


@pytest.mark.parametrize("kept", ["running", "waiting", "pinned"])
@in_virtual_time
async def test_a_machine_that_is_needed_does_not_sleep(kept: str) -> None:
    """A video of half an hour would be cut off."""
    installation, machines = machine(asleep=False, sleeps=True)
    installation.servers["far"].service_s = 3000.0
    async with installation.queue() as queue:
        if kept == "pinned":
            await queue.preloads.preload("flux", None)
        else:
            await submit(queue, installation)
        if kept == "waiting":
            await queue.admin.pause(model="flux", host=None)
        await asyncio.sleep(2500)
        assert machines.asleep == []


@in_virtual_time
async def test_a_machine_that_cannot_be_put_to_sleep_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would count as asleep, and be woken for every request."""
    installation, machines = machine(asleep=False, sleeps=True)
    machines.refuses = True
    async with installation.queue() as queue:
        await asyncio.sleep(1300)
        done = await ended(queue, await submit(queue, installation))
        assert done.state is JobState.COMPLETED
        assert machines.calls == []
    assert "gpu-2 could not be put to sleep: suspend ended with status 1" in caplog.text


@pytest.mark.parametrize("requests", [8, pytest.param(30, marks=pytest.mark.thorough)])
@in_virtual_time
async def test_promises_of_a_machine_that_sleeps_are_kept(requests: int) -> None:
    """The times that people are told would be worthless."""
    installation, machines = machine(asleep=False, sleeps=True)
    chance = Random(7)  # a fixed sequence
    off: list[float] = []
    async with installation.queue() as queue:
        for _ in range(requests):
            machines.takes_s = chance.uniform(35, 50)
            await asyncio.sleep(chance.choice((30, 900, 1500, 4000)))
            job = await submit(queue, installation)
            await asyncio.sleep(1)
            told = await standing(queue, job)
            if told.ends is None:
                continue
            done = await ended(queue, job)
            assert done.finished_at is not None
            promised_s = told.ends.at - job.queued_at
            off.append(abs(done.finished_at - told.ends.at) / max(10.0, promised_s))
    assert len(machines.asleep) > requests / 6
    assert len(off) >= requests * 2 / 3
    assert sum(share <= 0.25 for share in off) >= 0.8 * len(off), off


@in_virtual_time
async def test_an_admin_who_resumes_a_sleeping_machine_does_not_keep_it_from_quiet_hours() -> None:
    """`/resume` would apply forever, because sleep has no end."""
    installation, _ = machine()
    async with installation.queue() as queue:
        await until(lambda: queue.status.snapshot().hosts[0].rest is not None)
        await queue.admin.resume(model=None, host="gpu-2")
        assert not queue.status.snapshot().paused.awake
