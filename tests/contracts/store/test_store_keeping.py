"""What every store must keep, find again and delete."""

from dataclasses import replace

import pytest

from queueing.core.errors import LimitReached
from queueing.core.jobs import JobEvent, SubmitLimits
from queueing.core.requests import File, Output, TextToImage
from queueing.core.status import Pauses
from queueing.forecast.durations import LearnedDuration
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NOW, Open, add, end, heads, new, start

# ---------------------------------------------------------------- delivery, retention


async def test_what_is_not_acknowledged_is_found_oldest_first(store: JobStore) -> None:
    """A finished job would never be delivered after a restart, or be delivered again."""
    ended, waiting = await add(store), await add(store)
    ended = await end(store, ended)
    assert await store.unacknowledged() == [ended, waiting]
    await store.acknowledge(ended)
    await store.acknowledge(ended)
    assert await store.unacknowledged() == [waiting]
    again = await store.get(ended.id)
    assert again is not None
    assert again.acknowledged


async def test_jobs_to_tell_of_come_in_portions(store: JobStore) -> None:
    """A restart would read a million waiting jobs at once, or miss a result behind them."""
    jobs = [await add(store, new(owner=owner)) for owner in ("ada", "bob", "ada", "cyd", "dan")]
    running = await start(store, jobs[3])
    done = await end(store, jobs[4])
    assert await store.to_tell(0, 2) == [done, running, jobs[0], jobs[1]]
    assert await store.to_tell(jobs[1].id, 2) == [jobs[2]]
    assert await store.to_tell(jobs[2].id, 2) == []
    assert await store.unacknowledged("ada") == [jobs[0], jobs[2]]
    assert await store.unacknowledged("dan") == [done]


async def test_open_jobs_are_found_by_owner(store: JobStore) -> None:
    """`/cancel` would offer other people's jobs, or miss the caller's own."""
    mine, bobs = await add(store), await add(store, new(owner="bob"))
    running = await start(store, mine)
    assert await store.open_jobs("ada") == [running]
    assert await store.open_jobs() == [running, bobs]
    await end(store, bobs)
    assert await store.open_jobs("bob") == []


async def test_held_jobs_are_found_among_all_that_wait(store: JobStore) -> None:
    """What an interrupted run left behind would stay queued forever, or other jobs begin again."""
    held = [await add(store, replace(new(), held=True)) for _ in range(3)]
    await add(store, replace(new(), delay_s=9e5))
    await start(store, await add(store))
    assert await store.held_jobs() == held
    await store.replace_request(held[0].id, TextToImage(prompt="a dog"))
    await store.apply(held[1], JobEvent.CANCEL, NOW)
    assert await store.held_jobs() == held[2:]


async def test_purge_deletes_old_delivered_jobs_and_nothing_else(store: JobStore) -> None:
    """Retention would delete undelivered results or open jobs, or leave the files behind."""
    old, undelivered, waiting = [await add(store) for _ in range(3)]
    old, undelivered = await end(store, old), await end(store, undelivered)
    await store.acknowledge(old)
    assert await store.purge(NOW) == 0
    assert await store.purge(NOW + 1) == 1
    assert await store.get(old.id) is None
    assert await store.output(old) is None
    assert await store.output(undelivered) == Output()
    assert await store.get(waiting.id) == waiting


async def test_purge_keeps_the_newest_bytes_within_the_size(store: JobStore) -> None:
    """The disk would fill up, or an undelivered image would be deleted for its size."""
    big = Output(files=(File(name="p", mime="image/png", data=bytes(600 * 1024)),))
    jobs = []
    for _ in range(4):
        running = await start(store, await add(store))
        jobs.append((await store.apply(running, JobEvent.COMPLETE, NOW, output=big)).job)
    for job in jobs[1:]:
        await store.acknowledge(job)
    assert await store.purge(0, keep_mb=1) == 0
    kept = [await store.output(job) is not None for job in jobs]
    assert kept == [True, False, False, True]
    assert await store.get(jobs[1].id) is not None


async def test_files_that_purge_removed_differ_from_none(store: JobStore) -> None:
    """An image to start from would be forgotten, and its prompt drawn without it."""
    big = File(name="p", mime="image/png", data=bytes(600 * 1024))
    jobs = [await add(store, replace(new(), files=files)) for files in ((big, big), (), (big,))]
    for job in jobs:
        await store.acknowledge(await end(store, job))
    assert await store.purge(0, keep_mb=1) == 0
    assert await store.purge(0, keep_mb=1) == 0
    kept = [await store.inputs(job) for job in jobs]
    assert kept == [None, (), (big,)]


async def test_only_ended_jobs_are_erased_and_all_of_them(store: JobStore) -> None:
    """A forgotten person's jobs would stay, or a running job vanish under its server."""
    jobs = [await end(store, await add(store)) for _ in range(45)]
    waiting = await add(store)
    assert await store.erase([job.id for job in jobs] + [waiting.id, 4711]) == 45
    assert [await store.get(jobs[0].id), await store.output(jobs[44])] == [None, None]
    assert await store.get(waiting.id) is not None
    assert await heads(store) == [waiting.id]
    assert (await add(store)).id > jobs[-1].id


async def test_what_was_made_for_an_erased_job_goes_with_it(store: JobStore) -> None:
    """A person's words would stay in the question that was made from them."""
    image, other = await end(store, await add(store)), await end(store, await add(store))
    asked = [replace(new("qwen", owner="us"), parent=job.id) for job in (image, other, image)]
    first, second, waiting = [await add(store, one) for one in asked]
    await end(store, first)
    await end(store, second)
    assert await store.erase([image.id]) == 1
    assert await store.get(first.id) is None
    assert await store.get(second.id) is not None
    assert await store.get(waiting.id) is not None


async def test_ids_are_never_used_twice(store: JobStore, reopen: Open) -> None:
    """A button on an old message would act on another person's job."""
    job = await end(store, await add(store))
    await store.acknowledge(job)
    await store.purge(NOW + 1)
    again = await reopen()
    assert (await add(again)).id > job.id


# ---------------------------------------------------------------- what is remembered


async def test_where_a_conversation_is_remembered_is_kept(store: JobStore, reopen: Open) -> None:
    """After a restart every conversation would be read again from its first word."""
    first = await add(store)
    asked = await add(store, replace(new(), remembered_by="gpu-2"))
    assert (first.remembered_by, asked.remembered_by) == (None, "gpu-2")
    running = await start(store, asked)
    again = await reopen()
    assert await again.get(asked.id) == running
    assert running.remembered_by == "gpu-2"
    back = (await again.apply(running, JobEvent.RELEASE, NOW)).job
    assert (await again.queues(NOW, per_queue=2))[0].heads == (first, back)
    assert back.remembered_by == "gpu-2"


async def test_learned_times_are_replaced_one_by_one(store: JobStore) -> None:
    """Estimates would start from nothing after a restart."""
    load = LearnedDuration(
        kind="load", model="flux", host="gpu", size="", samples=1, median_s=9.5, spread_s=1.0
    )
    service = LearnedDuration(
        kind="service", model="flux", host="gpu", size="s", samples=2, median_s=3.0, spread_s=0.5
    )
    await store.learn([load, service])
    newer = LearnedDuration(
        kind="load", model="flux", host="gpu", size="", samples=2, median_s=8.0, spread_s=1.0
    )
    await store.learn([newer])
    assert sorted(await store.learned(), key=lambda one: one.kind) == [newer, service]


async def test_sizes_are_kept_model_by_model(store: JobStore, reopen: Open) -> None:
    """A model of unknown size would again get a whole GPU after every restart."""
    await store.note_sizes({"flux": 17000, "sdxl": 8000})
    await store.note_sizes({"flux": 16000})
    again = await reopen()
    assert await again.sizes() == {"flux": 16000, "sdxl": 8000}


async def test_only_cancelled_jobs_that_had_started_and_are_untold_are_abandoned(
    store: JobStore,
) -> None:
    """A restart would ask servers for jobs they never had, or leave one drawing for no one."""
    waiting, running, told, done = [await add(store) for _ in range(4)]
    await store.apply(waiting, JobEvent.CANCEL, 2.0)
    await end(store, done)
    cancelled = []
    for job in (running, told):
        started = (await store.apply(job, JobEvent.START, 2.0, runner="r", backend="comfy")).job
        cancelled.append((await store.apply(started, JobEvent.CANCEL, 3.0)).job)
    await store.acknowledge(cancelled[1])
    assert await store.abandoned() == [cancelled[0]]


async def test_pauses_are_replaced_whole_and_kept(store: JobStore, reopen: Open) -> None:
    """What an admin stopped would go on after a restart, or stay stopped after a resume."""
    assert await store.paused() == Pauses()
    await store.note_paused(Pauses(everything=True, models=frozenset({"flux"})))
    paused = Pauses(
        models=frozenset({"flux", "sdxl"}), hosts=frozenset({"gpu-1"}), awake={"gpu-2": 5.5}
    )
    await store.note_paused(paused)
    again = await reopen()
    assert await again.paused() == paused
    await again.note_paused(Pauses())
    assert await again.paused() == Pauses()


async def test_a_history_is_the_owners_own_newest_first(store: JobStore) -> None:
    """A person would see other people's jobs, or not find their newest job."""
    jobs = [await add(store) for _ in range(3)]
    await add(store, new(owner="bob"))
    ended = await end(store, jobs[1])
    assert await store.history("ada", limit=2) == [jobs[2], ended]
    assert await store.history("ada", limit=9, before=jobs[1].id) == [jobs[0]]
    assert await store.history("eve", limit=9) == []


async def test_a_history_shows_what_was_made_for_a_job_only_when_asked(store: JobStore) -> None:
    """People would read questions that no one asked, or an erasure would leave them behind."""
    job = await add(store)
    made = await add(store, replace(new(), parent=job.id))
    assert await store.history("ada", limit=9) == [job]
    assert await store.history("ada", limit=9, made_for_jobs=True) == [made, job]


async def test_residency_is_replaced_whole(store: JobStore) -> None:
    """After a restart a model would count as loaded that was unloaded long ago."""
    await store.note_residency([("gpu", "comfy", "flux", "ready", True)])
    await store.note_residency([("gpu", "comfy", "sdxl", "loading", False)])
    assert await store.residency() == [("sdxl", "comfy", False)]


async def test_everything_stands_after_a_restart(store: JobStore, reopen: Open) -> None:
    """A restart would lose jobs, places, the overflow, limits or the identity of attempts."""
    limits = SubmitLimits(max_queued=2)
    jobs = [await store.add(new(), NOW, limits=limits) for _ in range(4)]
    bobs = [await add(store, new(owner="bob")) for _ in range(3)]
    running = await start(store, jobs[0])
    await store.apply(bobs[1], JobEvent.CANCEL, NOW)
    ids = [job.id for job in (*jobs, *bobs)]
    before = (await store.positions(ids), await heads(store), store.database_id)
    again = await reopen()
    assert (await again.positions(ids), await heads(again), again.database_id) == before
    await again.apply(running, JobEvent.RETRY, NOW)
    assert await heads(again) == [jobs[0].id, jobs[1].id, bobs[0].id, bobs[2].id]
    with pytest.raises(LimitReached):
        await again.add(new(), NOW, limits=SubmitLimits(max_open=4))


async def test_a_running_jobs_place_is_not_given_away_by_a_restart(
    store: JobStore, reopen: Open
) -> None:
    """A job that ran during a restart would find another job in its place."""
    running = await start(store, await add(store))
    again = await reopen()
    younger = await add(again)
    back = (await again.apply(running, JobEvent.RETRY, NOW)).job
    assert await heads(again) == [back.id, younger.id]


async def test_closing_twice_is_harmless(store: JobStore) -> None:
    """An orderly stop after a failed start would fail itself."""
    await store.aclose()
    await store.aclose()
