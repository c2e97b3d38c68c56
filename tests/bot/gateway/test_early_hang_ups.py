"""Callers who hang up while their request is being accepted: the job may be stored already."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from queueing.core.jobs import Job, JobState
from queueing.store import JobStore
from tests.bot.gateway.test_repeats import AGAIN, CAT, FIRST, FOX, SLOW, all_jobs, job_of
from tests.bot.gateway.whole_api import Api, running

CALLS = [
    ("/chat/completions", {**CAT, "stream": True}),
    ("/chat/completions", CAT),
    ("/images/generations", FOX),
    ("/images/generations", {**FOX, "response_format": "url"}),
]


class Moment:
    """The moment between a job's storing and the word of it to the call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored = asyncio.Event()
        self.left = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._monkeypatch = monkeypatch

    def hold(self) -> None:
        """Hold it until `goes_on` is set; from now on, `left` tells that a caller has hung up."""
        add, lose = JobStore.add, RequestHandler.connection_lost

        async def slow(store: JobStore, *args: Any, **limits: Any) -> Job:
            job = await add(store, *args, **limits)
            self.stored.set()
            await self.goes_on.wait()
            return job

        def lost(connection: RequestHandler, error: BaseException | None) -> None:
            lose(connection, error)
            self.left.set()

        self._monkeypatch.setattr(JobStore, "add", slow)
        self._monkeypatch.setattr(RequestHandler, "connection_lost", lost)


@asynccontextmanager
async def left_early(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, headers: Any
) -> AsyncIterator[Api]:
    """Run the bot with a call whose caller has hung up right after its job was stored."""
    moment = Moment(monkeypatch)
    async with running(folder, SLOW) as api:
        moment.hold()
        calling = asyncio.create_task(
            api.session.post(f"{api.url}{path}", json=body, headers=headers)
        )
        await moment.stored.wait()
        calling.cancel()
        await moment.left.wait()
        moment.goes_on.set()
        yield api


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_hanging_up_cancels_a_job_that_is_just_being_accepted(
    path: str, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card would work for a caller who is gone, and no one could tell."""
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
