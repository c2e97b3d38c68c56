"""The page in a real Chromium: help with reading, choosing among images and coming back."""

import time

import pytest

from bot.core.content import Button, CommandText, Content, Markdown, Moment, ProgressBar, Strong
from tests.bot.platforms.web.test_web_page import Stage, chromium, stage
from tests.bot.platforms.web.web_client import image

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = pytest.mark.browser


async def test_several_images_are_numbered_and_paged_without_a_keyboard(stage: Stage) -> None:
    """On a phone no one could tell which image "Vary 2" means, or see the next one large."""
    page = stage.page
    files = tuple(image(f"{at}.png", shade=40 * at) for at in (1, 2, 3))
    await stage.show(Content(body=("three",), files=files))
    numbers = "[...document.querySelectorAll('.image')].map((node) => node.dataset.number).join()"
    assert await page.evaluate(numbers) == "1,2,3"
    await page.click(".image[data-number='2']")
    await page.wait_text("2/3", "#large-name")
    await page.click("#large-after")
    await page.wait_text("3/3", "#large-name")
    await page.click("#large-after")
    await page.wait_text("1/3", "#large-name")
    await page.evaluate(SWIPE)
    await page.wait_text("2/3", "#large-name")
    assert await page.evaluate("document.getElementById('large').open")


SWIPE = """(() => {
  const stage = document.getElementById("large-stage");
  const at = (clientX) => ({ clientX, clientY: 300, isPrimary: true, bubbles: true });
  stage.dispatchEvent(new PointerEvent("pointerdown", at(500)));
  stage.dispatchEvent(new PointerEvent("pointerup", at(300)));
  document.getElementById("large-image").click();
})()"""


async def test_one_image_has_neither_number_nor_neighbours(stage: Stage) -> None:
    """People would press buttons that do nothing."""
    page = stage.page
    await stage.show(Content(body=("one",), files=(image("1.png"),)))
    assert await page.evaluate("document.querySelector('.image').dataset.number") is None
    await page.click(".image")
    assert await page.evaluate("document.getElementById('large-after').hidden")


async def test_an_address_is_a_link_and_can_be_copied(stage: Stage) -> None:
    """An invitation would have to be selected by hand, across the end of a line."""
    page = stage.page
    link = "http://127.0.0.1:8080/?token=a-b_c"
    await stage.show(Content(body=(f"This link signs Ada in: {link}\nAnyone who has it is Ada.",)))
    made = "(({ href, rel, target, textContent }) => [href, rel, target, textContent].join(' '))"
    shown = await page.evaluate(f"{made}(document.querySelector('.line a'))")
    assert shown == f"{link} noopener noreferrer _blank {link}"
    assert await page.evaluate("document.querySelectorAll('.copy-link').length") == 1
    await page.wait_text("Anyone who has it is Ada.")


async def test_a_commands_name_writes_it_into_the_field(stage: Stage) -> None:
    """A newcomer would have to type a command that is in front of them."""
    page = stage.page
    await stage.show(Content(body=(Strong("Images"), "\n", CommandText("/image"), " <prompt>")))
    assert await page.text(".line strong") == "Images"
    await page.click(".typed")
    await page.wait("document.getElementById('text').value === '/image '")


async def test_progress_is_a_real_bar_and_numbers_stay_beside_their_units(stage: Stage) -> None:
    """Five blocks cannot show the first tenth, and "17" would be on another line than "GB"."""
    page = stage.page
    await stage.show(Content(body=("step 4/80 ", ProgressBar(0.05), " · 17 GB, 13 s, 4 steps")))
    assert await page.evaluate("document.querySelector('progress').value") == 0.05
    assert "17\u00a0GB, 13\u00a0s, 4 steps" in await page.text(".line")


async def test_a_time_of_day_and_the_wait_until_then_are_written_as_in_a_sentence(
    stage: Stage,
) -> None:
    """People would read "at 04:07 PM (in 7 sec.)" beside "(in 10–40 s)" and "13 s"."""
    page = stage.page
    await stage.show(Content(body=(Moment(time.time() + 1210, before="at "),)))
    assert "(in 20\u00a0min)" in await page.text(".moment")
    early = "import('./static/moments.js').then((it) => it.clockText(new Date(2001, 0, 1, 9, 5) / 1000))"
    assert "09:05" not in await page.evaluate(early)


async def test_what_had_passed_when_it_was_told_does_not_count_down(stage: Stage) -> None:
    """A log of the past would say "now" beside everything of the last seconds."""
    await stage.show(Content(body=(Moment(time.time() - 3), " · ban")))
    assert "now" not in await stage.page.text(".line")


async def test_no_room_is_kept_for_times_that_are_hidden(stage: Stage) -> None:
    """A screen would only hold three exchanges and look unfinished."""
    page = stage.page
    for words in ("first", "second"):
        await stage.show(Content(body=(words,)))
    gap = """(() => {
      const [first, second] = document.querySelectorAll(".bubble");
      return second.getBoundingClientRect().top - first.getBoundingClientRect().bottom;
    })()"""
    assert await page.evaluate(gap) <= 26


async def test_a_wide_table_is_moved_aside_and_its_words_stay_whole(stage: Stage) -> None:
    """On a phone six columns would each be two letters wide."""
    page = stage.page
    await page.look(width=390, height=844, phone=True)
    await stage.show(Content(body=(Markdown(TABLES),)))
    assert await page.evaluate(BROKEN_WORDS) == []
    widths = "[...document.querySelectorAll('.table')].map((it) => it.scrollWidth > it.clientWidth)"
    assert await page.evaluate(widths) == [True, False]
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


TABLES = """\
|Model|Parameters|Context|Memory|Licence|What it is good for|
|---|---|---|---|---|---|
|Some-Model-1B|7 B|8192|4.3 GB|Apache|Texts of all kinds, and code|

|a|b|
|---|---|
|1|2|"""
# Words of a table that stand in more than one line; a hyphen may end one.
BROKEN_WORDS = """[...document.querySelectorAll(":is(th, td)")].flatMap((cell) => {
  const text = cell.firstChild;
  return [...text.data.matchAll(/[^\\s-]+/g)].filter(({ index, 0: word }) => {
    const range = document.createRange();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    return range.getClientRects().length > 1;
  }).map(([word]) => word);
})"""


async def test_every_kind_of_file_can_be_chosen(stage: Stage) -> None:
    """The dialog would hide the videos, recordings and documents that models accept."""
    assert await stage.page.evaluate("document.getElementById('file').accept") == ""
    assert await stage.page.evaluate("document.getElementById('attach').title") == "Attach files"


@pytest.mark.parametrize("language", ["en", "de"])
async def test_nothing_lies_over_anything_on_a_phone(stage: Stage, language: str) -> None:
    """Times would overlap the next message, and long words leave theirs."""
    page = stage.page
    await page.look(width=390, height=844, phone=True)
    if language == "de":
        async with page.reloads():
            stage.handler.choose("web:local", "de")
    word = "Donaudampfschifffahrtsgesellschaftskapitaensmuetzenabzeichen" * 2
    button = Button(command="again", job_id=1, label=word[:50])
    for body in (("short",), (word,), (Markdown(f"# {word}\n\n- {word}"),), ("last",)):
        await stage.show(Content(body=body, buttons=((button,),)))
    assert await page.evaluate(OVERLAPS) == []
    assert await page.evaluate(ROOM_BESIDE_HINT) >= 0, "the hint in the field is cut off"
    # The overview moves aside below a finger.
    wide = "[...document.querySelectorAll('body *:not(#overview *)')].filter((node) => node.checkVisibility())"
    wide += ".filter((node) => node.getBoundingClientRect().right > 390.5).map((node) => node.outerHTML)"
    assert await page.evaluate(wide) == []


ROOM_BESIDE_HINT = """(() => {
  const field = document.getElementById("text"), style = getComputedStyle(field);
  const hint = document.createElement("span");
  hint.textContent = field.placeholder;
  hint.style.cssText = `position: absolute; white-space: pre; font: ${style.font}`;
  document.body.append(hint);
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const left = room - hint.getBoundingClientRect().width;
  hint.remove();
  return left;
})()"""
OVERLAPS = """(() => {
  const parts = [...document.querySelectorAll(".bubble, .meta")].map((node) => [node, node.getBoundingClientRect()]);
  return parts.slice(1).flatMap(([node, box], at) =>
    parts[at][1].bottom > box.top + 0.5 ? [`${parts[at][0].innerText} / ${node.innerText}`] : []);
})()"""


async def test_the_page_speaks_the_language_its_reader_chose(stage: Stage) -> None:
    """The bot would speak German and the page around it English."""
    page = stage.page
    async with page.reloads():
        stage.handler.choose("web:local", "de")
    await page.wait_text("Verbunden")
    assert await page.evaluate("document.documentElement.lang") == "de"
