"""What every store must do for hourly quotas: count within the transaction that accepts."""

import asyncio
from dataclasses import replace

import pytest

from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, JobEvent, SubmitLimits
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NOW, Open, add, end, new, start

HOUR_S = 3600.0
TWO = SubmitLimits(max_per_hour=2)


async def ask(store: JobStore, *, now: float = NOW, owner: str = "ada") -> Job | LimitReached:
    try:
        return await store.add(new(owner=owner), now, limits=TWO)
    except LimitReached as refusal:
        return refusal


async def asked(store: JobStore, *, now: float = NOW, owner: str = "ada") -> Job:
    job = await ask(store, now=now, owner=owner)
    assert isinstance(job, Job)
    return job


async def refused(store: JobStore, *, now: float = NOW) -> LimitReached:
    refusal = await ask(store, now=now)
    assert isinstance(refusal, LimitReached)
    return refusal


async def test_an_hour_rolls_and_tells_when_it_is_free(store: JobStore) -> None:
    """People would wait for the full hour, or be refused without a time."""
    await asked(store)
    await asked(store, now=NOW + 600)
    refusal = await refused(store, now=NOW + 700)
    assert (refusal.scope, refusal.limit, refusal.free_at) == ("hour", 2, NOW + HOUR_S)
    await asked(store, now=NOW + 700, owner="bob")
    await asked(store, now=NOW + HOUR_S)
    assert (await refused(store, now=NOW + HOUR_S)).free_at == NOW + 600 + HOUR_S


async def test_the_moment_a_quota_frees_up(store: JobStore) -> None:
    """The promised time would be wrong, or a quota of zero would let everything through."""
    used = [
        ((), None, None),
        ((1.0, 2.0), 3, None),
        ((1.0, 2.0, 3.0), 3, 3601.0),
        ((1.0, 2.0, 3.0), 2, 3602.0),
        ((), 0, 3605.0),
    ]
    for owner, (moments, per_hour, free_at) in enumerate(used):
        asked = new(owner=f"{owner}")
        for moment in moments:
            await add(store, new(owner=asked.owner), now=moment)
        adding = store.add(asked, 5.0, limits=SubmitLimits(max_per_hour=per_hour))
        if free_at is None:
            await adding
            continue
        with pytest.raises(LimitReached) as refusal:
            await adding
        assert refusal.value.free_at == free_at, (moments, per_hour)


async def test_what_was_asked_without_a_quota_counts_for_one_set_later(store: JobStore) -> None:
    """A person whom an admin limits would begin with a new hour."""
    for _ in range(3):
        await add(store)
    assert (await refused(store, now=NOW + 1)).free_at == NOW + HOUR_S


async def test_calls_at_once_get_no_more_than_the_quota(store: JobStore) -> None:
    """Twenty simultaneous calls would be counted only after all were accepted."""
    outcomes = await asyncio.gather(*(ask(store) for _ in range(20)))
    assert sum(isinstance(each, Job) for each in outcomes) == 2
    assert len(await store.open_jobs("ada")) == 2


async def test_a_repeated_call_counts_once(store: JobStore) -> None:
    """A redelivered update would use up the hour, or be refused although its job runs."""
    twice = new()
    first = await store.add(twice, NOW, limits=TWO)
    assert await store.add(twice, NOW, limits=TWO) == first
    await asked(store)
    assert await store.add(twice, NOW, limits=TWO) == first


async def test_a_failed_job_is_given_back_with_its_failure(store: JobStore) -> None:
    """People would pay for failures of servers."""
    job = await asked(store)
    await asked(store)
    await refused(store)
    await store.apply(await start(store, job), JobEvent.FAIL, NOW, error="bug")
    await asked(store)
    await refused(store)


async def test_a_job_that_fails_after_its_hour_takes_nobody_elses_place(store: JobStore) -> None:
    """The failure of a long job would give back another job's place, or stop the queue."""
    old = await asked(store)
    bobs = await asked(store, owner="bob")
    later = NOW + HOUR_S + 1
    await asked(store, now=later - 100, owner="eve")
    await asked(store, now=later)
    await asked(store, now=later)
    for job in (old, bobs):
        await store.apply(await start(store, job), JobEvent.FAIL, later, error="bug")
    assert (await refused(store, now=later)).free_at == later + HOUR_S


async def test_a_cancelled_job_counts_unless_it_is_given_back(store: JobStore) -> None:
    """Cancelling would be a way round a quota, or an admin's clearing cost people their hour."""
    mine, cleared = [await asked(store) for _ in range(2)]
    await store.apply(mine, JobEvent.CANCEL, NOW)
    await refused(store)
    await store.apply(cleared, JobEvent.CANCEL, NOW, gives_back=True)
    await asked(store)
    await refused(store)


async def test_a_deleted_job_still_counts(store: JobStore) -> None:
    """Deleting everything would be a way round a quota."""
    jobs = [await end(store, await asked(store)) for _ in range(2)]
    await store.acknowledge(jobs[0])
    assert await store.purge(NOW + 1) == 1
    assert await store.erase([jobs[1].id]) == 1
    assert (await refused(store, now=NOW + 1)).free_at == NOW + HOUR_S


async def test_what_is_counted_survives_a_restart(reopen: Open) -> None:
    """Everyone's hour would begin again with each start."""
    store = await reopen()
    await asked(store)
    await asked(store)
    store = await reopen()
    await refused(store, now=NOW + 1)


async def test_a_question_asked_for_a_job_counts_for_nobody(store: JobStore) -> None:
    """Questions for better prompts would reach a limit that no person has."""
    for number in range(3):
        made_for = replace(new(owner="usher:enhancement"), parent=number + 1)
        await store.add(made_for, NOW, limits=TWO)
