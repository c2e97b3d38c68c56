"""The page in a real Chromium without a mouse: moving between messages, and what is read out."""

import pytest

from bot.core.content import Button, Content, Markdown
from tests.bot.platforms.web.test_web_page import LAST, Stage, chromium, stage
from tests.bot.platforms.web.web_client import image, running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = pytest.mark.browser

AGAIN = Button(command="again", job_id=7, label="🔁 Again")
DELETE = Button(command="delete", job_id=7, label="🗑️ Delete", danger=True)
FOCUSED = "document.activeElement"
MESSAGE = f"{FOCUSED}.closest('.message')?.querySelector('.body').innerText"
# Words within a line may be small, as in every text.
SMALL = """[...document.querySelectorAll("button, input, select, textarea, a.button, a.file, [role=option]")]
  .filter((node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest(".line"))
  .filter((node) => { const box = node.getBoundingClientRect(); return box.width < 44 || box.height < 44; })
  .map((node) => node.outerHTML)"""


async def _three(stage: Stage) -> None:
    for words in ("first", "second", "third"):
        await stage.show(Content(body=(words,), buttons=((AGAIN, DELETE),)))


async def test_keys_go_from_message_to_message_and_back_to_the_text(stage: Stage) -> None:
    """Without a mouse, a person would need ten presses of Tab to reach their last image."""
    page = stage.page
    await _three(stage)
    await page.click("#text")
    await page.type("a draft")
    for words in ("third", "second", "first", "first"):
        await page.press("ArrowUp", alt=True)
        assert await page.evaluate(MESSAGE) == words
    await page.press("ArrowDown")  # Alt is not needed any more once a message has the focus
    assert await page.evaluate(MESSAGE) == "second"
    await page.press("Escape")
    assert await page.evaluate(f"{FOCUSED}.id") == "text"
    await page.press("ArrowUp", alt=True)
    await page.press("ArrowDown", alt=True)
    assert await page.evaluate(f"[{FOCUSED}.id, {FOCUSED}.value].join()") == "text,a draft"


async def test_a_message_is_one_stop_until_it_is_entered(stage: Stage) -> None:
    """All buttons of every message would come between the text field and the header."""
    page = stage.page
    await _three(stage)
    await page.click("#text")
    await page.evaluate("document.getElementById('attach').disabled = true")
    for words in ("third", "second"):
        await page.press("Tab", shift=True)
        assert await page.evaluate(f"{FOCUSED}.className") == "message"
        assert await page.evaluate(MESSAGE) == words
    for label in ("Again", "More"):
        await page.press("Tab")
        assert await page.evaluate(f"{FOCUSED}.ariaLabel ?? {FOCUSED}.innerText") == label


async def test_what_is_drawn_into_the_entered_message_can_be_reached(stage: Stage) -> None:
    """New buttons of the message that a person is in could not be reached."""
    page = stage.page
    ref = await stage.show(Content(body=("waiting",), buttons=((DELETE,),)))
    await page.click("#text")
    await page.press("ArrowUp", alt=True)
    await stage.web.edit(ref, Content(body=("done",), buttons=((AGAIN, DELETE),)))
    await page.wait_text("Again", LAST)
    await page.press("Tab")
    assert await page.evaluate(f"{FOCUSED}.innerText") == "Again"


async def test_a_message_says_whose_it_is_and_its_buttons_say_no_signs(stage: Stage) -> None:
    """A screen reader would say "clockwise arrows Again", and not who is speaking."""
    page = stage.page
    await stage.say("/image a cat")
    await stage.show(Content(body=("a cat",), buttons=((AGAIN,),)))
    labels = "[...document.querySelectorAll('.message')].map((node) => node.ariaLabel)"
    assert await page.evaluate(labels) == ["You: /image a cat", "Usher: a cat"]
    tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    names = [node["name"]["value"].strip() for node in tree
             if node.get("role", {}).get("value") == "button" and not node.get("ignored")]  # fmt: skip
    assert "Again" in names
    assert not any(sign in name for name in names for sign in "🔁🗑️")


async def test_everything_to_press_is_large_enough_for_a_finger(stage: Stage) -> None:
    """People would miss a target smaller than 44 pixels."""
    page = stage.page
    await page.look(width=390, height=844, phone=True)
    files = (image("1.png"), image("2.png", shade=9))
    body = (Markdown("See [this](https://example.org).\n\n```\ncode\n```"),)
    await stage.show(Content(body=body, files=files, buttons=((AGAIN, DELETE),)))
    await stage.show(Content(body=body))
    await page.click(f"{LAST} .meta .plain")
    await stage.say("and this?")
    await page.wait("document.querySelector('.quote:not([hidden])') !== null")
    await page.evaluate("document.querySelector('.message .meta .plain').click()")
    await page.type("/im")
    await page.wait_text("/image", "#choices")
    assert await page.evaluate(SMALL) == []
    await page.click(".button[aria-haspopup]")
    await page.wait("document.querySelector('.menu') !== null")
    assert await page.evaluate(SMALL) == []


async def test_the_list_below_the_text_is_announced_and_allowed_there(stage: Stage) -> None:
    """A field of several lines is no combobox: screen readers would announce keys it lacks."""
    page = stage.page
    assert await page.evaluate("document.getElementById('text').role") is None
    assert not await page.evaluate("document.getElementById('text').hasAttribute('aria-expanded')")
    await page.type("/im")
    await page.wait_text("use the arrow keys to choose", "#announce")


async def test_the_page_to_sign_in_has_its_landmark_and_heading(chromium: Chromium) -> None:
    """Screen readers jump to a page's main part and its heading, and would find neither."""
    shown = "[...document.querySelectorAll('main')].filter((node) => node.checkVisibility())"
    web = web_chat(port=0, token="correct-horse-battery-staple")
    async with running(web, ScriptedHandler()), chromium.page() as page:
        await page.goto(web.url)
        await page.wait_text("Sign in")
        assert await page.evaluate(f"{shown}.map((node) => node.id)") == ["signin"]
        assert await page.text("#signin h1") == "Sign in"


async def test_a_marked_choice_is_told_apart_by_enough_contrast(stage: Stage) -> None:
    """A command's help could not be read in the very row that is marked."""
    page = stage.page
    await page.type("/im")
    await page.wait("document.querySelector('#choices [aria-selected=true]') !== null")
    colors = """(() => {
      const row = document.querySelector("#choices [aria-selected=true]");
      return [row, row.querySelector(".help")].map((node) => getComputedStyle(node).color);
    })()"""
    row, words = await page.evaluate(colors)
    assert row == words
    # The pickers, which a command overrules, stay legible: 4.5 to 1 needs an opacity of 0.61.
    assert (
        await page.evaluate(
            "Number(getComputedStyle(document.querySelector('.overruled')).opacity)"
        )
        > 0.61
    )


async def test_a_phone_has_the_pages_heading_and_a_menu_stands_in_its_landmark(
    stage: Stage,
) -> None:
    """Readers who go from heading to heading or from part to part would miss both."""
    page = stage.page
    await page.look(width=390, height=844, phone=True)
    await stage.show(Content(body=("a cat",), files=(image(),), buttons=((AGAIN, DELETE),)))
    headings = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    names = [
        node["name"]["value"]
        for node in headings
        if node.get("role", {}).get("value") == "heading" and not node.get("ignored")
    ]
    assert names == ["Usher", "Conversation"]
    await page.click(".button[aria-haspopup]")
    await page.wait("document.querySelector('main .menu') !== null")


@pytest.mark.parametrize("dark", [False, True])
async def test_what_a_message_answers_is_told_by_enough_contrast(stage: Stage, dark: bool) -> None:
    """The words quoted in a person's own message could hardly be read."""
    page = stage.page
    await page.look(dark=dark)
    await stage.show(Content(body=("The answer is 42.",)))
    await page.click(f"{LAST} .meta .plain")
    await stage.say("why?")
    await page.wait("document.querySelector('.mine .quote:not([hidden])') !== null")
    assert await page.evaluate(CONTRAST) >= 4.5


CONTRAST = """(() => {
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const quote = getComputedStyle(document.querySelector(".mine .quote")).color;
  const bubble = getComputedStyle(document.querySelector(".mine .bubble")).backgroundColor;
  const [more, less] = [light(quote), light(bubble)].sort((a, b) => b - a);
  return (more + 0.05) / (less + 0.05);
})()"""
