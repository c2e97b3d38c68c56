"""What processes that serve the API promise each other about the callers of jobs."""

from dataclasses import replace

import pytest

from bot.api.runs.attendance import StoredAttendance
from queueing.core.jobs import Job
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.contracts.queue.two_processes import Two, gone, two
from tests.contracts.store.store_harness import NO_LIMITS, NOW, new

__all__ = ("two",)

apart = pytest.mark.parametrize("two", ["postgres"], indirect=True)
"""For two processes at the same time, which a file cannot have."""


@pytest.fixture
async def job(two: Two) -> Job:
    """Return a program's job; the test names the process that accepted it."""
    return await JobStore(two.one).add(new(), NOW, limits=NO_LIMITS)


def of(database: Database) -> StoredAttendance:
    return StoredAttendance(database)


async def test_a_job_whose_caller_left_is_taken_over_once(two: Two, job: Job) -> None:
    """Two retries would be answered with one job, or neither with it."""
    one, other = of(two.one), of(two.other)
    assert not await other.take_over(job.id, one.run)
    await one.leave([job.id])
    took = [await other.take_over(job.id, one.run), await one.take_over(job.id, one.run)]
    assert took == [True, False]


async def test_a_job_of_an_earlier_run_has_no_caller(two: Two, job: Job) -> None:
    """A retry after a crash would have everything done a second time."""
    gone = "an opening that has ended"
    assert await of(two.one).take_over(job.id, gone)
    assert not await of(two.other).take_over(job.id, gone)


async def test_a_job_of_an_older_version_has_no_caller(two: Two, job: Job) -> None:
    """It does not say who accepted it, and its caller has gone with the process."""
    assert await of(two.other).take_over(job.id, "")


async def test_a_caller_that_comes_back_keeps_its_job(two: Two, job: Job) -> None:
    """The retry of another call would take over its job."""
    one, other = of(two.one), of(two.other)
    await one.leave([job.id])
    await one.come(job.id)
    assert not await other.take_over(job.id, one.run)
    await one.leave([job.id])
    assert await other.take_over(job.id, one.run)


async def test_a_job_that_was_given_up_is_taken_over_by_none(two: Two, job: Job) -> None:
    """A retry would be answered with a job that is just being cancelled."""
    one, other = of(two.one), of(two.other)
    assert await one.give_up(job.id, one.run)
    assert not await other.take_over(job.id, one.run)
    assert not await one.take_over(job.id, one.run)


async def test_an_answered_job_is_taken_over_by_none(two: Two, job: Job) -> None:
    """The retry of another equal call would get this answer instead of its own."""
    gone = "an opening that has ended"
    ended = StoredAttendance(two.one, run=gone)
    assert await ended.answer({job.id: gone})
    await ended.confirm([job.id])
    for in_doubt in (False, True):
        assert not await of(two.other).take_over(job.id, gone, in_doubt=in_doubt)
        assert not await of(two.one).take_over(job.id, gone, in_doubt=in_doubt)


async def test_an_answer_whose_sending_a_crash_interrupted_is_in_doubt(two: Two, job: Job) -> None:
    """Its retry would have everything done twice, or another call's retry would get it at once."""
    gone = "an opening that has ended"
    ended, one, other = StoredAttendance(two.one, run=gone), of(two.one), of(two.other)
    assert await ended.answer({job.id: gone})
    assert not await other.take_over(job.id, gone)
    assert await other.take_over(job.id, gone, in_doubt=True)
    await ended.confirm([job.id])  # it was taken for dead
    assert not await one.take_over(job.id, gone, in_doubt=True)
    assert not await ended.answer({job.id: gone})


async def test_an_answer_that_a_living_process_sends_is_not_in_doubt(two: Two, job: Job) -> None:
    """Two callers would get one answer."""
    one, other = of(two.one), of(two.other)
    assert await one.answer({job.id: one.run})
    assert not await other.take_over(job.id, one.run, in_doubt=True)


async def test_to_confirm_an_answer_does_not_undo_that_its_caller_left(two: Two, job: Job) -> None:
    """A caller whose connection broke with the last bytes would have everything done twice."""
    one, other = of(two.one), of(two.other)
    assert await one.answer({job.id: one.run})
    await one.leave([job.id])
    await one.confirm([job.id])
    assert await other.take_over(job.id, one.run)


async def test_an_answer_that_broke_off_can_be_had_again(two: Two, job: Job) -> None:
    """A caller whose connection broke with the last bytes would have everything done twice."""
    one, other = of(two.one), of(two.other)
    assert await one.answer({job.id: one.run})
    await one.leave([job.id])
    assert await other.take_over(job.id, one.run)


async def test_a_process_that_was_taken_for_dead_does_not_answer(two: Two, job: Job) -> None:
    """Two callers would get one answer: the one who still waits, and the one whose retry has it."""
    frozen = "a process whose session was ended"
    assert await of(two.one).take_over(job.id, frozen)
    assert not await StoredAttendance(two.other, run=frozen).answer({job.id: frozen})
    assert await of(two.one).answer({job.id: frozen})


async def test_a_forgotten_job_is_no_failure(two: Two) -> None:
    """The end of a call would be an error in the log, and be retried forever."""
    one = of(two.one)
    await one.leave([999])
    await one.come(999)
    assert await one.give_up(999, one.run)
    assert await one.answer({999: one.run})
    await one.confirm([999])


async def test_what_is_noted_goes_with_its_job(two: Two, job: Job) -> None:
    """The table would grow forever."""
    await of(two.one).leave([job.id])
    await two.other.write(lambda each: each.execute("DELETE FROM jobs WHERE id = ?", (job.id,)))
    count = "SELECT count(*) FROM attendance"
    assert await two.other.read(lambda each: each.execute(count).fetchone()[0]) == 0


@apart
async def test_a_job_with_a_caller_elsewhere_is_not_given_up(two: Two, job: Job) -> None:
    """A caller who hangs up would end the job of a caller on another machine."""
    one, other = of(two.one), of(two.other)
    await other.come(job.id)
    assert not await one.give_up(job.id, one.run)
    assert not await one.take_over(job.id, one.run)
    assert await other.give_up(job.id, one.run)


@apart
async def test_of_two_that_take_a_job_over_one_gets_it(two: Two, job: Job) -> None:
    """Two callers would wait for one job, and the first to leave would end it."""
    gone = "an opening that has ended"
    took = await two.overlapping(
        lambda database: of(database).take_over(job.id, gone),
        lambda database: of(database).take_over(job.id, gone),
    )
    assert took == [True, False]


@apart
async def test_of_giving_up_and_taking_over_one_happens(two: Two, job: Job) -> None:
    """A retry would be answered with the job that the first call is just cancelling."""
    run = of(two.one).run
    await of(two.one).leave([job.id])
    happened = await two.overlapping(
        lambda database: StoredAttendance(database, run=run).give_up(job.id, run),
        lambda database: of(database).take_over(job.id, run),
    )
    assert happened == [True, False]
    later = await JobStore(two.one).add(replace(new(), owner="eve"), NOW, limits=NO_LIMITS)
    await of(two.one).leave([later.id])
    happened = await two.overlapping(
        lambda database: of(database).take_over(later.id, run),
        lambda database: of(database).give_up(later.id, run),
    )
    assert happened == [True, False]


@apart
async def test_a_process_that_ended_attends_to_nothing(two: Two, job: Job) -> None:
    """Its retries would wait for no one, and everything be done twice."""
    one, other = of(two.one), of(two.other)
    assert not await other.take_over(job.id, one.run)
    await two.one.aclose()
    await gone(one.run, two.other)
    assert await other.take_over(job.id, one.run)
