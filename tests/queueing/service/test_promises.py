"""The first range that a person is told for their job is its promise, in virtual time."""

from queueing.core.status import Estimate, Promised
from queueing.service.shown_estimates import Promises
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model
from tests.simulation.loop import in_virtual_time


@in_virtual_time
async def test_the_first_range_told_is_the_promise() -> None:
    """A promise that is corrected until it is true would always be kept."""
    there = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
    async with there.queue() as queue:
        queue.promises.follow()
        new = (there.new("flux", "cat") for _ in range(3))
        jobs = [await queue.submitter.submit(each, limits=NO_LIMITS) for each in new]
        first = {
            number: (ends.earliest, ends.latest)
            for number, standing in (await queue.status.standings(jobs)).items()
            if (ends := standing.ends) is not None
        }
        assert first
        await ended(queue, jobs[0])
        await queue.status.standings(jobs)
        given = queue.promises.given
        assert {n: (given[n].earliest, given[n].latest) for n in first} == first
        last = await ended(queue, jobs[-1])
        assert last.finished_at is not None
        assert given[last.id].kept(last.finished_at)


def test_nothing_is_kept_that_is_not_followed() -> None:
    """What is never dropped would grow forever."""
    promises = Promises()
    promises.tell(1, Estimate(at=10.0, earliest=9.0, latest=11.0), 0.0)
    assert not promises.given


def test_what_was_told_before_a_restart_was_told_first() -> None:
    """A restart would renew every promise."""
    promises = Promises()
    promises.follow()
    promises.tell(1, Estimate(at=20.0, earliest=19.0, latest=21.0), 5.0)
    promises.restore({1: Promised(given_at=0.0, earliest=9.0, latest=11.0)})
    assert promises.given[1].latest == 11.0
    promises.drop([1, 2])
    assert not promises.given


def test_a_promise_is_kept_within_its_range_alone() -> None:
    """An operator would read that estimates are right which people saw broken."""
    told = Promised(given_at=0.0, earliest=90.0, latest=120.0)
    assert [told.off_s(at) for at in (80.0, 90.0, 100.0, 120.0, 125.0)] == [10, 0, 0, 0, 5]
    assert [told.kept(at) for at in (80.0, 100.0, 125.0)] == [False, True, False]
