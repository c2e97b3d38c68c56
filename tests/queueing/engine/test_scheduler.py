"""The loop that carries out plans: what it survives, and that it rests."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.snapshot import Plan, QueueHead, Snapshot
from queueing.planning.planner import plan
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.simulation.installation import (
    NO_LIMITS,
    FlakyStore,
    Installation,
    ended,
    host,
    image_model,
    one_gpu,
)
from tests.simulation.loop import in_virtual_time


def one_model() -> Installation:
    return one_gpu(image_model("flux"))


async def flaky_store() -> FlakyStore:
    return FlakyStore(JobStore(await open_database("sqlite://", inline=True)))


@pytest.mark.parametrize(
    "call", ["queues", "apply", "inputs", "note_residency", "learn", "open_jobs"]
)
@in_virtual_time
async def test_a_failing_database_stops_nothing_for_good(call: str) -> None:
    """A database that was full for a minute would require a restart by hand."""
    installation = one_model()
    store = await flaky_store()
    async with installation.queue(store) as queue:
        await asyncio.sleep(1)
        store.failing = {call}
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(200)
        tried = store.calls[call]
        store.failing = set()
        assert (await ended(queue, job, within_s=300)).state is JobState.COMPLETED
        assert tried < 200, "a failing database was asked in a tight loop"


@in_virtual_time
async def test_a_fault_in_the_planner_stops_nothing_for_good(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One odd world would stop the bot for everyone."""
    worlds = []

    def sometimes(world: Snapshot) -> Plan:
        worlds.append(world)
        if 1 < len(worlds) < 5:
            raise ZeroDivisionError
        return plan(world)

    monkeypatch.setattr("queueing.engine.scheduler.plan", sometimes)
    installation = one_model()
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        assert (await ended(queue, job)).state is JobState.COMPLETED
    assert "ZeroDivisionError" in caplog.text


@in_virtual_time
async def test_a_wide_copy_begins_all_it_can_take_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty free slots would be filled in five steps, each with a flush before the next."""
    plans = []

    def noted(world: Snapshot) -> Plan:
        plans.append(plan(world))
        return plans[-1]

    monkeypatch.setattr("queueing.engine.scheduler.plan", noted)
    wide = image_model("flux", parallel=40)
    installation = one_gpu(wide)
    async with installation.queue() as queue:
        new = (installation.new("flux", f"{number}") for number in range(40))
        submits = [queue.submitter.submit(each, limits=NO_LIMITS) for each in new]
        jobs = await asyncio.gather(*submits)
        for job in jobs:
            assert (await ended(queue, job)).state is JobState.COMPLETED
    assert max(len(each.starts) for each in plans) == 40


@in_virtual_time
async def test_an_idle_queue_rests() -> None:
    """The bot would use up a processor while no one asks for anything."""
    installation = one_model()
    store = await flaky_store()
    async with installation.queue(store) as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        await asyncio.sleep(60)
        before = store.calls.copy()
        await asyncio.sleep(3600)
        spent = store.calls - before
    assert set(spent) == {"queues"}
    assert spent["queues"] <= 3600 / 5 + 10


@in_virtual_time
async def test_what_the_router_did_itself_asks_for_no_second_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every job would cost two decisions, one of them in vain."""
    moments: list[float] = []

    def noted(world: Snapshot) -> Plan:
        moments.append(world.now)
        return plan(world)

    monkeypatch.setattr("queueing.engine.scheduler.plan", noted)
    installation = one_model()
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "warm"))
        await asyncio.sleep(1)
        moments.clear()
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(20)]
        for job in jobs:
            await ended(queue, job)
    later = [moment for moment in moments if moment > moments[0]]
    assert len(later) == len(set(later))


@in_virtual_time
async def test_a_job_that_has_started_is_shown_as_waiting_no_longer() -> None:
    """People would be told of a queue that does not exist until the router looks again."""
    installation = one_model()
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "warm"))
        await asyncio.sleep(1)
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(2)]
        await asyncio.sleep(0.01)
        (status,) = queue.status.snapshot().models
        assert (status.waiting, status.running) == (1, 1)
        await ended(queue, jobs[0])
        await asyncio.sleep(0.01)
        (status,) = queue.status.snapshot().models
        assert (status.waiting, status.running, status.reason) == (0, 1, None)


@in_virtual_time
async def test_an_old_answer_of_the_store_starts_nothing_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A running job would be started again, and its slot counted once too few."""

    class Forgetful(FlakyStore):
        """Shows a queue again as it was before its last start."""

        def __init__(self, store: JobStore) -> None:
            super().__init__(store)
            self.answer: list[QueueHead] = []
            self.late = False

        async def apply(self, job: Job, event: JobEvent, now: float, **fields: Any) -> JobChanged:
            self.late = event is JobEvent.START
            return await self._store.apply(job, event, now, **fields)

        async def queues(self, now: float, *, per_queue: int) -> list[QueueHead]:
            if self.late:
                self.late = False
                return self.answer
            self.answer = await self._store.queues(now, per_queue=per_queue)
            return self.answer

    installation = one_gpu(replace(image_model("llm"), parallel=4))
    server = installation.servers["comfy"]
    server.slots = 4
    store = Forgetful(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        for number in range(12):
            await installation.ask(queue, "llm", str(number))
            await asyncio.sleep(2)
        await asyncio.sleep(20)
        assert not await queue.jobs.open_jobs()
    assert not installation.violations
    assert len(server.starts) == 12
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@in_virtual_time
async def test_two_servers_on_one_gpu_take_turns() -> None:
    """An image and an answer would be cut short or crash because of too little memory."""
    installation = Installation.of(
        [image_model("flux", "comfy", vram_mb=16000), image_model("llm", "lm", vram_mb=16000)],
        [host("gpu", "comfy", "lm")],
    )
    async with installation.queue() as queue:
        jobs = []
        for number in range(6):
            model = ("flux", "llm")[number % 2]
            jobs.append(await installation.ask(queue, model, str(number)))
        for job in jobs:
            assert (await ended(queue, job)).state is JobState.COMPLETED
    assert not installation.violations
    assert installation.gpus["gpu"].peak_mb == 16000


@in_virtual_time
async def test_the_log_says_once_why_a_model_waits(caplog: pytest.LogCaptureFixture) -> None:
    """An operator could not see why people wait, or the log would be full of repetitions."""
    installation = one_model()
    async with installation.queue() as queue:
        with caplog.at_level("INFO", logger="queueing.engine.change_tracker"):
            jobs = [await installation.ask(queue, "flux", f"{n}") for n in range(5)]
            for job in jobs:
                await ended(queue, job)
    told = [record.message for record in caplog.records if " waits: " in record.message]
    assert told[0].startswith("flux waits: loading host=gpu")
    assert len(told) == len(set(told)), told
