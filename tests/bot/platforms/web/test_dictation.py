"""Speaking to the page: a recording becomes a job like any other, and its text comes back."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, SpeechToText
from tests.bot.platforms.web.web_client import opened, text_of
from tests.bot.whole_bot import on_web
from tests.fakes.programs.chromium import Chromium, Page, running_chromium
from tests.fakes.servers.speech_script import wav

pytestmark = pytest.mark.usefixtures("helper_here")

HEARS = """
hosts:
  gpu-1:
    vram: 24GB
    backends: {studio: {kind: demo}}
models:
  whisper:
    backends: [studio]
    capabilities: [speech-to-text]
    vram: 2GB
    load_s: 0.1
    service_s: 0.2
  llama: {backends: [studio], capabilities: [text-to-text], vram: 4GB, load_s: 0.1, service_s: 0.2}
admins: ["web:local"]
"""
OWNER, KEY = "correct-horse-battery-staple", "0123456789abcdef"


@asynccontextmanager
async def browsing(url: str, cookie: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    """Run a browser's requests, as the page of that person makes them."""
    headers = {"Origin": url.rstrip("/"), "Cookie": f"usher={cookie}"}
    async with aiohttp.ClientSession(url, headers=headers) as session:
        yield session


async def spoken(browser: aiohttp.ClientSession, data: bytes, key: str = KEY) -> Any:
    """Send a recording and return what the page is sent."""
    async with browser.post(f"dictation/{key}", data=data) as answer:
        assert answer.status == 200
        return await answer.json()


async def heard(browser: aiohttp.ClientSession, key: str = KEY) -> Any:
    """Return the end of a recording."""
    while True:
        async with browser.get(f"dictation/{key}") as answer:
            row = await answer.json()
        if row["done"]:
            return row


async def test_a_recording_is_a_job_of_its_person_and_of_nobody_else(tmp_path: Path) -> None:
    """Others could read what a person said, or a repeated request would be transcribed twice."""
    page = f"{{port: 0, token: {OWNER}}}"
    async with on_web(tmp_path, HEARS, page=page) as (url, parts):
        async with opened(url, cookie=OWNER) as tab:
            await tab.hello()
            await tab.say("/invite Ada")
            link = re.search(r"token=([\w-]+)", text_of(await tab.entry("token=")))
        assert link is not None
        async with browsing(url, OWNER) as mine, browsing(url, link[1]) as hers:
            assert not (await spoken(mine, wav()))["done"]
            words = (await heard(mine))["text"]
            assert words
            assert (await spoken(mine, wav()))["text"] == words
            for answer in (hers.get(f"dictation/{KEY}"), mine.get("dictation/ffffffffffffffff")):
                async with answer as nothing:
                    assert nothing.status == 404
            async with opened(url, cookie=OWNER) as tab:
                await tab.hello()
                await tab.say("/again")  # of what a chat shows
                await tab.entry("You have no jobs yet")
            async with hers.delete(f"dictation/{KEY}") as ignored:
                assert ignored.status == 204
        async with aiohttp.ClientSession(url, headers={"Cookie": f"usher={OWNER}"}) as other:
            for asked in (other.post(f"dictation/{KEY}"), other.delete(f"dictation/{KEY}")):
                async with asked as refused:
                    assert refused.status == 403
        async with asyncio.timeout(60):
            # Otherwise its recording would be kept forever. Acknowledging announces nothing.
            while await parts.queue.deliveries.unacknowledged("web:local"):  # noqa: ASYNC110
                await asyncio.sleep(0)
        (job,) = await parts.queue.jobs.history("web:local", limit=9)
        assert (type(job.request), job.state) == (SpeechToText, JobState.COMPLETED)


async def test_what_is_refused_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A damaged recording or a reached limit would end silently, or in an internal error."""
    limits = "limits: {per_hour: 1}\n"
    async with on_web(tmp_path, HEARS + limits) as (url, _), browsing(url) as browser:
        assert "can't play this recording" in (await spoken(browser, b"noise"))["why"]
        assert not (await spoken(browser, wav()))["done"]
        assert "hour" in (await spoken(browser, wav(), KEY[::-1]))["why"]
        async with browser.post("dictation/short", data=wav()) as answer:
            assert answer.status == 400


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


# A machine of tests has no microphone, so the page gets a tone in its place.
TONE = """void (navigator.mediaDevices.getUserMedia = async () => {
  const context = new AudioContext();
  await context.resume();
  const target = context.createMediaStreamDestination();
  const tone = context.createOscillator();
  tone.connect(target);
  tone.start();
  return target.stream;
})"""


async def mouse(page: Page, kind: str) -> None:
    """Press or release the mouse on the microphone."""
    box = "(({ x, y, width }) => [x + width / 2, y + width / 2])"
    node = "document.getElementById('mic').getBoundingClientRect()"
    x, y = await page.evaluate(f"{box}({node})")
    at = {"x": x, "y": y, "button": "left", "clickCount": 1}
    await page.call("Input.dispatchMouseEvent", type=kind, **at)


@pytest.mark.browser
@pytest.mark.thorough
async def test_people_speak_into_the_text_field(tmp_path: Path, chromium: Chromium) -> None:
    """On a phone, everything would have to be typed."""
    async with on_web(tmp_path, HEARS) as (url, parts), chromium.page() as page:

        async def jobs() -> list[Job]:
            return await parts.queue.jobs.history("web:local", limit=9)

        await page.goto(url)
        await page.wait("!document.getElementById('mic').hidden")
        await page.evaluate(TONE)
        await mouse(page, "mousePressed")  # held while speaking
        await page.wait_text("0:01", "#mic-time")
        await mouse(page, "mouseReleased")
        await page.wait("document.getElementById('text').value !== ''")
        assert await page.evaluate("document.querySelectorAll('.message').length") == 0
        said = await page.evaluate("document.getElementById('text').value")

        await page.evaluate("document.getElementById('mic').focus()")
        await page.press(" ")  # pressed briefly, it goes on
        await page.wait_text("0:01", "#mic-time")
        await page.click("#mic-discard")
        await page.wait("document.getElementById('dictation').hidden")
        assert await page.evaluate("document.activeElement.id") == "mic"

        await page.press(" ")
        await page.wait_text("0:01", "#mic-time")
        await page.click("#mic-once")
        await page.click("#talk-new")  # it is not sent where it was not said
        await page.click("#mic-done")
        await page.wait("document.getElementById('text').value !== ''")
        assert await page.evaluate("document.querySelectorAll('.message').length") == 0
        await page.evaluate("document.getElementById('text').select()")
        await page.press("Backspace")

        await page.evaluate("document.getElementById('mic').focus()")
        await page.press(" ")
        await page.wait_text("0:01", "#mic-time")
        await page.press(" ")
        await page.wait("document.querySelector('.message.mine') !== null")
        assert await page.evaluate("document.getElementById('text').value") == ""
        await page.wait("document.querySelector('.message:not(.mine)') !== null")
        asked, *dictated = await jobs()
        assert isinstance(asked.request, Chat)
        assert asked.request.messages[-1].text.startswith(said.partition(".")[0])
        assert [type(job.request) for job in dictated] == [SpeechToText] * 3
        assert page.errors == []
