"""Tasks, timeouts and threads that behave alike on every Python: use them, not those of asyncio.

Blocking work that may never end gets a thread of its own: `asyncio.to_thread` has few, six on a
machine with two processors. Six calls that hang, such as look-ups of names while the network is
away, would hold up all that is done there, and the process would wait for them as it ends.
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


T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Begin blocking work in a thread of its own; return what it will result in, or raise.

    Cancelling the future ends no thread. An error that is awaited by no one is dropped.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done.add_done_callback(_seen)
    threading.Thread(target=_call, args=(work, done), daemon=True, name=name).start()
    return done


def _call(work: Callable[[], T], done: "asyncio.Future[T]") -> None:
    try:
        settle = partial(_succeed, done, work())
    except Exception as error:  # noqa: BLE001 - raised again where it is awaited
        settle = partial(_fail, done, error)
    with suppress(RuntimeError):  # the loop has ended meanwhile
        done.get_loop().call_soon_threadsafe(settle)


def _succeed(done: "asyncio.Future[T]", value: T) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: "asyncio.Future[T]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _seen(done: "asyncio.Future[T]") -> None:
    """Let the loop not tell of an error that no one awaits any more."""
    if not done.cancelled():
        done.exception()


async def undisturbed(work: "asyncio.Future[T]") -> T:
    """Return what the work results in, or raise what ends it; a cancellation ends the wait alone.

    In place of `asyncio.shield`: since Python 3.14 that tells the loop's handler of an error which
    comes after the cancellation, and an operator would read of a bug that is no bug: a caller does hear of it.
    """
    if not work.done():
        await asyncio.wait([work])
    return work.result()
