"""Callers who hang up while their requests are being accepted."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from bot.api.runs import answers
from bot.requests.admission import AdmissionService
from queueing.core.errors import StoreError
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running

SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60")
EMBEDDING = SLOW.replace("text-to-image]", "text-to-image, embedding]")
MESSAGES = [{"role": "user", "content": "What is a cat?"}]
CALLS: dict[str, dict[str, Any]] = {
    "/chat/completions": {"model": "llama", "messages": MESSAGES},
    "/responses": {"model": "llama", "input": "cat", "stream": True},
    "/embeddings": {"model": "flux", "input": "cat"},
    "/images/generations": {"model": "flux", "prompt": "cat"},
}


class Accepting:
    """Holds every request between its acceptance and the answer to its caller."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accepted = asyncio.Event()
        self.go = asyncio.Event()
        for name in ("submit", "draw"):
            monkeypatch.setattr(AdmissionService, name, self._held(getattr(AdmissionService, name)))

    def _held(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def held(*given: Any, **named: Any) -> Any:
            made = await original(*given, **named)
            self.accepted.set()
            await self.go.wait()
            return made

        return held


async def hang_up(api: Api, path: str, body: Any, accepting: Accepting, **headers: str) -> None:
    """Call, and hang up between the acceptance and the answer."""
    async with aiohttp.ClientSession() as session:
        call = asyncio.create_task(session.post(f"{api.url}{path}", json=body, headers=headers))
        await asyncio.wait_for(accepting.accepted.wait(), WAIT_S)
        call.cancel()
        await asyncio.wait([call])
    for _ in range(3):
        await api.get("/models")  # the API has noticed that the caller has gone
    accepting.go.set()


@pytest.mark.parametrize("path", CALLS)
async def test_a_job_whose_caller_left_before_the_answer_is_cancelled(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a GPU for an answer that no one reads, and a place among the open jobs."""
    accepting = Accepting(monkeypatch)
    async with running(tmp_path, EMBEDDING) as api:
        await hang_up(api, path, CALLS[path], accepting)
        await api.until(lambda jobs: not jobs)
        (job,) = (await api.get("/jobs"))["data"] or [None]
        assert job is None or job["state"] == "cancelled"


@pytest.mark.parametrize("path", ["/jobs", "/images/generations"])
async def test_a_job_that_does_not_need_its_caller_stays(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that submits and repeats after a broken connection would find it cancelled."""
    accepting = Accepting(monkeypatch)
    body = {"model": "flux", "prompt": "cat"}
    named = {"Idempotency-Key": "once", "Prefer": "respond-async"}
    async with running(tmp_path, SLOW) as api:
        await hang_up(api, path, body, accepting, **named)
        again = await api.post(path, body, status=202, headers=named)
        assert [job.id for job in await api.open_jobs()] == [again["id"]]


async def test_the_retry_of_an_sdk_finds_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer would be generated twice."""
    accepting = Accepting(monkeypatch)
    body = CALLS["/chat/completions"]
    async with running(tmp_path) as api:
        await hang_up(api, "/chat/completions", body, accepting, **{"x-stainless-retry-count": "0"})
        retry = {"x-stainless-retry-count": "1"}
        await api.post("/chat/completions", body, headers=retry)
        assert len((await api.get("/jobs"))["data"]) == 1


async def test_a_caller_who_leaves_while_the_database_is_away_ends_only_their_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole API would stop for a moment, and the job would go on."""
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
        url, body = f"{api.url}/chat/completions", CALLS["/chat/completions"]
        async with api.session.post(url, json={**body, "stream": True}) as stream:
            leaving = await api.session.post(url, json={**body, "stream": True})
            leaving.close()
            await api.until(lambda jobs: len(jobs) == 1 and not failures)
            assert (await stream.content.readany()).startswith((b":", b"data:"))
            assert stream.headers["x-usher-job"] == str((await api.open_jobs())[0].id)
    assert all(after - before > 0.04 for before, after in pairwise(tried_at[:3]))
