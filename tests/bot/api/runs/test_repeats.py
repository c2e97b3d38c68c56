"""Repeated calls: with a key, or as SDKs repeat them, which only send the number of the retry."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from queueing.core.jobs import Job, JobState
from tests.bot.api.whole_api import CONFIG, Api, running

MANY = "limits: {open_per_person: 50, queued_per_person: 50}\n"
CAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
FOX = {"model": "flux", "prompt": "a fox"}
SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60") + MANY
BRISK = CONFIG.replace("service_s: 0.1", "service_s: 0.5") + MANY
FIRST = {"x-stainless-retry-count": "0"}
AGAIN = {"x-stainless-retry-count": "1"}


async def job_of(api: Api, path: str, body: Any, headers: Mapping[str, str]) -> str:
    """Return the job of a call as soon as the call names it, and hang up."""
    streamed = {**body, "stream": True}
    async with api.session.post(f"{api.url}{path}", json=streamed, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return answer.headers["x-usher-job"]


async def all_jobs(api: Api) -> list[Job]:
    return await api.parts.queue.jobs.history("api:local", limit=100)


async def until_running(api: Api) -> None:
    await api.until(lambda jobs: any(job.state is JobState.PROCESSING for job in jobs))


async def hang_up(api: Api, path: str, body: Any, when: Callable[[Api], Awaitable[None]]) -> None:
    """Make a call as an SDK does, and break it at a certain moment."""
    calling = asyncio.create_task(api.post(path, body, headers=FIRST))
    await when(api)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


@pytest.mark.parametrize(
    ("path", "body"), [("/chat/completions", CAT), ("/images/generations", FOX)]
)
async def test_a_retry_takes_over_the_job_of_the_broken_call(
    path: str, body: Any, tmp_path: Path
) -> None:
    """The same request would be in the queue two or three times."""
    async with running(tmp_path, SLOW) as api:
        await hang_up(api, path, body, until_running)
        (job,) = await api.open_jobs()
        assert await job_of(api, path, body, AGAIN) == str(job.id)
        assert len(await all_jobs(api)) == 1


async def test_an_answer_no_one_received_is_not_generated_again(tmp_path: Path) -> None:
    """A complete answer would be thrown away, and the GPU would work twice."""
    async with running(tmp_path, BRISK) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        (job,) = await all_jobs(api)
        assert job.state is JobState.COMPLETED
        again = await api.post("/chat/completions", CAT, headers=AGAIN)
        assert again["id"] == f"chatcmpl-{job.id}"
        assert len(await all_jobs(api)) == 1


async def test_a_stream_no_one_received_is_not_generated_again(tmp_path: Path) -> None:
    """A complete answer would be thrown away although the retry could stream it."""
    async with running(tmp_path, BRISK) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        api.session.headers.update(AGAIN)
        events, _ = await api.stream("/chat/completions", CAT)
        assert events[-1] == "[DONE]"
        assert "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
        assert len(await all_jobs(api)) == 1


async def test_ten_equal_calls_are_ten_jobs(tmp_path: Path) -> None:
    """A program that asks ten times for ten answers would get one."""
    async with running(tmp_path, SLOW) as api:
        calls = [
            asyncio.create_task(api.post("/chat/completions", CAT, headers=headers))
            for headers in [FIRST, AGAIN] * 5
        ]
        await api.until(lambda jobs: len(jobs) == 10)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert len(await all_jobs(api)) == 10


async def test_a_retry_of_a_call_whose_job_failed_begins_again(tmp_path: Path) -> None:
    """A program that asks for another try would be given the old failure."""
    failing = BRISK.replace("{kind: demo}", "{kind: demo, fail_rate: 1}").replace(
        "service_s: 0.5", "service_s: 0.5\n    max_attempts: 1"
    )
    async with running(tmp_path, failing) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        await api.post("/chat/completions", CAT, headers=AGAIN, status=503)
        assert [job.state for job in await all_jobs(api)] == [JobState.FAILED] * 2


async def test_two_retries_do_not_share_a_job(tmp_path: Path) -> None:
    """Two callers would get one answer where they asked for two."""
    async with running(tmp_path, SLOW) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        both = [
            asyncio.create_task(api.post("/chat/completions", CAT, headers=AGAIN)) for _ in range(2)
        ]
        await api.until(lambda jobs: len(jobs) == 2)
        for call in both:
            call.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def test_an_answer_that_arrived_is_not_given_again(api: Api) -> None:
    """The retry of one of many equal calls would get the answer of another."""
    first = await api.post("/chat/completions", CAT, headers=FIRST)
    again = await api.post("/chat/completions", CAT, headers=AGAIN)
    assert again["id"] != first["id"]


async def test_what_is_no_retry_takes_nothing_over(tmp_path: Path) -> None:
    """A first call would get an older answer, or an erroneous one."""
    async with running(tmp_path, BRISK) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        for made, count in enumerate(("0", "x", "²"), start=1):
            headers = {"x-stainless-retry-count": count}
            await api.post("/chat/completions", CAT, headers=headers)
            assert len(await all_jobs(api)) == 1 + made, count


async def test_another_request_is_another_job(tmp_path: Path) -> None:
    """A retry would get the answer to something else."""
    dog = {**CAT, "messages": [{"role": "user", "content": "What is a dog?"}]}
    async with running(tmp_path, BRISK) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        answer = await api.post("/chat/completions", dog, headers=AGAIN)
        assert "What is a dog?" in answer["choices"][0]["message"]["content"]


async def test_a_call_that_waited_too_long_is_taken_up_again(tmp_path: Path) -> None:
    """A program that retries although it was told not to would wait at the end of the queue."""
    impatient = SLOW.replace("open: true", "open: true\n  wait_s: 0.2")
    async with running(tmp_path, impatient) as api:
        read = await api.post("/chat/completions", CAT, status=504, headers=FIRST)
        (job,) = await api.open_jobs()
        assert f"/v1/jobs/{job.id}" in read["error"]["message"]
        assert await job_of(api, "/chat/completions", CAT, AGAIN) == str(job.id)


async def test_a_retry_finds_its_job_after_a_restart(tmp_path: Path) -> None:
    """Each restart would double what programs were waiting for."""
    async with running(tmp_path, SLOW) as api:
        calling = asyncio.create_task(api.post("/chat/completions", CAT, headers=FIRST))
        await until_running(api)
        (job,) = await api.open_jobs()
    await asyncio.gather(calling, return_exceptions=True)
    async with running(tmp_path, BRISK) as api:
        again = await api.post("/chat/completions", CAT, headers=AGAIN)
        assert again["id"] == f"chatcmpl-{job.id}"
        assert len(await all_jobs(api)) == 1
        third = await api.post("/chat/completions", CAT, headers=AGAIN)
        assert third["id"] != again["id"]


SPOKEN = CONFIG.replace(
    "chats:",
    "  piper: {backends: [studio], capabilities: [text-to-speech], vram: 1GB, load_s: 0.01,"
    " service_s: 0.1}\nchats:",
)
WAYS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "whole": ("/chat/completions", CAT, {}),
    "a-stream": ("/chat/completions", {**CAT, "stream": True}, {}),
    "a-response": ("/responses", {"model": "llama", "input": "What is a cat?"}, {}),
    "an-image": ("/images/generations", FOX, {}),
    "a-file": (
        "/audio/speech",
        {"model": "piper", "input": "Hello", "voice": "alloy", "response_format": "wav"},
        {},
    ),
    "fetched-later": ("/chat/completions", CAT, {"Prefer": "respond-async"}),
}
HELD = {"held": "hold_s: 240", "late": "hold_s: 0.05"}


@pytest.mark.parametrize("hold", HELD.values(), ids=HELD)
async def test_an_answer_given_before_a_restart_is_not_given_again(
    hold: str, tmp_path: Path
) -> None:
    """The retry of an equal call would get it, and its own result would reach no one."""
    config = SPOKEN.replace("open: true", f"open: true\n  {hold}")

    async def answered(api: Api, headers: Mapping[str, str]) -> list[str]:
        async def call(path: str, body: Any, more: Mapping[str, str]) -> str:
            url, sent = f"{api.url}{path}", {**headers, **more}
            async with api.session.post(url, json=body, headers=sent) as answer:
                assert answer.status in {200, 202}, await answer.text()
                await answer.read()
                return answer.headers["x-usher-job"]

        return await asyncio.gather(*(call(*way) for way in WAYS.values()))

    async with running(tmp_path, config) as api:
        given = await answered(api, FIRST)
        await api.until(lambda jobs: not jobs)
    async with running(tmp_path, config) as api:
        again = await answered(api, AGAIN)
    assert len({*given, *again}) == 2 * len(WAYS)


async def test_a_retry_takes_an_open_job_rather_than_an_older_result(tmp_path: Path) -> None:
    """It would get the result of an earlier equal call, and its own job would be left to nobody."""
    async with running(tmp_path, BRISK) as api:
        await hang_up(api, "/chat/completions", CAT, until_running)
        await api.until(lambda jobs: not jobs)
        await hang_up(api, "/chat/completions", CAT, until_running)
        (mine,) = await api.open_jobs()
        assert await job_of(api, "/chat/completions", CAT, AGAIN) == str(mine.id)


async def test_a_restart_with_the_clock_ten_days_ahead_deletes_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All results would be gone within seconds, and waiting jobs would fail as if too old."""
    short = "retention: {days: 1}\n"
    async with running(tmp_path, BRISK + short) as api:
        answer = await api.post("/chat/completions", CAT)
        await asyncio.gather(*(api.post("/jobs", FOX, status=202) for _ in range(3)))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 10 * 24 * 3600.0)
    async with running(tmp_path, BRISK + short) as api:
        await api.until(lambda jobs: not jobs)
        found = {f"chatcmpl-{job.id}": job for job in await all_jobs(api)}
        assert [job.state for job in found.values()] == [JobState.COMPLETED] * 4
        assert await api.parts.queue.jobs.output(found[answer["id"]]) is not None
    assert "nothing expires or is deleted: the clock is days ahead" in caplog.text


async def test_a_key_belongs_to_one_request(api: Api) -> None:
    """A program that uses a key twice by mistake would get an answer to another question."""
    key = {"Idempotency-Key": "one"}
    await api.post("/chat/completions", CAT, headers=key)
    read = await api.post("/chat/completions", {**CAT, "temperature": 0.5}, headers=key, status=422)
    assert read["error"]["code"] == "idempotency_key_reused"
    assert read["error"]["type"] == "invalid_request_error"
    await api.post("/chat/completions", {**CAT, "user": "a field we drop"}, headers=key)
    assert len(await all_jobs(api)) == 1


EMBEDS = BRISK.replace(
    "chats:",
    "  hashing: {backends: [studio], capabilities: [embedding], load_s: 0.01, service_s: 0.5}\nchats:",
)


@pytest.mark.parametrize("restarts", [False, True])
async def test_embeddings_no_one_received_are_not_made_again(
    tmp_path: Path, *, restarts: bool
) -> None:
    """A batch would be computed twice, because no history lists it."""
    batch = {"model": "hashing", "input": ["a cat", "a dog"]}

    async def repeat(api: Api) -> None:
        for first in (True, False):
            async with api.session.post(
                f"{api.url}/embeddings", json=batch, headers=AGAIN
            ) as again:
                assert again.status == 200
                assert (again.headers["x-usher-job"] == str(job.id)) is first

    async with running(tmp_path, EMBEDS) as api:
        await hang_up(api, "/embeddings", batch, until_running)
        (job,) = await api.open_jobs()
        await api.until(lambda jobs: not jobs)
        if not restarts:
            await repeat(api)
    if restarts:
        async with running(tmp_path, EMBEDS) as api:
            await repeat(api)


KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/chat/completions", CAT),
    ("/responses", {"model": "llama", "input": "What is a cat?"}),
    ("/completions", {"model": "llama", "prompt": "A cat is"}),
    ("/images/generations", FOX),
)


async def test_the_key_of_a_call_that_hung_up_says_that_it_was_cancelled(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A program would learn neither why it gets no answer nor what to do, or would get a stream."""
    async with running(tmp_path, SLOW) as api:
        for (path, body), streamed in product(KINDS, (True, False)):
            with subtests.test(path, streamed=streamed):
                key = {"Idempotency-Key": f"{path} {streamed}"}
                job = await job_of(api, path, body, key)
                await api.until(lambda jobs: not jobs)
                read = await api.post(path, {**body, "stream": streamed}, headers=key, status=409)
                error = read["error"]
                assert f"job {job}" in error["message"]
                assert "new key" in error["message"]
                assert error["code"] == "cancelled"
                async with api.session.post(f"{api.url}{path}", json=body, headers=key) as again:
                    assert again.headers["x-should-retry"] == "false"


async def test_a_key_or_count_that_repeats_nothing_skips_no_check(tmp_path: Path) -> None:
    """Whatever a program sends would be fetched and decoded, even for a model that is unknown."""
    look = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = {"model": "none", "messages": [{"role": "user", "content": [look]}]}
    async with running(tmp_path, BRISK) as api:
        for headers in ({"Idempotency-Key": "one"}, {"x-stainless-retry-count": "1"}):
            await api.post("/chat/completions", asked, headers=headers, status=404)
