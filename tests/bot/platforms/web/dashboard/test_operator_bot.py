"""The operator's page of a whole bot with a crowd of thirty: what it shows and does is true."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.cli.demo.crowd import Crowd
from bot.cli.demo.demo import demo_config
from bot.cli.demo.options import DemoOptions
from bot.platforms.registry import platforms
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.dashboard.operator_client import operator_tab
from tests.bot.platforms.web.test_web_page import chromium
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium"]  # a fixture of the chat page's tests

SPEED = 6.0


@asynccontextmanager
async def crowded_bot(folder: Path) -> AsyncIterator[tuple[BotParts, Web]]:
    """Run the demo's bot with thirty people."""
    config = demo_config(DemoOptions(port=0, speed=SPEED))
    setup = BotSetup(
        config,
        database_url=f"sqlite:///{folder / 'bot.db'}",
        make_platforms=lambda fittings: (
            *platforms(config.chats, fittings),
            Crowd(30, speed=SPEED),
        ),
    )
    async with App(setup).running() as parts:
        queue = asyncio.create_task(parts.queue.run())
        web = next(each for each in parts.platforms if isinstance(each, Web))
        await web.connected.wait()
        try:
            yield parts, web
        finally:
            queue.cancel()
            await asyncio.wait([queue])


@pytest.mark.thorough
async def test_a_crowd_is_seen_and_steered_and_all_of_it_is_in_the_audit_log(
    tmp_path: Path,
) -> None:
    """The page would show another queue than the real one, or admins could act unseen."""
    async with crowded_bot(tmp_path) as (parts, web), operator_tab(web, "") as page:
        busy = await page.until(
            "now",
            lambda now: (
                any(host["running"] for host in now["hosts"])
                and sum(len(line["jobs"]) for line in now["queues"]) > 4
            ),
        )
        told = {line["model"]: line["waiting"] for line in busy["queues"]}
        assert told.keys() <= set(parts.queue.models.offer.catalog.models)
        assert "gpu-1" in await page.answer("pause", host="gpu-1")
        paused = await page.until("now", lambda now: now["hosts"][0]["mode"] != "open")
        assert paused["hosts"][1]["mode"] == "open"
        await page.answer("pause")  # so that waiting jobs keep waiting
        stopped = await page.until("now", lambda now: now["mode"] == "paused")
        line = max(stopped["queues"], key=lambda line: len(line["jobs"]))
        last, other = line["jobs"][-1]["job"], line["jobs"][-2]["job"]
        await page.answer("move", job=last, to="first")
        assert str(other) in await page.answer("cancel", job=other)
        await page.answer("resume")
        await page.answer("preload", model="lens", host="gpu-2")
        await page.answer("unload", model="lens")
        await page.answer("drain", host="gpu-2")
        assert "web:eve" in await page.answer("ban", person="web:eve", reason="floods")
        await page.answer("unban", person="web:eve")
        done = {"pause", "resume", "move", "cancel", "preload", "unload", "drain", "ban", "unban"}
        people = await page.until(
            "people", lambda seen: done <= {act["action"] for act in seen["acts"]}
        )
        assert {act["actor"] for act in people["acts"]} == {"web:local"}
        assert sum(person["user"].startswith("crowd:") for person in people["people"]) > 10


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    """A refused act would look as if it had been done."""
    async with crowded_bot(tmp_path) as (_, web), operator_tab(web, "") as page:
        assert "nothing-like-it" in await page.answer("drain", host="nothing-like-it")
        assert "999999" in await page.answer("cancel", job=999_999)
        assert "/ban" not in await page.answer("ban", person="web:local")


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
async def test_a_browser_shows_the_crowd_and_pauses_a_host_by_keyboard(
    tmp_path: Path, chromium: Chromium, width: int
) -> None:
    """Each part could work on its own and the page still be empty."""
    async with crowded_bot(tmp_path) as (parts, web), chromium.page() as page:
        await page.look(width=width, height=844, phone=width == 390)
        await page.goto(f"{web.url}operator")
        await page.wait("document.querySelectorAll('.job').length > 0")
        await page.wait("document.querySelectorAll('#people-list > li').length === 10")
        await page.wait("document.querySelectorAll('.host-time').length === 2")
        await page.evaluate("document.querySelector('[aria-label=\"Pause: gpu-1\"]').focus()")
        await page.press("Enter")
        await page.wait_text("Pause gpu-1", "#outcomes")
        await page.wait_text("Paused: gpu-1", "#outcomes")
        await page.wait_text("web:local pause gpu-1", "#act-list")
        await page.wait("document.querySelector('.host').dataset.mode !== 'open'")
        assert parts.queue.status.snapshot().paused.hosts == {"gpu-1"}
        assert page.errors == []
