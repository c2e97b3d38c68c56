"""Tasks, timeouts and threads that behave alike on every supported Python.

Use them instead of asyncio's.

Blocking calls that may hang get a separate thread. `asyncio.to_thread` uses a small pool: six
threads on a machine with two processors. Six hanging calls, such as DNS lookups while the network
is down, would block everything else that uses the pool, and the process would wait for them at
shutdown.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

if sys.version_info >= (3, 13):
    TaskGroup = asyncio.TaskGroup
else:

    class TaskGroup(asyncio.TaskGroup):
        """`asyncio.TaskGroup` that never hides a cancellation from its owner.

        Before Python 3.13, a task that fails while the owner is being cancelled replaces the
        cancellation, so an owner that handles the failure never stops. A task that fails while the
        owner waits for the others leaves the owner counted as cancelled. See
        https://github.com/python/cpython/issues/116720.
        """

        _parent_cancel_requested: bool  # of asyncio: whether the group has cancelled its owner

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
    """Run coroutines concurrently until all of them have ended.

    The first failure cancels the rest. It is raised directly, not in a group.
    """
    try:
        async with TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except ExceptionGroup as failed:
        raise first_cause(failed) from failed


def first_cause(error: BaseException) -> BaseException:
    """Return the first error of a (nested) exception group, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Timeout:
    """`asyncio.timeout_at` that also works in a task that is being cancelled.

    Before Python 3.11.3, a timeout during such a task's cleanup raises `CancelledError` where
    `TimeoutError` is expected. See https://github.com/python/cpython/issues/102780.
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
        """Return whether the time ran out before the block ended."""
        return self._limit.expired()

    def reschedule(self, when: float | None) -> None:
        """Move the deadline, in the event loop's time; None disables it."""
        self._limit.reschedule(when)


def timeout_at(when: float | None) -> Timeout:
    """Limit a block to a deadline in the event loop's time, or not at all with None.

    The block raises `TimeoutError`.
    """
    return Timeout(when)


def timeout(seconds: float | None) -> Timeout:
    """Limit a block to some seconds, or not at all with None. The block raises `TimeoutError`."""
    return Timeout(None if seconds is None else asyncio.get_running_loop().time() + seconds)


async def came(event: asyncio.Event, within_s: float | None) -> bool:
    """Wait for an event, for at most some seconds. Returns whether it came in time."""
    try:
        async with timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _current_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("no asyncio task is running")
    return task


T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run a blocking call in a separate daemon thread. Returns a future of its result or exception.

    Cancelling the future does not stop the thread. An error that nothing awaits is dropped.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done.add_done_callback(_mark_retrieved)
    threading.Thread(target=_call, args=(work, done), daemon=True, name=name).start()
    return done


def _call(work: Callable[[], T], done: "asyncio.Future[T]") -> None:
    try:
        settle = partial(_succeed, done, work())
    except Exception as error:  # noqa: BLE001 - raised again where it is awaited
        settle = partial(_fail, done, error)
    with suppress(RuntimeError):  # the loop may be closed by then
        done.get_loop().call_soon_threadsafe(settle)


def _succeed(done: "asyncio.Future[T]", value: T) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: "asyncio.Future[T]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _mark_retrieved(done: "asyncio.Future[T]") -> None:
    """Keep the event loop from logging an error that nothing awaits."""
    if not done.cancelled():
        done.exception()


async def undisturbed(work: "asyncio.Future[T]") -> T:
    """Await work without cancelling it when the caller is cancelled.

    Returns the work's result or raises its exception.

    Use it instead of `asyncio.shield`. Since Python 3.14, `shield` reports an error that comes
    after the cancellation to the loop's exception handler. The log would show a bug although
    another caller handles the error.
    """
    if not work.done():
        await asyncio.wait([work])
    return work.result()
