"""The page in a real Chromium with a long history and a fast stream: neither slows it."""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bot.core.content import Content, Markdown
from bot.platforms.web.chat.chat_log import ShownMessage, TextPart
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.test_web_page import Stage, chromium
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog
from tests.fakes.programs.chromium import Chromium, Page

__all__ = ["chromium"]  # a fixture of the page's own tests
pytestmark = [pytest.mark.browser, pytest.mark.thorough]

MESSAGES = 1_000
MOST_IN_DOCUMENT = 260
COUNT = "document.querySelectorAll('.message').length"
SCROLL = "document.getElementById('scroll')"
# The first message whose text is in view, and how far it is from the top.
IN_VIEW = """(() => {
  const edge = document.getElementById("scroll").getBoundingClientRect().top;
  const node = [...document.querySelectorAll(".message")].find((it) => it.getBoundingClientRect().top >= edge);
  return [node.querySelector(".line").innerText, Math.round(node.getBoundingClientRect().top)];
})()"""
# Calls `act` and resolves to what is in view before, and once the document has changed and was drawn.
STEADY = f"""new Promise((done) => {{
  {SCROLL}.scrollTop = AT;
  const before = {IN_VIEW};
  const seen = new MutationObserver(() => {{
    seen.disconnect();
    requestAnimationFrame(() => done([before, {IN_VIEW}]));
  }});
  seen.observe(document.getElementById("messages"), {{ childList: true }});
}})"""


async def _steady(page: Page, at: str) -> None:
    """Scroll to where messages are added and removed, and require that visible ones do not move."""
    (words, top), (words_after, top_after) = await page.evaluate(STEADY.replace("AT", at))
    assert words == words_after
    assert abs(top - top_after) <= 1  # of a pixel's fractions


@pytest_asyncio.fixture
async def long(chromium: Chromium) -> AsyncIterator[Stage]:
    log, handler = MemoryLog(keep=MESSAGES + 10), ScriptedHandler()
    for at in range(MESSAGES):
        shown = ShownMessage(author="usher", body=(TextPart(text=f"message {at}"),))
        await log.put("local", f"old-{at}", time.time(), shown, ())
    async with running(Web(port=0, log=log), handler) as web, chromium.page() as page:
        await page.goto(web.url)
        await page.wait_text(f"message {MESSAGES - 1}")
        yield Stage(web, handler, page)
        assert page.errors == []


async def test_a_long_history_is_read_to_its_start_and_back(long: Stage) -> None:
    """Thousands of messages in the document would make every change slow."""
    page = long.page
    for _ in range(3):  # what a reader looks at stays where it is
        await _steady(page, "300")
    first = "document.querySelector('.message .line')?.innerText"
    for _ in range(MESSAGES):
        if await page.evaluate(f"{first} === 'message 0'"):
            break
        await page.evaluate(STEADY.replace("AT", "0"))
        assert await page.evaluate(COUNT) <= MOST_IN_DOCUMENT
    assert await page.evaluate(f"{first} === 'message 0'")
    assert await page.evaluate("document.getElementById('earlier').hidden")

    assert await page.text("#to-end") == "Latest messages ↓"

    await long.web.send("local", Content(body=("something new",)))
    await page.wait_text("New messages ↓", "#to-end")
    assert await page.evaluate(f"{first} === 'message 0'")
    await _steady(page, f"{SCROLL}.scrollHeight")
    await page.click("#to-end")
    await page.wait_text("something new", ".message:last-child")
    texts = "[...document.querySelectorAll('.line')].map((node) => node.innerText)"
    shown = await page.evaluate(texts)
    assert shown == [f"message {at}" for at in range(MESSAGES - len(shown) + 1, MESSAGES)] + [
        "something new"
    ]


async def test_a_history_goes_on_after_a_broken_connection(long: Stage) -> None:
    """What was asked for in the moment of the break would never be asked for again."""
    page = long.page
    await page.evaluate(BREAKS)
    await page.evaluate(f"{SCROLL}.scrollTop = 0")
    await page.wait("window.broken")
    await page.wait("document.querySelector('.message .line').innerText < 'message 940'")


async def test_a_fast_stream_is_drawn_at_most_once_a_frame(long: Stage) -> None:
    """A slow phone would draw frames that nobody sees, and not react while an answer streams."""
    page = long.page
    await page.call("Emulation.setCPUThrottlingRate", rate=4)
    ref = await long.show(Content(body=(Markdown("start"),)))
    await page.evaluate(DRAWS_AND_FRAMES)
    words = "word after word, " * 12
    for at in range(200):
        text = f"{words}\n\n" * (at // 20) + f"{words} {at}"
        await long.web.edit(ref, Content(body=(Markdown(text),)))
    await page.wait_text(" 199", ".message:last-child .markdown")
    draws, frames = await page.evaluate("[window.draws, window.frames]")
    assert 0 < draws <= frames


# The connection breaks when the page asks for earlier messages.
BREAKS = """(() => {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    if (window.broken || !text.includes('"earlier"')) return send.call(this, text);
    window.broken = true;
    this.close();
  };
})()"""
# Counts the frames, and how often the last message has changed.
DRAWS_AND_FRAMES = """(() => {
  [window.draws, window.frames] = [0, 0];
  const count = () => { window.frames += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
  new MutationObserver(() => { window.draws += 1; }).observe(
    document.querySelector(".message:last-child .body"), { childList: true, subtree: true, characterData: true });
})()"""
