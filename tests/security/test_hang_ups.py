"""A person who hangs up at any point, or sends what nobody should, cannot fill the log."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from bot.app.cluster.queue_server import QueueServer, entrance_at
from bot.app.cluster.transport import PATH
from bot.platforms.web.platform import Web
from tests.bot.api.whole_api import Api, running
from tests.bot.platforms.web.web_client import opened
from tests.processes.installation import until
from tests.security.hostile_requests import Attacker, Place, found_routes, hang_ups
from tests.security.test_hostile_requests import WITH_PAGE, Bot, make
from tests.simulation.installation import Installation, host, image_model

AT_ONCE = 200
NAMES = {"file": "file-1", "job": "1", "number": "1", "name": "llama"}


async def page_address(api: Api) -> str:
    """Return the address of the page, once it is there."""
    (web,) = api.parts.platforms
    assert isinstance(web, Web)
    await web.connected.wait()
    return web.url


async def leave(attacker: Attacker, places: Sequence[Place], *, share: int = 1) -> None:
    """Visit places and hang up, at each point of a request and its answer.

    Each place gets one of `share` visits, and the next place the others.
    """
    visits = [
        (place, attack)
        for number, place in enumerate(places)
        for attack in hang_ups()[number % share :: share]
    ]
    for at in range(0, len(visits), AT_ONCE):
        await asyncio.gather(*(attacker.attack(*visit) for visit in visits[at : at + AT_ONCE]))


async def test_no_route_logs_a_visitor_who_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger would cause a megabyte of tracebacks with 400 handshakes."""
    with found_routes(monkeypatch) as places:
        async with running(tmp_path, WITH_PAGE) as api:
            assert api.parts.gateway is not None
            page = URL(await page_address(api)).port
            assert page
            attacker = Attacker(api=api.parts.gateway.port, page=page, headers={}, named=NAMES)
            caplog.set_level(logging.WARNING)
            await leave(attacker, places, share=4)
            await api.until(lambda jobs: not jobs)
    assert not caplog.records, caplog.text


async def test_frames_nobody_should_send_are_one_line_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A holder of any link would cause a line with each frame."""
    caplog.set_level(logging.INFO)
    async with running(tmp_path, WITH_PAGE) as api:
        for _ in range(5):
            async with opened(await page_address(api)) as tab:
                await tab.hello()
                for _ in range(5):
                    await tab.socket.send_str('{"kind": "nonsense"}')
                    await tab.next("refused")
    assert caplog.text.count("invalid frame") == 1


async def test_strangers_at_the_entrance_are_a_line_a_minute_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A person who reaches the port of the cluster would fill the log of the queue's process."""
    caplog.set_level(logging.INFO)
    installation = Installation.of([image_model("flux")], [host("gpu", "comfy")])

    async def here() -> str:
        return "127.0.0.1"

    async with (
        installation.queue() as queue,
        entrance_at(None, None, here, heartbeat_s=5.0) as entrance,
        entrance.admitting(QueueServer(queue, secret=b"secret" * 6)),
        aiohttp.ClientSession() as session,
    ):
        address = f"http://{entrance.address}{PATH}"
        for number in range(12):
            async with session.ws_connect(address) as socket:
                with suppress(ConnectionError):
                    if number % 3:
                        await socket.send_bytes(b"\1" + b"x" * (number % 3))
        port = int(entrance.address.rpartition(":")[2])
        attacker = Attacker(api=port, page=port, headers={}, named={})
        await leave(attacker, [Place(method="GET", path=PATH, is_api=True)])
        await asyncio.sleep(0.1)
    told = [each for each in caplog.records if each.name.startswith(("bot.app.cluster", "aiohttp"))]
    kinds = {(each.pathname, each.lineno) for each in told}
    assert len(told) == len(kinds) <= 5, caplog.text


@pytest.mark.thorough
async def test_the_real_process_logs_no_visitor_who_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the log as an operator has it, a stranger could fill the disk."""
    with found_routes(monkeypatch) as places:
        async with running(tmp_path, WITH_PAGE) as api:
            await api.get("/models")
    bot = Bot(make(tmp_path / "real"))
    await bot.start()
    try:
        before = bot.log_lines()
        attacker = Attacker(api=bot.port, page=bot.page, headers={}, named=NAMES)
        for _ in range(5):
            await leave(attacker, places)
        await until(lambda: bot.log_lines() == before, within_s=60.0)
    finally:
        await bot.kill()
