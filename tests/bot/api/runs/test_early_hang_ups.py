"""Callers who hang up while their request is being accepted: the job may be stored already."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from bot.api.runs.attendance import StoredAttendance
from bot.api.runs.repeats import Repeats
from queueing.core.jobs import Job, JobState
from queueing.store.jobs.job_store import JobStore
from tests.bot.api.runs.test_repeats import AGAIN, CAT, FIRST, FOX, SLOW, all_jobs, job_of
from tests.bot.api.whole_api import Api, running

CALLS = [
    ("/chat/completions", {**CAT, "stream": True}),
    ("/chat/completions", CAT),
    ("/images/generations", FOX),
    ("/images/generations", {**FOX, "response_format": "url"}),
]


def hang_up(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event that is set once the server has seen a caller hang up, from now on."""
    seen, lose = asyncio.Event(), RequestHandler.connection_lost

    def lost(connection: RequestHandler, error: BaseException | None) -> None:
        lose(connection, error)
        seen.set()

    monkeypatch.setattr(RequestHandler, "connection_lost", lost)
    return seen


class Moment:
    """The moment between a job's storing and the word of it to the call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored = asyncio.Event()
        self.left = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._monkeypatch = monkeypatch

    def hold(self) -> None:
        """Hold it until `goes_on` is set; from now on, `left` tells that a caller has hung up."""
        add = JobStore.add

        async def slow(store: JobStore, *args: Any, **limits: Any) -> Job:
            job = await add(store, *args, **limits)
            self.stored.set()
            await self.goes_on.wait()
            return job

        self._monkeypatch.setattr(JobStore, "add", slow)
        self.left = hang_up(self._monkeypatch)


@asynccontextmanager
async def left_early(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, headers: Any
) -> AsyncIterator[Api]:
    """Run the bot with a call whose caller has hung up right after its job was stored."""
    async with leaving_early(folder, monkeypatch, path, body, headers) as (api, moment):
        moment.goes_on.set()
        yield api


@asynccontextmanager
async def leaving_early(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, headers: Any
) -> AsyncIterator[tuple[Api, Moment]]:
    """As `left_early`, but the word of the job has not come yet."""
    moment = Moment(monkeypatch)
    async with running(folder, SLOW) as api:
        moment.hold()
        calling = asyncio.create_task(
            api.session.post(f"{api.url}{path}", json=body, headers=headers)
        )
        await moment.stored.wait()
        calling.cancel()
        await moment.left.wait()
        yield api, moment


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_hanging_up_cancels_a_job_that_is_just_being_accepted(
    path: str, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU would work for a caller who is gone, and no one could tell."""
    async with left_early(tmp_path, monkeypatch, path, body, {}) as api:
        await api.until(lambda jobs: not jobs)
        (job,) = await all_jobs(api)
        assert job.state is JobState.CANCELLED


async def test_a_retry_takes_over_a_job_that_was_just_being_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request would be in line twice."""
    path = "/chat/completions"
    async with left_early(tmp_path, monkeypatch, path, CAT, FIRST) as api:
        await job_of(api, path, CAT, AGAIN)
        assert len(await all_jobs(api)) == 1


async def test_a_retry_that_overtakes_the_acceptance_takes_its_job_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request would be in line twice: the first job has no caller, but is not known yet."""
    path = "/chat/completions"
    looked = asyncio.Event()
    find = Repeats.key

    async with leaving_early(tmp_path, monkeypatch, path, CAT, FIRST) as (api, moment):

        async def patiently(self: Repeats, *args: Any) -> str:
            key = asyncio.create_task(find(self, *args))
            for _ in range(50):  # as often as it takes to look for the job, and more
                await all_jobs(api)
            looked.set()
            return await key

        monkeypatch.setattr(Repeats, "key", patiently)
        retry = asyncio.create_task(job_of(api, path, CAT, AGAIN))
        await looked.wait()
        moment.goes_on.set()
        await retry
        assert len(await all_jobs(api)) == 1


async def test_a_retry_that_is_broken_off_while_it_takes_a_job_over_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database would say for ever that the job has a caller, and the next would be a second."""
    path, began, goes_on = "/chat/completions", asyncio.Event(), asyncio.Event()
    take_over = StoredAttendance.take_over

    async def slow(self: StoredAttendance, *args: Any, **named: Any) -> bool:
        taken = await take_over(self, *args, **named)
        began.set()
        await goes_on.wait()
        return taken

    async with left_early(tmp_path, monkeypatch, path, CAT, FIRST) as api:
        await api.until(lambda jobs: len(jobs) == 1)
        monkeypatch.setattr(StoredAttendance, "take_over", slow)
        left = hang_up(monkeypatch)
        retry = asyncio.create_task(api.session.post(f"{api.url}{path}", json=CAT, headers=AGAIN))
        await began.wait()
        retry.cancel()
        await left.wait()
        goes_on.set()
        await job_of(api, path, CAT, AGAIN)
        assert len(await all_jobs(api)) == 1
