"""What every store must do; another engine joins with one more line in `ENGINES`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from queueing.errors import LimitReached, StaleJob
from queueing.jobs import TRANSITIONS, Job, JobEvent, JobState, NewJob
from queueing.paused import Paused
from queueing.ports import Admission, Learned, Store
from queueing.requests import Chat, ChatMessage, File, Output, TextToImage
from queueing.store import SqliteStore, open_database

NOW = 1_000.0
NO_LIMITS = Admission()
PICTURE = File(name="cat.png", mime="image/png", data=b"\x89PNG\x00")

Open = Callable[[], Awaitable[Store]]


def _sqlite(*, inline: bool) -> Callable[[Path], Open]:
    def engine(folder: Path) -> Open:
        async def open_store() -> Store:
            return SqliteStore(await open_database(f"sqlite:///{folder}/usher.db", inline=inline))

        return open_store

    return engine


ENGINES = {
    "sqlite": _sqlite(inline=False),
    "sqlite-inline": _sqlite(inline=True),
}


@pytest.fixture(params=ENGINES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return ENGINES[request.param](tmp_path)


@pytest.fixture
async def store(reopen: Open) -> AsyncIterator[Store]:
    store = await reopen()
    yield store
    await store.aclose()


_numbers = iter(range(10**9))


def new(
    model: str = "flux", *, owner: str = "ada", lane: str = "normal", hold_s: float = 0.0
) -> NewJob:
    return NewJob(
        model=model,
        request=TextToImage(prompt="cat"),
        owner=owner,
        lane=lane,
        hold_s=hold_s,
        key=f"update:{next(_numbers)}",
    )


async def add(store: Store, job: NewJob | None = None, *, now: float = NOW) -> Job:
    return await store.add(job or new(), now, limits=NO_LIMITS)


async def start(store: Store, job: Job) -> Job:
    return await store.apply(job, JobEvent.START, NOW, runner="here", backend="gpu-1")


async def end(store: Store, job: Job) -> Job:
    return await store.apply(await start(store, job), JobEvent.COMPLETE, NOW, output=Output())


async def heads(store: Store, model: str = "flux", *, now: float = NOW) -> list[int]:
    lines = await store.lines(now, per_line=100)
    return [job.id for line in lines if line.model == model for job in line.heads]


# ---------------------------------------------------------------- accepting


async def test_an_accepted_job_reads_back_as_it_was_returned(store: Store) -> None:
    """A job would change its request, its owner or its chat on the way through the database."""
    picture = TextToImage(prompt="кот \N{CAT} \0 '\"", seed=2**64 - 1, strength=0.5)
    chat = Chat(messages=(ChatMessage(role="user", text="hi", pictures=(0,)),), max_tokens=5)
    for request in (picture, chat):
        job = await add(
            store,
            NewJob(
                model="flux",
                request=request,
                files=(PICTURE,),
                owner="telegram:1",
                lane="vip",
                parent=7,
                reply_to="telegram:1:2",
                key=f"k{request.kind}",
            ),
        )
        assert await store.get(job.id) == job
        assert await store.find(f"k{request.kind}") == job
        assert job.request == request
        assert await store.inputs(job) == (PICTURE,)


async def test_unknown_jobs_are_none(store: Store) -> None:
    """A button on a message older than the retention would crash."""
    assert await store.get(1) is None
    assert await store.find("nothing") is None
    assert await store.positions([1]) == {}


async def test_a_known_key_brings_the_first_job_whatever_the_limits(store: Store) -> None:
    """A redelivered update would make a second job, or be refused although its job runs."""
    asked = new()
    first = await add(store, asked)
    again = await store.add(asked, NOW + 1, limits=Admission(max_open=1, max_waiting=1))
    assert again == first
    ended = await end(store, first)
    assert await add(store, asked) == ended


async def test_the_same_key_at_the_same_moment_makes_one_job(store: Store) -> None:
    """Two deliveries racing each other would both be accepted."""
    asked = new()
    jobs = await asyncio.gather(*(add(store, asked) for _ in range(5)), add(store))
    assert len({job.id for job in jobs}) == 2
    assert len(await store.open_jobs()) == 2


async def test_an_owner_at_the_limit_is_refused_until_a_job_ends(store: Store) -> None:
    """One person could fill the queue, or would stay locked out after the jobs ended."""
    limits = Admission(max_open=2)
    first, _ = [await store.add(new(), NOW, limits=limits) for _ in range(2)]
    with pytest.raises(LimitReached) as refusal:
        await store.add(new(), NOW, limits=limits)
    assert (refusal.value.scope, refusal.value.limit) == ("owner", 2)
    await store.add(new(owner="bob"), NOW, limits=limits)
    await end(store, first)
    await store.add(new(), NOW, limits=limits)


async def test_limits_hold_against_simultaneous_requests(store: Store) -> None:
    """Ten requests in one moment would all pass a limit of three."""
    asked = [store.add(new(), NOW, limits=Admission(max_open=3)) for _ in range(10)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, Job) for answer in answers) == 3
    assert sum(isinstance(answer, LimitReached) for answer in answers) == 7


async def test_a_full_line_refuses_and_running_jobs_do_not_fill_it(store: Store) -> None:
    """A model's queue would grow without end, or its running jobs would count as waiting."""
    limits = Admission(max_waiting=2)
    first = await store.add(new(), NOW, limits=limits)
    await store.add(new(lane="vip"), NOW, limits=limits)
    with pytest.raises(LimitReached) as refusal:
        await store.add(new(owner="bob"), NOW, limits=limits)
    assert (refusal.value.scope, refusal.value.limit) == ("line", 2)
    await store.add(new("sdxl"), NOW, limits=limits)
    await start(store, first)
    await store.add(new(owner="bob"), NOW, limits=limits)


# ---------------------------------------------------------------- lines and positions


async def test_a_line_is_first_in_first_out(store: Store) -> None:
    """Somebody would be overtaken within a model and lane."""
    jobs = await asyncio.gather(*(add(store) for _ in range(20)))
    jobs = sorted(jobs, key=lambda job: job.id)
    assert await heads(store) == [job.id for job in jobs]
    positions = await store.positions([job.id for job in jobs])
    assert [positions[job.id] for job in jobs] == list(range(1, 21))


async def test_lines_tell_count_first_arrival_and_limited_heads(store: Store) -> None:
    """The router would plan with wrong counts or read whole lines."""
    jobs = [await add(store, now=NOW + n) for n in range(5)]
    (line,) = await store.lines(NOW + 9, per_line=2)
    assert (line.model, line.lane, line.waiting) == ("flux", "normal", 5)
    assert line.heads == tuple(jobs[:2])
    assert line.first_queued_at == NOW
    assert line.next_start_at is None


async def test_models_and_lanes_have_lines_of_their_own(store: Store) -> None:
    """Somebody would wait behind another model or a slower lane."""
    for job in (new(), new("sdxl"), new(lane="vip")):
        accepted = await add(store, job)
        assert await store.positions([accepted.id]) == {accepted.id: 1}
    lines = await store.lines(NOW, per_line=1)
    assert {(line.model, line.lane) for line in lines} == {
        ("flux", "normal"),
        ("sdxl", "normal"),
        ("flux", "vip"),
    }


async def test_positions_close_up_when_jobs_leave_anywhere(store: Store) -> None:
    """A position would count people who are gone, or rise."""
    jobs = [await add(store) for _ in range(6)]
    await store.apply(jobs[2], JobEvent.CANCEL, NOW)
    await start(store, jobs[0])
    await store.apply(jobs[3], JobEvent.FAIL, NOW, error="no")
    positions = await store.positions([job.id for job in jobs])
    assert positions == {jobs[1].id: 1, jobs[4].id: 2, jobs[5].id: 3}


async def test_an_empty_line_is_not_reported(store: Store) -> None:
    """The router would plan for models nobody waits for."""
    await start(store, await add(store))
    assert await store.lines(NOW, per_line=1) == []


async def test_a_retried_job_keeps_its_place_and_pauses(store: Store) -> None:
    """A failed attempt would cost the person the place, or be repeated without a pause."""
    first, second, third = [await add(store) for _ in range(3)]
    running = await start(store, first)
    await start(store, second)
    back = await store.apply(running, JobEvent.RETRY, NOW, not_before=NOW + 10, error="oops")
    assert (back.seq, back.attempt, back.error) == (first.seq, 1, "oops")
    assert await store.positions([first.id, third.id]) == {first.id: 1, third.id: 2}
    assert await heads(store) == [third.id]
    (line,) = await store.lines(NOW, per_line=1)
    assert line.next_start_at == NOW + 10
    assert await heads(store, now=NOW + 10) == [first.id, third.id]


async def test_a_job_with_another_request_starts_at_once_and_keeps_its_place(
    store: Store, reopen: Open
) -> None:
    """If this fails an improved prompt costs its job the place in line, or is not drawn."""
    held = await add(store, new(hold_s=10.0))
    younger = await add(store)
    (line,) = await store.lines(NOW, per_line=4)
    assert ([job.id for job in line.heads], line.held) == ([younger.id], True)
    amended = await store.amend(held.id, TextToImage(prompt="a cat in the sun", original="cat"))
    assert amended is not None
    (line,) = await store.lines(NOW, per_line=4)
    assert ([job.id for job in line.heads], line.held) == ([held.id, younger.id], False)
    assert line.heads[0] == amended == await store.get(held.id)
    assert isinstance(amended.request, TextToImage)
    assert (amended.request.prompt, amended.request.original) == ("a cat in the sun", "cat")
    assert await store.positions([held.id, younger.id]) == {held.id: 1, younger.id: 2}
    with pytest.raises(StaleJob):
        await start(store, held)
    assert (await start(store, amended)).request == amended.request


async def test_only_a_job_that_never_started_gets_another_request(store: Store) -> None:
    """If this fails a picture is drawn from one prompt and shown with another."""
    job = await start(store, await add(store))
    other = TextToImage(prompt="dog")
    assert await store.amend(job.id, other) is None
    back = await store.apply(job, JobEvent.RETRY, NOW, not_before=NOW + 9)
    assert await store.amend(job.id, other) is None
    ended = await store.apply(back, JobEvent.CANCEL, NOW)
    assert await store.amend(job.id, other) is None
    assert await store.get(job.id) == ended
    assert await store.amend(10**6, other) is None
    assert not await store.lines(NOW, per_line=4)


async def test_a_job_of_the_back_row_can_get_another_request(store: Store) -> None:
    """If this fails enhancement lets a person pass their own earlier jobs."""
    one_in_line = Admission(max_in_line=1)
    first, second, third = [
        await store.add(new(hold_s=9.0), NOW, limits=one_in_line) for _ in range(3)
    ]
    amended = await store.amend(second.id, TextToImage(prompt="dog"))
    assert amended is not None
    assert (amended.seq, amended.not_before) == (None, 0.0)
    positions = await store.positions([first.id, second.id, third.id])
    assert list(positions.values()) == [1, 2, 3]


async def test_a_held_job_keeps_its_place_while_younger_ones_pass(store: Store) -> None:
    """An image whose prompt is being enhanced would start too soon, or lose its place."""
    held = await add(store, new(hold_s=5.0))
    younger = await add(store)
    assert await heads(store) == [younger.id]
    assert await store.positions([held.id, younger.id]) == {held.id: 1, younger.id: 2}
    assert await heads(store, now=NOW + 5) == [held.id, younger.id]


async def test_a_released_job_gets_its_attempt_and_place_back(store: Store) -> None:
    """An orderly stop would use up the attempts of every running job."""
    first, second = await add(store), await add(store)
    released = await store.apply(await start(store, first), JobEvent.RELEASE, NOW)
    assert (released.attempt, released.seq, released.state) == (0, first.seq, JobState.PENDING)
    assert await heads(store) == [first.id, second.id]


# ---------------------------------------------------------------- back row


async def test_jobs_beyond_the_limit_wait_behind_and_enter_at_the_end(store: Store) -> None:
    """One person's many jobs would stand before other people's first."""
    limits = Admission(max_in_line=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    bobs = await store.add(new(owner="bob"), NOW, limits=limits)
    assert (second.seq, third.seq) == (None, None)
    ids = [first.id, bobs.id, second.id, third.id]
    assert await store.positions(ids) == dict(zip(ids, (1, 2, 3, 4), strict=True))
    assert await heads(store) == [first.id, bobs.id]
    (line,) = await store.lines(NOW, per_line=9)
    assert line.waiting == 2

    await end(store, first)
    assert await heads(store) == [bobs.id, second.id]
    assert await store.positions([third.id]) == {third.id: 3}


async def test_a_cancelled_back_row_job_lets_nobody_in(store: Store) -> None:
    """Cancelling what does not stand in line would let an owner exceed the limit in line."""
    limits = Admission(max_in_line=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    await store.apply(second, JobEvent.CANCEL, NOW)
    assert await heads(store) == [first.id]
    await store.apply(first, JobEvent.CANCEL, NOW)
    assert await heads(store) == [third.id]


async def test_a_back_row_job_that_entered_meanwhile_is_stale(store: Store) -> None:
    """A change meant for the back row would overwrite the place the job has got since."""
    limits = Admission(max_in_line=1)
    first, second = [await store.add(new(), NOW, limits=limits) for _ in range(2)]
    await end(store, first)
    with pytest.raises(StaleJob):
        await store.apply(second, JobEvent.CANCEL, NOW)
    entered = await store.get(second.id)
    assert entered is not None
    assert entered.seq is not None


async def test_a_moved_job_is_first_and_those_it_passes_are_one_place_further(
    store: Store, reopen: Open
) -> None:
    """An admin's word would change nothing, be forgotten, or give two jobs one place."""
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
    await store.aclose()
    reopened = await reopen()
    assert (await heads(reopened))[:3] == [jobs[2].id, jobs[3].id, jobs[1].id]
    running = await reopened.get(jobs[0].id)
    assert running is not None
    await reopened.apply(running, JobEvent.RELEASE, NOW)
    assert (await heads(reopened))[:4] == [jobs[2].id, jobs[3].id, jobs[0].id, jobs[1].id]
    await reopened.aclose()


async def test_what_does_not_wait_cannot_be_moved(store: Store) -> None:
    """A job that runs or has ended would be put into a line again."""
    running = await start(store, await add(store))
    ended = await end(store, await add(store))
    assert [await store.move_first(job_id) for job_id in (running.id, ended.id, 99)] == [None] * 3


async def test_a_back_row_job_moved_first_counts_against_its_owners_limit(store: Store) -> None:
    """Each move would let one more of the owner's jobs into the line for good."""
    limits = Admission(max_in_line=1)
    first, second, third = [await store.add(new(), NOW, limits=limits) for _ in range(3)]
    await store.move_first(third.id)
    assert await heads(store) == [third.id, first.id]
    await end(store, first)
    assert await heads(store) == [third.id, second.id]


async def test_the_back_row_belongs_to_the_owner_over_all_models(store: Store) -> None:
    """The limit in line would be evaded by asking several models."""
    limits = Admission(max_in_line=1)
    first = await store.add(new("flux"), NOW, limits=limits)
    second = await store.add(new("sdxl"), NOW, limits=limits)
    assert second.seq is None
    await end(store, first)
    assert await heads(store, "sdxl") == [second.id]


async def test_a_job_in_the_back_row_cannot_start(store: Store) -> None:
    """A job would run without ever having had a place in line."""
    limits = Admission(max_in_line=1)
    await store.add(new(), NOW, limits=limits)
    second = await store.add(new(), NOW, limits=limits)
    with pytest.raises(StaleJob):
        await start(store, second)


# ---------------------------------------------------------------- changes


async def in_state(store: Store, state: JobState) -> Job:
    job = await add(store)
    if state is JobState.PENDING:
        return job
    if state is JobState.CANCELLED:
        return await store.apply(job, JobEvent.CANCEL, NOW)
    job = await start(store, job)
    if state is JobState.COMPLETED:
        return await store.apply(job, JobEvent.COMPLETE, NOW, output=Output())
    if state is JobState.FAILED:
        return await store.apply(job, JobEvent.FAIL, NOW, error="no")
    return job


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("event", JobEvent)
async def test_only_the_table_of_transitions_is_obeyed(
    store: Store, event: JobEvent, state: JobState
) -> None:
    """A state would be reached that the table does not allow, or one it allows would not."""
    job = await in_state(store, state)
    sources, target = TRANSITIONS[event]
    if state in sources:
        after = await store.apply(job, event, NOW + 1)
        assert after.state is target
        assert after.version == job.version + 1
        assert await store.get(job.id) == after
    else:
        with pytest.raises(StaleJob):
            await store.apply(job, event, NOW + 1)
        assert await store.get(job.id) == job


async def test_the_slower_of_two_changes_is_stale(store: Store) -> None:
    """A cancel racing a completion would let both win."""
    running = await start(store, await add(store))
    answers = await asyncio.gather(
        store.apply(running, JobEvent.COMPLETE, NOW, output=Output(text="cat")),
        store.apply(running, JobEvent.CANCEL, NOW),
        return_exceptions=True,
    )
    winners = [answer for answer in answers if isinstance(answer, Job)]
    assert len(winners) == 1
    assert sum(isinstance(answer, StaleJob) for answer in answers) == 1
    assert await store.get(running.id) == winners[0]


async def test_a_start_notes_attempt_time_and_backend(store: Store) -> None:
    """Recovery would not know where an attempt ran, nor which it was."""
    running = await start(store, await add(store))
    assert (running.attempt, running.backend, running.started_at) == (1, "gpu-1", NOW)
    assert await store.processing() == [running]


async def test_suspects_are_marked_by_the_return_and_cleared_by_the_next(store: Store) -> None:
    """A job that ran when its server died would not run alone, or alone for ever."""
    running = await start(store, await add(store))
    suspect = await store.apply(running, JobEvent.RELEASE, NOW, suspect=True)
    assert suspect.suspect
    running = await start(store, suspect)
    assert running.suspect
    assert not (await store.apply(running, JobEvent.RETRY, NOW)).suspect


async def test_an_output_comes_back_whole_and_only_when_completed(store: Store) -> None:
    """A person would get a result cut short, or of an unfinished job."""
    running = await start(store, await add(store))
    assert await store.output(running) is None
    output = Output(text="a \N{CAT}", files=(PICTURE, File(name="", mime="x/y", data=b"")))
    done = await store.apply(running, JobEvent.COMPLETE, NOW, output=output)
    assert await store.output(done) == output
    empty = await end(store, await add(store))
    assert await store.output(empty) == Output()


async def test_a_stale_completion_leaves_no_output(store: Store) -> None:
    """A late answer of a cancelled job would be delivered."""
    running = await start(store, await add(store))
    cancelled = await store.apply(running, JobEvent.CANCEL, NOW)
    with pytest.raises(StaleJob):
        await store.apply(running, JobEvent.COMPLETE, NOW, output=Output(text="late"))
    assert await store.output(cancelled) is None


async def test_a_cancelled_caller_leaves_a_whole_change_or_none(store: Store) -> None:
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


# ---------------------------------------------------------------- delivery, retention


async def test_what_is_not_acknowledged_is_found_oldest_first(store: Store) -> None:
    """A finished job would never be delivered after a restart, or be delivered again."""
    ended, waiting = await add(store), await add(store)
    ended = await end(store, ended)
    assert await store.unacknowledged() == [ended, waiting]
    await store.acknowledge(ended, NOW)
    await store.acknowledge(ended, NOW)
    assert await store.unacknowledged() == [waiting]
    again = await store.get(ended.id)
    assert again is not None
    assert again.acknowledged


async def test_open_jobs_are_found_by_owner(store: Store) -> None:
    """`/cancel` would offer other people's jobs, or miss one's own."""
    mine, bobs = await add(store), await add(store, new(owner="bob"))
    running = await start(store, mine)
    assert await store.open_jobs("ada") == [running]
    assert await store.open_jobs() == [running, bobs]
    await end(store, bobs)
    assert await store.open_jobs("bob") == []


async def test_purge_deletes_old_delivered_jobs_and_nothing_else(store: Store) -> None:
    """Retention would delete undelivered results or open jobs, or leave the bytes behind."""
    old, undelivered, waiting = [await add(store) for _ in range(3)]
    old, undelivered = await end(store, old), await end(store, undelivered)
    await store.acknowledge(old, NOW)
    assert await store.purge(NOW) == 0
    assert await store.purge(NOW + 1) == 1
    assert await store.get(old.id) is None
    assert await store.output(old) is None
    assert await store.output(undelivered) == Output()
    assert await store.get(waiting.id) == waiting


async def test_purge_keeps_the_newest_bytes_within_the_size(store: Store) -> None:
    """The disk would fill up, or an undelivered picture would be deleted for its size."""
    big = Output(files=(File(name="p", mime="image/png", data=bytes(600 * 1024)),))
    jobs = []
    for _ in range(4):
        running = await start(store, await add(store))
        jobs.append(await store.apply(running, JobEvent.COMPLETE, NOW, output=big))
    for job in jobs[1:]:
        await store.acknowledge(job, NOW)
    assert await store.purge(0, keep_mb=1) == 0
    kept = [await store.output(job) is not None for job in jobs]
    assert kept == [True, False, False, True]
    assert await store.get(jobs[1].id) is not None


async def test_only_ended_jobs_are_erased_and_all_of_them(store: Store) -> None:
    """A person would stay remembered, or a job that runs would vanish under its server."""
    jobs = [await end(store, await add(store)) for _ in range(45)]
    waiting = await add(store)
    assert await store.erase([job.id for job in jobs] + [waiting.id, 4711]) == 45
    assert [await store.get(jobs[0].id), await store.output(jobs[44])] == [None, None]
    assert await store.get(waiting.id) is not None
    assert await heads(store) == [waiting.id]
    assert (await add(store)).id > jobs[-1].id


async def test_what_was_made_for_an_erased_job_goes_with_it(store: Store) -> None:
    """A person's words would stay in the question that was asked about them."""
    picture, other = await end(store, await add(store)), await end(store, await add(store))
    asked = [replace(new("qwen", owner="us"), parent=job.id) for job in (picture, other, picture)]
    first, second, waiting = [await add(store, one) for one in asked]
    await end(store, first)
    await end(store, second)
    assert await store.erase([picture.id]) == 1
    assert await store.get(first.id) is None
    assert await store.get(second.id) is not None
    assert await store.get(waiting.id) is not None


async def test_ids_are_never_used_twice(store: Store, reopen: Open) -> None:
    """A button on an old message would act on somebody else's job."""
    job = await end(store, await add(store))
    await store.acknowledge(job, NOW)
    await store.purge(NOW + 1)
    await store.aclose()
    again = await reopen()
    assert (await add(again)).id > job.id
    await again.aclose()


# ---------------------------------------------------------------- what is remembered


async def test_learned_times_are_replaced_one_by_one(store: Store) -> None:
    """Estimates would start from nothing after a restart."""
    load = Learned(
        kind="load", model="flux", host="gpu", size="", samples=1, median_s=9.5, spread_s=1.0
    )
    service = Learned(
        kind="service", model="flux", host="gpu", size="s", samples=2, median_s=3.0, spread_s=0.5
    )
    await store.learn([load, service])
    newer = Learned(
        kind="load", model="flux", host="gpu", size="", samples=2, median_s=8.0, spread_s=1.0
    )
    await store.learn([newer])
    assert sorted(await store.learned(), key=lambda one: one.kind) == [newer, service]


async def test_sizes_are_kept_model_by_model(store: Store, reopen: Open) -> None:
    """A model of unknown size would get a card alone again after every restart."""
    await store.note_sizes({"flux": 17000, "sdxl": 8000})
    await store.note_sizes({"flux": 16000})
    await store.aclose()
    again = await reopen()
    assert await again.sizes() == {"flux": 16000, "sdxl": 8000}
    await again.aclose()


async def test_only_cancelled_jobs_that_had_started_and_are_untold_are_abandoned(
    store: Store,
) -> None:
    """A restart would ask servers for jobs they never had, or leave one drawing for nobody."""
    waiting, running, told, done = [await add(store) for _ in range(4)]
    await store.apply(waiting, JobEvent.CANCEL, 2.0)
    await end(store, done)
    cancelled = []
    for job in (running, told):
        started = await store.apply(job, JobEvent.START, 2.0, runner="r", backend="comfy")
        cancelled.append(await store.apply(started, JobEvent.CANCEL, 3.0))
    await store.acknowledge(cancelled[1], 4.0)
    assert await store.abandoned() == [cancelled[0]]


async def test_pauses_are_replaced_whole_and_kept(store: Store, reopen: Open) -> None:
    """What an admin stopped would go on after a restart, or stay stopped after a resume."""
    assert await store.paused() == Paused()
    await store.note_paused(Paused(everything=True, models=frozenset({"flux"})))
    paused = Paused(models=frozenset({"flux", "sdxl"}), hosts=frozenset({"gpu-1"}))
    await store.note_paused(paused)
    await store.aclose()
    again = await reopen()
    assert await again.paused() == paused
    await again.note_paused(Paused())
    assert await again.paused() == Paused()
    await again.aclose()


async def test_a_history_is_the_owners_own_newest_first(store: Store) -> None:
    """A person would see other people's jobs, or not find their newest one."""
    jobs = [await add(store) for _ in range(3)]
    await add(store, new(owner="bob"))
    ended = await end(store, jobs[1])
    assert await store.history("ada", limit=2) == [jobs[2], ended]
    assert await store.history("ada", limit=9, before=jobs[1].id) == [jobs[0]]
    assert await store.history("eve", limit=9) == []


async def test_residency_is_replaced_whole(store: Store) -> None:
    """After a restart a model would be believed in memory that left it long ago."""
    await store.note_residency([("gpu", "comfy", "flux", "ready", True)])
    await store.note_residency([("gpu", "comfy", "sdxl", "loading", False)])
    assert await store.residency() == [("sdxl", "comfy", False)]


async def test_everything_stands_after_a_restart(store: Store, reopen: Open) -> None:
    """A restart would lose jobs, places, the back row, limits or the identity of attempts."""
    limits = Admission(max_in_line=2)
    jobs = [await store.add(new(), NOW, limits=limits) for _ in range(4)]
    bobs = [await add(store, new(owner="bob")) for _ in range(3)]
    running = await start(store, jobs[0])
    await store.apply(bobs[1], JobEvent.CANCEL, NOW)
    ids = [job.id for job in (*jobs, *bobs)]
    before = (await store.positions(ids), await heads(store), store.database_id)
    await store.aclose()

    again = await reopen()
    assert (await again.positions(ids), await heads(again), again.database_id) == before
    await again.apply(running, JobEvent.RETRY, NOW)
    assert await heads(again) == [jobs[0].id, jobs[1].id, bobs[0].id, bobs[2].id]
    with pytest.raises(LimitReached):
        await again.add(new(), NOW, limits=Admission(max_open=4))
    await again.aclose()


async def test_a_running_jobs_place_is_not_given_away_by_a_restart(
    store: Store, reopen: Open
) -> None:
    """A job that ran during a restart would find somebody else in its place."""
    running = await start(store, await add(store))
    await store.aclose()
    again = await reopen()
    younger = await add(again)
    back = await again.apply(running, JobEvent.RETRY, NOW)
    assert await heads(again) == [back.id, younger.id]
    await again.aclose()


async def test_closing_twice_is_harmless(store: Store) -> None:
    """An orderly stop after a failed start would fail itself."""
    await store.aclose()
    await store.aclose()
