"""The page in a real Chromium while its server is away: what it says and does."""

import asyncio
import time
from pathlib import Path

import pytest

from bot.core.content import Content, Moment
from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.test_web_page import Stage, chromium, stage
from tests.bot.platforms.web.web_client import image, running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog
from tests.fakes.ports import port_of
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = pytest.mark.browser

STATES = """window.states = [], window.tries = 0;
  const { WebSocket: Real } = window;
  window.WebSocket = class extends Real { constructor(...args) { super(...args); window.tries += 1; } };
  new MutationObserver(() => states.push(document.getElementById("connection-text").textContent))
    .observe(document.getElementById("connection-text"), { childList: true });"""


async def test_work_goes_on_while_the_server_is_away(chromium: Chromium, tmp_path: Path) -> None:
    """The status would flicker, times count down to unknown ends, or an image be lost."""
    log, handler, path = MemoryLog(), ScriptedHandler(), tmp_path / "start.png"
    await asyncio.to_thread(path.write_bytes, image().data)
    port = port_of(handler)
    async with chromium.page() as page:
        async with running(Web(port=port, log=log), handler) as web:
            await page.goto(web.url)
            await page.wait_text("Connected")
            moment = Moment(time.time() + 300, before="at ")
            await web.send("local", Content(body=("ready ", moment)))
            await page.wait_text("(in ", ".moment")
            await page.evaluate(STATES)
        await page.wait_text("Connection lost. Reconnecting…", "#connection")
        await page.wait("!document.querySelector('.moment').innerText.includes('(in')")
        await page.set_files("#file", path)
        await page.wait("document.querySelector('#attached .busy') !== null")
        await page.click("#text")
        await page.type("/image like this")
        await page.wait("performance.getEntriesByName(`${location.origin}/upload`).length === 1")
        await page.wait("window.tries >= 3")
        assert await page.evaluate("states") == ["Connection lost. Reconnecting…"]
        assert await page.text("#notice") == ""
        async with running(Web(port=port, log=log), handler):
            await page.wait_text("Connected")
            await page.wait("document.querySelector('#attached .done') !== null")
            await page.wait_text("(in", ".moment")
        async with running(Web(port=port, log=log), handler):  # which no longer has the upload
            await page.wait_text("Connected")
            await page.press("Enter")
            call = await handler.taken()
            assert call.text == "like this"
            assert await call.files[0].read() == image().data
            await page.wait("document.querySelector('.message.pending') === null")
            assert await page.evaluate("document.querySelectorAll('.message').length") == 2


async def test_a_line_that_comes_back_before_its_connection_broke_is_connected(
    stage: Stage,
) -> None:
    """A moment without a network would leave "Connection lost" on a page that works."""
    page = stage.page
    await page.evaluate("dispatchEvent(new Event('offline'))")
    await page.wait_text("Connection lost", "#connection")
    await page.evaluate("dispatchEvent(new Event('online'))")
    await page.wait_text("Connected", "#connection")
    # What is on its way says so.
    await page.evaluate("WebSocket.prototype.send = () => {}; undefined")
    await page.click("#text")
    await page.type("hello")
    await page.press("Enter")
    await page.wait_text("sending…", ".pending")
    await page.evaluate("dispatchEvent(new Event('offline'))")
    await page.wait_text("waiting for the connection", ".pending")
    await page.evaluate("dispatchEvent(new Event('online'))")
    await page.wait_text("sending…", ".pending")


@pytest.mark.thorough
async def test_what_one_person_wrote_is_never_sent_as_the_next_one(chromium: Chromium) -> None:
    """In a shared browser, one person's unsent messages would be sent in the other's name."""
    ada, ben = (FixedPeople({name * 9: WebPerson(id=name, name=name)}) for name in ("ada", "ben"))
    handler, log = ScriptedHandler(), MemoryLog()
    port = port_of(handler)
    async with chromium.page() as page:
        async with running(Web(port=port, people=ada, log=log), handler) as web:
            await page.goto(f"{web.url}?token={'ada' * 9}")
            await page.wait_text("Connected")
        await page.wait_text("Connection lost", "#connection")
        await page.click("#text")
        await page.type("of Ada")
        await page.press("Enter")
        await page.type("a draft of Ada")
        async with running(Web(port=port, people=ben, log=log), handler):
            await page.wait_text("Sign in")
            await page.click("#signin-token")
            await page.type("ben" * 9)
            await page.press("Enter")
            await page.wait_text("Connected")
            assert await page.evaluate("document.getElementById('text').value") == ""
            await page.click("#text")
            await page.type("of Ben")
            await page.press("Enter")
            call = await handler.taken()
            assert (call.user, call.text) == ("web:ben", "of Ben")


@pytest.mark.thorough
@pytest.mark.parametrize("kept", ["{", "7", "null"])
async def test_damaged_notes_of_the_browser_do_not_stop_the_page(stage: Stage, kept: str) -> None:
    """The page would stay empty until a person who knows how clears the browser's storage."""
    page = stage.page
    for storage in ("localStorage", "sessionStorage"):
        names = '["usher-making", "usher-outbox", "usher-draft", "usher-notify"]'
        await page.evaluate(
            f"{names}.forEach((name) => {storage}.setItem(name, {kept!r})); undefined"
        )
    await page.reload()
    await stage.say("still here")
    await page.wait_text("still here", ".mine")
