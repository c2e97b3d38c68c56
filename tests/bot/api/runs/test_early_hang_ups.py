"""Callers who hang up while their request is being accepted: the job may be stored already."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from bot.api.runs import answers
from bot.api.runs.attendance import StoredAttendance
from bot.api.runs.repeats import Repeats
from bot.requests.admission import AdmissionService
from queueing.core.errors import StoreError
from queueing.core.jobs import JobState
from queueing.store.jobs.job_store import JobStore
from tests.bot.api.runs.test_repeats import AGAIN, CAT, FIRST, FOX, SLOW, all_jobs, job_of
from tests.bot.api.whole_api import Api, running

EMBEDDING = SLOW.replace("text-to-image]", "text-to-image, embedding]")
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a stream": ("/chat/completions", {**CAT, "stream": True}),
    "an answer": ("/chat/completions", CAT),
    "a response": ("/responses", {"model": "llama", "input": "cat", "stream": True}),
    "vectors": ("/embeddings", {"model": "flux", "input": "cat"}),
    "an image": ("/images/generations", FOX),
    "a link": ("/images/generations", {**FOX, "response_format": "url"}),
}


def hang_up(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event that is set once the server has noticed that a caller hangs up."""
    seen, lose = asyncio.Event(), RequestHandler.connection_lost

    def lost(connection: RequestHandler, error: BaseException | None) -> None:
        lose(connection, error)
        seen.set()

    monkeypatch.setattr(RequestHandler, "connection_lost", lost)
    return seen


STORED = ((JobStore, "add"),)
ACCEPTED = ((AdmissionService, "submit"), (AdmissionService, "draw"))
Methods = Sequence[tuple[type, str]]


class Moment:
    """The moment between storing or accepting a job and telling its call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored = asyncio.Event()
        self.left = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._monkeypatch = monkeypatch

    def hold(self, methods: Methods = STORED) -> None:
        """Hold it until `goes_on` is set; from now on, `left` is set when a caller has hung up."""
        for kind, name in methods:
            self._monkeypatch.setattr(kind, name, self._held(getattr(kind, name)))
        self.left = hang_up(self._monkeypatch)

    def _held(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def slow(*args: Any, **limits: Any) -> Any:
            made = await method(*args, **limits)
            self.stored.set()
            await self.goes_on.wait()
            return made

        return slow


@asynccontextmanager
async def left_early(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Any,
    headers: Any,
    *,
    methods: Methods = STORED,
) -> AsyncIterator[Api]:
    """Run the bot with a call whose caller has hung up right after its job was stored."""
    async with leaving_early(folder, monkeypatch, path, body, headers, methods=methods) as (
        api,
        moment,
    ):
        moment.goes_on.set()
        yield api


@asynccontextmanager
async def leaving_early(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Any,
    headers: Any,
    *,
    methods: Methods = STORED,
) -> AsyncIterator[tuple[Api, Moment]]:
    """As `left_early`, but the call has not been told of its job yet."""
    moment = Moment(monkeypatch)
    async with running(folder, EMBEDDING) as api:
        moment.hold(methods)
        calling = asyncio.create_task(
            api.session.post(f"{api.url}{path}", json=body, headers=headers)
        )
        await moment.stored.wait()
        calling.cancel()
        await moment.left.wait()
        yield api, moment


@pytest.mark.parametrize(
    ("methods", "name"),
    [
        *((STORED, name) for name in ("a stream", "an answer", "an image", "a link")),
        *((ACCEPTED, name) for name in ("an answer", "a response", "vectors", "an image")),
    ],
)
async def test_hanging_up_cancels_a_job_that_is_just_being_accepted(
    methods: Methods, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU would work for a caller who is gone, and no one would notice."""
    path, body = CALLS[name]
    async with left_early(tmp_path, monkeypatch, path, body, {}, methods=methods) as api:
        await api.until(lambda jobs: not jobs)
        listed = name != "vectors"
        assert [job.state for job in await all_jobs(api)] == [JobState.CANCELLED] * listed


@pytest.mark.parametrize("path", ["/jobs", "/images/generations"])
async def test_a_job_that_does_not_need_its_caller_stays(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that submits and reconnects after a failure would find its job cancelled."""
    named = {"Idempotency-Key": "once", "Prefer": "respond-async"}
    async with left_early(tmp_path, monkeypatch, path, FOX, named, methods=ACCEPTED) as api:
        again = await api.post(path, FOX, status=202, headers=named)
        assert [job.id for job in await api.open_jobs()] == [again["id"]]


@pytest.mark.parametrize("methods", [STORED, ACCEPTED])
async def test_a_retry_takes_over_a_job_that_was_just_being_accepted(
    methods: Methods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request would be in the queue twice."""
    path = "/chat/completions"
    async with left_early(tmp_path, monkeypatch, path, CAT, FIRST, methods=methods) as api:
        await job_of(api, path, CAT, AGAIN)
        assert len(await all_jobs(api)) == 1


async def test_a_retry_that_overtakes_the_acceptance_takes_its_job_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request would be in the queue twice: the first job has no caller and is not known yet."""
    path = "/chat/completions"
    looked = asyncio.Event()
    find = Repeats.key

    async with leaving_early(tmp_path, monkeypatch, path, CAT, FIRST) as (api, moment):

        async def patiently(self: Repeats, *args: Any) -> str:
            key = asyncio.create_task(find(self, *args))
            for _ in range(50):  # longer than a search for the job takes
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
    """The database would keep saying that the job has a caller, and a retry would make a second."""
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


async def test_a_caller_who_leaves_while_the_database_is_away_ends_only_their_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole API would stop for a moment, and the job would continue."""
    monkeypatch.setattr(answers, "LOOK_EVERY_S", 0.05)
    failures = [StoreError("the database is away")] * 2
    tried_at = list[float]()
    async with running(tmp_path, SLOW) as api:
        kind = type(api.parts.queue.submitter)
        cancel = kind.cancel

        async def failing(*given: Any, **named: Any) -> Any:
            tried_at.append(monotonic())
            if failures:
                raise failures.pop()
            return await cancel(*given, **named)

        monkeypatch.setattr(kind, "cancel", failing)
        url, body = f"{api.url}/chat/completions", CAT
        async with api.session.post(url, json={**body, "stream": True}) as stream:
            leaving = await api.session.post(url, json={**body, "stream": True})
            leaving.close()
            await api.until(lambda jobs: len(jobs) == 1 and not failures)
            assert (await stream.content.readany()).startswith((b":", b"data:"))
            assert stream.headers["x-usher-job"] == str((await api.open_jobs())[0].id)
    assert all(after - before > 0.04 for before, after in pairwise(tried_at[:3]))
