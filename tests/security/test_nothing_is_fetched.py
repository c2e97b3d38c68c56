"""Addresses that people write or servers answer are only text: the bot never opens them."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from backends.comfyui.progress import Watch
from backends.common.http import Http
from backends.common.http_replies import HttpFailed
from backends.common.websocket import listener
from queueing.core.errors import Unavailable
from tests.fakes.telegram.telegram import FakeTelegram
from tests.security.bots import on_telegram


class Bait:
    """A server that no one has a reason to ask."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.Response(text="gotcha")


@pytest.fixture
async def bait() -> AsyncIterator[Bait]:
    bait, app = Bait(), web.Application()
    app.router.add_route("*", "/{path:.*}", bait.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    bait.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield bait
    await runner.cleanup()


async def test_no_server_sends_us_elsewhere(bait: Bait) -> None:
    """A server could make the bot call what only the bot can reach, with its credentials."""
    status = 0

    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"{bait.url}{request.path}"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", elsewhere)
    async with TestServer(app) as server:
        for status in (301, 302, 303, 307, 308):
            await ask_in_every_way(server)
            assert bait.asked == [], status


async def ask_in_every_way(server: BaseTestServer) -> None:
    """Make all calls that the bot makes to servers; every answer is a failure."""
    http = Http(str(server.make_url("/")), headers={"Authorization": "Bearer canary"})
    with pytest.raises(HttpFailed):
        await http.get_json("/object_info")
    with pytest.raises(HttpFailed):
        await http.post_json("/prompt", {})
    with pytest.raises(HttpFailed):
        async with http.stream_lines("/v1/chat/completions", {}, read_s=5):
            pass
    with pytest.raises(Unavailable):
        async with http.talk("/API/GenerateText2ImageWS", {}, silence_s=5):
            pass
    await http.aclose()
    async with listener({"Authorization": "Bearer canary"}) as session:
        watch = Watch(server.make_url("/ws"), "key", {}, lambda _: None)
        with pytest.raises(aiohttp.ClientError):
            await watch._receive(session)


async def test_no_address_a_person_writes_is_opened(bait: Bait, tmp_path: Path) -> None:
    """People could make the bot call servers that only it can reach, or reveal where it runs."""
    lines = [
        f"/image flux {bait.url}/cat.png",
        f"/image flux cat --negative {bait.url}/negative",
        f"/image flux cat --style {bait.url}/style",
        f"/image flux cat --lora {bait.url}/lora",
        f"/ask llama ![x]({bait.url}/markdown) <img src={bait.url}/html>",
        f"/ask llama [link]({bait.url}/link) file:///etc/passwd",
        f"/settings --image {bait.url}/settings",
        f"{bait.url}/alone",
        f"/{bait.url}/command",
    ]
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path):
        people = [fake.person(7 + number) for number in range(len(lines))]
        for person, line in zip(people, lines, strict=True):  # none waits for another's chat
            person.says(line)
        for person, line in zip(people, lines, strict=True):
            if line.startswith("/") and not line.startswith("/http"):
                await fake.wait_for(lambda chat=person.chat: chat.from_bot)  # type: ignore[misc]
        shown = [message for person in people for message in person.chat.from_bot]
        await fake.wait_for(
            lambda: "Cancel" not in [b.label for m in shown for b in m.buttons], timeout_s=60
        )
        await fake.quiet()
        said = "".join(each.shown for person in people for each in person.chat.from_bot)
    assert "gotcha" not in said
    assert "root:" not in said
    assert bait.asked == []
