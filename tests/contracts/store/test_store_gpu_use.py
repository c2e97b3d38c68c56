"""What every store must do with time on the GPUs: count it once, with the end of a job."""

import asyncio
from dataclasses import replace

import pytest

from queueing.core.errors import LimitReached, StaleJob, StoreError
from queueing.core.jobs import Job, JobEvent, SubmitLimits
from queueing.core.requests import Output
from queueing.core.status import GpuTime
from queueing.store.jobs.admission import GpuUse
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NOW, Open, add, new, start

DAY_S = 86_400.0
MINUTE = SubmitLimits(max_gpu_s=60.0)


async def ended(
    store: JobStore, seconds: float, *, owner: str = "ada", now: float = NOW
) -> tuple[Job, Job]:
    running = await start(store, await add(store, new(owner=owner)))
    done = store.apply(running, JobEvent.COMPLETE, now, output=Output(), gpu_s=seconds)
    return running, (await done).job


async def ask(
    store: JobStore, seconds: float, *, limits: SubmitLimits = MINUTE
) -> Job | LimitReached:
    try:
        return await store.add(replace(new(), gpu_s=seconds), NOW, limits=limits)
    except LimitReached as refusal:
        return refusal


async def used(store: JobStore, since: float = 0.0) -> float:
    return (await store.gpu_time("ada", since)).used_s


async def test_each_person_is_charged_for_their_own(store: JobStore) -> None:
    """One person would pay for another, or for the same job in each quarter of an hour."""
    await ended(store, 40.0)
    await ended(store, 2.5, now=NOW + 5_000)
    await ended(store, 7.0, owner="bob")
    assert await store.gpu_used(0.0) == {"ada": 42.5, "bob": 7.0}
    assert await used(store) == 42.5
    assert await used(store, NOW + 900) == 2.5  # those of today


async def test_an_end_is_counted_once(store: JobStore) -> None:
    """A result that is stored again after a failover would be paid for twice."""
    running, _ = await ended(store, 40.0)
    for event in (JobEvent.COMPLETE, JobEvent.CANCEL):
        with pytest.raises(StaleJob):
            await store.apply(running, event, NOW, gpu_s=40.0)
    assert await used(store) == 40.0


async def test_an_end_whose_count_fails_is_no_end(
    reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in between would leave a job that is paid for never, or twice."""

    def die(*_: object) -> None:
        raise OSError("gone between the end and the count")

    store = await reopen()
    running = await start(store, await add(store, new(owner="ada")))
    with monkeypatch.context() as dying:
        dying.setattr(GpuUse, "count", die)
        with pytest.raises((OSError, StoreError)):
            await store.apply(running, JobEvent.COMPLETE, NOW, output=Output(), gpu_s=40.0)
    store = await reopen()
    found = await store.get(running.id)
    assert found is not None
    assert not found.state.final
    assert await used(store) == 0.0
    await store.apply(found, JobEvent.COMPLETE, NOW, output=Output(), gpu_s=40.0)
    assert await used(store) == 40.0


async def test_ends_of_one_moment_add_up(store: JobStore) -> None:
    """Of jobs that end together, all but one would be free of charge."""
    running = [await start(store, await add(store)) for _ in range(20)]
    ends = (store.apply(job, JobEvent.CANCEL, NOW, gpu_s=1.5) for job in running)
    await asyncio.gather(*ends)
    assert await used(store) == 30.0


async def test_a_job_that_goes_on_is_not_counted_yet(store: JobStore) -> None:
    """An attempt that is repeated would be paid for as well as the one that succeeds."""
    for event in (JobEvent.RETRY, JobEvent.RELEASE):
        running = await start(store, await add(store))
        await store.apply(running, event, NOW, gpu_s=10.0)
    assert await used(store) == 0.0


async def test_a_limit_holds_what_open_jobs_will_take(store: JobStore) -> None:
    """Ten simultaneous videos would each be granted the whole rest of the day's time."""
    outcomes = await asyncio.gather(*(ask(store, 25.0) for _ in range(10)))
    assert (
        sum(isinstance(each, Job) for each in outcomes) == 3
    )  # the last may take more than is left
    refusals = [each for each in outcomes if isinstance(each, LimitReached)]
    assert {(each.scope, each.limit) for each in refusals} == {("gpu", 60)}
    assert await store.gpu_time("ada", 0.0) == GpuTime(used_s=0.0, held_s=75.0)
    first = next(each for each in outcomes if isinstance(each, Job))
    await store.apply(first, JobEvent.CANCEL, NOW)
    assert isinstance(await ask(store, 25.0), Job)


async def test_what_was_used_today_counts_and_what_was_used_before_does_not(
    store: JobStore,
) -> None:
    """A limit would never be reached, or never be free again."""
    await ended(store, 61.0)
    assert isinstance(await ask(store, 1.0), LimitReached)
    tomorrow = SubmitLimits(max_gpu_s=60.0, gpu_since=NOW + 900)
    assert isinstance(await ask(store, 1.0, limits=tomorrow), Job)
    assert isinstance(await ask(store, 1.0, limits=SubmitLimits()), Job)


async def test_a_repeated_call_is_never_refused(store: JobStore) -> None:
    """A redelivered update would be told that the time is used up, though its job runs."""
    asked = replace(new(), gpu_s=90.0)
    job = await store.add(asked, NOW, limits=MINUTE)
    assert job.gpu_s == 90.0
    assert await store.add(asked, NOW, limits=MINUTE) == job
    assert (await store.gpu_time("ada", 0.0)).held_s == 90.0


async def test_no_time_means_none(store: JobStore) -> None:
    """A limit of zero would let the first job of each day through."""
    assert isinstance(await ask(store, 1.0, limits=SubmitLimits(max_gpu_s=0.0)), LimitReached)


async def test_old_use_is_forgotten(store: JobStore) -> None:
    """What people did would be kept forever."""
    await ended(store, 5.0)
    await ended(store, 6.0, now=NOW + 3 * DAY_S)
    assert await used(store) == 6.0


async def test_what_is_counted_survives_a_restart(reopen: Open) -> None:
    """Each person's day would begin again with each start."""
    store = await reopen()
    await ended(store, 40.0)
    held = await ask(store, 19.0)
    store = await reopen()
    assert await store.gpu_time("ada", 0.0) == GpuTime(used_s=40.0, held_s=19.0)
    assert isinstance(held, Job)
    assert await store.get(held.id) == held
