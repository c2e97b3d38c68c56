"""Webhooks: signed calls at the end of a job, only to listed origins, and never lost."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from aiohttp import web

from bot.api.jobs import webhook_calls
from bot.api.jobs.webhook_calls import AT_ONCE
from tests.bot.api.calls.test_keys import CLOSED, bearer, new_key, page_of
from tests.bot.api.jobs.test_jobs import CHAT, DRAW, SLOW, done
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running

if TYPE_CHECKING:
    from queueing.core.jobs import Job


class Receiver:
    """A program that receives calls; it answers with a status for each call, then with 204."""

    def __init__(self, *statuses: int, location: str = "") -> None:
        self.calls: asyncio.Queue[tuple[Mapping[str, str], bytes]] = asyncio.Queue()
        self.hangs = False
        self.open = 0
        self.most_open = 0
        self.url = ""
        self._statuses = list(statuses)
        self._location = location

    async def next(self) -> tuple[Mapping[str, str], Any]:
        async with asyncio.timeout(WAIT_S):
            headers, body = await self.calls.get()
        return headers, json.loads(body)

    async def take(self, request: web.Request) -> web.Response:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            self.calls.put_nowait((request.headers, await request.read()))
            if self.hangs:
                await asyncio.get_running_loop().create_future()
        finally:
            self.open -= 1
        status = self._statuses.pop(0) if self._statuses else 204
        return web.Response(status=status, headers={"Location": self._location})


@asynccontextmanager
async def listening(receiver: Receiver) -> AsyncIterator[Receiver]:
    app = web.Application()
    app.router.add_post("/{path:.*}", receiver.take)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = site.name
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


def calling(*receivers: Receiver, text: str = CONFIG) -> str:
    """Return a configuration in which these origins may be called."""
    return f"{text.rstrip()}\n  webhooks: [{', '.join(each.url for each in receivers)}]\n"


class Acknowledged:
    """The jobs whose end was acknowledged."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[int] = asyncio.Queue()

    async def next(self) -> int:
        async with asyncio.timeout(WAIT_S):
            return await self.jobs.get()


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> Acknowledged:
    told = Acknowledged()
    before = webhook_calls.JobEndings._acknowledge

    async def after(self: webhook_calls.JobEndings) -> set[int]:
        gone = await before(self)
        for number in sorted(gone):
            told.jobs.put_nowait(number)
        return gone

    monkeypatch.setattr(webhook_calls.JobEndings, "_acknowledge", after)
    monkeypatch.setattr(webhook_calls, "PAUSES_S", (0.0,))
    monkeypatch.setattr(webhook_calls, "TOGETHER_S", 0.0)
    return told


def verified(body: bytes, headers: Mapping[str, str], secret: str) -> Any:
    """Return the event of a call, as docs/api.md shows it. Raises `ValueError`."""
    (line,) = [text for text in DOCS.split("```python\n")[1:] if "webhook-signature" in text]
    names: dict[str, Any] = {}
    exec(line.split("```")[0], names)
    return names["verified"](body, headers, secret)


DOCS = (Path(__file__).parents[4] / "docs" / "api.md").read_text()


async def test_the_end_of_a_job_is_called_out(tmp_path: Path, acknowledged: Acknowledged) -> None:
    """A program would have to poll until its job has ended."""
    async with (
        listening(Receiver()) as program,
        running(tmp_path, calling(program, text=CLOSED)) as api,
    ):
        mine = bearer(await new_key(await page_of(api)))
        async with api.session.get(f"{api.url}/webhooks", headers=mine) as answer:
            told = await answer.json()
            assert answer.headers["Cache-Control"] == "no-store"
        assert told["origins"] == [program.url]
        body = {**CHAT, "webhook": f"{program.url}/in?token=t0ken#part"}
        job = await api.post("/jobs", body, status=202, headers=mine)
        headers, event = await program.next()
        assert event["type"] == "job.completed"
        assert event["id"] == headers["webhook-id"] == f"job-{job['id']}"
        assert event["data"]["url"] == f"/v1/jobs/{job['id']}"
        assert event["data"]["finished_at"].endswith("Z")
        raw = json.dumps(event, separators=(",", ":")).encode()
        assert verified(raw, headers, told["secret"]) == event
        client = openai.OpenAI(api_key="none")
        client.webhooks.verify_signature(raw, dict(headers), secret=told["secret"])
        for wrong in (raw.replace(b"completed", b"cancelled"), raw + b" "):
            with pytest.raises(ValueError, match="signature"):
                verified(wrong, headers, told["secret"])
        assert "cat" not in raw.decode()
        assert await acknowledged.next() == job["id"]


async def test_each_key_has_a_secret_of_its_own(tmp_path: Path) -> None:
    """A person with a key could sign calls that another person's program trusts."""
    async with running(tmp_path, CLOSED) as api:
        page = await page_of(api)
        keys = [bearer(await new_key(page, more)) for more in ("", "", "n8n --service")]
        secrets = []
        for key in keys + keys[:1]:
            async with api.session.get(f"{api.url}/webhooks", headers=key) as answer:
                secrets.append((await answer.json())["secret"])
        await api.get("/webhooks", status=401)
    assert len(set(secrets)) == 3
    assert secrets[0] == secrets[-1]
    assert all(len(base64.b64decode(each.removeprefix("whsec_"))) == 32 for each in secrets)


async def test_a_cancelled_job_is_called_out(tmp_path: Path, acknowledged: Acknowledged) -> None:
    """A program would wait for a job that an admin has cancelled."""
    async with (
        listening(Receiver()) as program,
        running(tmp_path, calling(program, text=SLOW)) as api,
    ):
        job = await api.post("/jobs", {**DRAW, "webhook": program.url}, status=202)
        await api.session.delete(f"{api.url}/jobs/{job['id']}")
        _, event = await program.next()
        assert event["type"] == "job.cancelled"
        assert await acknowledged.next() == job["id"]


OTHERS = (
    "{scheme}://{host}:1/x",
    "https://{host}:{port}/x",
    "{scheme}://localhost:{port}/x",
    "{scheme}://{host}.:{port}/x",
    "{scheme}://{host}:{port}@evil.example/x",
    "{scheme}://user@{host}:{port}/x",
    "{scheme}://:secret@{host}:{port}/x",
    "{scheme}://evil.example\\@{host}:{port}/x",
    "{scheme}://{host}:{port}\t.evil.example/x",
    "//{host}:{port}/x",
    "ftp://{host}:{port}/x",
    "http://[::ffff:{host}]:{port}/x",
    "http://0x7f000001:{port}/x",
    "http://2130706433:{port}/x",
    "file:///etc/passwd",
    "nonsense",
    "",
)


async def test_no_other_origin_is_called(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A caller could make the bot call what only the bot can reach."""
    async with listening(Receiver()) as program, running(tmp_path, calling(program)) as api:
        for address in OTHERS:
            with subtests.test(address):
                host, port = program.url.removeprefix("http://").split(":")
                webhook = address.format(scheme="http", host=host, port=port)
                refused = await api.post("/jobs", {**CHAT, "webhook": webhook}, status=400)
                assert refused["error"]["param"] == "webhook"
                assert not await api.open_jobs()


async def test_without_a_list_nothing_is_called(api: Api) -> None:
    """A caller could choose an address although the operator allowed none."""
    body = {**CHAT, "webhook": "https://example.com/"}
    assert (await api.post("/jobs", body, status=400))["error"]["param"] == "webhook"


async def test_a_redirect_is_not_followed(
    tmp_path: Path, acknowledged: Acknowledged, caplog: pytest.LogCaptureFixture
) -> None:
    """A listed program could send the bot where it must not go."""
    caplog.set_level(logging.INFO)
    async with (
        listening(Receiver()) as other,
        listening(Receiver(307, location=other.url)) as program,
        running(tmp_path, calling(program)) as api,
    ):
        job = await api.post("/jobs", {**CHAT, "webhook": f"{program.url}/t0ken"}, status=202)
        first, second = await program.next(), await program.next()
        assert await acknowledged.next() == job["id"]
        assert other.calls.empty()
    assert first[0]["webhook-id"] == second[0]["webhook-id"]
    assert first[1] == second[1]
    assert "status 307" in caplog.text
    assert "t0ken" not in caplog.text


async def test_a_program_that_is_away_is_called_after_a_restart(
    tmp_path: Path, acknowledged: Acknowledged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the end of a job and the call would lose the call."""
    monkeypatch.setattr(webhook_calls, "PAUSES_S", (3600.0,))
    async with listening(Receiver(503)) as program:
        async with running(tmp_path, calling(program)) as api:
            job = await api.post("/jobs", {**CHAT, "webhook": program.url}, status=202)
            first, _ = await program.next()
        async with running(tmp_path, calling(program)):
            second, event = await program.next()
            assert await acknowledged.next() == job["id"]
        assert first["webhook-id"] == second["webhook-id"] == event["id"]
        async with running(tmp_path, calling(program)) as api:
            await done(api, await api.post("/jobs", CHAT, status=202))
            await acknowledged.next()
        assert program.calls.empty()


async def test_a_call_is_given_up_in_the_end(
    tmp_path: Path,
    acknowledged: Acknowledged,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A program that is gone would be called forever, and its jobs kept."""
    monkeypatch.setattr(webhook_calls, "END_S", -1.0)
    async with listening(Receiver(500)) as program, running(tmp_path, calling(program)) as api:
        job = await api.post("/jobs", {**CHAT, "webhook": program.url}, status=202)
        await program.next()
        assert await acknowledged.next() == job["id"]
    assert program.calls.empty()
    assert "giving up on its webhook" in caplog.text
    assert "status 500" in caplog.text


async def test_a_gone_address_is_called_once(tmp_path: Path, acknowledged: Acknowledged) -> None:
    """A program could not withdraw its address."""
    async with listening(Receiver(410)) as program, running(tmp_path, calling(program)) as api:
        job = await api.post("/jobs", {**CHAT, "webhook": program.url}, status=202)
        await program.next()
        assert await acknowledged.next() == job["id"]
        assert program.calls.empty()


async def test_an_origin_taken_off_the_list_is_not_called(
    tmp_path: Path, acknowledged: Acknowledged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's list would not apply to jobs accepted before it changed."""
    monkeypatch.setattr(webhook_calls, "PAUSES_S", (3600.0,))
    async with listening(Receiver(503)) as program, listening(Receiver()) as other:
        async with running(tmp_path, calling(program)) as api:
            job = await api.post("/jobs", {**CHAT, "webhook": program.url}, status=202)
            await program.next()
        async with running(tmp_path, calling(other)):
            assert await acknowledged.next() == job["id"]
        assert program.calls.empty()


async def test_a_program_that_hangs_delays_no_other(
    tmp_path: Path, acknowledged: Acknowledged
) -> None:
    """One program that does not answer would keep all others waiting."""
    async with (
        listening(Receiver()) as slow,
        listening(Receiver()) as quick,
        running(tmp_path, calling(slow, quick)) as api,
    ):
        slow.hangs = True
        hanging = [
            await api.post("/jobs", {**CHAT, "webhook": slow.url}, status=202)
            for _ in range(AT_ONCE + 2)
        ]
        for job in hanging:
            await done(api, job)
        for _ in range(AT_ONCE):
            await slow.next()
        job = await api.post("/jobs", {**CHAT, "webhook": quick.url}, status=202)
        await quick.next()
        assert await acknowledged.next() == job["id"]
        assert slow.most_open == AT_ONCE


async def test_a_forgotten_job_calls_nothing(
    tmp_path: Path, acknowledged: Acknowledged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person has deleted would still be sent."""
    monkeypatch.setattr(webhook_calls, "PAUSES_S", (0.2,))
    async with listening(Receiver(500)) as program, running(tmp_path, calling(program)) as api:
        job = await api.post("/jobs", {**CHAT, "webhook": program.url}, status=202)
        await program.next()
        await api.parts.queue.erasure.forget("api:local", frozenset({job["id"]}))
        assert await acknowledged.next() == job["id"]
        assert program.calls.empty()


async def test_a_program_that_only_asks_leaves_nothing_behind(
    api: Api, acknowledged: Acknowledged
) -> None:
    """Undelivered jobs are kept, so those of programs that only poll would fill the disk."""
    jobs = [await api.post("/jobs", CHAT, status=202) for _ in range(3)]
    told = {await acknowledged.next() for _ in jobs}
    assert told == {job["id"] for job in jobs}
    left: list[Job] = await api.parts.queue.deliveries.unacknowledged("api:local")
    assert left == []


def test_an_old_call_is_not_believed() -> None:
    """A recorded call could be sent again much later."""
    secret = "whsec_" + base64.b64encode(b"s" * 32).decode()
    stamp = str(int(time.time()) - 3600)
    signed = hmac.digest(b"s" * 32, f"job-1.{stamp}.{{}}".encode(), hashlib.sha256)
    headers = {
        "webhook-id": "job-1",
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
    with pytest.raises(ValueError, match="old"):
        verified(b"{}", headers, secret)
