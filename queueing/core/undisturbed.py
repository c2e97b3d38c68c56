"""Waiting for what goes on when its waiter is cancelled."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def undisturbed(work: "asyncio.Future[T]") -> T:
    """Return what the work results in, or raise what ends it; a cancellation ends the wait alone.

    In place of `asyncio.shield`: since Python 3.14 that tells the loop's handler of an error which
    comes after the cancellation, and an operator would read of a bug that is no bug: a caller does hear of it.
    """
    if not work.done():
        await asyncio.wait([work])
    return work.result()
