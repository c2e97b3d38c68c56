"""The gallery in a real browser, with the whole bot behind it."""

import asyncio
from pathlib import Path

import pytest

from tests.bot.people.test_links import CONFIG, Installation, installation
from tests.bot.platforms.web.test_gallery import MINE, Visitor
from tests.bot.platforms.web.test_web_page import HELD, LAST, RELEASE, chromium
from tests.fakes.programs.chromium import Chromium, Page

__all__ = ["chromium"]  # a fixture of the page's own tests
pytestmark = [pytest.mark.browser, pytest.mark.thorough]

ABLE = CONFIG.replace("[text-to-image]", "[text-to-image, image-to-image, image-edit]")
TILES = "document.querySelectorAll('.tile').length"
# A mark reaches the server after whatever the page asks in the same moment.
SLOW_MARKS = """(() => {
  const send = window.fetch;
  window.fetch = async (...asked) => {
    if (asked[1]?.method === "PUT") await new Promise((done) => setTimeout(done, 300));
    return send(...asked);
  };
})()"""
HIDING = ABLE + "rooms: {web: {spoiler: true}}\n"


async def gallery(page: Page, usher: Installation, *, phone: bool = False) -> None:
    """Sign in and open the gallery with the menu, on a phone with its drawer."""
    await page.look(width=390 if phone else 1100, phone=phone)
    await page.goto(f"{usher.web.url}?token={'x' * 20}")
    await page.wait_text("Connected")
    await page.evaluate(SLOW_MARKS)
    if phone:
        await page.click("#side-open")
    await page.click("[data-opens=gallery]")
    await page.wait(f"{TILES} > 0")


async def test_results_are_found_marked_continued_and_deleted(
    chromium: Chromium, tmp_path: Path
) -> None:
    """A person's own images would be lost far up in the chat, with nothing to be done with them."""
    async with installation(tmp_path, ABLE) as usher, chromium.page() as page:
        visitor = Visitor(usher)
        await visitor.draws("a cat --count 2")
        await visitor.draws("a fox")
        await gallery(page, usher)
        await page.wait(f"{TILES} === 3")
        await page.click("#gallery-text")
        await page.type("CAT")
        await page.wait(f"{TILES} === 2")

        await page.click(".tile")
        await page.wait("document.querySelector('#large-image').naturalWidth === 512")
        await page.press("ArrowRight")
        await page.press("f")
        await page.wait("document.querySelector('[data-does=favourite]').ariaPressed === 'true'")
        await page.press("Escape")
        focused = "[document.activeElement.dataset.number, document.activeElement.innerText]"
        await page.wait(f"String({focused}) === '2,★'")
        await page.click("#gallery-favourites")
        await page.wait(f"{TILES} === 1")
        assert await visitor.finds("?favourite=1") == [(1, 2)]

        await page.click(".tile")
        await page.click("[data-does=start]")
        await page.wait("document.querySelectorAll('#attached .done img').length === 1")
        await page.click("#attached button")
        await page.click("[data-opens=gallery]")
        await page.click(".tile")
        await page.click("[data-does=vary]")
        await page.wait_text("a cat\nvariation of 1", LAST)
        async with asyncio.timeout(240):
            while (3, 1) not in await visitor.finds():
                pass  # what the large view offers follows what is stored
        await page.click(f"{LAST} .image")
        await page.click("[data-does=edit-image]")
        await page.type("make it red")
        await page.click("#form-send")
        await page.wait_text("make it red", LAST)

        await page.click("[data-opens=gallery]")
        await page.click("#gallery-favourites")
        await page.click("#gallery-text")
        await page.evaluate("document.querySelector('#gallery-text').select()")
        await page.type("fox")
        await page.wait(
            f"{TILES} === 1 && document.querySelector('.tile').ariaLabel.includes('fox')"
        )
        await page.click(".tile")
        await page.press("Delete")
        await page.click(".ask .danger")
        await page.wait(f"{TILES} === 0 && !document.querySelector('#large').open")
        await page.wait_text("Nothing found", "#gallery-state")
        await page.wait("fetch('gallery/2').then((answer) => answer.status === 404)")
        assert [error for error in page.errors if "404" not in error] == []


async def test_what_was_deleted_elsewhere_leaves(chromium: Chromium, tmp_path: Path) -> None:
    """The page would say that the server is away, and keep showing deleted results."""
    async with (
        installation(tmp_path, ABLE) as usher,
        chromium.page() as page,
        chromium.page() as other,
    ):
        for words in ("a cat", "a fox"):
            await Visitor(usher).draws(words)
        await gallery(page, usher)
        await page.click(".tile")
        await page.wait("document.querySelector('#large-image').naturalWidth === 512")
        await gallery(other, usher)
        await other.click(".tile")
        marked = "document.querySelector('[data-does=favourite]').ariaPressed"
        for state in ("true", "false"):
            await other.press("f")
            await page.wait(f"{marked} === '{state}'")  # a mark is there for all pages
        await other.press("Delete")
        await other.click(".ask .danger")
        await page.wait(f"{TILES} === 1")  # although it is being viewed
        await page.press("Escape")
        await page.click(".tile")
        await page.wait("document.querySelector('#large-image').naturalWidth === 512")
        await usher.says("/delete 1", user=MINE)
        await page.press("f")
        await page.wait(f"{TILES} === 0 && !document.querySelector('#large').open")
        assert "reached" not in await page.text("#toast")
        assert [error for error in page.errors if "404" not in error] == []


async def test_what_a_reader_deletes_does_not_come_back(chromium: Chromium, tmp_path: Path) -> None:
    """An answer from before would show it again, and its buttons fail."""
    async with installation(tmp_path, ABLE) as usher, chromium.page() as page:
        for words in ("a cat", "a fox"):
            await Visitor(usher).draws(words)
        await gallery(page, usher)
        await page.evaluate(HELD.replace("ADDRESS", "gallery?"))
        await page.evaluate(
            "document.getElementById('gallery-kind').dispatchEvent(new Event('change'))"
        )
        await page.wait("window.release !== undefined")
        await page.click(".tile")
        await page.press("Delete")
        await page.click(".ask .danger")
        await page.wait(f"{TILES} === 1")
        await page.wait("fetch('gallery/2').then((answer) => answer.status === 404)")
        await page.evaluate(RELEASE)
        assert await page.evaluate(TILES) == 1
        await page.press("Escape")
        assert [error for error in page.errors if "404" not in error] == []


async def test_hidden_results_are_shown_on_request_and_large_enough_for_a_finger(
    chromium: Chromium, tmp_path: Path
) -> None:
    """The gallery would show all images that the operator hides elsewhere."""
    async with installation(tmp_path, HIDING) as usher, chromium.page() as page:
        visitor = Visitor(usher)
        await visitor.draws("a cat --count 2")
        await gallery(page, usher, phone=True)
        blurred = "[...document.querySelectorAll('.tile.spoiler')].length"
        assert await page.evaluate(blurred) == 2
        await page.click(".tile")
        assert await page.evaluate(blurred) == 1
        await page.click(".tile")
        await page.wait("document.querySelector('#large-image').naturalWidth === 512")
        await page.press("ArrowRight")
        await page.wait("document.querySelector('#large-image').src === ''")
        await page.click("#large-player button")
        await page.wait("document.querySelector('#large-image').naturalWidth === 512")
        small = """[...document.querySelectorAll("#gallery, #large")].flatMap((view) =>
          [...view.querySelectorAll("button, a, input, select")]).filter((node) => {
            const { width, height } = node.getBoundingClientRect();
            return width && Math.min(width, height) < 44;
          }).map((node) => node.id || node.textContent)"""
        assert await page.evaluate(small) == []
        assert page.errors == []
