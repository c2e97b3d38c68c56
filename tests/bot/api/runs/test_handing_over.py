"""A stored result is handed to the waiting call; everything else reads it from the store."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from bot.api.calls.bodies import RESPONSE_PIECE, body_of, until_sent
from bot.api.runs.answers import LARGE, AnswerSender, WaitLimits
from bot.api.runs.attendance import Attendance
from bot.api.runs.runs import Run, Runs
from bot.http.files import AT_ONCE_EACH
from queueing.core.events import Produced
from queueing.core.jobs import Job, JobState, stand_in
from queueing.core.requests import Embed, File, Output
from tests.simulation.loop import in_virtual_time


def output(size: int) -> Output:
    return Output(files=(File(name="embeddings.b64", mime="application/base64", data=bytes(size)),))


SMALL, BIG = output(4), output(LARGE + 1)


class Stored:
    """A store that notes which results were read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    async def output(self, job: Job) -> Output:
        self.read.append(job.id)
        return BIG


def ended(number: int) -> Job:
    job = stand_in(number, "words", 0.0)
    return replace(job, request=Embed(inputs=("a",)), state=JobState.COMPLETED, owner="api:me")


def produced(runs: Runs, number: int, what: Output) -> Run:
    """Return the run of a job whose result was stored while a call waited for it."""
    job = ended(number)
    with runs.watch(replace(job, state=JobState.PROCESSING)) as (run, _):
        runs.on_event(Produced(job_id=number, output=what))
        run.job = job
        return run


def gateway() -> tuple[Runs, AnswerSender, Stored]:
    stored = Stored()
    queue = cast("Any", stored)
    runs = Runs(queue, queue)
    return runs, AnswerSender(runs, queue, queue, WaitLimits(), Attendance(queue)), stored


async def test_the_first_call_is_handed_the_result_and_the_others_read_it() -> None:
    """Reading back megabytes just stored would take as long as many servers need to make them."""
    runs, answering, stored = gateway()
    run = produced(runs, 1, BIG)
    assert await answering.output_of(run) is BIG
    assert (run.output, stored.read) == (None, [])
    await answering.output_of(run)
    assert stored.read == [1]


async def test_what_no_call_waits_for_is_not_kept() -> None:
    """Results that programs fetch later would fill the memory."""
    runs, answering, stored = gateway()
    with runs.watch(replace(ended(1), state=JobState.PROCESSING)) as (run, _):
        pass
    runs.on_event(Produced(job_id=1, output=BIG))
    run.job = ended(1)
    assert run.output is None
    await answering.output_of(run)
    assert stored.read == [1]


@in_virtual_time
async def test_no_result_is_kept_for_a_call_that_has_to_wait_its_turn() -> None:
    """Hundreds of calls that read nothing would each hold megabytes."""
    runs, answering, stored = gateway()
    free = asyncio.Event()

    async def call(number: int, what: Output) -> None:
        async with until_sent():
            await answering.output_of(produced(runs, number, what))
            await free.wait()

    calls = [asyncio.create_task(call(number, BIG)) for number in range(1, AT_ONCE_EACH + 1)]
    await asyncio.sleep(1)
    late = produced(runs, 9, BIG)
    async with until_sent():
        waiting = asyncio.create_task(answering.output_of(late))
        await asyncio.sleep(1)
        assert (late.output, waiting.done(), stored.read) == (None, False, [])
        assert await answering.output_of(produced(runs, 10, SMALL)) is SMALL
        free.set()
        assert await waiting is BIG
    await asyncio.gather(*calls)
    assert stored.read == [9]


@pytest.mark.parametrize("size", [1, RESPONSE_PIECE, 5 * RESPONSE_PIECE + 1])
async def test_a_large_body_arrives_whole(size: int) -> None:
    sent = bytes(range(256)) * (size // 256 + 1)

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body_of(sent[:size]), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/", answer)
    async with TestClient(TestServer(app)) as client:
        for method in ("GET", "HEAD"):
            async with client.request(method, "/") as response:
                assert response.headers["Content-Length"] == str(size)
                assert response.headers["Content-Type"] == "application/json"
                assert await response.read() == (sent[:size] if method == "GET" else b"")
