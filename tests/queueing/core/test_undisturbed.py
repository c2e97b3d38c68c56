"""What goes on when its waiter is cancelled."""

import asyncio
import gc
from typing import Any

import pytest

from queueing.core.concurrency import undisturbed
from tests.simulation.loop import in_virtual_time


async def _takes_a_second(error: BaseException | None = None) -> str:
    await asyncio.sleep(1)
    if error is not None:
        raise error
    return "made"


@in_virtual_time
async def test_a_cancellation_ends_the_wait_alone() -> None:
    """Half a change would remain, and no one would know which half."""
    work = asyncio.ensure_future(_takes_a_second())
    waiting = asyncio.ensure_future(undisturbed(work))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert not work.done()
    assert await undisturbed(work) == "made"
    assert await undisturbed(work) == "made"  # at once, as it is over


@in_virtual_time
async def test_an_error_after_a_cancellation_is_told_to_its_owner_alone() -> None:
    """The operator would read of a bug whenever a person leaves a call at the wrong moment."""
    alarms = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: alarms.append(told))
    work = asyncio.ensure_future(_takes_a_second(ZeroDivisionError()))
    waiting = asyncio.ensure_future(undisturbed(work))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await asyncio.wait([waiting, work])
    await asyncio.sleep(1)
    assert isinstance(work.exception(), ZeroDivisionError)
    del work, waiting
    gc.collect()
    assert not alarms


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
@in_virtual_time
async def test_what_ends_the_work_ends_the_wait(error: type[BaseException]) -> None:
    """A caller would go on as if the work had been done."""
    with pytest.raises(error):
        await undisturbed(asyncio.ensure_future(_takes_a_second(error())))
