"""No request to any route can freeze the bot, fill its memory or its log."""

import asyncio
import io
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image
from yarl import URL

from bot.platforms.web.platform import Web
from tests.bot.api.calls.test_keys import Page, bearer, new_key, page_of
from tests.bot.api.jobs.test_jobs import DRAW
from tests.bot.api.whole_api import CONFIG, running
from tests.bot.platforms.web.web_client import opened
from tests.fakes.ports import port_of
from tests.processes.bot_process import BotProcess
from tests.processes.installation import until
from tests.security.hostile_requests import FULL, QUICK, Attacker, attacks, found_routes

WITH_PAGE = CONFIG.replace("chats: {}", "chats: {web: {port: 0}}\nadmins: [web:local]")
STALL_S = 0.5  # of the processor, between two turns of the loop
GROWN_MB = 150
TRIES = 3


class Watch:
    """What the process does while a block runs: its longest stall and how much it grows."""

    def __init__(self) -> None:
        self.stall_s = 0.0
        self.grown_mb = 0.0
        self._began_mb = memory_mb()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Watch"]:
        watching = asyncio.create_task(self._watch())
        try:
            yield self
            await asyncio.sleep(0.006)  # for a last look
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        used = time.thread_time()
        while True:
            await asyncio.sleep(0.005)
            now = time.thread_time()
            self.stall_s, used = max(self.stall_s, now - used), now
            self.grown_mb = max(self.grown_mb, memory_mb() - self._began_mb)


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def noise(side: int) -> bytes:
    """Return an image that no compression makes smaller."""
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(3 * side * side)).save(file, "PNG")
    return file.getvalue()


async def stored(session: aiohttp.ClientSession, url: str, side: int) -> dict[str, str]:
    """Store what routes with a name need: a file, and a job with a result; return their names."""
    form = aiohttp.FormData({"purpose": "vision"}, default_to_multipart=True)
    form.add_field("file", io.BytesIO(noise(side)), filename="noise.png")
    async with session.post(f"{url}/files", data=form) as answer:
        upload = await answer.json()
    async with session.post(f"{url}/jobs", json=DRAW) as answer:
        job = await answer.json()
    async with session.get(f"{url}/jobs/{job['id']}?wait=60") as answer:
        assert (await answer.json())["state"] == "completed"
    return {"file": upload["id"], "job": str(job["id"]), "number": "1", "name": "llama"}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
async def test_no_route_stalls_grows_or_floods_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One request of a kilobyte froze the bot for minutes; another crashed it."""
    with found_routes(monkeypatch) as places:
        async with running(tmp_path, WITH_PAGE) as api:
            page = await page_of(api)
            neighbour = bearer(await new_key(page))
            names = await stored(api.session, api.url, side=600)
            assert api.parts.gateway is not None
            (web,) = api.parts.platforms
            assert isinstance(web, Web)
            attacker = Attacker(
                api=api.parts.gateway.port,
                page=URL(web.url).port or 0,
                headers={},
                named=names,
            )
            assert len(places) > 40
            caplog.set_level(logging.WARNING)
            all_attacks = attacks(QUICK)
            for place in places:
                if place.method == "HEAD":
                    continue  # the handlers are those of GET
                caplog.clear()
                async with Watch().running() as watch:
                    statuses = await asyncio.gather(
                        *(attacker.attack(place, attack) for _, attack in all_attacks)
                    )
                what = f"{place.method} {place.path}: {statuses}"
                assert 500 not in chain.from_iterable(statuses), what
                assert watch.stall_s < STALL_S, what
                assert watch.grown_mb < GROWN_MB, what
                assert len(caplog.records) <= 1, (what, caplog.text)
                attacker.close()
                async with api.session.get(f"{api.url}/models", headers=neighbour) as answer:
                    assert answer.status == 200, place


class Bot(BotProcess):
    """The real process, with its API and page at two ports, and its use of the machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.page = port_of(self)
        self._folder = folder
        text = WITH_PAGE.replace("web: {port: 0}", f"web: {{port: {self.page}}}")
        self.configure(text.replace("api:\n  port: 0", f"api:\n  port: {self.port}"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def memory_mb(self, name: str = "VmRSS") -> float:
        """Return its memory in MB; with `VmHWM`, the most it had."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return float(status.split(f"{name}:")[1].split()[0]) / 1000

    def forget_peak(self) -> None:
        """Start to measure the most memory anew."""
        assert self._process is not None
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def log_lines(self) -> int:
        """Return the number of lines, except those about jobs, which a person may submit."""
        lines = self._log.read_text().splitlines()
        return sum(" INFO " not in line for line in lines)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
async def test_the_real_process_serves_others_meanwhile_and_gives_memory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, a hundred times as large; the neighbour is another person with a key."""
    with found_routes(monkeypatch) as places:
        async with running(tmp_path, WITH_PAGE) as api:
            await page_of(api)
    bot = Bot(make(tmp_path / "real"))
    await bot.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            opened(f"http://127.0.0.1:{bot.page}/") as tab,
        ):
            await tab.hello()
            key = bearer(await new_key(Page(tab)))
            names = await stored(session, bot.url, side=2400)
            attacker = Attacker(api=bot.port, page=bot.page, headers={}, named=names)
            all_attacks = attacks(FULL)
            for place in [each for each in places if each.method != "HEAD"]:
                for name, attack in all_attacks:
                    what = f"{name}: {place.method} {place.path}"
                    lines = bot.log_lines()
                    bot.forget_peak()
                    for _ in range(TRIES):  # the machine may have other work, but not each time
                        attacking = asyncio.create_task(attacker.attack(place, attack))
                        if await slowest_s(session, f"{bot.url}/models", key, attacking) < 1.0:
                            break
                    else:
                        pytest.fail(f"{what}: others waited each time")
                    assert bot.memory_mb("VmHWM") < 400, what
                    assert bot.log_lines() <= lines + 1, what
                attacker.close()
            await until(lambda: bot.memory_mb() < 200, within_s=60.0)
    finally:
        await bot.kill()


async def slowest_s(
    session: aiohttp.ClientSession, url: str, key: dict[str, str], meanwhile: asyncio.Task[Any]
) -> float:
    """Return how many seconds the slowest call took while something else was going on."""
    slowest = 0.0
    while not meanwhile.done():
        began = time.monotonic()
        async with session.get(url, headers=key) as answer:
            assert answer.status == 200
        slowest = max(slowest, time.monotonic() - began)
        await asyncio.sleep(0.05)
    await meanwhile
    return slowest


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder
