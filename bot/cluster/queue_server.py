"""The holder's side: carries out the calls of other processes, and tells them what happens."""

import asyncio
import logging
from collections import deque
from contextlib import suppress

from bot.cluster import frames
from bot.cluster.greeting import NotTrusted, greet_guest
from bot.cluster.methods import method
from bot.cluster.wire import Wire, WireBroken
from bot.queue.failures import Failure, failure_of
from bot.queue.json_values import event_to_json, to_json
from bot.queue.service import QueueService
from queueing.core.catalog import Offer
from queueing.core.errors import QueueError, StoreError
from queueing.core.events import Event
from queueing.core.standings import QueueSnapshot

log = logging.getLogger(__name__)

GREETING_S = 5.0
COPIES_EVERY_S = 0.25
"""The shortest time between two copies of what is asked without waiting."""
LOOK_EVERY_S = 2.0
"""How often a copy is compared when nothing has happened: moments in it pass by themselves."""
BACKLOG_LIMIT = 64_000_000  # bytes that wait for one slow process
_CHANGES_COPIES = frozenset({"admin", "preloads"})


class QueueServer:
    """Serves the queue of this process to the others, each over a `Wire`."""

    def __init__(self, queue: QueueService, *, secret: bytes) -> None:
        self._queue = queue
        self._secret = secret
        self._guests: set[_Guest] = set()
        self._news = asyncio.Event()
        self._offer: Offer | None = None
        self._snapshot = b""
        queue.events.subscribe(self._on_event)

    async def run(self) -> None:
        """Keep the copies of the other processes up to date, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S if self._guests else None):
                    await self._news.wait()
            self._news.clear()
            self._push_copies()
            await asyncio.sleep(COPIES_EVERY_S)

    async def serve(self, wire: Wire) -> None:
        """Serve one process until its connection ends or this is cancelled."""
        try:
            async with asyncio.timeout(GREETING_S):
                await greet_guest(wire, self._secret)
            await self._serve(_Guest(wire))
        except TimeoutError:
            log.warning("a connection to the queue was closed: it did not introduce itself")
        except NotTrusted as error:
            log.warning("a connection to the queue was refused: %s", error)
        except WireBroken as error:
            log.info("the connection of another process has ended: %s", error)
        finally:
            await wire.close()

    async def _serve(self, guest: "_Guest") -> None:
        self._push_copies()
        self._guests.add(guest)
        guest.put(frames.written("offer", body=to_json(self._offer, Offer)))
        guest.put(frames.written("snapshot", body=self._snapshot))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(guest.drain())
                await self._hear(guest, tasks)
        except* WireBroken as broken:
            raise WireBroken(broken.exceptions[0]) from None
        finally:
            self._guests.discard(guest)

    async def _hear(self, guest: "_Guest", tasks: asyncio.TaskGroup) -> None:
        while True:
            frame = frames.read(await guest.wire.receive())
            if frame.kind == "call":
                guest.calls[frame.number] = tasks.create_task(self._answer(guest, frame))
            elif frame.kind == "cancel" and (call := guest.calls.get(frame.number)):
                call.cancel()

    async def _answer(self, guest: "_Guest", frame: frames.Frame) -> None:
        try:
            result = await self._carry_out(frame)
            answer = frames.written("result", frame.number, body=result)
        except QueueError as error:
            failure = to_json(failure_of(error), Failure)
            answer = frames.written("failure", frame.number, body=failure)
        finally:
            guest.calls.pop(frame.number, None)
        guest.put(answer)

    async def _carry_out(self, frame: frames.Frame) -> bytes:
        """Return the result of a call as JSON. Raises `QueueError`."""
        try:
            _, _, part, name = frame.words
            called = method(part, name)
            arguments = called.arguments(frame.body)
        except (LookupError, ValueError) as error:
            raise StoreError(f"another process made a call unknown here: {error}") from None
        try:
            result = await getattr(getattr(self._queue, part), name)(**arguments)
        except QueueError:
            raise
        except Exception:
            log.exception("a call of another process, %s.%s, was stopped by a bug", part, name)
            raise StoreError(f"{part}.{name} was stopped by a bug, see the log there") from None
        if part in _CHANGES_COPIES:
            self._push_copies()  # before the answer: a caller that has paused a model finds it paused
        return to_json(result, called.result_kind)

    # ------------------------------------------------------------ what is pushed

    def _on_event(self, event: Event) -> None:
        if not self._guests:
            return
        self._push(frames.written("event", type(event).__name__, body=event_to_json(event)))
        self._news.set()

    def _push_copies(self) -> None:
        offer = self._queue.models.offer
        if offer is not self._offer:
            self._offer = offer
            self._push(frames.written("offer", body=to_json(offer, Offer)))
        snapshot = to_json(self._queue.status.snapshot(), QueueSnapshot)
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._push(frames.written("snapshot", body=snapshot))

    def _push(self, frame: bytes) -> None:
        for guest in self._guests:
            guest.put(frame)


class _Guest:
    """Another process: its running calls, and the frames that wait to be sent to it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.calls: dict[int, asyncio.Task[None]] = {}
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()

    def put(self, frame: bytes) -> None:
        """Send a frame after those before it; never waits."""
        self._waiting.append(frame)
        self._size += len(frame)
        self._news.set()

    async def drain(self) -> None:
        """Send what waits. Raises `WireBroken`, also for a process that reads too slowly."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                if self._size > BACKLOG_LIMIT:
                    raise WireBroken("it reads too slowly")
                frame = self._waiting.popleft()
                self._size -= len(frame)
                await self.wire.send(frame)
