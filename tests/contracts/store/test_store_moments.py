"""What every store must do for jobs with a time, and for those that run when nothing else waits."""

from dataclasses import replace

from queueing.core.jobs import LATER, Job, JobEvent, SubmitLimits
from queueing.core.requests import Output
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NO_LIMITS, NOW, Open, add, end, new, start

ONE = SubmitLimits(max_queued=1)


async def waiting_for(store: JobStore, seconds: float | None) -> Job:
    return await store.add(replace(new(), wait_s=seconds), NOW, limits=NO_LIMITS)


async def test_a_job_expires_at_its_moment_and_only_if_it_has_not_begun(store: JobStore) -> None:
    """A job would end too early, or while a server already works on it."""
    soon, late, never = [await waiting_for(store, each) for each in (10.0, 20.0, None)]
    assert (soon.expires_at, never.expires_at) == (NOW + 10, None)
    assert await store.next_expiry() == NOW + 10
    assert await store.expired(NOW + 9.9) == []
    assert await store.expired(NOW + 10) == [soon]
    begun = await start(store, soon)
    assert await store.expired(NOW + 30) == [late]
    await store.apply(begun, JobEvent.RETRY, NOW)  # it has had its turn
    assert await store.expired(NOW + 30) == [late]
    await store.apply(late, JobEvent.FAIL, NOW + 20, error="waited")
    assert await store.expired(NOW + 30) == []
    assert await store.next_expiry() is None


async def test_moments_survive_a_restart(reopen: Open) -> None:
    """What was asked for eight o'clock would be forgotten overnight."""
    store = await reopen()
    asked = replace(new(lane=LATER), due_at=NOW + 500, wait_s=900.0)
    job = await store.add(asked, NOW, limits=NO_LIMITS)
    await add(store)
    store = await reopen()
    assert await store.dated() == [job]
    assert (job.due_at, job.expires_at, job.lane) == (NOW + 500, NOW + 900, LATER)
    await end(store, job)
    assert await store.dated() == []


async def test_later_jobs_take_no_place_of_their_owners_other_jobs(store: JobStore) -> None:
    """A question would wait for a night's images only because both belong to one person."""
    later = [await store.add(new(lane=LATER), NOW, limits=ONE) for _ in range(3)]
    assert [job.seq is None for job in later] == [False, True, True]
    usual = [await store.add(new(), NOW, limits=ONE) for _ in range(2)]
    assert [job.seq is None for job in usual] == [False, True]
    await end(store, usual[0])
    assert [each.seq is None for each in await store.open_jobs("ada")] == [False, True, True, False]
    await end(store, later[0])
    assert [each.seq is None for each in await store.open_jobs("ada")] == [False, True, False]


async def test_accounts_of_later_jobs_are_counted_again_after_a_restart(reopen: Open) -> None:
    """After a restart, a person's next request would be behind their own later ones."""
    store = await reopen()
    for _ in range(2):
        await store.add(new(lane=LATER), NOW, limits=ONE)
    store = await reopen()
    usual = await store.add(new(), NOW, limits=ONE)
    assert usual.seq is not None
    assert (await store.add(new(lane=LATER), NOW, limits=ONE)).seq is None
    running = await start(store, usual)
    await store.apply(running, JobEvent.COMPLETE, NOW, output=Output())
    assert len(await store.open_jobs("ada")) == 3
