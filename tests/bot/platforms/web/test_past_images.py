"""The images of the page's history: whose they are, when they are deleted, how they are shown."""

from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from bot.core.content import Button, Content, Strong
from bot.platforms.web.routes.sessions import COOKIE
from queueing.core.requests import File
from tests.bot.people.test_links import Installation, installation
from tests.bot.platforms.web.test_web_page import LAST, Stage, chromium
from tests.bot.platforms.web.test_web_small import Kept, large, web_of
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium"]  # a fixture of the page's own tests
MINE = "web:local"
SIGNED_IN = {"Cookie": f"{COOKIE}={'x' * 20}"}


async def _drawn(usher: Installation, user: str) -> None:
    shown = len(usher.chat.messages)
    await usher.says("/image flux a cat --size 512x512", user=user)
    await usher.until(lambda: len(usher.chat.messages) > shown and "Original: " in usher.last())


@pytest.mark.parametrize("how", ["/delete 1", "/forget me --sure"])
async def test_a_past_image_is_its_owners_and_gone_when_deleted(tmp_path: Path, how: str) -> None:
    """A stranger would see it, or the page show what its owner had deleted."""
    async with installation(tmp_path) as usher:
        await _drawn(usher, MINE)
        await _drawn(usher, "fake:1")
        status, data, _ = await usher.get("/past/1", **SIGNED_IN)
        assert status == 200
        with Image.open(BytesIO(data)) as shown:
            assert shown.size == (160, 160)
        assert (await usher.get("/past/1"))[0] == 401
        assert (await usher.get("/past/2", **SIGNED_IN))[0] == 404
        await usher.says(how, user=MINE)
        assert (await usher.get("/past/1", **SIGNED_IN))[0] == 404


@pytest_asyncio.fixture
async def past(chromium: Chromium) -> AsyncIterator[Stage]:
    handler, kept = ScriptedHandler(), Kept("web:local")
    async with running(web_of(kept), handler) as web, chromium.page() as page:
        await page.goto(web.url)
        await page.wait_text("Connected")
        yield Stage(web, handler, page)
        assert page.errors == []


def _history() -> Content:
    body = (
        "Your jobs, newest first:\n",
        *(Strong("9", job=9), " · flux · cancelled · a boat\n"),
        *(Strong("8", job=8), " · llm · done · why\n"),
        *(Strong("7", job=7, has_image=True), " · flux · done · " + "a very long prompt " * 4),
    )
    buttons = tuple(Button(command="show", job_id=job, label=f"Show {job}") for job in (8, 7))
    return Content(
        body=body, buttons=(buttons, (Button(command="history", job_id=7, label="Older"),))
    )


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
async def test_a_line_of_the_history_has_its_image_and_its_button_beside_it(
    past: Stage, width: int
) -> None:
    """Ten buttons would appear in rows far from their entries, and no image be recognisable."""
    page = past.page
    await page.look(width=width, height=800, phone=width < 640)
    await past.show(_history())
    await page.wait("document.querySelector('.past img')?.naturalWidth === 160")
    rows = "[...document.querySelectorAll('.past')].map((row) => row.innerText.split('\\n').at(-1).trim())"
    assert await page.evaluate(rows) == ["9 · flux · cancelled · a boat", "Show", "Show"]
    assert await page.evaluate("document.querySelectorAll('.past img').length") == 1
    assert await page.text(f"{LAST} .buttons") == "Older"
    within = """[...document.querySelectorAll(".past")].every((row) => {
      const [words, button] = [row.querySelector(".past-words"), row.querySelector("button")];
      const [a, b] = [words, button ?? words].map((node) => node.getBoundingClientRect());
      return !button || (a.right <= b.left && b.top < a.bottom && a.top < b.bottom);
    })"""
    assert await page.evaluate(within)
    label = "document.querySelector('.past[data-job=\"7\"] button').ariaLabel"
    assert await page.evaluate(label) == "Show 7"
    await page.click(".past[data-job='7'] button")
    call = await past.handler.taken()
    assert (call.command, call.options) == ("show", {"id": 7})
    await page.wait("document.querySelector('.past [aria-busy]') === null")
    await page.click(".past img")
    assert (await past.handler.taken()).options == {"id": 7}


@pytest.mark.browser
async def test_a_large_image_is_small_in_its_message_and_whole_in_the_large_view(
    past: Stage,
) -> None:
    """A phone would download megabytes for each image, or the large view show a coarse one."""
    page = past.page
    await past.show(Content(files=(File(name="big.png", mime="image/png", data=large()),)))
    await page.wait(f"document.querySelector('{LAST} img')?.naturalWidth === 1280")
    await page.click(f"{LAST} .image")
    await page.wait("document.querySelector('#large-image').naturalWidth === 1600")
