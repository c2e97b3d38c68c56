"""Processes that end while they send an answer, and retries of the calls they answered."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from bot.api.calls.callers import Caller
from bot.api.runs.attendance import Attendance, StoredAttendance
from bot.api.runs.repeats import Repeats
from bot.app.setup import MIGRATIONS
from bot.core.origin import Origin
from bot.people.people import Person
from queueing.core.jobs import Job
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.contracts.store.store_harness import NOW, add, end, new
from tests.fakes.clock import VirtualClock
from tests.simulation.loop import in_virtual_time

FIRST = {"x-stainless-retry-count": "0"}
AGAIN = {"x-stainless-retry-count": "1"}
CALLER = Caller(person=Person(user="api:local"), name="local")
DIGEST = "of equal requests"


class Process:
    """A process that serves the API. Calls that it has not ended are open when it is killed."""

    def __init__(self, database: Database, run: str) -> None:
        self.attendance = Attendance(StoredAttendance(database, run=run))
        self._store = JobStore(database)
        self._repeats = Repeats(
            jobs=cast("Any", self._store), clock=VirtualClock(NOW), attendance=self.attendance
        )
        self._run = run
        self._open = ExitStack()

    def request(self, headers: Mapping[str, str]) -> web.Request:
        """Return the request of an open call."""
        request = make_mocked_request("POST", "/v1/chat/completions", headers=headers)
        self._open.enter_context(self.attendance.call(request))
        return request

    async def accept(self, key: str, request: web.Request) -> Job:
        """Return the job of a call, which is complete."""
        origin = Origin(
            platform="api",
            chat="api",
            group=False,
            user=CALLER.user,
            user_name="local",
            language="en",
            key=key,
            digest=DIGEST,
            accepted_by=self._run,
        )
        wanted = replace(new(owner=CALLER.user), key=key, reply_to=origin.model_dump_json())
        job = await end(self._store, await add(self._store, wanted))
        await self.attendance.attend(request, job)
        return job

    async def answer(self, key: str) -> None:
        """Accept and answer a call, and end it."""
        request = make_mocked_request("POST", "/v1/chat/completions", headers=FIRST)
        with self.attendance.call(request) as call:
            await self.accept(key, request)
            await self.attendance.answer(request)
            call.answered = True

    async def repeated(self) -> str:
        """Return the key of the job that a retry repeats, or a new key."""
        return await self._repeats.key(self.request(AGAIN), CALLER, DIGEST)


@asynccontextmanager
async def processes() -> AsyncIterator[tuple[Process, Process]]:
    """Provide a process, and the process that is started after it was killed."""
    database = await open_database("sqlite://", migrations=(MIGRATIONS,), inline=True)
    try:
        yield Process(database, "killed"), Process(database, "next")
    finally:
        await database.aclose()


@in_virtual_time
async def test_a_retry_gets_the_answer_whose_sending_a_crash_interrupted() -> None:
    """The call would become a second job, although the answer to the first is stored."""
    async with processes() as (killed, started):
        request = killed.request(FIRST)
        await killed.accept("mine", request)
        await killed.attendance.answer(request)
        assert await started.repeated() == "mine"
        assert await started.repeated() != "mine"


@in_virtual_time
async def test_a_retry_gets_its_own_job_before_an_answer_in_doubt() -> None:
    """It would get the result of an equal call, and its own job would be left to nobody."""
    async with processes() as (killed, started):
        await killed.accept("lost", killed.request(FIRST))
        request = killed.request(FIRST)
        await killed.accept("in doubt", request)
        await killed.attendance.answer(request)
        assert [await started.repeated(), await started.repeated()] == ["lost", "in doubt"]


@in_virtual_time
async def test_an_answer_that_was_sent_before_a_crash_is_not_in_doubt() -> None:
    """The retry of another equal call would get it."""
    async with processes() as (killed, started):
        reporting = asyncio.create_task(killed.attendance.run())
        await killed.answer("sent")
        await asyncio.sleep(1)
        reporting.cancel()
        assert await started.repeated() != "sent"


@in_virtual_time
async def test_a_stop_reports_the_calls_that_ended_last() -> None:
    """The same would happen for the calls that end while the process stops."""
    async with processes() as (stopped, started):
        await stopped.answer("sent")
        await stopped.attendance.close()
        assert await started.repeated() != "sent"
