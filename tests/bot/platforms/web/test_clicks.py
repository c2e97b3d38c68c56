"""The mouse of the tests that use a real Chromium."""

import pytest

from tests.bot.platforms.web.test_web_page import chromium
from tests.fakes.chromium import Chromium

__all__ = ["chromium"]  # a fixture of the chat page's tests
pytestmark = pytest.mark.browser

MOVING = """data:text/html,<button style="position:absolute;top:0">Go</button><script>
const button = document.querySelector("button");
window.count = 0;
button.addEventListener("click", () => { window.count += 1; });
addEventListener("mousedown", () => { button.style.top = "200px"; }, { capture: true });
</script>"""


async def test_a_click_that_an_element_slipped_away_from_is_made_again(chromium: Chromium) -> None:
    """A test would wait a minute for what a click never began, when the page moved just then."""
    async with chromium.page() as page:
        await page.goto(MOVING)
        await page.click("button")
        assert await page.evaluate("window.count") == 1
