"""The holder's side: carries out the calls of other processes, and tells them what happens."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from bot.app.cluster import frames
from bot.app.cluster.failures import Failure, failure_of
from bot.app.cluster.json_values import event_to_json, to_json
from bot.app.cluster.methods import method
from bot.app.cluster.outbox import Outbox
from bot.app.cluster.progress_news import News
from bot.app.cluster.progress_pushes import ProgressPushes
from bot.app.cluster.protocol import NotTrusted, greet_guest
from bot.app.cluster.readers import JobPlatforms, written_progress
from bot.app.cluster.wire import BODY_LIMIT, Wire, WireBroken
from bot.core.service import QueueService
from bot.http.sparing import sparing
from queueing.core.catalog import Offer
from queueing.core.concurrency import TaskGroup, timeout, together
from queueing.core.errors import Fenced, QueueError, StoreError
from queueing.core.events import (
    CopyLeft,
    Event,
    JobChanged,
    LoadEnded,
    Produced,
    Progressed,
)
from queueing.core.status import QueueSnapshot

log = sparing(logging.getLogger(__name__))
_CLOSED = "a connection to the queue was closed"

GREETING_S = 5.0
COPIES_EVERY_S = 0.25
"""The shortest time between two copies of what is asked without waiting."""
LOOK_EVERY_S = 0.2
"""How soon after a push a copy is compared again: not all that changes in it is an event."""
LOST = "this process no longer holds the queue"
_CHANGES_COPIES = frozenset({"admin", "preloads"})


class QueueServer:
    """Serves the queue of this process to the others, each over a `Wire`.

    Nothing is answered or told unless `held()`, nor once the database has refused what another one
    may write now: a process that was frozen finds that the queue is elsewhere. Its connections end
    then, so that the others repeat their calls there.
    """

    def __init__(
        self, queue: QueueService, *, secret: bytes, held: Callable[[], bool] = lambda: True
    ) -> None:
        self._queue = queue
        self._secret = secret
        self._held = held
        self._fenced = False
        self._guests: set[_Guest] = set()
        self._news = asyncio.Event()
        self._offer: Offer | None = None
        self._snapshot = b""
        self._progress = ProgressPushes(self._push_progress)
        self._platforms = JobPlatforms()
        queue.events.subscribe(self._on_event)

    async def run(self) -> None:
        """Keep the copies of the other processes up to date, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with timeout(LOOK_EVERY_S if self._guests else None):
                    await self._news.wait()
            self._news.clear()
            self._push_copies()
            await asyncio.sleep(COPIES_EVERY_S)

    async def serve(self, wire: Wire) -> None:
        """Serve one process until its connection ends or this is cancelled. Raises nothing."""
        try:
            async with timeout(GREETING_S):
                await greet_guest(wire, self._secret)
            wire.known()
            await self._serve(_Guest(wire, self._require_held))
        except TimeoutError:
            log.warning("%s: it did not introduce itself", _CLOSED)
        except NotTrusted as error:
            log.warning("%s: %s", _CLOSED, error)
        except WireBroken as error:
            log.info("the connection of another process has ended: %s", error)
        except (ValueError, LookupError) as error:
            log.warning("%s: what it sent is not understood (%s)", _CLOSED, error)
        except Exception:
            log.exception("serving another process was stopped by a bug")
        finally:
            await wire.close()

    def _require_held(self) -> None:
        if self._fenced or not self._held():
            raise WireBroken(LOST)

    async def _serve(self, guest: "_Guest") -> None:
        self._require_held()
        self._push_copies()
        self._progress.begin_anew()
        self._guests.add(guest)
        self._news.set()  # from now on it is looked again and again
        guest.outbox.put(frames.written("offer", body=to_json(self._offer, Offer)))
        guest.outbox.put(frames.written("snapshot", body=self._snapshot))
        try:
            await together(guest.outbox.run(), self._hear(guest))
        finally:
            self._guests.discard(guest)
            if not self._guests:
                self._progress.drop()

    async def _hear(self, guest: "_Guest") -> None:
        async with TaskGroup() as answers:
            while True:
                frame = frames.read(await guest.wire.receive())
                if frame.kind == "call":
                    guest.calls[frame.number] = answers.create_task(self._answer(guest, frame))
                elif frame.kind == "cancel" and (call := guest.calls.get(frame.number)):
                    call.cancel()
                elif frame.kind == "reads":
                    self._progress.begin_anew()
                    guest.reads = frozenset(frame.words[1:])

    async def _answer(self, guest: "_Guest", frame: frames.Frame) -> None:
        try:
            await guest.outbox.room()
            self._require_held()
            result = await self._carry_out(frame)
            answer = frames.written("result", frame.number, body=result)
        except QueueError as error:
            if isinstance(error, Fenced):
                self._fenced = True
                raise WireBroken(LOST) from None
            failure = to_json(failure_of(error), Failure)
            answer = frames.written("failure", frame.number, body=failure)
        finally:
            guest.calls.pop(frame.number, None)
        guest.outbox.put(answer)

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
            written = to_json(result, called.result_kind)
        except QueueError:
            raise
        except Exception:
            log.exception("a call of another process, %s.%s, was stopped by a bug", part, name)
            raise StoreError(f"{part}.{name} was stopped by a bug, see the log there") from None
        if len(written) > BODY_LIMIT:
            raise StoreError(f"an answer of {len(written)} bytes is too long for another process")
        if part in _CHANGES_COPIES:
            self._push_copies()  # before the answer: a caller that has paused a model finds it paused
        return written

    # ------------------------------------------------------------ what is pushed

    def _on_event(self, event: Event) -> None:
        if isinstance(event, JobChanged):
            self._platforms.note(event.job)
        if not self._guests or isinstance(event, LoadEnded | CopyLeft | Produced):
            return  # of use here alone: others hear of loads by `LinesMoved`, and read results
        if isinstance(event, Progressed):
            self._progress.add(event)
            return
        if isinstance(event, JobChanged):
            self._progress.before_change(event.job.id)
        name, body = event_to_json(event)
        self._push(frames.written("event", name, body=body))
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

    def _push_progress(self, news: Sequence[News]) -> None:
        written: dict[frozenset[int], bytes | None] = {}  # by the jobs whose words are left out
        for guest in self._guests:
            unread = self._platforms.unread(news, guest.reads)
            if unread not in written:
                written[unread] = written_progress(news, unread)
            if (frame := written[unread]) is not None:
                guest.outbox.push(frame)

    def _push(self, frame: bytes) -> None:
        for guest in self._guests:
            guest.outbox.push(frame)


class _Guest:
    """Another process: its running calls, what it reads, and what waits to be sent to it."""

    def __init__(self, wire: Wire, check: Callable[[], None]) -> None:
        self.wire = wire
        self.outbox = Outbox(wire, check)
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.reads: frozenset[str] | None = None  # it has not said yet
