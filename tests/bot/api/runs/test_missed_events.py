"""The API in another process than the queue: events missed while the connection was broken."""

import asyncio
from dataclasses import replace

from bot.api.runs.runs import Run, Runs
from queueing.core.errors import StoreError
from queueing.core.events import EventsMissed, JobChanged, Progressed
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.requests import Progress
from queueing.core.status import Standing
from tests.bot.delivery.results.rendering import completed
from tests.simulation.loop import in_virtual_time, run


class Queue:
    """Answers from a table."""

    def __init__(self, *jobs: Job, failing: int = 0) -> None:
        self.table = {job.id: job for job in jobs}
        self.failing = failing

    async def get(self, job_id: int) -> Job | None:
        if self.failing:
            self.failing -= 1
            raise StoreError("no process holds the queue")
        return self.table.get(job_id)

    async def standings(self, jobs: list[Job]) -> dict[int, Standing]:
        return {}


def watched(job: Job, queue: Queue, after: Job | None, *, chunks: tuple[str, ...] = ()) -> Run:
    """Return a run after a break during which its job has become `after`."""

    async def scenario() -> Run:
        runs = Runs(queue, queue)  # type: ignore[arg-type]
        serving = asyncio.create_task(runs.run())
        pending = replace(job, state=JobState.PENDING, version=1)
        with runs.watch(pending) as (seen, news):
            runs.on_event(JobChanged(job=pending, event=None))
            runs.on_event(JobChanged(job=job, event=JobEvent.START))
            runs.on_event(Progressed(job_id=job.id, progress=Progress(chunks=chunks)))
            queue.table = {} if after is None else {job.id: after}
            news.clear()
            runs.on_event(EventsMissed())
            await asyncio.wait_for(news.wait(), 60)
            await asyncio.sleep(10)
            runs.on_event(Progressed(job_id=job.id, progress=Progress(chunks=chunks)))
        serving.cancel()
        return seen

    return run(scenario())


def test_an_end_that_was_missed_is_read() -> None:
    """A call would wait for an end that was reported long ago."""
    job = replace(completed(), state=JobState.PROCESSING, version=3)
    done = replace(job, state=JobState.COMPLETED, version=4)
    assert watched(job, Queue(job), done).job is done


def test_an_answer_with_a_hole_is_not_passed_on() -> None:
    """A stream would continue as if no part were missing."""
    job = replace(completed(), state=JobState.PROCESSING, version=3)
    seen = watched(job, Queue(job), job, chunks=('{"a":1}',))
    assert (seen.restarts, seen.chunks) == (1, [])
    assert watched(job, Queue(job), job).restarts == 0


def test_an_answer_whose_beginning_was_missed_is_told_at_its_end() -> None:
    """A caller who comes to another process would get half an answer as if it were whole."""
    job = replace(completed(), state=JobState.PROCESSING, version=3)
    runs = Runs(Queue(job), Queue(job))  # type: ignore[arg-type]
    with runs.watch(job) as (seen, _):
        runs.on_event(Progressed(job_id=job.id, progress=Progress(chunks=("b",))))
        assert seen.chunks == []
        again = replace(job, state=JobState.PENDING, version=4)
        runs.on_event(JobChanged(job=again, event=JobEvent.RETRY))
        runs.on_event(JobChanged(job=replace(job, version=5), event=JobEvent.START))
        runs.on_event(Progressed(job_id=job.id, progress=Progress(chunks=("a",))))
        assert seen.chunks == ["a"]


def test_a_failing_database_is_asked_again() -> None:
    """One failure during a failover would leave every call waiting."""
    job = replace(completed(), state=JobState.PROCESSING, version=3)
    done = replace(job, state=JobState.COMPLETED, version=4)
    assert watched(job, Queue(job, failing=2), done).job is done


@in_virtual_time
async def test_an_end_before_the_first_look_is_read() -> None:
    """If a job ends while its caller reads it, the call would wait for an end already reported."""
    job = replace(completed(), state=JobState.PROCESSING, version=3)
    done = replace(job, state=JobState.COMPLETED, version=4)
    runs = Runs(Queue(done), Queue(done))  # type: ignore[arg-type]
    serving = asyncio.create_task(runs.run())
    runs.on_event(JobChanged(job=job, event=JobEvent.START))
    runs.on_event(JobChanged(job=done, event=JobEvent.COMPLETE))
    with runs.watch(job) as (seen, news):
        ended = await seen.until_final(news, asyncio.get_running_loop().time() + 60)
    serving.cancel()
    assert ended
    assert seen.job is done
