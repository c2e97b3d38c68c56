"""The leader's side: accepts other processes, executes their calls and sends them events.

A process stores its address with every role that it takes, so it listens from the start. While it
is not the leader, it closes every connection, and the other process looks for the leader again.

The text of a chat's job is only sent to the process that serves the chat. The text of a program's
job is sent to every process that serves the API, because a repeated call may reach any of them. If
a program requests a chat's job, that job's text is sent too.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from bot.app.cluster import protocol
from bot.app.cluster.outbox import News, Outbox, ProgressBatch
from bot.app.cluster.protocol import (
    Failure,
    NotTrusted,
    event_to_json,
    failure_of,
    greet_guest,
    method,
    to_json,
)
from bot.app.cluster.transport import BODY_LIMIT, MemoryWire, Wire, WireBroken, listening
from bot.core.origin import origin_in
from bot.core.service import QueueService
from bot.http.addresses import host_and_port, is_loopback, is_public, joined
from bot.http.clients import sparing
from queueing.core.catalog import Offer
from queueing.core.concurrency import TaskGroup, came, timeout, together
from queueing.core.errors import Fenced, QueueError, StoreError
from queueing.core.events import (
    CopyLeft,
    Event,
    JobChanged,
    LoadEnded,
    Produced,
    Progressed,
)
from queueing.core.jobs import Job
from queueing.core.status import StatusReport


class JobPlatforms:
    """Remembers the platforms of running jobs, as far as they are known."""

    def __init__(self) -> None:
        self._of: dict[int, str] = {}

    def note(self, job: Job) -> None:
        """Record a change of a job."""
        if job.state.final:
            self._of.pop(job.id, None)
        elif (origin := origin_in(job.reply_to)) is not None:
            self._of[job.id] = origin.platform

    def unread(self, news: Sequence[News], reads: frozenset[str] | None) -> frozenset[int]:
        """Return the jobs whose text a process does not read.

        `reads` is None if the process has not announced what it reads.
        """
        if reads is None:
            return frozenset()
        known = (each.job_id for each in news if each.job_id in self._of)
        return frozenset(
            job_id for job_id in known if reads.isdisjoint({self._of[job_id], str(job_id)})
        )


def written_progress(news: Sequence[News], unread: Collection[int] = ()) -> bytes | None:
    """Build a progress frame without the text of the `unread` jobs, or None if it is empty."""
    told = [each.outline() if each.job_id in unread else each for each in news]
    left = tuple(each for each in told if each is not None)
    return protocol.written("progress", body=to_json(left, tuple[News, ...])) if left else None


log_sparing = sparing(logging.getLogger(__name__))
_CLOSED = "a connection to the queue was closed"

GREETING_S = 5.0
COPIES_EVERY_S = 0.25
"""The shortest time between two copies of the offer and snapshot, in seconds."""
LOOK_EVERY_S = 0.2
"""How soon a copy is compared again, in seconds. Some changes cause no event."""
LOST = "this process no longer holds the queue"
_CHANGES_COPIES = frozenset({"admin", "preloads"})


class QueueServer:
    """Serves this process's queue to other processes, each over a `Wire`.

    It sends nothing while `held()` is False, and nothing once the database has rejected a write by
    this process as fenced. That happens if this process was suspended while another became the
    leader. Its connections are then closed, and the other processes repeat their calls with the new
    leader.
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
        self._progress = ProgressBatch(self._push_progress)
        self._platforms = JobPlatforms()
        queue.events.subscribe(self._on_event)

    async def run(self) -> None:
        """Keep the other processes' copies up to date, until cancelled."""
        while True:
            await came(self._news, LOOK_EVERY_S if self._guests else None)
            self._news.clear()
            self._push_copies()
            await asyncio.sleep(COPIES_EVERY_S)

    async def serve(self, wire: Wire) -> None:
        """Serve one process until its connection ends or this call is cancelled. Never raises."""
        try:
            async with timeout(GREETING_S):
                await greet_guest(wire, self._secret)
            wire.known()
            await self._serve(_Guest(wire, self._require_held))
        except TimeoutError:
            log_sparing.warning("%s: it did not authenticate in time", _CLOSED)
        except NotTrusted as error:
            log_sparing.warning("%s: %s", _CLOSED, error)
        except WireBroken as error:
            log_sparing.info("the connection of another process ended: %s", error)
        except (ValueError, LookupError) as error:
            log_sparing.warning("%s: it sent an invalid frame (%s)", _CLOSED, error)
        except Exception:
            log_sparing.exception("serving another process failed because of a bug")
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
        self._news.set()  # starts the regular comparison
        guest.outbox.put(protocol.written("offer", body=to_json(self._offer, Offer)))
        guest.outbox.put(protocol.written("snapshot", body=self._snapshot))
        try:
            await together(guest.outbox.run(), self._hear(guest))
        finally:
            self._guests.discard(guest)
            if not self._guests:
                self._progress.drop()

    async def _hear(self, guest: "_Guest") -> None:
        async with TaskGroup() as answers:
            while True:
                frame = protocol.read(await guest.wire.receive())
                if frame.kind == "call":
                    guest.calls[frame.number] = answers.create_task(self._answer(guest, frame))
                elif frame.kind == "cancel" and (call := guest.calls.get(frame.number)):
                    call.cancel()
                elif frame.kind == "reads":
                    self._progress.begin_anew()
                    guest.reads = frozenset(frame.words[1:])

    async def _answer(self, guest: "_Guest", frame: protocol.Frame) -> None:
        try:
            await guest.outbox.room()
            self._require_held()
            result = await self._carry_out(frame)
            answer = protocol.written("result", frame.number, body=result)
        except QueueError as error:
            if isinstance(error, Fenced):
                self._fenced = True
                raise WireBroken(LOST) from None
            failure = to_json(failure_of(error), Failure)
            answer = protocol.written("failure", frame.number, body=failure)
        finally:
            guest.calls.pop(frame.number, None)
        guest.outbox.put(answer)

    async def _carry_out(self, frame: protocol.Frame) -> bytes:
        """Execute a call and return its result as JSON. Raises `QueueError`."""
        try:
            _, _, part, name = frame.words
            called = method(part, name)
            arguments = called.arguments(frame.body)
        except (LookupError, ValueError) as error:
            raise StoreError(f"another process made an unknown call: {error}") from None
        try:
            result = await getattr(getattr(self._queue, part), name)(**arguments)
            written = to_json(result, called.result_kind)
        except QueueError:
            raise
        except Exception:
            log_sparing.exception(
                "a call of another process, %s.%s, failed because of a bug", part, name
            )
            raise StoreError(f"{part}.{name} failed because of a bug, see the log there") from None
        if len(written) > BODY_LIMIT:
            raise StoreError(
                f"an answer of {len(written)} bytes is too long to send to another process"
            )
        if part in _CHANGES_COPIES:
            # Sent before the result, so that a caller who paused a model sees it paused.
            self._push_copies()
        return written

    # ------------------------------------------------------------ what is pushed

    def _on_event(self, event: Event) -> None:
        if isinstance(event, JobChanged):
            self._platforms.note(event.job)
        if not self._guests or isinstance(event, LoadEnded | CopyLeft | Produced):
            return  # only used here: others learn about loads from `QueuesMoved`, and read results
        if isinstance(event, Progressed):
            self._progress.add(event)
            return
        if isinstance(event, JobChanged):
            self._progress.before_change(event.job.id)
        name, body = event_to_json(event)
        self._push(protocol.written("event", name, body=body))
        self._news.set()

    def _push_copies(self) -> None:
        offer = self._queue.models.offer
        if offer is not self._offer:
            self._offer = offer
            self._push(protocol.written("offer", body=to_json(offer, Offer)))
        snapshot = to_json(self._queue.status.snapshot(), StatusReport)
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._push(protocol.written("snapshot", body=snapshot))

    def _push_progress(self, news: Sequence[News]) -> None:
        written: dict[
            frozenset[int], bytes | None
        ] = {}  # by the set of jobs whose text is left out
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
    """Another process: its running calls, what it reads, and the frames queued for it."""

    def __init__(self, wire: Wire, check: Callable[[], None]) -> None:
        self.wire = wire
        self.outbox = Outbox(wire, check)
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.reads: frozenset[str] | None = None  # not announced yet


log = logging.getLogger(__name__)


class NotServing(WireBroken):
    """Raised when this process is not the leader."""


class QueueListener:
    """Accepts connections to the queue of this process, including its own."""

    def __init__(self) -> None:
        self.address = ""
        """The address that others connect to, such as `10.0.0.7:41234`."""
        self._guests: _Guests | None = None

    @asynccontextmanager
    async def admitting(self, server: QueueServer) -> AsyncIterator[None]:
        """Inside the block, run a server and serve all connections with it."""
        async with TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            self._guests = guests = _Guests(server, tasks)
            try:
                yield
            finally:
                self._guests = None
                guests.hang_up()
                running.cancel()

    async def serve(self, wire: Wire) -> None:
        """Serve a process until its connection ends.

        Closes it at once if this is not the leader.
        """
        if self._guests is None:
            await wire.close()
        else:
            await self._guests.serve(wire)

    def wire(self) -> Wire:
        """Return a wire from this process to its own queue.

        Raises `NotServing` if not the leader.
        """
        if self._guests is None:
            raise NotServing("this process does not serve the queue")
        near, far = MemoryWire.pair()
        self._guests.begin(far)
        return near


class _Guests:
    """The connections to one server."""

    def __init__(self, server: QueueServer, tasks: TaskGroup) -> None:
        self._server = server
        self._tasks = tasks
        self._served: set[asyncio.Task[None]] = set()

    def begin(self, wire: Wire) -> asyncio.Task[None]:
        task = self._tasks.create_task(self._server.serve(wire))
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        return task

    async def serve(self, wire: Wire) -> None:
        task = self.begin(wire)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()

    def hang_up(self) -> None:
        for task in self._served:
            task.cancel()


@asynccontextmanager
async def entrance_at(
    listen: str | None,
    advertise: str | None,
    local_host: Callable[[], Awaitable[str]],
    *,
    heartbeat_s: float,
) -> AsyncIterator[QueueListener]:
    """Listen for other processes inside the block.

    `listen` and `advertise` are hosts as configured, with or without a port. By default, it listens
    on a free port of `local_host()` and advertises that address. `local_host()` is the address from
    which this process reaches the database. Raises `StoreError` if that address is unknown, or if
    an address is in use or does not belong to this machine.
    """
    host, port = host_and_port(listen or await local_host())
    entrance = QueueListener()
    async with AsyncExitStack() as stack:
        opened = listening(entrance.serve, host, port, heartbeat_s=heartbeat_s)
        try:
            bound = await stack.enter_async_context(opened)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error
            raise StoreError(
                f"cluster.listen: cannot listen at {joined(host, port)}: {why}"
            ) from error
        called_host, called_port = host_and_port(advertise or host)
        entrance.address = joined(called_host, called_port or bound)
        log.info("other processes reach this one at %s", entrance.address)
        if is_loopback(called_host):
            log.info(
                "only this machine can use %s: for other machines, set cluster.listen", called_host
            )
        if is_public(called_host):
            log.warning(
                "%s is a public address, and traffic between processes is not encrypted",
                called_host,
            )
        yield entrance
