"""An orderly stop of the bot: every open call is told, and its job is kept for a retry."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.api.runs import answers
from queueing.core.events import EventsMissed
from tests.bot.api.response_api import HELLO
from tests.bot.api.scripted import piece, scripted, soon
from tests.bot.api.whole_api import CONFIG, WAIT_S, check, check_streamed, running

HASHING = """  hashing:
    backends: [studio]
    capabilities: [embedding]
    parallel: 1
    service_s: 60
"""
MANY = "limits: {open_per_person: 50, queued_per_person: 50}\n"
SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60").replace("chats:", HASHING + "chats:")
SLOW += MANY
CAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
KEY = {"Idempotency-Key": "mine"}
BODIES: Mapping[str, Any] = {
    "/chat/completions": CAT,
    "/responses": {"model": "llama", "input": "What is a cat?"},
    "/completions": {"model": "llama", "prompt": "A cat is"},
    "/fim/completions": {"model": "llama", "prompt": "A cat is", "suffix": "."},
    "/embeddings": {"model": "hashing", "input": "A cat."},
    "/images/generations": {"model": "flux", "prompt": "a fox"},
}


def key_of(path: str) -> Mapping[str, str]:
    """Return the key of the one call of a path: a key belongs to one request."""
    return {"Idempotency-Key": path}


class Call:
    """One call whose program stays until the very end."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.headers: Mapping[str, str] = {}
        self.status = 0
        self.text = ""

    async def make(
        self, url: str, body: Any, headers: Mapping[str, str], method: str = "POST"
    ) -> None:
        timeout = aiohttp.ClientTimeout(total=WAIT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, json=body, headers=headers) as answer,
        ):
            self.status, self.headers = answer.status, answer.headers
            async for data in answer.content.iter_any():
                self.text += data.decode()
                self.heard.set()

    @property
    def events(self) -> list[Any]:
        """Return the data lines of a stream."""
        lines = [line[6:] for line in self.text.split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_a_stream_that_waits_ends_with_an_error(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Every client that was tried regards a stream that just closes as a complete answer."""
    bodies = {p: {**body, "stream": True} for p, body in BODIES.items() if p != "/embeddings"}
    made = {path: (Call(), Call()) for path in bodies}
    async with asyncio.TaskGroup() as calls, running(tmp_path, SLOW) as api:
        for path, (running_one, waiting) in made.items():
            calls.create_task(running_one.make(f"{api.url}{path}", bodies[path], {}))
            calls.create_task(waiting.make(f"{api.url}{path}", bodies[path], key_of(path)))
        await api.until(lambda jobs: len(jobs) == 2 * len(made))
    for path, both in made.items():
        for call in both:
            with subtests.test(path):
                assert call.status == 200
                told = call.events[-1]
                assert told["error"]["code"] == "stopping"
                assert f"/v1/jobs/{call.headers['x-usher-job']}" in told["error"]["message"]
                for event in call.events:
                    check_streamed(path, event)
    assert made["/responses"][1].events[-2]["type"] == "response.failed"
    async with running(tmp_path, SLOW) as api:
        assert len(await api.open_jobs()) == 2 * len(made)
        for path, (_, waiting) in made.items():
            with subtests.test(path, after="a restart"):
                url = f"{api.url}{path}"
                async with api.session.post(url, json=bodies[path], headers=key_of(path)) as again:
                    assert again.headers["x-usher-job"] == waiting.headers["x-usher-job"]


async def test_an_answer_cut_in_the_middle_ends_with_an_error(tmp_path: Path) -> None:
    """Half an answer would be stored as the whole, or its job would end when the bot stops."""
    call = Call()
    async with (
        asyncio.TaskGroup() as calls,
        scripted(tmp_path, (*HELLO, "hold")) as (api, server),
    ):
        url = f"{api.url}/chat/completions"
        calls.create_task(call.make(url, {**CAT, "stream": True}, {}))
        await soon(server.held)
        await soon(call.heard)
    assert call.events[-1]["error"]["code"] == "stopping"
    async with scripted(tmp_path, (*HELLO, "hold")) as (api, server):
        (job,) = await api.open_jobs()
        assert str(job.id) == call.headers["x-usher-job"]


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
async def test_an_answer_that_another_process_goes_on_with_is_kept(
    path: str, tmp_path: Path
) -> None:
    """When the queue moves, a partly sent stream would cancel its own job."""
    call, body = Call(), {**BODIES[path], "stream": True}
    script = (*HELLO, "hold", piece("stop"))
    async with scripted(tmp_path, script) as (api, server):
        calling = asyncio.create_task(call.make(f"{api.url}{path}", body, KEY))
        await soon(server.held)
        while "Hel" not in call.text:
            call.heard.clear()
            await soon(call.heard)
        api.parts.queue.events.publish(EventsMissed())
        await calling
        assert call.events[-1]["error"]["code"] == "stopping"
        server.go.set()
        async with api.session.post(f"{api.url}{path}", json=body, headers=KEY) as again:
            assert (again.status, again.headers["x-usher-job"]) == (
                200,
                call.headers["x-usher-job"],
            )
            assert "stopping" not in await again.text()


async def test_a_call_that_does_not_stream_gets_503(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A broken connection names no job, and does not say when to try again."""
    made = {path: Call() for path in BODIES}
    async with asyncio.TaskGroup() as calls, running(tmp_path, SLOW) as api:
        for path, call in made.items():
            calls.create_task(call.make(f"{api.url}{path}", BODIES[path], key_of(path)))
        await api.until(lambda jobs: len(jobs) == len(made))
    for path, call in made.items():
        with subtests.test(path):
            assert call.status == 503
            assert 1 <= int(call.headers["Retry-After"]) <= 60
            assert "x-should-retry" not in call.headers
            body = json.loads(call.text)
            check("POST", path, 503, body)
            assert body["error"]["code"] == "stopping"
    async with running(tmp_path, SLOW) as api:
        kept = {str(job.id) for job in await api.open_jobs()}
        assert kept == {call.headers["x-usher-job"] for call in made.values()}


async def test_a_call_with_its_headers_sent_gets_the_error_in_its_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body of white space alone is no JSON, and a client could only report that."""
    monkeypatch.setattr(answers, "SPACE_EVERY_S", 0.05)
    call = Call()
    config = SLOW.replace("open: true", "open: true\n  hold_s: 1")
    async with asyncio.TaskGroup() as calls, running(tmp_path, config) as api:
        calls.create_task(call.make(f"{api.url}/chat/completions", CAT, {}))
        await soon(call.heard)
    assert call.status == 200
    assert json.loads(call.text)["error"]["code"] == "stopping"


async def test_the_events_of_a_job_go_on_after_a_restart(tmp_path: Path) -> None:
    """A last event without an end would mean that the job is done."""
    call = Call()
    async with asyncio.TaskGroup() as calls, running(tmp_path, SLOW) as api:
        job = await api.post("/jobs", {"model": "flux", "prompt": "a fox"}, status=202)
        calls.create_task(call.make(f"{api.url}/jobs/{job['id']}/events", None, {}, "GET"))
        await soon(call.heard)
    assert "done" not in {event["type"] for event in call.events}
