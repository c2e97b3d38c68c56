"""The first moment that a person is told of their job is its promise, in virtual time."""

from queueing.core.standings import Promised
from queueing.service.promises import Promises
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model
from tests.simulation.loop import in_virtual_time


@in_virtual_time
async def test_the_first_moment_told_is_the_promise() -> None:
    """A promise that is corrected until it is true would always be kept."""
    there = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
    async with there.queue() as queue:
        queue.promises.follow()
        new = (there.new("flux", "cat") for _ in range(3))
        jobs = [await queue.submitter.submit(each, limits=NO_LIMITS) for each in new]
        first = {
            number: standing.done_at
            for number, standing in (await queue.status.standings(jobs)).items()
            if standing.done_at is not None
        }
        assert first
        await ended(queue, jobs[0])
        await queue.status.standings(jobs)
        given = queue.promises.given
        assert {number: given[number].done_at for number in first} == first
        last = await ended(queue, jobs[-1])
        assert last.finished_at is not None
        assert given[last.id].kept(last.finished_at)


def test_nothing_is_kept_that_is_not_followed() -> None:
    """What nothing drops would grow for ever."""
    promises = Promises()
    promises.tell(1, 10.0, 0.0)
    assert not promises.given


def test_what_was_told_before_a_restart_was_told_first() -> None:
    """A restart would renew every promise."""
    promises = Promises()
    promises.follow()
    promises.tell(1, 20.0, 5.0)
    promises.restore({1: Promised(given_at=0.0, done_at=10.0)})
    assert promises.given[1].done_at == 10.0
    promises.drop([1, 2])
    assert not promises.given


def test_a_promise_is_kept_within_a_fifth_of_the_time_it_took_or_five_seconds() -> None:
    """A wait of an hour that is a minute off would count as much as one of ten seconds."""
    late = Promised(given_at=0.0, done_at=100.0)
    moments = (70.0, 84.0, 100.0, 125.0, 126.0)
    assert [late.kept(moment) for moment in moments] == [False, True, True, True, False]
    assert Promised(given_at=0.0, done_at=2.0).kept(7.0)
