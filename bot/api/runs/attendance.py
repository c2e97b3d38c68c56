"""Which jobs have a caller, and which have lost theirs without the whole answer.

Before the end of an answer is sent, it is stored that the job's caller gets it: no later call can
be given that answer, whichever process it reaches and whatever became of this one. Several
processes may serve the API: each knows its own calls, and tells the others when a job has lost its
caller.

A job is attended to by the process that accepted it, without a word in the database, until that
process notes that its caller has left or was answered. A process lives as long as its opening of
the database does. One that is taken for dead and is not finds its jobs `taken`.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
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


_HERE, _LEFT, _GIVEN_UP, _ANSWERED, _TAKEN = "here", "left", "given up", "answered", "taken"
_FOR_GOOD = frozenset({_GIVEN_UP, _ANSWERED})


class StoredAttendance:
    """Notes which processes have calls about a job. Every call raises `StoreError`.

    The process that accepted a job attends to it unless it says otherwise. A process that has ended
    attends to nothing. `run` names this process; `alone` says that there is no other.
    """

    def __init__(self, database: Database, *, run: str | None = None) -> None:
        self.run = run or database.run
        self.alone = database.alone
        self._database = database

    async def come(self, job_id: int) -> None:
        """Note that a call of this process is about a job."""
        await self._database.write(lambda connection: _note(connection, job_id, self.run, _HERE))

    async def leave(self, job_ids: Collection[int]) -> None:
        """Note that no call of this process is about these jobs any more."""

        def change(connection: Connection) -> None:
            connection.execute(connection.statements.turn, (sql.ATTENDING,))
            for job_id in job_ids:
                _note(connection, job_id, self.run, _LEFT)

        await self._database.write(change)

    async def take_over(self, job_id: int, accepted_by: str) -> bool:
        """Attend to a job that is without a caller; return False if it has or had one.

        Of several that try at once, one gets it. A job whose caller was answered or that was given
        up is not to be had.
        """
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            if not _FOR_GOOD.isdisjoint(states.values()) or _attending(states, living):
                return False
            for run, state in states.items():
                if state == _HERE:
                    _note(connection, job_id, run, _TAKEN)
            _note(connection, job_id, self.run, _HERE)
            return True

        return await self._database.write(change)

    async def answer(self, accepted_by: Mapping[int, str]) -> bool:
        """Note that the callers of these jobs get their answers; False if one was taken over."""

        def change(connection: Connection) -> bool:
            for job_id, run in accepted_by.items():
                if _states(connection, job_id, run).get(self.run) == _TAKEN:
                    return False
            for job_id in accepted_by:
                _note(connection, job_id, self.run, _ANSWERED)
            return True

        return await self._database.write(change)

    async def give_up(self, job_id: int, accepted_by: str) -> bool:
        """Leave a job; return whether it is now without a caller, and then for good."""
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            others = _attending(states, living) - {self.run}
            _note(connection, job_id, self.run, _LEFT if others else _GIVEN_UP)
            return not others

        return await self._database.write(change)

    async def show(self) -> None:
        """Have the other processes see that this one lives, after the server was away."""
        await self._database.write(lambda _connection: None)

    async def _living(self) -> frozenset[str]:
        return await self._database.runs() | {self.run}


def _states(connection: Connection, job_id: int, accepted_by: str) -> Mapping[str, str]:
    """Return how processes attend to a job, which no other one changes until this has."""
    connection.execute(connection.statements.turn, (sql.ATTENDING,))
    rows = connection.execute(sql.ATTENDANCE, (job_id,))
    return {accepted_by: _HERE, **dict(rows)}


def _attending(states: Mapping[str, str], living: Collection[str]) -> set[str]:
    return {run for run, state in states.items() if state == _HERE and run in living}


def _note(connection: Connection, job_id: int, run: str, state: str) -> None:
    connection.execute(sql.NOTE_ATTENDANCE, (run, state, job_id))


log = logging.getLogger(__name__)

MOST_LOST = 10_000
"""How many lost jobs are remembered; the oldest are forgotten."""
SHOW_EVERY_S = 2.0
"""How often a process with open calls shows the others that it lives."""


@dataclass(eq=False, slots=True)
class Attended:
    """One call, and the jobs it is about; `answered` once its response is written.

    `repeatable` are those of its jobs that a repeated call could take over, with the process that
    accepted each, until their answer is noted.
    """

    jobs: set[int] = field(default_factory=set)
    repeatable: dict[int, str] = field(default_factory=dict)
    answered: bool = False


_CALL: web.RequestKey[Attended] = web.RequestKey("call")


def job_of(request: web.Request) -> int | None:
    """Return the job that the call of a request is about, None without exactly one."""
    call = request.get(_CALL)
    return next(iter(call.jobs)) if call is not None and len(call.jobs) == 1 else None


class Attendance:
    """Remembers the calls that are open, and the jobs whose caller left or was told to come back."""

    def __init__(self, shared: StoredAttendance) -> None:
        self._shared = shared
        self._calls: set[Attended] = set()
        self._lost: dict[int, None] = {}  # a set that keeps its order
        self._cut: dict[int, None] = {}
        self._untold: dict[int, None] = {}  # lost, and the others do not know yet
        self._news = asyncio.Event()
        self._ended = asyncio.Event()  # replaced by a new one each time a call has ended
        self._telling = asyncio.Lock()

    @property
    def run_name(self) -> str:
        """The name of this process among those that serve the API."""
        return self._shared.run

    async def run(self) -> None:
        """Tell the other processes what they must know, until cancelled."""
        async with TaskGroup() as tasks:
            tasks.create_task(self._keep_telling())
            if not self._shared.alone:
                tasks.create_task(self._keep_showing())

    @contextmanager
    def call(self, request: web.Request) -> Iterator[Attended]:
        """Provide the call of a request; without an answer, its jobs are lost when it ends."""
        call = Attended()
        request[_CALL] = call
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            if not call.answered:
                self._lost |= dict.fromkeys(call.jobs)
            self._lose([each for each in call.jobs if each in self._lost])
            self._ended.set()
            self._ended = asyncio.Event()

    async def attend(self, request: web.Request, job: Job) -> None:
        """Note that the call of a request is about a job. Raises `StoreError`."""
        call = request.get(_CALL)
        if call is not None and job.id in call.jobs:
            return  # it took the job over
        known = job.id not in self._lost and accepted_by(job) == self._shared.run
        self._come(call, job)
        if not known and not job.state.final:
            await self._tell()  # of earlier callers, or this one would be taken for one of them
            await self._shared.come(job.id)

    async def take_over(self, request: web.Request, job: Job) -> bool:
        """Attend to a job that has lost its caller; return False if it has not.

        Raises `StoreError`.
        """
        call = request.get(_CALL)
        if self.is_attended(job):
            return False
        was_lost = job.id in self._lost
        self._cut.pop(job.id, None)
        self._come(call, job)  # before another retry can see it
        taken = False
        try:
            await self._tell()
            # Seen through: a caller who hangs up meanwhile would leave the job theirs in the
            # database, and no retry could have it.
            taken = await seen_through(self._shared.take_over(job.id, accepted_by(job)))
        finally:
            if not taken and call is not None:
                call.jobs.discard(job.id)
                call.repeatable.pop(job.id, None)
                if was_lost:
                    self._lost[job.id] = None
        return taken

    async def answer(self, request: web.Request) -> None:
        """Note that the call of a request gets its answer, before the end of that is sent.

        Raises `ApiError` if another call has taken its job over, and `StoreError`.
        """
        call = request.get(_CALL)
        if call is None or not call.repeatable:
            return
        await self._tell()  # of earlier callers who left, or the news would come after this
        if not await self._shared.answer(call.repeatable):
            raise _taken_over()
        call.repeatable = {}

    def cut(self, request: web.Request) -> None:
        """Note that the call of a request breaks off, so that its repeat learns how its job ended."""
        call = request.get(_CALL)
        if call is not None:
            self._cut |= dict.fromkeys(call.jobs)
        while len(self._cut) > MOST_LOST:
            del self._cut[next(iter(self._cut))]

    def was_cut(self, job: Job) -> bool:
        """Return whether the last call about a job broke off without the reason for its failure."""
        return job.id in self._cut

    async def deserted(self, jobs: Sequence[Job], *, within_s: float) -> bool:
        """Wait until one of the jobs has no open call of this process; return whether that was so."""
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
        """Return whether an open call of this process is about a job."""
        return any(job.id in call.jobs for call in self._calls)

    async def give_up(self, job: Job) -> bool:
        """Return whether no process has a caller for a job; none can take it over then.

        Raises `StoreError`.
        """
        await self._tell()
        return await self._shared.give_up(job.id, accepted_by(job))

    def _come(self, call: Attended | None, job: Job) -> None:
        if call is not None:
            call.jobs.add(job.id)
            origin = origin_in(job.reply_to)
            if origin is not None and origin.digest:
                call.repeatable[job.id] = origin.accepted_by
        self._lost.pop(job.id, None)

    def _lose(self, jobs: Collection[int]) -> None:
        held = {job_id for call in self._calls for job_id in call.jobs}
        self._untold |= dict.fromkeys(each for each in jobs if each not in held)
        while len(self._lost) > MOST_LOST:
            del self._lost[next(iter(self._lost))]
        if self._untold:
            self._news.set()

    async def _keep_telling(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._tell()
            except StoreError as error:
                log.warning("lost callers cannot be noted: %s", error)
                await asyncio.sleep(SHOW_EVERY_S)
                self._news.set()

    async def _tell(self) -> None:
        """Tell the others which jobs have lost their callers. Raises `StoreError`."""
        async with self._telling:
            untold, self._untold = self._untold, {}
            if not untold:
                return
            try:
                await self._shared.leave(tuple(untold))
            except BaseException:
                self._untold = untold | self._untold
                raise

    async def _keep_showing(self) -> None:
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            if self._calls:
                try:
                    await self._shared.show()
                except StoreError as error:
                    log.debug("the other processes cannot be told of this one: %s", error)


def accepted_by(job: Job) -> str:
    """Return which process accepted a job, "" if that is not known."""
    origin = origin_in(job.reply_to)
    return origin.accepted_by if origin is not None else ""


def _taken_over() -> ApiError:
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Another call has taken over the job of this one. Send the request again.",
        retry_after_s=1.0,
    )
