"""The operator's page in a real Chromium when its server is away or its admin dismissed."""

import time

import pytest

from bot.platforms.web.operator.dashboard import DashboardData
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.dashboard.examples import ExampleJobs, ExampleRecords
from tests.bot.platforms.web.dashboard.operator_client import TOKEN, Example
from tests.bot.platforms.web.dashboard.test_operator_page import DRAWN
from tests.bot.platforms.web.test_web_page import chromium
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.ports import port_of
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium"]  # a fixture of the chat page's tests
pytestmark = pytest.mark.browser

COUNTS = "[...document.querySelectorAll('time.moment')].some((e) => e.innerText.includes('(in'))"


async def test_the_page_comes_back_with_its_server_and_what_was_pressed_is_done(
    chromium: Chromium,
) -> None:
    """A restart would leave an old display that looks current, and lose a pause."""
    handler, at = ScriptedHandler(), time.time()
    records, jobs, port = ExampleRecords(at), ExampleJobs(at), port_of(handler)

    def web() -> Web:
        image = DashboardData(records, jobs)
        return web_chat(port=port, operator=image, is_admin=lambda _: True)

    async with chromium.page() as page:
        async with running(web(), handler) as first:
            await page.goto(f"{first.url}operator")
            await page.wait(DRAWN)
            await page.wait(COUNTS)
        await page.wait_text("Connection lost. Reconnecting…", "#connection")
        await page.wait("document.querySelector('#sheet').classList.contains('stale')")
        await page.wait(f"!{COUNTS}")
        await page.click("#everything")
        async with running(web(), handler):
            await page.wait_text("Live", "#connection")
            assert (await handler.taken()).command == "pause"
            await page.wait("!document.querySelector('#sheet').classList.contains('stale')")
            await page.wait(COUNTS)
    assert len(handler.keys) == 1


async def test_a_page_of_a_former_admin_empties_itself(chromium: Chromium) -> None:
    """Names and messages would stay on the screen of a person who may no longer see them."""
    example = Example()
    async with running(example.web, ScriptedHandler()), chromium.page() as page:
        await page.goto(f"{example.web.url}?token={TOKEN}")
        await page.goto(f"{example.web.url}operator")
        await page.wait(DRAWN)
        example.admins.clear()
        await page.wait_text("You are no longer signed in as an admin.", "#connection")
        assert await page.evaluate("document.querySelector('#sheet').children.length") == 0
        await page.reload()
        assert await page.text() == "403: Forbidden"
