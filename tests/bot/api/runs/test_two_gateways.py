"""The API in two processes on one database: each job has one caller, and each webhook one call."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest

from bot.api.server import ApiServer
from bot.app import assembly
from bot.app.app import App, gateway_of
from bot.app.setup import BotSetup
from bot.app.supervisor import beside, keep_served
from bot.config import loader as configuration
from bot.people.api_keys import PLATFORM
from queueing.core.jobs import JobState, NewJob
from queueing.core.requests import TextToImage
from queueing.store.jobs.job_reader import StoredFiles
from queueing.store.sql.database import Database
from tests.bot.api.jobs.test_webhooks import Receiver, calling, listening
from tests.bot.api.runs.test_repeats import (
    AGAIN,
    BRISK,
    CAT,
    FIRST,
    SLOW,
    all_jobs,
    hang_up,
    job_of,
    until_running,
)
from tests.bot.api.whole_api import CONFIG, GRACE_S, WAIT_S, Api
from tests.bot.app.cluster.test_readers import origin
from tests.contracts.queue.two_processes import gone
from tests.contracts.store.store_harness import NO_LIMITS
from tests.fakes.linked_queue import SMALL, linked

pytest.importorskip("psycopg")

from queueing.store.postgres.lease_store import PostgresLeases  # an extra

CHAT = "/chat/completions"
LONG_S = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoApis:
    """The API of the process that holds the queue, and that of another, with its database.

    `start` starts one more process that serves the API.
    """

    one: Api
    other: Api
    database: Database
    start: Callable[[], Awaitable[Api]]

    async def crash(self) -> None:
        """Let the other process end without warning, as the database sees it."""
        await self.database.aclose()
        await gone(self.database.run, self.one.parts.database)


@asynccontextmanager
async def two_apis(url: str, text: str = CONFIG) -> AsyncIterator[TwoApis]:
    setup = BotSetup(configuration.parse(text, {}), database_url=url, grace_s=GRACE_S)
    async with AsyncExitStack() as stack:
        leases = PostgresLeases(url, process="one", lease_s=LONG_S)
        stack.push_async_callback(leases.aclose)
        lease = await leases.take("queue", address="")
        parts = await stack.enter_async_context(App(setup).running(lease=lease))
        await stack.enter_async_context(beside(parts.queue.run()))
        timeout = aiohttp.ClientTimeout(total=WAIT_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))

        async def serve(gateway: ApiServer | None) -> Api:
            assert gateway is not None
            async with asyncio.timeout(WAIT_S):
                await gateway.connected.wait()
            return Api(replace(parts, gateway=gateway), session, stack)

        async def start(database: Database) -> Api:
            files = StoredFiles(database)
            queue = await stack.enter_async_context(linked(parts.queue, files, reads=(PLATFORM,)))
            given = await setup.groundwork(database, queue)
            gateway = gateway_of(setup, given, assembly.admission(given))
            assert gateway is not None
            await stack.enter_async_context(beside(keep_served(gateway.run)))
            return await serve(gateway)

        async def start_another() -> Api:
            return await start(await setup.open_database(stack, shared=True))

        database = await setup.open_database(stack, shared=True)
        yield TwoApis(
            one=await serve(parts.gateway),
            other=await start(database),
            database=database,
            start=start_another,
        )


Which = Callable[[TwoApis], tuple[Api, Api]]
both_ways = pytest.mark.parametrize(
    "which",
    [
        pytest.param(lambda apis: (apis.one, apis.other), id="from-the-holder"),
        pytest.param(
            lambda apis: (apis.other, apis.one), id="to-the-holder", marks=pytest.mark.thorough
        ),
    ],
)


@both_ways
async def test_a_retry_at_another_process_takes_over_the_job(
    which: Which, postgres_url: str
) -> None:
    """The same request would be in the queue once for each process."""
    async with two_apis(postgres_url, SLOW) as apis:
        first, second = which(apis)
        await hang_up(first, CHAT, CAT, until_running)
        (job,) = await first.open_jobs()
        await _noted(apis.database, job.id, "left")
        assert await job_of(second, CHAT, CAT, AGAIN) == str(job.id)
        assert len(await all_jobs(first)) == 1


@both_ways
async def test_a_retry_does_not_take_the_job_of_a_caller_elsewhere(
    which: Which, postgres_url: str
) -> None:
    """Two callers would wait for one job, and the first that hangs up would end it for both."""
    async with two_apis(postgres_url, SLOW) as apis:
        first, second = which(apis)
        waiting = asyncio.create_task(first.post(CHAT, CAT, headers=FIRST))
        await until_running(first)
        (job,) = await first.open_jobs()
        assert await job_of(second, CHAT, CAT, AGAIN) != str(job.id)
        assert not waiting.done()
        (left,) = [each for each in await all_jobs(first) if each.id == job.id]
        assert left.state is JobState.PROCESSING
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_retry_after_a_crash_takes_over_the_job(postgres_url: str) -> None:
    """Whatever a process had accepted before it was killed would be done twice."""
    async with two_apis(postgres_url, BRISK) as apis:
        waiting = asyncio.create_task(apis.other.post(CHAT, CAT, headers=FIRST))
        await until_running(apis.other)
        (job,) = await apis.other.open_jobs()
        await apis.crash()
        answer = await apis.one.post(CHAT, CAT, headers=AGAIN)
        assert answer["id"] == f"chatcmpl-{job.id}"
        assert len(await all_jobs(apis.one)) == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@both_ways
async def test_a_caller_who_hangs_up_does_not_end_a_job_that_is_read_elsewhere(
    which: Which, postgres_url: str
) -> None:
    """A call with the same key on another machine would be told that its job was cancelled."""
    key = {"Idempotency-Key": "one"}
    async with two_apis(postgres_url, BRISK.replace("0.5", "1.5")) as apis:
        first, second = which(apis)
        begun = asyncio.create_task(first.post(CHAT, CAT, headers=key))
        await until_running(first)
        (job,) = await first.open_jobs()
        beside_it = asyncio.create_task(second.post(CHAT, CAT, headers=key))
        await _noted(apis.database, job.id, "here")
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        assert (await beside_it)["id"] == f"chatcmpl-{job.id}"


async def _noted(database: Database, job_id: int, state: str) -> None:
    """Wait until a process records how it attends to a job."""
    noted = "SELECT count(*) FROM attendance WHERE job_id = ? AND state = ?"
    values = (job_id, state)
    async with asyncio.timeout(WAIT_S):
        while not await database.read(lambda each: each.execute(noted, values).fetchone()[0]):
            pass  # the server has been asked by now


async def test_images_are_had_from_another_process_than_the_one_that_drew_them(
    postgres_url: str,
) -> None:
    """A large result would be lost on the way between processes, or only one could read it."""
    asked = {"model": "flux", "prompt": "a cat", "size": "1024x1024"}
    async with two_apis(postgres_url) as apis:
        whole = await apis.other.post("/images/generations", asked)
        *_, streamed = (await apis.other.stream("/images/generations", asked))[0]
        for answer in (whole["data"][0], streamed):
            assert len(base64.b64decode(answer["b64_json"])) > SMALL
        (job, _) = await all_jobs(apis.other)
        assert await apis.other.get(f"/jobs/{job.id}")


async def test_a_chats_job_is_followed_at_a_process_that_does_not_hold_the_chat(
    postgres_url: str,
) -> None:
    """A program would be shown how far an image is, but never a preview of it."""
    async with two_apis(postgres_url, BRISK) as apis:
        asked = NewJob(
            model="flux",
            request=TextToImage(prompt="a cat"),
            owner="api:local",
            key="telegram:1",
            reply_to=origin("telegram"),
        )
        job = await apis.one.parts.queue.submitter.submit(asked, limits=NO_LIMITS)
        events = await apis.other.events(f"/jobs/{job.id}/events")
        assert {"progress", "preview", "done"} <= {each["type"] for each in events}


async def test_a_process_that_starts_leaves_the_jobs_of_others_alone(postgres_url: str) -> None:
    """Every start would take jobs away from their callers, or cancel them."""
    async with two_apis(postgres_url, BRISK.replace("0.5", "1.5")) as apis:
        waiting = asyncio.create_task(apis.one.post(CHAT, CAT, headers=FIRST))
        await until_running(apis.one)
        (job,) = await apis.one.open_jobs()
        third = await apis.start()
        assert await job_of(third, CHAT, CAT, AGAIN) != str(job.id)
        assert (await waiting)["id"] == f"chatcmpl-{job.id}"


async def test_a_stream_that_is_joined_late_elsewhere_is_whole(postgres_url: str) -> None:
    """A caller who comes to another process would get half an answer as if it were whole."""
    key = {"Idempotency-Key": "one"}
    streamed = {**CAT, "stream": True}
    async with two_apis(postgres_url, BRISK.replace("0.5", "2")) as apis:
        url = f"{apis.one.url}{CHAT}"
        async with apis.one.session.post(url, json=streamed, headers=key) as first:
            await first.content.readuntil(b'"content":')
            third = await apis.start()
            url = f"{third.url}{CHAT}"
            async with third.session.post(url, json=streamed, headers=key) as second:
                said = _said(await second.text())
        (job,) = await all_jobs(apis.one)
        output = await apis.one.parts.queue.jobs.output(job)
        assert output is not None
        assert said == output.text


def _said(stream: str) -> str:
    lines = [line[6:] for line in stream.split("\n") if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    return "".join(delta.get("content") or "" for delta in deltas)


@both_ways
async def test_each_webhook_is_called_once(which: Which, postgres_url: str) -> None:
    """Each process would tell a program about the same end."""
    async with (
        listening(Receiver()) as receiver,
        two_apis(postgres_url, calling(receiver)) as apis,
    ):
        api, _ = which(apis)
        asked: dict[str, Any] = {"model": "flux", "prompt": "a fox", "webhook": receiver.url}
        told = set()
        for _ in range(3):
            await api.post("/jobs", asked, status=202)
            told.add((await receiver.next())[1]["id"])
        await api.until(lambda jobs: not jobs)
        assert len(told) == 3
        assert receiver.calls.empty()
