"""Batches changes: everything that is waiting when a connection becomes free goes into one batch.

The batcher tracks which caller waits for which item, and isolates failing items. The connection and
its transactions belong to the engine's subclass.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar

from queueing.core.errors import StoreError

Item = TypeVar("Item")
Result = TypeVar("Result")


def _nothing() -> None:
    pass


def _nothing_after(_connection: Any) -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChangeKind(Generic[Item, Result]):
    """A kind of change. All waiting items of one kind are passed on together.

    `run` works inside the open transaction, in the connection's thread. It returns a result or an
    exception for each item, and must have written nothing for an item that gets an exception.
    `after` runs in the same thread after the commit, before any caller gets an answer, and must not
    raise. `committed` is called in the event loop after the commit, before any caller gets an
    answer. `undone` is called in the connection's thread after a rollback.
    """

    run: Callable[[Any, Sequence[Item]], Sequence[Result | Exception]]
    after: Callable[[Any], None] = _nothing_after
    committed: Callable[[], None] = _nothing
    undone: Callable[[], None] = _nothing


AnyKind = ChangeKind[Any, Any]
Batch = Mapping[AnyKind, Sequence[Any]]
Outcomes = dict[AnyKind, Sequence[Any]]
_CLOSED = "the database is closed"


def unwatched(_failure: Exception) -> None:
    """Ignore a failure: the caller receives it anyway."""


def untimed(_seconds: float) -> None:
    """Ignore the duration of a batch."""


class Batcher(ABC):
    """Feeds one connection from its own task or, if `inline`, from callbacks of the event loop.

    With `inline`, the same batches run in the calling thread at the next iteration of the event
    loop. This is for event loops that threads cannot wake up. `failed` is called with every
    failure.
    """

    def __init__(self, failed: Callable[[Exception], None], *, inline: bool) -> None:
        self._failed = failed
        self._inline = inline
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[AnyKind, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._batch: Batch = {}
        self._outcomes: Outcomes = {}
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self.timed: Callable[[float], None] = untimed  # called with the duration of each batch

    @abstractmethod
    def _transaction(self, batch: Batch) -> Outcomes:
        """Apply a batch in one transaction, which is rolled back if this raises."""

    @abstractmethod
    def _explained(self, error: Exception) -> Exception:
        """Return a `StoreError` for an error of the engine, and any other error unchanged."""

    @abstractmethod
    def _concerns_all(self, explained: Exception) -> bool:
        """Return whether a failure affects every item, so that retrying each alone is useless."""

    @abstractmethod
    def _run_inline(self) -> None:
        """Turn `_batch` into `_outcomes` in the calling thread."""

    @abstractmethod
    async def _run(self) -> None:
        """Turn `_batch` into `_outcomes` in the connection's thread.

        When cancelled, raises only after the thread has finished the batch.
        """

    @abstractmethod
    async def _close(self) -> None:
        """Close the connection. Idempotent."""

    def _apply(self, batch: Batch) -> Outcomes:
        """Apply a batch in one transaction. If that fails, apply each item in its own transaction.

        An item that cannot be written therefore only delays the others.
        """
        try:
            return self._transaction(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes to the one who asked
            explained = self._explained(error)
            if sum(map(len, batch.values())) == 1 or self._concerns_all(explained):
                return {kind: [explained] * len(items) for kind, items in batch.items()}
        return {
            kind: [self._apply({kind: [item]})[kind][0] for item in items]
            for kind, items in batch.items()
        }

    def _start(self) -> None:
        if not self._inline:
            self._task = asyncio.create_task(self._turns(), name="store worker")
            # A callback, because a task that is cancelled before its first step never runs its
            # body.
            self._task.add_done_callback(lambda _task: self._refuse())

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply an item with the next batch. The future receives the result.

        Cancelling the caller does not affect the item: it is applied entirely or not at all.
        """
        if self._closing:
            raise StoreError(_CLOSED)
        future: asyncio.Future[Result] = self._loop.create_future()
        entries = self._waiting.get(kind)
        if entries is None:
            if not self._waiting:
                self._call()
            self._waiting[kind] = [(item, future)]
        else:
            entries.append((item, future))
        return future

    async def aclose(self) -> None:
        """Apply the waiting items, then close. Idempotent."""
        self._closing = True
        if self._inline:
            self._turn_inline()
            await self._close()
        elif self._task is not None:
            self._wake.set()
            await asyncio.wait({self._task})  # unlike `await`, leaves the task running if cancelled
            await self._close()  # for a task that was cancelled before its first step

    def _call(self) -> None:
        if self._inline:
            self._loop.call_soon(self._turn_inline)
        else:
            self._wake.set()

    def _turn_inline(self) -> None:
        if self._waiting:
            waiting = self._take()
            failure, began = None, perf_counter()
            try:
                self._run_inline()
            except Exception as error:  # noqa: BLE001 - no caller may wait forever
                failure = error
            self._finish(waiting, failure, began)

    async def _turns(self) -> None:
        """Apply batches until closed, or cancelled by an event loop that ends all its tasks.

        Callers that are not cancelled along with it must still get an answer.
        """
        try:
            while self._waiting or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                if self._waiting:
                    await self._turn()
        finally:
            await self._close()

    def _refuse(self) -> None:
        """Fail everything that is still waiting, and accept no more."""
        self._closing = True
        self._answer(self._take(), StoreError(_CLOSED))

    async def _turn(self) -> None:
        waiting = self._take()
        failure, began = None, perf_counter()
        try:
            await self._run()
        except asyncio.CancelledError:
            self._finish(waiting, None if self._outcomes else StoreError(_CLOSED), began)
            raise
        except Exception as error:  # noqa: BLE001 - no caller may wait forever
            failure = error
        self._finish(waiting, failure, began)

    def _finish(
        self,
        waiting: Mapping[AnyKind, Sequence[tuple[Any, asyncio.Future[Any]]]],
        failure: Exception | None,
        began: float,
    ) -> None:
        """Report the end of a batch and answer its callers."""
        if failure is None:
            try:
                self.timed(perf_counter() - began)
                _committed(waiting)
            except Exception as error:  # noqa: BLE001 - no caller may wait forever
                failure = error
        self._answer(waiting, failure)

    def _take(self) -> dict[AnyKind, list[tuple[Any, asyncio.Future[Any]]]]:
        waiting, self._waiting = self._waiting, {}
        self._batch = {kind: [item for item, _ in entries] for kind, entries in waiting.items()}
        return waiting

    def _answer(
        self,
        waiting: Mapping[AnyKind, Sequence[tuple[Any, asyncio.Future[Any]]]],
        failure: Exception | None,
    ) -> None:
        outcomes, self._outcomes, self._batch = self._outcomes, {}, {}
        for kind, entries in waiting.items():
            answers = [failure] * len(entries) if failure else outcomes[kind]
            for (_, future), answer in zip(entries, answers, strict=True):
                failed = isinstance(answer, Exception)
                if failed:
                    self._failed(answer)
                if future.done():  # the caller was cancelled
                    continue
                if failed:
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


def _committed(kinds: Iterable[AnyKind]) -> None:
    for kind in kinds:
        kind.committed()
