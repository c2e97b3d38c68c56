"""A job's place is reported once the router has checked it, or after a moment."""

import asyncio

import pytest

from queueing.core.jobs import Job, JobState, stand_in
from queueing.core.status import Standing
from queueing.engine.scheduler import PATIENCE_S, Decided
from tests.simulation.installation import ended, image_model, one_gpu
from tests.simulation.loop import in_virtual_time, run


def job(number: int) -> Job:
    return stand_in(number, "flux", 0.0)


async def waited_s(decided: Decided, *jobs: Job) -> float:
    began = asyncio.get_running_loop().time()
    await decided.about(jobs)
    return asyncio.get_running_loop().time() - began


@in_virtual_time
async def test_a_job_is_waited_for_until_a_step_that_saw_it_has_ended() -> None:
    decided = Decided(dict)
    ended = decided.step()  # under way when the job is accepted
    decided.accepted(1)
    waiting = asyncio.create_task(waited_s(decided, job(1)))
    await asyncio.sleep(0.1)
    ended()
    await asyncio.sleep(0.1)
    assert not waiting.done(), "that step did not know the job"
    decided.step()()
    assert await waiting == pytest.approx(0.2)
    assert await waited_s(decided, job(1)) == 0.0


@in_virtual_time
async def test_no_one_waits_for_a_router_that_does_nothing() -> None:
    """With an unusable database, no status would be reported at all."""
    decided = Decided(dict)
    decided.accepted(1)
    assert await waited_s(decided, job(1)) == pytest.approx(PATIENCE_S)
    assert await waited_s(decided, job(2)) == 0.0, "it is not known to be new"


def test_a_job_that_starts_at_once_is_told_to_run() -> None:
    """A person would be told to wait, at the cost of a forecast."""

    async def scenario() -> list[Standing]:
        installation = one_gpu(image_model("flux"))
        async with installation.queue() as queue:
            first = await installation.ask(queue, "flux", "a")
            await ended(queue, first)
            two = [await installation.ask(queue, "flux", key) for key in "bc"]
            await queue.status.decided(two)
            standings = await queue.status.standings(two)
            return [standings[each.id] for each in two]

    runs, waits = run(scenario())
    assert runs.job.state is JobState.PROCESSING
    assert runs.ends is not None
    assert (waits.job.state, waits.position) == (JobState.PENDING, 1)


def test_no_answer_about_a_new_job_waits_for_the_router() -> None:
    """The answer to a request would only come after a step of the planner."""

    async def scenario() -> float:
        installation = one_gpu(image_model("flux"))
        async with installation.queue() as queue:
            job = await installation.ask(queue, "flux", "a")
            began = asyncio.get_running_loop().time()
            standing = (await queue.status.standings([job]))[job.id]
            assert standing.job.state is JobState.PENDING, "the router has not stored its start"
            return asyncio.get_running_loop().time() - began

    assert run(scenario()) == 0.0
