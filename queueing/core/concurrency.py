"""Groups of tasks and timeouts that behave alike on every Python: use them, not those of asyncio."""

import asyncio
import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

if sys.version_info >= (3, 13):
    TaskGroup = asyncio.TaskGroup
else:

    class TaskGroup(asyncio.TaskGroup):
        """`asyncio.TaskGroup` that never hides a cancellation of its owner from it.

        Before Python 3.13, a task that fails while the owner is being cancelled replaces the
        cancellation, so an owner that handles the failure never stops. One that fails while the
        owner waits for the others leaves it counted as cancelled.
        See https://github.com/python/cpython/issues/116720.
        """

        _parent_cancel_requested: bool  # asyncio's own: whether the group has cancelled its owner

        async def __aenter__(self) -> Self:
            self._owner = _current_task()
            self._cancellations = self._owner.cancelling()
            return await super().__aenter__()

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            in_block = self._parent_cancel_requested
            try:
                await super().__aexit__(kind, error, traceback)
            except BaseExceptionGroup:
                if self._parent_cancel_requested and not in_block:
                    self._owner.uncancel()
                if self._owner.cancelling() > self._cancellations:
                    self._owner.uncancel()
                    self._owner.cancel()
                raise


async def together(*work: Coroutine[Any, Any, object]) -> None:
    """Run work side by side until all of it has ended.

    The first failure cancels the rest and is raised by itself, not in a group.
    """
    try:
        async with TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except ExceptionGroup as failed:
        raise first_cause(failed) from failed


def first_cause(error: BaseException) -> BaseException:
    """Return the first error of those that a group of tasks ended with, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Timeout:
    """`asyncio.timeout_at` that works in a task that is being cancelled, too.

    Before Python 3.11.3, what such a task does as it ends is cancelled when it takes too long, where
    it expects a `TimeoutError`. See https://github.com/python/cpython/issues/102780.
    """

    def __init__(self, when: float | None) -> None:
        self._limit = asyncio.timeout_at(when)
        self._cancellations = 0

    async def __aenter__(self) -> Self:
        self._cancellations = _current_task().cancelling()
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._limit.__aexit__(kind, error, traceback)
        outside = _current_task().cancelling() > self._cancellations
        if self.expired() and isinstance(error, asyncio.CancelledError) and not outside:
            raise TimeoutError from error

    def expired(self) -> bool:
        """Return whether the time was over before the block."""
        return self._limit.expired()

    def reschedule(self, when: float | None) -> None:
        """Move the end to another time of the loop; None is never."""
        self._limit.reschedule(when)


def timeout_at(when: float | None) -> Timeout:
    """Limit a block to a time of the loop; None is never. The block raises `TimeoutError`."""
    return Timeout(when)


def timeout(seconds: float | None) -> Timeout:
    """Limit how long a block takes; None is for ever. The block raises `TimeoutError`."""
    return Timeout(None if seconds is None else asyncio.get_running_loop().time() + seconds)


def _current_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("this needs a task")
    return task
