"""The mouse of the tests that use a real Chromium."""

import pytest

from tests.bot.platforms.web.test_web_page import chromium
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium"]  # a fixture of the chat page's tests
pytestmark = pytest.mark.browser

MOVING = """data:text/html,<button style="position:absolute;top:0">Go</button><script>
const button = document.querySelector("button");
window.count = 0;
button.addEventListener("click", () => { window.count += 1; });
addEventListener("mousedown", () => { button.style.top = "200px"; }, { capture: true });
</script>"""


async def test_a_click_that_an_element_slipped_away_from_is_made_again(chromium: Chromium) -> None:
    """If the page moves during a click, a test would wait a minute for what never began."""
    async with chromium.page() as page:
        await page.goto(MOVING)
        await page.click("button")
        assert await page.evaluate("window.count") == 1


GROWING = """data:text/html,<p style="padding:40px"><button style="all:unset"></button></p><script>
const button = document.querySelector("button");
window.count = 0;
button.addEventListener("click", () => { window.count += 1; });
const met = document.elementFromPoint.bind(document);
let looks = 0;
document.elementFromPoint = (...at) => {
  looks += 1;
  if (looks === 3) button.textContent = "Go"; // as an image that has come
  return met(...at);
};
</script>"""


async def test_an_element_without_a_size_is_not_clicked_before_it_has_one(
    chromium: Chromium,
) -> None:
    """The element around it would be clicked, and the test wait a minute for nothing."""
    async with chromium.page() as page:
        await page.goto(GROWING)
        await page.click("button")
        assert await page.evaluate("window.count") == 1
