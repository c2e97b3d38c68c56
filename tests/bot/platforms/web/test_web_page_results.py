"""The page in a real Chromium: the buttons below a result, and the card of a waiting job."""

import time
from pathlib import Path

import pytest

from bot.core.content import Button, Content, Markdown, Period, ProgressBar
from tests.bot.platforms.web.test_web_page import CANCEL, LAST, Stage, chromium, stage
from tests.bot.platforms.web.web_client import image
from tests.bot.whole_bot import on_web
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = pytest.mark.browser

FOCUSED = "document.activeElement"
MENU = "[...document.querySelectorAll('.menu-item')].map((node) => node.innerText)"


def _button(command: str, label: str, number: int | None = None, hint: str = "") -> Button:
    return Button(command=command, job_id=7, label=label, number=number, hint=hint)


ALWAYS = (
    _button("again", "🔄 Again"),
    _button("edit", "✏️ Edit"),
    _button("delete", "🗑️ Delete"),
)
ONE = (
    ALWAYS,
    (_button("vary", "🎲 Vary"), _button("upscale", "⬆️ Upscale")),
    (_button("video", "🎞️ Video"),),
)
FOUR = (
    ALWAYS,
    tuple(_button("vary", f"🎲 {at}", at, f"Vary {at}") for at in (1, 2, 3, 4)),
    tuple(_button("upscale", f"⬆️ {at}", at, f"Upscale {at}") for at in (1, 2, 3, 4)),
)


async def _taken(handler: ScriptedHandler) -> tuple[str, dict[str, object]]:
    call = await handler.taken()
    return call.command, dict(call.options)


async def test_a_result_has_two_main_actions_and_asks_before_it_is_deleted(stage: Stage) -> None:
    """Eight buttons would be below an image, and one slip of a finger would delete it."""
    page = stage.page
    await stage.show(Content(body=("a cat",), files=(image(),), buttons=ONE))
    row = f"[...document.querySelectorAll('{LAST} .button-row > *')]"
    assert await page.evaluate(f"{row}.map((node) => node.innerText)") == ["Again", "Vary", ""]
    assert await page.evaluate(f"{row}.every((node) => node.querySelector('svg'))")
    await page.click(f"{LAST} .button:first-child")
    assert await _taken(stage.handler) == ("again", {"id": 7})

    # By keyboard alone: into the menu, to its end, and back to the button.
    await page.evaluate(f"document.querySelector('{LAST} [aria-haspopup]').focus()")
    await page.press("Enter")
    assert await page.evaluate(MENU) == ["Edit", "Upscale", "Video", "Reply", "Delete"]
    await page.press("ArrowDown")
    await page.press("Enter")
    assert await _taken(stage.handler) == ("upscale", {"id": 7})
    await page.wait("document.querySelector('[aria-busy]') === null")
    await page.press("Enter")
    await page.press("Escape")
    await page.wait("document.querySelector('.menu') === null")
    assert (
        await page.evaluate(f"[{FOCUSED}.ariaLabel, {FOCUSED}.ariaExpanded].join()") == "More,false"
    )
    await page.press("Enter")
    await page.press("ArrowUp")
    await page.press("Enter")
    await page.wait_text("Delete this result for good?", "dialog.ask")
    assert await page.evaluate(f"{FOCUSED}.innerText") == "Keep"
    await page.press("Enter")
    await page.wait("document.querySelector('dialog.ask') === null")
    assert await page.evaluate(f"{FOCUSED}.ariaLabel") == "More"

    await page.click(f"{LAST} [aria-haspopup]")
    await page.click(".menu-item.danger")
    await page.click("dialog.ask .danger")
    assert await _taken(stage.handler) == ("delete", {"id": 7})


async def test_a_menu_closes_outside_by_its_own_button_and_when_the_phone_turns(
    stage: Stage,
) -> None:
    """A menu would cover what a person wants to read."""
    page = stage.page
    await stage.show(Content(body=("a cat",), files=(image(),), buttons=ONE))
    for outside in (f"{LAST} [aria-haspopup]", "#text"):
        await page.click(f"{LAST} [aria-haspopup]")
        await page.wait("document.querySelector('.menu') !== null")
        await page.click(outside)
        await page.wait("document.querySelector('.menu') === null")
    await page.click(f"{LAST} [aria-haspopup]")
    await page.wait("document.querySelector('.menu') !== null")
    await page.look(width=800, height=390)
    await page.wait("document.querySelector('.menu') === null")


async def test_an_answer_is_copied_and_repeated_under_it(stage: Stage) -> None:
    """The two most common actions for an answer would be hidden in a menu."""
    page = stage.page
    await stage.show(Content(body=(Markdown("**42**"),), buttons=(ALWAYS,)))
    row = f"[...document.querySelectorAll('{LAST} .button-row > *')].map((node) => node.innerText)"
    assert await page.evaluate(row) == ["Copy", "Again", ""]
    await page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    await page.click(f"{LAST} .button:first-child")
    await page.wait("window.copied === '**42**'")


@pytest.mark.parametrize("phone", [False, True])
async def test_each_of_four_images_has_its_own_actions(stage: Stage, phone: bool) -> None:
    """Sixteen numbered buttons would be below them, and people would have to count images."""
    page = stage.page
    await page.look(width=390 if phone else 1100, height=800, phone=phone)
    files = tuple(image(f"{at}.png", (300, 300), shade=40 * at) for at in (1, 2, 3, 4))
    await stage.show(Content(body=("four",), files=files, buttons=FOUR))
    row = f"[...document.querySelectorAll('{LAST} .button-row > *')].map((node) => node.innerText)"
    assert await page.evaluate(row) == ["Again", "Edit", ""]
    second = f"{LAST} .shot:nth-child(2)"
    if phone:  # a finger cannot hover
        await page.click(f"{second} .as-menu")
        assert await page.evaluate(MENU) == ["Vary 2", "Upscale 2"]
        await page.click(".menu-item:last-child")
    else:
        signs = f"[...document.querySelectorAll('{second} .sign-button')].map((node) => node.title)"
        assert await page.evaluate(signs) == ["Vary 2", "Upscale 2", "What to do with image 2"]
        await page.evaluate(f"document.querySelector('{second} [title=\"Upscale 2\"]').click()")
    assert await _taken(stage.handler) == ("upscale", {"id": 7, "number": 2})


async def test_a_waiting_job_is_a_card_that_does_not_jump(stage: Stage) -> None:
    """Place, time and progress would be a sentence that changes its length twice a second."""
    page = stage.page
    await page.look(width=390, height=844, phone=True)
    now = time.time()
    ready = (" · ready about ", Period.around(now + 60, now + 200))
    rows = ((CANCEL,),)
    ref = await stage.show(Content(body=("⏳ flux · #3 in line", *ready), buttons=rows, waits=True))
    assert await page.text(f"{LAST} .card-head") == "flux"
    assert (await page.text(f"{LAST} .card-time")).startswith("#3 in line ready about ")
    assert await page.text(f"{LAST} .card-note") == "now: 1 running, 3 waiting"
    assert (
        await page.evaluate(f"document.querySelector('{LAST} .bubble').innerText.includes('⏳')")
        is False
    )
    height = f"document.querySelector('{LAST} .bubble').getBoundingClientRect().height"
    before = await page.evaluate(height)

    reason = ("⏳ flux · #2 in line", *ready, "\nwaiting for sdxl to finish on gpu-1")
    await stage.web.edit(ref, Content(body=reason, buttons=rows, waits=True))
    await page.wait_text("waiting for sdxl", f"{LAST} .card-note")
    assert await page.evaluate(height) == before

    draws = ("🎨 drawing with flux · step 7/28 ", ProgressBar(0.25), *ready)
    await stage.web.edit(ref, Content(body=draws, buttons=rows, waits=True))
    await page.wait(f"document.querySelector('{LAST} .card-bar').value === 0.25")
    assert await page.text(f"{LAST} .card-head") == "drawing with flux"
    assert (await page.text(f"{LAST} .card-time")).startswith("step 7/28 ready about ")
    assert abs(await page.evaluate(height) - before) <= 2
    await page.click(f"{LAST} .danger")
    assert await _taken(stage.handler) == ("cancel", {"id": 7})
    done = Content(body=("a cat",), files=(image(),), buttons=ONE)
    await stage.web.edit(ref, done)
    await page.wait_text("Again", LAST)
    assert await page.evaluate(f"document.querySelector('{LAST} .card-head')") is None


SHIFTS = """(() => {
  window.shifts = new PerformanceObserver(() => {});
  window.shifted = () => shifts.takeRecords().map((entry) => entry.value);
  shifts.observe({ type: "layout-shift" });
})()"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PLACES = f"[...document.querySelectorAll('{LAST} .files, {LAST} .files .image')].map((node) => [node.getBoundingClientRect().x, node.getBoundingClientRect().y, node.offsetWidth, node.offsetHeight].map(Math.round).join())"


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("count", "size"), [(1, (300, 200)), (4, (300, 500))])
async def test_a_result_takes_the_place_that_its_card_kept(
    stage: Stage, width: int, count: int, size: tuple[int, int]
) -> None:
    """The conversation would jump under the reader's eyes at each preview and each result."""
    page = stage.page
    await page.look(width=width, height=844, phone=width < 640)
    await stage.show(Content(body=(Markdown("\n\n".join(["earlier"] * 30)),)))
    sizes, rows = (size,) * count, ((CANCEL,),)
    card = Content(body=("⏳ flux · #3 in line",), buttons=rows, waits=True, sizes=sizes)
    ref = await stage.show(card)
    await page.wait(f"document.querySelectorAll('{LAST} .room').length === {count}")
    await page.evaluate(SHIFTS)
    before = await page.evaluate(f"{DRAWN}.then(() => {PLACES})")
    for shade in (10, 20):
        preview = image("preview.png", (150, 150 * size[1] // size[0]), shade=shade)
        draws = ("🎨 drawing with flux · step 7/28 ", ProgressBar(shade / 40))
        await stage.web.edit(
            ref,
            Content(body=draws, files=(preview,), buttons=rows, waits=True, sizes=sizes),
        )
        await page.wait(f"document.querySelector('{LAST} .card-bar').value === {shade / 40}")
        await page.wait(f"document.querySelector('{LAST} .files img')?.naturalWidth === 150")
        assert await page.evaluate(f"{DRAWN}.then(() => {PLACES})") == before
    files = tuple(image(f"{at}.png", size, shade=40 * at) for at in range(1, count + 1))
    await stage.web.edit(ref, Content(body=("a cat\nflux",), files=files, buttons=FOUR))
    await page.wait(
        f"[...document.querySelectorAll('{LAST} .files img')].filter(({{ naturalWidth }}) => naturalWidth === 300).length === {count}"
    )
    assert await page.evaluate(f"{DRAWN}.then(() => {PLACES})") == before
    assert sum(await page.evaluate("shifted()")) < 0.01


@pytest.mark.thorough
async def test_a_high_card_shows_its_words_and_covers_nothing(stage: Stage) -> None:
    """A person would see an empty box, and press on its words instead of a button."""
    page = stage.page
    await page.look(width=390, height=600, phone=True)
    card = Content(
        body=("⏳ flux · #3 in line",), buttons=((CANCEL,),), waits=True, sizes=((300, 300),)
    )
    await stage.show(card)
    await stage.show(Content(body=(Markdown("\n\n".join(["later"] * 90)),)))
    place = "(selector) => document.querySelector(selector).getBoundingClientRect()"
    scroll = "document.getElementById('scroll')"
    hit = f"""(selector) => {{
      const {{ left, top, height }} = ({place})(selector);
      return document.elementFromPoint(left + 30, top + height / 2).closest(selector) !== null;
    }}"""

    async def down_to(selector: str) -> None:
        """Scroll until an element is right below the page's top."""
        gap = f"({place})('{selector}').top - ({place})('#scroll').top - 8"
        await page.evaluate(f"{scroll}.scrollTop += {gap}; {DRAWN}")

    await down_to(".waits .room")
    assert await page.evaluate(f"({hit})('.waits .card-head')")
    await down_to(".waits .danger")
    assert await page.evaluate(f"({hit})('.waits .danger')")
    # Its words lie below what lies over the conversation.
    await page.wait("!document.getElementById('to-end').hidden")
    gap = f"({place})('.waits .card-head').top - ({place})('#to-end').top"
    await page.evaluate(f"{scroll}.scrollTop = 0; {DRAWN}")
    await page.evaluate(f"{scroll}.style.paddingTop = `${{({gap}) * -1}}px`; {DRAWN}")
    assert await page.evaluate(f"({hit})('#to-end')")


async def test_a_waiting_job_is_read_out_only_when_its_place_changes(stage: Stage) -> None:
    """A screen reader would read a whole sentence with every step and every new estimate."""
    page = stage.page
    await page.evaluate(HEARD)
    now = time.time()
    ref = await stage.show(_status(" · #3 in line", now + 100))
    await page.wait("heard.length === 1")
    await stage.web.edit(ref, _status(" · #3 in line", now + 500))
    await stage.web.edit(ref, _status(" · #2 in line", now + 500))
    await page.wait("heard.length === 2")
    await stage.web.edit(ref, _status(" · step 3/9 ", now + 500, ProgressBar(0.3)))
    await page.wait("heard.length === 3")
    await stage.web.edit(ref, _status(" · step 4/9 ", now + 600, ProgressBar(0.4)))
    await stage.web.edit(ref, Content(body=("a cat",), buttons=ONE))
    await page.wait("heard.length === 4")
    assert await page.evaluate("heard") == ["flux, #3 in line", "flux, #2 in line", "flux", "a cat"]


def _status(fact: str, at: float, *bar: ProgressBar) -> Content:
    ready = Period.around(at, at + 100)
    return Content(body=("⏳ flux", fact, *bar, " · ready about ", ready), waits=True)


# Collects what is announced, at once instead of after a while without a change.
HEARD = """(() => {
  const set = window.setTimeout;
  window.setTimeout = (act, ms) => set(act, ms === 1500 ? 0 : ms);
  window.heard = [];
  const announced = document.getElementById("announce");
  new MutationObserver(() => heard.push(announced.textContent)).observe(announced, { childList: true });
})()"""


async def test_a_notice_makes_room_for_the_next_and_leaves(stage: Stage) -> None:
    """Notices would pile up over the conversation, or remain there."""
    page = stage.page
    await page.evaluate(
        "const set = window.setTimeout; window.setTimeout = (act, ms) => (ms === 5000 ? (window.leaves = act) && 0 : set(act, ms))"
    )
    ref = await stage.show(Content(body=("waiting",), buttons=((CANCEL,),)))
    await page.evaluate(f"window.gone = document.querySelector('{LAST} .danger')")
    await stage.web.edit(ref, Content(body=("done",)))
    await page.wait_text("done", LAST)
    await page.evaluate(
        "import('./static/toast.js').then(({ toast }) => toast('an earlier notice'))"
    )
    await page.evaluate("window.gone.click()")
    await page.wait(
        "document.getElementById('toast').textContent === 'That button no longer works.'"
    )
    await page.evaluate("window.leaves()")
    assert await page.text("#toast") == ""


async def test_the_reader_returns_from_another_view_to_where_they_were(stage: Stage) -> None:
    """After a look at the gallery, a person would be at the end of their conversation."""
    page = stage.page
    scroll = "document.getElementById('scroll')"
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    await stage.show(Content(body=(Markdown("\n\n".join(["more"] * 90)),)))
    await page.wait(f"{scroll}.scrollTop > 500")
    await page.evaluate(f"{scroll}.scrollTop -= 400; {frames}")
    before = await page.evaluate(f"{scroll}.scrollTop")
    await page.evaluate(f"{scroll}.hidden = true; {frames}")
    await stage.show(Content(body=("something new",)))
    await page.evaluate(f"{scroll}.hidden = false; {frames}")
    assert await page.evaluate(f"{scroll}.scrollTop") == before


SERVED = """
hosts:
  gpu-1:
    vram: 24GB
    backends: {studio: {kind: demo}}
models:
  flux: {backends: [studio], capabilities: [text-to-image], vram: 4GB, load_s: 0.1, service_s: 0.2}
  pen: {backends: [studio], capabilities: [image-edit], vram: 4GB, load_s: 0.1, service_s: 0.2}
"""


@pytest.mark.thorough
async def test_one_of_several_images_is_edited_where_it_stands(
    chromium: Chromium, tmp_path: Path
) -> None:
    """A person who likes the second image would need a command that they do not know."""
    async with on_web(tmp_path, SERVED) as (url, _), chromium.page() as page:
        await page.goto(url)
        await page.wait_text("Connected")
        await page.click("#text")
        await page.type("/image flux a cat --count 2")
        await page.press("Enter")
        await page.wait(
            "document.querySelector('.shot:nth-child(2) [title=\"Edit image 2\"]') !== null"
        )
        await page.evaluate(
            "document.querySelector('.shot:nth-child(2) [title=\"Edit image 2\"]').click()"
        )
        await page.wait("document.getElementById('form').open")
        await page.type("in a hat")
        await page.click("#form-send")
        await page.wait_text("in a hat\nfrom 1 · pen", LAST)
        assert page.errors == []
