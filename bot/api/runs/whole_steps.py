"""Steps that are seen through although the caller hangs up meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from queueing.core.undisturbed import undisturbed

T = TypeVar("T")


async def seen_through(step: Coroutine[Any, Any, T]) -> T:
    """Return the result of a step that a cancellation must not leave half known.

    A cancellation meanwhile is delayed: the caller gets the result, and is cancelled at its next
    wait. A second one ends the step.
    """
    work = asyncio.create_task(step)
    try:
        return await undisturbed(work)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if work.cancelled() or current is None:
            raise
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            raise
        current.uncancel()
        current.cancel()
        return work.result()
