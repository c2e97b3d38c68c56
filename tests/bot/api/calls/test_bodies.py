"""The request bodies in memory are limited, per person and altogether."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from bot.api.calls import bodies
from bot.api.calls.bodies import A_PERSONS, COPIES, ROOM, SMALL, BodyMemory, HeldBody
from bot.api.calls.errors import ApiError
from bot.api.runs.answers import AnswerSender
from queueing.core.jobs import Job
from tests.bot.api.whole_api import WAIT_S, Api, running

MB = 1024 * 1024
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "hi" * 90_000}]}


async def filled(room: BodyMemory, person: str, size: int) -> HeldBody:
    body = HeldBody(room, person)
    await asyncio.wait_for(room.grow(body, size), WAIT_S)
    return body


async def waiting(room: BodyMemory, body: HeldBody) -> asyncio.Task[None]:
    """Begin to read more of a body for which there is no room."""
    task = asyncio.create_task(room.grow(body, 1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_body_waits_until_another_is_stored() -> None:
    """Fifty callers of 64 MB each would fill the machine's memory."""
    room = BodyMemory()
    first = await filled(room, "a", A_PERSONS)
    second = await filled(room, "b", ROOM - A_PERSONS)
    task = await waiting(room, second)
    await asyncio.wait_for(room.grow(first, A_PERSONS), WAIT_S)  # the oldest goes on
    room.release(first)
    await asyncio.wait_for(task, WAIT_S)


async def test_one_person_leaves_room_for_others() -> None:
    """A program that never completes its requests would stop everyone's images."""
    room = BodyMemory()
    await filled(room, "a", A_PERSONS)
    greedy = HeldBody(room, "a")
    await room.grow(greedy, SMALL)
    task = await waiting(room, greedy)
    await filled(room, "b", ROOM - A_PERSONS - SMALL - 1)
    task.cancel()


async def test_small_bodies_never_wait_and_a_large_one_is_refused_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An ordinary question would wait behind images."""
    monkeypatch.setattr(bodies, "WAIT_S", 0.01)
    room = BodyMemory()
    await filled(room, "a", ROOM)
    await filled(room, "b", SMALL)
    late = HeldBody(room, "b")
    with pytest.raises(ApiError) as refused:
        await room.grow(late, SMALL + 1)
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "5")
    room.release(late)
    room.release(late)
    await filled(room, "b", SMALL)


async def test_what_is_made_of_a_large_text_takes_room_until_it_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ten texts of 7 MB at once took 300 MB, although their bodies were within the limit."""
    released: list[int] = []
    release = BodyMemory.release

    def forgotten(room: BodyMemory, body: HeldBody) -> None:
        released.append(body.size)
        release(room, body)

    monkeypatch.setattr(BodyMemory, "release", forgotten)
    async with running(tmp_path) as api:
        for words, copies in (("hi" * 90_000, COPIES), ("hi", 0)):
            released.clear()
            asked = {**CHAT, "messages": [{"role": "user", "content": words}]}
            body = json.dumps(asked).encode()
            headers = {"Content-Type": "application/json"}
            url = f"{api.url}/chat/completions"
            async with api.session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 200
            assert released[0] == len(body) * (1 + copies)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("chat/completions", lambda words: {"messages": [{"role": "user", "content": words}]}),
        ("completions", lambda words: {"prompt": words}),
        ("fim/completions", lambda words: {"prompt": words}),
        ("responses", lambda words: {"input": words}),
    ],
)
async def test_a_caller_who_waits_holds_nothing_of_a_stored_request(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    path: str,
    asked: Callable[[str], dict[str, object]],
    streams: bool,
) -> None:
    """Hundreds of callers wait for minutes: with a conversation each they would fill the memory."""
    held: list[str] = []

    async def waiting_now(
        self: AnswerSender, request: web.Request, job: Job, _: object
    ) -> web.Response:
        with self.runs.watch(job) as (run, _news):
            held.append(repr((sys._getframe(1).f_locals, job, run.job)))
        return web.Response()

    monkeypatch.setattr(AnswerSender, "stream" if streams else "whole", waiting_now)
    async with running(tmp_path) as api:
        body = {"model": "llama", "stream": streams, **asked("long " * 20_000)}
        async with api.session.post(f"{api.url}/{path}", json=body) as answer:
            assert answer.status == 200, await answer.text()
    (found,) = held
    assert len(found) < 20_000, found[:3_000]


async def test_unfinished_requests_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a body is counted after its request, and every unfinished request counts."""
    monkeypatch.setattr(bodies, "ROOM", 200_000)
    monkeypatch.setattr(bodies, "WAIT_S", 0.05)
    refused = asyncio.Event()

    async def in_halves() -> AsyncIterator[bytes]:
        body = json.dumps(CHAT).encode()
        yield body[:150_000]
        await refused.wait()
        yield body[150_000:]

    async def call(api: Api) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"}
        url = f"{api.url}/chat/completions"
        async with api.session.post(url, data=in_halves(), headers=headers) as answer:
            refused.set()
            return answer.status, await answer.text()

    async with running(tmp_path) as api:
        for _ in range(2):
            refused.clear()
            answers = await asyncio.wait_for(asyncio.gather(call(api), call(api)), WAIT_S)
            assert sorted(status for status, _ in answers) == [200, 503], answers
