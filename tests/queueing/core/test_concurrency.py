"""Groups of tasks and timeouts behave the same on every Python."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from queueing.core.concurrency import TaskGroup, first_cause, timeout, timeout_at, together
from tests.simulation.loop import in_virtual_time, run


class Broken(Exception):
    pass


async def fails(after_s: float = 0.0) -> None:
    await asyncio.sleep(after_s)
    raise Broken


async def fails_as_it_ends() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise Broken


async def outlives_its_cancellation(seconds: float) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.sleep(seconds)


async def group_fails_in_its_block() -> None:
    async with TaskGroup() as group:
        group.create_task(fails(1))
        await asyncio.Event().wait()


async def group_fails_after_its_block() -> None:
    async with TaskGroup() as group:
        group.create_task(fails(1))


GROUPS = [group_fails_in_its_block, group_fails_after_its_block]


async def counted(group: Callable[[], Awaitable[None]]) -> int:
    """Return how many cancellations a task still has to obey after one of its groups has failed."""
    with pytest.raises(ExceptionGroup):
        await group()
    await asyncio.sleep(1)  # a cancellation that is none of ours would arrive here
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_failed_leaves_its_owner_uncancelled(
    group: Callable[[], Awaitable[None]],
) -> None:
    """Every timeout of the owner would end it silently: no process would connect again."""
    assert run(counted(group)) == 0


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("seconds", [0.0, 1.0])
@in_virtual_time
async def test_a_timeout_is_told_from_a_cancellation_after_a_group_has_failed(
    group: Callable[[], Awaitable[None]], seconds: float
) -> None:
    """An unanswered connection would end the task that makes it."""
    await counted(group)
    with pytest.raises(TimeoutError):
        async with timeout(seconds):
            await asyncio.Event().wait()


async def _keeps_going(*, outer: bool) -> None:
    """Begin again after every failure, as everything does that must stay up."""
    while True:
        with suppress(ExceptionGroup):
            async with TaskGroup() as group:
                group.create_task(fails_as_it_ends())
                if outer:
                    await asyncio.Event().wait()
        await asyncio.sleep(1)


@pytest.mark.parametrize("outer", [True, False])
@in_virtual_time
async def test_a_failure_during_a_stop_does_not_hide_the_stop(*, outer: bool) -> None:
    """The bot would never end, and its service manager would kill it."""
    task = asyncio.create_task(_keeps_going(outer=outer))
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.sleep(5)
    assert task.cancelled()


def test_a_failure_within_does_not_hide_that_of_the_group_around() -> None:
    """The rest of a part would go on without the half that has failed."""

    async def scenario() -> None:
        async with TaskGroup() as group:
            group.create_task(fails(1))
            await _keeps_going(outer=False)

    with pytest.raises(ExceptionGroup) as failed:
        run(scenario())
    assert len(failed.value.exceptions) == 1


@in_virtual_time
async def test_a_cancelled_task_may_still_wait_for_so_long() -> None:
    """The steps after a slow one would be skipped: a server would work on for no one."""
    steps = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                async with timeout(1):
                    await asyncio.Event().wait()
            except TimeoutError:
                steps.append("late")
            await asyncio.sleep(1)
            steps.append("ended")

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert steps == ["late", "ended"]


@in_virtual_time
async def test_a_cancellation_is_none_of_the_timeout() -> None:
    """A stop would be mistaken for a slow server."""

    async def work() -> None:
        async with timeout(1):
            await outlives_its_cancellation(2)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@in_virtual_time
async def test_a_timeout_within_leaves_the_one_around_alone() -> None:
    """The whole call would be abandoned with its first attempt."""
    async with timeout(5) as whole:
        with suppress(TimeoutError):
            async with timeout(1):
                await asyncio.Event().wait()
        assert not whole.expired()
    with pytest.raises(TimeoutError):
        async with timeout(1) as whole, timeout(5) as attempt:
            await asyncio.Event().wait()
    assert whole.expired()
    assert not attempt.expired()


@in_virtual_time
async def test_the_end_of_a_block_can_be_moved() -> None:
    """An attempt that still reports progress would be abandoned."""
    now = asyncio.get_running_loop().time()
    async with timeout_at(None) as limit, timeout(None):
        limit.reschedule(now + 1)
        limit.reschedule(now + 3)
        await asyncio.sleep(2)
    assert not limit.expired()


@pytest.mark.parametrize("nested", [False, True])
@in_virtual_time
async def test_the_first_failure_of_several_is_raised_by_itself(*, nested: bool) -> None:
    """Each caller would have to look into groups for the error it knows."""
    first = together(fails(1)) if nested else fails(1)
    started = asyncio.get_running_loop().time()
    with pytest.raises(Broken):
        await together(asyncio.sleep(60), first, fails_as_it_ends())
    assert asyncio.get_running_loop().time() - started == 1


def test_the_first_cause_is_found_in_groups_of_groups() -> None:
    """An operator would read of "1 sub-exception"."""
    cause = ValueError()
    assert first_cause(cause) is cause
    inner = ExceptionGroup("inner", [cause, KeyError()])
    assert first_cause(ExceptionGroup("outer", [inner, Broken()])) is cause
