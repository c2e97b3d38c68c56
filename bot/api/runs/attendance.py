"""Tracks which jobs have a caller, and which lost theirs before the whole answer was sent.

Before the end of an answer is sent, the database records that the caller gets it, and afterwards
that it was sent. While the process lives, no other call can receive the answer. If the process dies
between the two records, nobody knows whether the answer arrived. A retry then receives it, but only
if no other job can be the retry's own. Several processes may serve the API. Each knows its own
calls, and reports lost callers to the others.

By default, the process that accepted a job attends to it. Only when the caller has left or was
answered does that process write a database row. A process counts as alive while its session with
the database exists. A process that was wrongly considered dead finds its jobs marked `taken`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import web

from bot.api.calls.errors import ApiError
from bot.api.runs import sql
from bot.core.origin import origin_in
from queueing.core.concurrency import TaskGroup, timeout, undisturbed
from queueing.core.errors import StoreError
from queueing.core.jobs import Job
from queueing.store.sql.database import Connection, Database

T = TypeVar("T")


async def seen_through(step: Coroutine[Any, Any, T]) -> T:
    """Return the result of a step that must not be interrupted halfway.

    A cancellation is delayed: the caller gets the result, and is cancelled at its next await. A
    second cancellation stops the step.
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


_HERE, _LEFT, _GIVEN_UP, _TAKEN = "here", "left", "given up", "taken"
_ANSWERING, _ANSWERED = "answering", "answered"
_FOR_GOOD = frozenset({_GIVEN_UP, _ANSWERED})


class StoredAttendance:
    """Stores which processes have calls for a job. Every method raises `StoreError`.

    The process that accepted a job attends to it unless a row says otherwise. A process that has
    ended attends to nothing. `run` identifies this process. `alone` means that no other process can
    exist.
    """

    def __init__(self, database: Database, *, run: str | None = None) -> None:
        self.run = run or database.run
        self.alone = database.alone
        self._database = database

    async def come(self, job_id: int) -> None:
        """Record that a call of this process is for a job."""
        await self._database.write(lambda connection: _note(connection, job_id, self.run, _HERE))

    async def leave(self, job_ids: Collection[int]) -> None:
        """Record that this process has no more calls for these jobs."""

        def change(connection: Connection) -> None:
            connection.execute(connection.statements.turn, (sql.ATTENDING,))
            for job_id in job_ids:
                _note(connection, job_id, self.run, _LEFT)

        await self._database.write(change)

    async def take_over(self, job_id: int, accepted_by: str, *, in_doubt: bool = False) -> bool:
        """Attend to a job without a caller. Returns False if it has one or is settled.

        If several processes try at once, one succeeds. A job is settled once its caller was
        answered, or once it was given up. With `in_doubt`, a job is not settled if the process that
        answered ended before it recorded that the answer was sent.
        """
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            if not _is_free(states, living, in_doubt=in_doubt):
                return False
            for run, state in states.items():
                if state in {_HERE, _ANSWERING}:
                    _note(connection, job_id, run, _TAKEN)
            _note(connection, job_id, self.run, _HERE)
            return True

        return await self._database.write(change)

    async def answer(self, accepted_by: Mapping[int, str]) -> bool:
        """Record that the jobs' callers get their answers. Returns False if one was taken over.

        `accepted_by` maps each job to the process that accepted it. Call `confirm` once the answers
        are sent.
        """

        def change(connection: Connection) -> bool:
            for job_id, run in accepted_by.items():
                if _states(connection, job_id, run).get(self.run) == _TAKEN:
                    return False
            for job_id in accepted_by:
                _note(connection, job_id, self.run, _ANSWERING)
            return True

        return await self._database.write(change)

    async def confirm(self, job_ids: Collection[int]) -> None:
        """Record that the answers of these jobs were sent."""

        def change(connection: Connection) -> None:
            connection.execute(connection.statements.turn, (sql.ATTENDING,))
            for job_id in job_ids:
                changed = (_ANSWERED, job_id, self.run, _ANSWERING)
                connection.execute(sql.CHANGE_ATTENDANCE, changed)

        await self._database.write(change)

    async def give_up(self, job_id: int, accepted_by: str) -> bool:
        """Stop attending to a job.

        Returns True if it has no caller left. Then no call can take it over.
        """
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            others = _attending(states, living) - {self.run}
            _note(connection, job_id, self.run, _LEFT if others else _GIVEN_UP)
            return not others

        return await self._database.write(change)

    async def show(self) -> None:
        """Write to the database, so that after an outage others see that this process is alive."""
        await self._database.write(lambda _connection: None)

    async def _living(self) -> frozenset[str]:
        return await self._database.runs() | {self.run}


def _states(connection: Connection, job_id: int, accepted_by: str) -> Mapping[str, str]:
    """Return the state of each process for a job. Locks them until the transaction ends."""
    connection.execute(connection.statements.turn, (sql.ATTENDING,))
    rows = connection.execute(sql.ATTENDANCE, (job_id,))
    return {accepted_by: _HERE, **dict(rows)}


def _attending(states: Mapping[str, str], living: Collection[str]) -> set[str]:
    return {run for run, state in states.items() if state == _HERE and run in living}


def _is_free(states: Mapping[str, str], living: Collection[str], *, in_doubt: bool) -> bool:
    if not _FOR_GOOD.isdisjoint(states.values()) or _attending(states, living):
        return False
    answering = {run for run, state in states.items() if state == _ANSWERING}
    return not answering or (in_doubt and answering.isdisjoint(living))


def _note(connection: Connection, job_id: int, run: str, state: str) -> None:
    connection.execute(sql.NOTE_ATTENDANCE, (run, state, job_id))


log = logging.getLogger(__name__)

MOST_LOST = 10_000
"""How many lost jobs to remember. The oldest are forgotten first."""
SHOW_EVERY_S = 2.0
"""How often a process with open calls shows the others that it is alive, in seconds."""
CLOSES_WITHIN_S = 0.5
"""The most seconds that the last report of a stopping process may take."""


@dataclass(eq=False, slots=True)
class Attended:
    """An open call and its jobs. `answered` is set once the response is written.

    `repeatable` maps the jobs that a repeated call could take over to the processes that accepted
    them. Once the answer is recorded, they move to `recorded`.
    """

    jobs: set[int] = field(default_factory=set)
    repeatable: dict[int, str] = field(default_factory=dict)
    recorded: dict[int, str] = field(default_factory=dict)
    answered: bool = False


_CALL: web.RequestKey[Attended] = web.RequestKey("call")


def job_of(request: web.Request) -> int | None:
    """Return the job of a request's call, or None unless there is exactly one."""
    call = request.get(_CALL)
    return next(iter(call.jobs)) if call is not None and len(call.jobs) == 1 else None


class Attendance:
    """Tracks this process's open calls, and jobs whose caller left or must retry."""

    def __init__(self, shared: StoredAttendance) -> None:
        self._shared = shared
        self._calls: set[Attended] = set()
        self._lost: dict[int, None] = {}  # used as an ordered set
        self._cut: dict[int, None] = {}
        self._unreported: dict[int, None] = {}  # lost, but not yet reported to the other processes
        self._sent: dict[int, None] = {}  # answered, but not yet confirmed in the database
        self._news = asyncio.Event()
        self._ended = asyncio.Event()  # replaced whenever a call ends
        self._reporting = asyncio.Lock()

    @property
    def run_name(self) -> str:
        """The name of this process among those that serve the API."""
        return self._shared.run

    async def run(self) -> None:
        """Report lost callers, and that this process is alive, until cancelled."""
        async with TaskGroup() as tasks:
            tasks.create_task(self._keep_reporting())
            if not self._shared.alone:
                tasks.create_task(self._keep_showing())

    async def close(self) -> None:
        """Report, once all calls have ended, what `run` has not reported."""
        try:
            async with timeout(CLOSES_WITHIN_S):
                await self._confirm()
                await self._report()
        except (StoreError, TimeoutError) as error:
            log.warning("cannot record which of the last calls were answered: %r", error)

    @contextmanager
    def call(self, request: web.Request) -> Iterator[Attended]:
        """Track the call of a request. If it ends without an answer, its jobs are lost."""
        call = Attended()
        request[_CALL] = call
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            if call.answered:
                self._sent |= dict.fromkeys(call.recorded)
            else:
                self._lost |= dict.fromkeys(call.jobs)
            self._lose([each for each in call.jobs if each in self._lost])
            self._ended.set()
            self._ended = asyncio.Event()

    async def attend(self, request: web.Request, job: Job) -> None:
        """Record that a request's call is for a job. Raises `StoreError`."""
        call = request.get(_CALL)
        if call is not None and job.id in call.jobs:
            return  # the call took the job over
        known = job.id not in self._lost and accepted_by(job) == self._shared.run
        self._add_job(call, job)
        if not known and not job.state.final:
            # First report callers that left, so that their report does not affect this one.
            await self._report()
            await self._shared.come(job.id)

    async def take_over(self, request: web.Request, job: Job, *, in_doubt: bool = False) -> bool:
        """Attend to a job that lost its caller. Returns False if it has one or is settled.

        With `in_doubt`, also attends to a job whose answer may have been sent before a crash.
        Raises `StoreError`.
        """
        call = request.get(_CALL)
        if self.is_attended(job):
            return False
        was_lost = job.id in self._lost
        self._cut.pop(job.id, None)
        self._add_job(call, job)  # before another retry can see the job
        taken = False
        try:
            await self._report()
            # Not interruptible: if the caller hung up halfway, the database would assign the job to
            # a lost call, and no retry could take it over.
            taking = self._shared.take_over(job.id, accepted_by(job), in_doubt=in_doubt)
            taken = await seen_through(taking)
        finally:
            if not taken and call is not None:
                call.jobs.discard(job.id)
                call.repeatable.pop(job.id, None)
                if was_lost:
                    self._lost[job.id] = None
        return taken

    async def answer(self, request: web.Request) -> None:
        """Record that a request's call gets its answer. Call this before sending the answer's end.

        Raises `ApiError` if another call has taken its job over, and `StoreError`.
        """
        call = request.get(_CALL)
        if call is None or not call.repeatable:
            return
        # First report callers that left, so that their report does not overwrite this.
        await self._report()
        if not await self._shared.answer(call.repeatable):
            raise _taken_over()
        call.recorded |= call.repeatable
        call.repeatable = {}

    def cut(self, request: web.Request) -> None:
        """Record that a connection is broken on purpose, so that a retry gets the error."""
        call = request.get(_CALL)
        if call is not None:
            self._cut |= dict.fromkeys(call.jobs)
        while len(self._cut) > MOST_LOST:
            del self._cut[next(iter(self._cut))]

    def was_cut(self, job: Job) -> bool:
        """Return whether the last call for a job was broken off without reporting its failure."""
        return job.id in self._cut

    async def deserted(self, jobs: Sequence[Job], *, within_s: float) -> bool:
        """Wait until one of the jobs has no open call in this process. Returns False on timeout."""
        if not jobs:
            return False
        try:
            async with timeout(within_s):
                while all(map(self.is_attended, jobs)):
                    await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def is_attended(self, job: Job) -> bool:
        """Return whether this process has an open call for a job."""
        return any(job.id in call.jobs for call in self._calls)

    async def give_up(self, job: Job) -> bool:
        """Give up a job if no process has a caller for it. Returns whether it was given up.

        After that, no call can take the job over. Raises `StoreError`.
        """
        await self._report()
        return await self._shared.give_up(job.id, accepted_by(job))

    def _add_job(self, call: Attended | None, job: Job) -> None:
        if call is not None:
            call.jobs.add(job.id)
            origin = origin_in(job.reply_to)
            if origin is not None and origin.digest:
                call.repeatable[job.id] = origin.accepted_by
        self._lost.pop(job.id, None)

    def _lose(self, jobs: Collection[int]) -> None:
        held = {job_id for call in self._calls for job_id in call.jobs}
        self._unreported |= dict.fromkeys(each for each in jobs if each not in held)
        while len(self._lost) > MOST_LOST:
            del self._lost[next(iter(self._lost))]
        if self._unreported or self._sent:
            self._news.set()

    async def _keep_reporting(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._confirm()
                await self._report()
            except StoreError as error:
                log.warning("cannot record which jobs were answered or lost: %s", error)
                await asyncio.sleep(SHOW_EVERY_S)
                self._news.set()

    async def _report(self) -> None:
        """Report to the other processes which jobs lost their callers. Raises `StoreError`."""
        async with self._reporting:
            await _recorded(self._unreported, self._shared.leave)

    async def _confirm(self) -> None:
        """Record which answers were sent. Raises `StoreError`."""
        await _recorded(self._sent, self._shared.confirm)

    async def _keep_showing(self) -> None:
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            if self._calls:
                try:
                    await self._shared.show()
                except StoreError as error:
                    log.debug("cannot show the other processes that this one is alive: %s", error)


async def _recorded(
    pending: dict[int, None], record: Callable[[Collection[int]], Awaitable[None]]
) -> None:
    """Record what is pending. What could not be recorded remains pending."""
    jobs = tuple(pending)
    pending.clear()
    try:
        if jobs:
            await record(jobs)
    except BaseException:
        pending.update(dict.fromkeys(jobs))
        raise


def accepted_by(job: Job) -> str:
    """Return the process that accepted a job, or "" if unknown."""
    origin = origin_in(job.reply_to)
    return origin.accepted_by if origin is not None else ""


def _taken_over() -> ApiError:
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Another call has taken over this call's job. Send the request again.",
        retry_after_s=1.0,
    )
