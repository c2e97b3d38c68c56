"""The front door of the queue, with everything behind it, in virtual time."""

from queueing.jobs import JobEvent, JobState
from tests.simulation.house import NO_LIMITS, House, ended, host, image_model
from tests.simulation.loop import run


def test_a_job_is_loaded_for_run_and_completed() -> None:
    """If this fails nothing works: accept, load, start, complete, in that order."""

    async def story() -> None:
        house = House.of([image_model("flux")], [host("gpu", "comfy")])
        async with house.queue() as queue:
            job = await queue.submit(house.new("flux", "cat"), limits=NO_LIMITS)
            done = await ended(queue, job)
            output = await queue.output(done)
        assert done.state is JobState.COMPLETED
        assert output is not None
        assert output.text == "result of cat"
        assert house.history(job.id) == [None, JobEvent.START, JobEvent.COMPLETE]
        assert [model for _, model in house.servers["comfy"].loads] == ["flux"]
        assert not house.violations

    run(story())
