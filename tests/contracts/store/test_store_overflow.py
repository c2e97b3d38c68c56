"""What every store must do with jobs beyond their owner's limit, and with jobs moved forward."""

import asyncio

import pytest

from queueing.core.errors import StaleJob
from queueing.core.jobs import JobEvent, JobState, SubmitLimits
from queueing.core.requests import Output
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NOW, Open, add, end, heads, new, start


async def test_jobs_beyond_the_limit_wait_behind_and_enter_at_the_end(store: JobStore) -> None:
    """One person's many jobs would be ahead of other people's first jobs."""
    limits = SubmitLimits(max_queued=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    bobs = await store.add(new(owner="bob"), NOW, limits=limits)
    assert (second.seq, third.seq) == (None, None)
    ids = [first.id, bobs.id, second.id, third.id]
    assert await store.positions(ids) == dict(zip(ids, (1, 2, 3, 4), strict=True))
    assert await heads(store) == [first.id, bobs.id]
    (queue,) = await store.queues(NOW, per_queue=9)
    assert queue.waiting == 2

    await end(store, first)
    assert await heads(store) == [bobs.id, second.id]
    assert await store.positions([third.id]) == {third.id: 3}


async def test_a_cancelled_overflow_job_lets_nobody_in(store: JobStore) -> None:
    """Cancelling a job outside the queue would let its owner exceed the limit within it."""
    limits = SubmitLimits(max_queued=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    await store.apply(second, JobEvent.CANCEL, NOW)
    assert await heads(store) == [first.id]
    await store.apply(first, JobEvent.CANCEL, NOW)
    assert await heads(store) == [third.id]


async def test_an_end_says_whose_line_the_next_job_has_entered(store: JobStore) -> None:
    """People in that queue would be shown outdated places."""
    limits = SubmitLimits(max_queued=1)
    first, _, other = [
        await store.add(new(model), NOW, limits=limits) for model in ("flux", "flux", "sdxl")
    ]
    ends = await store.apply(await start(store, first), JobEvent.COMPLETE, NOW, output=Output())
    assert (ends.job.state, ends.event, ends.entered) == (
        JobState.COMPLETED,
        JobEvent.COMPLETE,
        "flux",
    )
    withdrawn = await store.apply(other, JobEvent.CANCEL, NOW)
    assert withdrawn.entered is None


async def test_a_overflow_job_that_entered_meanwhile_is_stale(store: JobStore) -> None:
    """A change meant for the overflow would overwrite the place that the job has since got."""
    limits = SubmitLimits(max_queued=1)
    first, second = [await store.add(new(), NOW, limits=limits) for _ in range(2)]
    await end(store, first)
    with pytest.raises(StaleJob):
        await store.apply(second, JobEvent.CANCEL, NOW)
    entered = await store.get(second.id)
    assert entered is not None
    assert entered.seq is not None


async def test_a_moved_job_is_first_and_those_it_passes_are_one_place_further(
    store: JobStore, reopen: Open
) -> None:
    """An admin's order would have no effect, be forgotten, or give two jobs one place."""
    jobs = [await add(store) for _ in range(4)]
    vip = await add(store, new(lane="vip"))
    await start(store, jobs[0])
    moved = await store.move_first(jobs[3].id)
    assert moved is not None
    assert moved == await store.get(jobs[3].id)
    assert await store.move_first(jobs[3].id) == moved
    ids = [jobs[3].id, jobs[1].id, jobs[2].id]
    assert await heads(store) == [*ids, vip.id]
    assert await store.positions([*ids, vip.id]) == {
        **dict(zip(ids, (1, 2, 3), strict=True)),
        vip.id: 1,
    }
    again = await store.move_first(jobs[2].id)
    assert again is not None
    reopened = await reopen()
    assert (await heads(reopened))[:3] == [jobs[2].id, jobs[3].id, jobs[1].id]
    running = await reopened.get(jobs[0].id)
    assert running is not None
    await reopened.apply(running, JobEvent.RELEASE, NOW)
    assert (await heads(reopened))[:4] == [jobs[2].id, jobs[3].id, jobs[0].id, jobs[1].id]


async def test_that_a_job_was_moved_is_kept(store: JobStore, reopen: Open) -> None:
    """A fair order would return it behind those who used less, at the latest after a restart."""
    first, second = [await add(store) for _ in range(2)]
    assert not first.moved
    moved = [await store.move_first(job.id) for job in (first, second)]  # one was first before
    assert [job is not None and job.moved for job in moved] == [True, True]
    assert await heads(store) == [second.id, first.id]
    running = await start(store, moved[1] or second)
    back = (await store.apply(running, JobEvent.RETRY, NOW)).job
    assert back.moved
    reopened = await reopen()
    assert await reopened.get(second.id) == back
    assert (await reopened.get(first.id) or second).moved


async def test_jobs_moved_together_come_in_the_order_they_were_moved(
    store: JobStore, reopen: Open
) -> None:
    """In one transaction for many jobs, a job could end up before one that was moved later."""
    limits = SubmitLimits(max_queued=3)
    jobs = [await store.add(new(), NOW, limits=limits) for _ in range(5)]
    vips = [await add(store, new(lane="vip", owner="eve")) for _ in range(3)]
    await start(store, jobs[0])
    order = [jobs[4].id, jobs[2].id, vips[2].id, jobs[0].id, jobs[4].id, vips[1].id, jobs[2].id]
    moved = await asyncio.gather(*(store.move_first(job_id) for job_id in order))
    assert [None if job is None else job.id for job in moved] == [*order[:3], None, *order[4:]]
    for job in moved[3:]:
        assert job is None or job == await store.get(job.id)
    expected = [jobs[2].id, jobs[4].id, jobs[1].id, vips[1].id, vips[2].id, vips[0].id]
    assert sorted(await heads(store)) == sorted(expected)
    places = await store.positions(expected)
    assert [places[job_id] for job_id in expected] == [1, 2, 3, 1, 2, 3]
    reopened = await reopen()
    assert await reopened.positions(expected) == places


async def test_what_does_not_wait_cannot_be_moved(store: JobStore) -> None:
    """A job that runs or has ended would be put into a queue again."""
    running = await start(store, await add(store))
    ended = await end(store, await add(store))
    assert [await store.move_first(job_id) for job_id in (running.id, ended.id, 99)] == [None] * 3


async def test_a_overflow_job_moved_first_counts_against_its_owners_limit(store: JobStore) -> None:
    """Each move would let one more of the owner's jobs into the queue for good."""
    limits = SubmitLimits(max_queued=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    await store.move_first(third.id)
    assert await heads(store) == [third.id, first.id]
    await end(store, first)
    assert await heads(store) == [third.id, second.id]
