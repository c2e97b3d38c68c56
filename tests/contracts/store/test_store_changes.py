"""What every store must do when a job changes: obey the table, once, and whole."""

import asyncio
from itertools import product

import pytest

from queueing.core.errors import StaleJob
from queueing.core.events import JobChanged
from queueing.core.jobs import TRANSITIONS, Job, JobEvent, JobState
from queueing.core.requests import File, Output
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import IMAGE, NOW, add, end, new, start


async def in_state(store: JobStore, state: JobState) -> Job:
    job = await add(store)
    if state is JobState.PENDING:
        return job
    if state is JobState.CANCELLED:
        return (await store.apply(job, JobEvent.CANCEL, NOW)).job
    job = await start(store, job)
    if state is JobState.COMPLETED:
        return (await store.apply(job, JobEvent.COMPLETE, NOW, output=Output())).job
    if state is JobState.FAILED:
        return (await store.apply(job, JobEvent.FAIL, NOW, error="no")).job
    return job


async def test_only_the_table_of_transitions_is_obeyed(store: JobStore) -> None:
    """A state would be reached that the table forbids, or one it allows would not."""
    for state, event in product(JobState, JobEvent):
        print(f"{event} of what is {state}")
        job = await in_state(store, state)
        sources, target = TRANSITIONS[event]
        if state in sources:
            after = (await store.apply(job, event, NOW + 1)).job
            assert after.state is target
            assert after.version == job.version + 1
            assert await store.get(job.id) == after
        else:
            with pytest.raises(StaleJob):
                await store.apply(job, event, NOW + 1)
            assert await store.get(job.id) == job


async def test_the_slower_of_two_changes_is_stale(store: JobStore) -> None:
    """A simultaneous cancel and completion would both succeed."""
    running = await start(store, await add(store))
    answers = await asyncio.gather(
        store.apply(running, JobEvent.COMPLETE, NOW, output=Output(text="cat")),
        store.apply(running, JobEvent.CANCEL, NOW),
        return_exceptions=True,
    )
    winners = [answer.job for answer in answers if isinstance(answer, JobChanged)]
    assert len(winners) == 1
    assert sum(isinstance(answer, StaleJob) for answer in answers) == 1
    assert await store.get(running.id) == winners[0]


async def test_a_start_notes_attempt_time_and_backend(store: JobStore) -> None:
    """Recovery would not know where an attempt ran, nor which it was."""
    running = await start(store, await add(store))
    assert (running.attempt, running.backend, running.started_at) == (1, "gpu-1", NOW)
    assert await store.processing() == [running]


async def test_suspects_are_marked_by_the_return_and_cleared_by_the_next(store: JobStore) -> None:
    """A job that ran when its server died would not run alone, or alone forever."""
    running = await start(store, await add(store))
    suspect = (await store.apply(running, JobEvent.RELEASE, NOW, suspect=True)).job
    assert suspect.suspect
    running = await start(store, suspect)
    assert running.suspect
    assert not ((await store.apply(running, JobEvent.RETRY, NOW)).job).suspect


async def test_an_output_comes_back_whole_and_only_when_completed(store: JobStore) -> None:
    """A person would get an incomplete result, or that of an unfinished job."""
    running = await start(store, await add(store))
    assert await store.output(running) is None
    output = Output(text="a \N{CAT}", files=(IMAGE, File(name="", mime="x/y", data=b"")))
    done = (await store.apply(running, JobEvent.COMPLETE, NOW, output=output)).job
    assert await store.output(done) == output
    empty = await end(store, await add(store))
    assert await store.output(empty) == Output()


async def test_a_stale_completion_leaves_no_output(store: JobStore) -> None:
    """A late answer of a cancelled job would be delivered."""
    running = await start(store, await add(store))
    cancelled = (await store.apply(running, JobEvent.CANCEL, NOW)).job
    with pytest.raises(StaleJob):
        await store.apply(running, JobEvent.COMPLETE, NOW, output=Output(text="late"))
    assert await store.output(cancelled) is None


async def test_a_cancelled_caller_leaves_a_whole_change_or_none(store: JobStore) -> None:
    """A cancelled command would leave half a job, or a transaction open for others to publish."""
    asked = [new() for _ in range(10)]
    tasks = [asyncio.create_task(add(store, job)) for job in asked]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await add(store)
    found = [job for key in asked if (job := await store.find(key.key)) is not None]
    assert {task.result().id for task in tasks[1::2]} <= {job.id for job in found}
    positions = await store.positions([job.id for job in found])
    assert sorted(positions.values()) == list(range(1, len(found) + 1))
