"""What every store must tell about queues: who is first, who is where, who may start."""

import asyncio
from dataclasses import replace

import pytest

from queueing.core.errors import StaleJob
from queueing.core.jobs import JobEvent, JobState, SubmitLimits
from queueing.core.requests import File, TextToImage
from queueing.store.jobs.job_store import JobStore
from tests.contracts.store.store_harness import NOW, Open, add, heads, new, start


async def test_lines_tell_count_first_arrival_and_limited_heads(store: JobStore) -> None:
    """The router would plan with wrong counts or read whole queues."""
    jobs = [await add(store, now=NOW + n) for n in range(5)]
    (queue,) = await store.queues(NOW + 9, per_queue=2)
    assert (queue.model, queue.lane, queue.waiting) == ("flux", "normal", 5)
    assert queue.heads == tuple(jobs[:2])
    assert queue.first_queued_at == NOW
    assert queue.next_start_at is None


async def test_a_retried_job_keeps_its_place_and_pauses(store: JobStore) -> None:
    """A failed attempt would cost the person their place, or be repeated without a pause."""
    first, second, third = [await add(store) for _ in range(3)]
    running = await start(store, first)
    await start(store, second)
    back = (await store.apply(running, JobEvent.RETRY, NOW, not_before=NOW + 10, error="oops")).job
    assert (back.seq, back.attempt, back.error) == (first.seq, 1, "oops")
    assert await store.positions([first.id, third.id]) == {first.id: 1, third.id: 2}
    assert await heads(store) == [third.id]
    (queue,) = await store.queues(NOW, per_queue=1)
    assert queue.next_start_at == NOW + 10
    assert await heads(store, now=NOW + 10) == [first.id, third.id]


async def test_a_job_that_pauses_after_an_interruption_is_not_held(store: JobStore) -> None:
    """People would read that a prompt is being improved while a restart is awaited."""
    running = await start(store, await add(store))
    await store.apply(running, JobEvent.RELEASE, NOW, not_before=NOW + 10)
    (queue,) = await store.queues(NOW, per_queue=1)
    assert (queue.next_start_at, queue.held) == (NOW + 10, False)


async def test_a_job_with_another_request_starts_at_once_and_keeps_its_place(
    store: JobStore, reopen: Open
) -> None:
    """An improved prompt would cost its job the place in the queue, or not be drawn."""
    held = await add(store, new(delay_s=10.0))
    younger = await add(store)
    (queue,) = await store.queues(NOW, per_queue=4)
    assert ([job.id for job in queue.heads], queue.held) == ([younger.id], True)
    amended = await store.replace_request(
        held.id, TextToImage(prompt="a cat in the sun", original="cat")
    )
    assert amended is not None
    (queue,) = await store.queues(NOW, per_queue=4)
    assert ([job.id for job in queue.heads], queue.held) == ([held.id, younger.id], False)
    assert queue.heads[0] == amended == await store.get(held.id)
    assert isinstance(amended.request, TextToImage)
    assert (amended.request.prompt, amended.request.original) == ("a cat in the sun", "cat")
    assert await store.positions([held.id, younger.id]) == {held.id: 1, younger.id: 2}
    with pytest.raises(StaleJob):
        await start(store, held)
    assert (await start(store, amended)).request == amended.request


async def test_a_held_job_waits_for_its_request_however_long_that_takes(
    store: JobStore, reopen: Open
) -> None:
    """A question would be asked before its recording is transcribed."""
    held = await add(store, replace(new(), held=True))
    younger = await add(store)
    for later in (NOW, NOW + 4_000, NOW + 9e6):
        (queue,) = await store.queues(later, per_queue=4)
        assert ([job.id for job in queue.heads], queue.held) == ([younger.id], True)
        assert queue.next_start_at is None
    store = await reopen()
    assert await heads(store, now=NOW + 5_000) == [younger.id]
    more = TextToImage(prompt="two cats")
    assert held.held
    kept = await store.replace_request(held.id, more, release=False)
    assert kept is not None
    assert (kept.held, kept.request) == (True, more)
    assert await heads(store) == [younger.id]
    freed = await store.replace_request(held.id, more)
    assert freed is not None
    assert not freed.held
    assert await heads(store) == [held.id, younger.id]


async def test_a_request_is_replaced_only_while_it_is_the_one_known(store: JobStore) -> None:
    """Of two simultaneous additions, the later would overwrite the other."""
    job = await add(store, replace(new(), held=True))
    first, other = TextToImage(prompt="first"), TextToImage(prompt="other")
    amended = await store.replace_request(job.id, first, release=False, version=job.version)
    assert amended is not None
    assert await store.replace_request(job.id, other, version=job.version) is None
    assert await store.get(job.id) == amended
    assert await store.replace_request(job.id, other, version=amended.version) is not None


async def test_further_inputs_join_those_of_a_job_that_never_started(store: JobStore) -> None:
    """The second image of an album would be lost, or replace the first."""
    first, second = [File(name=f"{n}.png", mime="image/png", data=b"%d" % n) for n in (1, 2)]
    job = await add(store, replace(new(), files=(first,)))
    amended = await store.replace_request(job.id, job.request, files=(second,), reply_to="both")
    assert amended is not None
    assert (amended.reply_to, await store.get(job.id)) == ("both", amended)
    assert await store.inputs(amended) == (first, second)
    running = await start(store, amended)
    assert await store.replace_request(job.id, job.request, files=(second,)) is None
    assert await store.inputs(running) == (first, second)


async def test_requests_replaced_together_follow_each_other(store: JobStore) -> None:
    """Of two changes for a job in one transaction, the earlier would count, or files be lost."""
    files = [File(name=f"{n}.png", mime="image/png", data=b"%d" % n) for n in range(5)]
    job, other = [await add(store, replace(new(), files=(files[0],))) for _ in range(2)]
    running = await start(store, await add(store))
    wanted = [
        (job.id, "first", files[1:2], None),
        (other.id, "other", [], "there"),
        (running.id, "never", files[1:], None),
        (job.id, "second", files[2:4], "here"),
    ]
    amended = await asyncio.gather(
        *(
            store.replace_request(
                job_id, TextToImage(prompt=prompt), files=tuple(added), reply_to=reply_to
            )
            for job_id, prompt, added, reply_to in wanted
        )
    )
    versions = [each and each.version - job.version for each in amended]
    assert versions == [1, 1, None, 2]
    last = await store.get(job.id)
    assert last == amended[3]
    assert last is not None
    assert (last.request, last.reply_to) == (TextToImage(prompt="second"), "here")
    assert await store.inputs(last) == tuple(files[:4])
    assert await store.get(other.id) == amended[1]


async def test_only_a_job_that_never_started_gets_another_request(store: JobStore) -> None:
    """An image would be drawn from one prompt and shown with another."""
    job = await start(store, await add(store))
    other = TextToImage(prompt="dog")
    assert await store.replace_request(job.id, other) is None
    back = (await store.apply(job, JobEvent.RETRY, NOW, not_before=NOW + 9)).job
    assert await store.replace_request(job.id, other) is None
    ended = (await store.apply(back, JobEvent.CANCEL, NOW)).job
    assert await store.replace_request(job.id, other) is None
    assert await store.get(job.id) == ended
    assert await store.replace_request(10**6, other) is None
    assert not await store.queues(NOW, per_queue=4)


async def test_a_job_of_the_overflow_can_get_another_request(store: JobStore) -> None:
    """Enhancement would let a person overtake their own earlier jobs."""
    one_queued = SubmitLimits(max_queued=1)
    first, second, third = [
        await store.add(new(delay_s=9.0), NOW, limits=one_queued) for _ in range(3)
    ]
    amended = await store.replace_request(second.id, TextToImage(prompt="dog"))
    assert amended is not None
    assert (amended.seq, amended.not_before) == (None, 0.0)
    positions = await store.positions([first.id, second.id, third.id])
    assert list(positions.values()) == [1, 2, 3]


async def test_a_held_job_keeps_its_place_while_younger_ones_pass(store: JobStore) -> None:
    """An image whose prompt is being enhanced would start too soon, or lose its place."""
    held = await add(store, new(delay_s=5.0))
    younger = await add(store)
    assert await heads(store) == [younger.id]
    assert await store.positions([held.id, younger.id]) == {held.id: 1, younger.id: 2}
    assert await heads(store, now=NOW + 5) == [held.id, younger.id]


async def test_a_released_job_gets_its_attempt_and_place_back(store: JobStore) -> None:
    """An orderly stop would use up the attempts of every running job."""
    first, second = await add(store), await add(store)
    released = (await store.apply(await start(store, first), JobEvent.RELEASE, NOW)).job
    assert (released.attempt, released.seq, released.state) == (0, first.seq, JobState.PENDING)
    assert await heads(store) == [first.id, second.id]


async def test_turns_count_what_could_start(store: JobStore) -> None:
    """Two people would read the same place, or a place behind jobs that are skipped or running."""
    held = await add(store, new(delay_s=50.0))
    first, second, third = [await add(store) for _ in range(3)]
    vip = await add(store, new(lane="vip"))
    await store.queues(NOW, per_queue=2)
    ids = [held.id, first.id, second.id, third.id, vip.id]
    turns = await store.turns([*ids, 10**6], begun={second.id, 10**6})
    assert [turns[job_id].number for job_id in ids] == [None, 1, None, 2, 1]
    assert turns[first.id].lanes == {"normal": 2, "vip": 1}
    assert 10**6 not in turns
    await store.apply(held, JobEvent.CANCEL, NOW)
    await start(store, first)
    turns = await store.turns(ids, begun=())
    assert list(turns) == [second.id, third.id, vip.id]
    assert [turn.number for turn in turns.values()] == [1, 2, 1]
    assert turns[third.id].lanes == {"normal": 2, "vip": 1}


async def test_a_job_of_the_overflow_has_no_turn(store: JobStore) -> None:
    """A person's tenth job would be given a place among those in the queue."""
    first, second = [
        await store.add(new(), NOW, limits=SubmitLimits(max_queued=1)) for _ in range(2)
    ]
    assert list(await store.turns([first.id, second.id], begun=())) == [first.id]
