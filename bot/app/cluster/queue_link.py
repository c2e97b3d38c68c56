"""This process's connection to the leader, which runs the queue.

A call without a connection waits for one. If its connection breaks, the call is repeated over the
next one, although it may have been executed. That is safe because all calls of the queue are
idempotent: `submit` by its key, the others by their nature.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from bot.app.cluster import protocol
from bot.app.cluster.outbox import News, Outbox, ProgressNews
from bot.app.cluster.protocol import Failure, Method, error_of, event_from_json, from_json
from bot.app.cluster.transport import BODY_LIMIT, Wire, WireBroken
from queueing.core.catalog import Offer
from queueing.core.concurrency import came, timeout, together
from queueing.core.errors import StoreError
from queueing.core.events import Event, EventsMissed, JobChanged, Listener
from queueing.core.status import StatusReport

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 30.0
"""How long a call waits for a connection to the leader."""
TRIES = 3
RETRY_S = 0.2

Dial = Callable[[], Awaitable[Wire]]
"""Connects to the leader and authenticates. Raises `WireBroken`."""
Moved = Callable[[], Awaitable[None]]
"""Waits until another process than at the last connection is the leader."""


async def never() -> None:
    """Never return."""
    await asyncio.Event().wait()


class QueueConnection:
    """A connection to the leader that is restored whenever it breaks.

    `reads` are the platforms and job numbers whose text and previews this process receives.
    """

    def __init__(self, dial: Dial, moved: Moved = never, *, reads: Collection[str] = ()) -> None:
        self._dial = dial
        self._moved = moved
        self._reads = list(reads)
        self._current: _OpenConnection | None = None
        self._connected, self._broken = asyncio.Event(), asyncio.Event()
        self._listeners: list[Listener] = []
        self._numbers = itertools.count(1)
        self._was_connected = False
        self._logged: str | None = None
        self._offer: Offer | None = None
        self._snapshot: StatusReport | None = None

    @property
    def offer(self) -> Offer:
        """The latest offer. Raises `StoreError` before the first connection."""
        return _there(self._offer)

    @property
    def snapshot(self) -> StatusReport:
        """The latest snapshot. Raises `StoreError` before the first connection."""
        return _there(self._snapshot)

    def subscribe(self, listener: Listener) -> None:
        """Call the listener for every event, and with `EventsMissed` after a broken connection."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.remove(listener)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Inside the block, also receive the text and previews of a platform or job."""
        self._reads.append(name)
        self._send_reads()
        try:
            yield
        finally:
            self._reads.remove(name)
            self._send_reads()

    async def connected(self) -> None:
        """Wait until the leader is connected."""
        await self._connected.wait()

    async def out_of_reach(self, patience_s: float) -> None:
        """Wait until the leader has been unreachable for `patience_s` seconds."""
        while True:
            if not await came(self._connected, patience_s):
                return
            await self._broken.wait()

    # ------------------------------------------------------------ calls

    async def call(
        self, called: Method, args: Sequence[object], named: Mapping[str, object]
    ) -> Any:
        """Make a call and return its result. Raises the error of the call, and `StoreError`."""
        body = called.arguments_json(args, named)
        if len(body) > BODY_LIMIT:
            raise StoreError(
                f"a request of {len(body)} bytes is too long to send to another process"
            )
        for _ in range(TRIES):
            connection = await self._next_connection()
            try:
                answer = await connection.ask(next(self._numbers), called, body)
            except WireBroken:
                self._close(connection)
            else:
                return _result(called, answer)
        raise StoreError(f"the connection to the queue broke {TRIES} times during one call")

    async def _next_connection(self) -> "_OpenConnection":
        if self._current is not None:
            return self._current
        try:
            async with timeout(PATIENCE_S):
                while (connection := self._current) is None:
                    await self._connected.wait()
        except TimeoutError:
            raise StoreError("no process holds the queue, or it cannot be reached") from None
        return connection

    # ------------------------------------------------------------ the connection

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            try:
                wire = await self._dial()
            except WireBroken as error:
                log.debug("cannot reach the queue: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            connection = _OpenConnection(wire)
            try:
                await together(connection.outbox.run(), self._listen(connection), self._leave())
            except (WireBroken, ValueError, LookupError) as broken:
                self._log_end(str(broken), again=connection.opened)
            finally:
                self._close(connection)
                connection.end()
                await wire.close()
            if not connection.opened:
                await asyncio.sleep(RETRY_S)

    def _log_end(self, why: str, *, again: bool) -> None:
        """Log why a connection ended. Logs a cause once for connections that never opened."""
        if again or why != self._logged:
            log.warning("the connection to the queue ended: %s", why)
        self._logged = why

    async def _listen(self, connection: "_OpenConnection") -> None:
        fresh = {"offer", "snapshot"}  # the leader sends these first
        while True:
            frame = protocol.read(await connection.wire.receive())
            self._take(connection, frame)
            if fresh and not (fresh := fresh - {frame.kind}):
                self._open(connection)

    async def _leave(self) -> None:
        """Raise `WireBroken` once another process is the leader."""
        await self._moved()
        raise WireBroken("another process holds the queue now")

    def _open(self, connection: "_OpenConnection") -> None:
        self._current = connection
        connection.opened = True
        self._send_reads()
        self._broken.clear()
        self._connected.set()
        if self._was_connected:
            self._notify(EventsMissed())
        self._was_connected = True

    def _close(self, connection: "_OpenConnection") -> None:
        """Make further calls wait for the next connection."""
        if self._current is connection:
            self._current = None
            self._connected.clear()
            self._broken.set()

    def _send_reads(self) -> None:
        if self._current is not None:
            self._current.outbox.put(protocol.written("reads", *self._reads))

    def _take(self, connection: "_OpenConnection", frame: protocol.Frame) -> None:
        match frame.kind:
            case "result" | "failure":
                connection.answered(frame)
            case "event":
                event = event_from_json(frame.words[1], frame.body)
                if isinstance(event, JobChanged):
                    connection.progress.forget(event.job.id)
                self._notify(event)
            case "progress":
                for news in from_json(frame.body, tuple[News, ...]):
                    self._notify(connection.progress.report(news))
            case "offer":
                self._offer = from_json(frame.body, Offer)
            case "snapshot":
                self._snapshot = from_json(frame.body, StatusReport)

    def _notify(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("an event listener failed for %s", type(event).__name__)


class _OpenConnection:
    """A single connection, with the calls that wait for answers."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.outbox = Outbox(wire)
        self.progress = ProgressNews()
        self.opened = False
        self._calls: dict[int, asyncio.Future[protocol.Frame]] = {}

    async def ask(self, number: int, called: Method, body: bytes) -> protocol.Frame:
        """Send a call and return its answer. Raises `WireBroken`."""
        answer: asyncio.Future[protocol.Frame] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self.outbox.put(protocol.written("call", number, called.part, called.name, body=body))
        try:
            return await answer
        except asyncio.CancelledError:
            self.outbox.put(protocol.written("cancel", number))
            raise
        finally:
            self._calls.pop(number, None)

    def answered(self, frame: protocol.Frame) -> None:
        """Pass an answer to its call, unless the call was given up."""
        if (call := self._calls.get(frame.number)) is not None and not call.done():
            call.set_result(frame)

    def end(self) -> None:
        """Fail all waiting calls."""
        for call in self._calls.values():
            if not call.done():
                call.set_exception(WireBroken("the connection ended during a call"))


def _result(called: Method, answer: protocol.Frame) -> Any:
    if answer.kind == "result":
        return from_json(answer.body, called.result_kind)
    failure: Failure = from_json(answer.body, Failure)
    try:
        error = error_of(failure)
    except KeyError:
        error = StoreError(failure.cause)
    raise error


def _there(copy: T | None) -> T:
    if copy is None:
        raise StoreError("the process that holds the queue has not been reached yet")
    return copy
