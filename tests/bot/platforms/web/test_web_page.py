"""The page in a real Chromium: what people see and do, by mouse, by keyboard and on a phone."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from bot.core.content import Button, Content, Markdown, Moment
from bot.core.platform import Invocation, MessageRef
from bot.platforms.web.chat.calls import CALLS_BURST, Calls
from bot.platforms.web.chat.protocol import ModelQueue
from bot.platforms.web.platform import Web
from queueing.core.requests import File
from tests.bot.platforms.web.web_client import image, running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat
from tests.fakes.ports import port_of
from tests.fakes.programs.chromium import Chromium, Page, running_chromium

pytestmark = pytest.mark.browser

CANCEL = Button(command="cancel", job_id=7, label="Cancel", danger=True)
AGAIN = Button(command="again", job_id=7, label="Again")
LAST = ".message:last-child"
ATTACKS = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg onload='window.hacked = 1'>",
    "[click](javascript:window.hacked=1)",
    "[click](JaVaScRiPt:window.hacked=1)",
    "[click](data:text/html,<script>window.hacked=1</script>)",
    "![x](x' onerror='window.hacked=1)",
    "**<b onmouseover='window.hacked=1'>**",
    "```<img src=x onerror=window.hacked=1>\n<script>window.hacked=1</script>\n```",
    "|<script>window.hacked=1</script>|b|\n|---|---|\n|<img src=x onerror=window.hacked=1>|d|",
    "&lt;script&gt;window.hacked = 1&lt;/script&gt;",
    "https://example.org/'onmouseover='window.hacked=1",
)


# The next answer from an address arrives only once it is released.
HELD = """(() => {
  const send = window.fetch;
  window.fetch = async (...asked) => {
    const answer = await send(...asked);
    if (!asked[0].startsWith("ADDRESS")) return answer;
    window.answers = (window.answers ?? 0) + 1;
    if (window.answers === 1) await new Promise((done) => { window.release = done; });
    return answer;
  };
})()"""
RELEASE = """(release(), new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))))"""


class Stage:
    """One person's page, and the bot behind it, played by the test."""

    def __init__(self, web: Web, handler: ScriptedHandler, page: Page) -> None:
        self.web = web
        self.handler = handler
        self.page = page

    async def say(self, text: str) -> Invocation:
        """Type a message as a person would, and return the call it makes."""
        await self.page.click("#text")
        await self.page.type(text)
        await self.page.press("Enter")
        return await self.handler.taken()

    async def show(self, content: Content) -> MessageRef:
        """Send a message and wait until the page shows it."""
        ref = await self.web.send("local", content)
        await self.page.wait_message(ref.message)
        return ref


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest_asyncio.fixture
async def stage(chromium: Chromium) -> AsyncIterator[Stage]:
    handler = ScriptedHandler()
    lines = [
        ModelQueue(model="flux", waiting=3, running=1, memory="ready"),
        ModelQueue(model="some-writer-480b-instruct-q4_k_m", waiting=0, memory="absent"),
        ModelQueue(model="wan", waiting=0, memory="absent"),
    ]
    async with (
        running(web_chat(port=0, overview=lambda _: lines), handler) as web,
        chromium.page() as page,
    ):
        await page.goto(web.url)
        await page.wait_text("Connected")
        yield Stage(web, handler, page)
        assert page.errors == []


async def test_a_request_is_typed_watched_and_becomes_its_image(stage: Stage) -> None:
    """The page would fail at its whole purpose: a command, its place, previews, and the result."""
    page = stage.page
    await page.wait_text("flux", "#overview")
    call = await stage.say("/image flux a cat")
    assert (call.command, call.text) == ("image", "flux a cat")
    await page.wait_text("/image flux a cat", ".message.mine")

    moment = Moment(time.time() + 1200, before="at ")
    waiting = Content(body=("flux · #3 in line · ready ", moment), buttons=((CANCEL,),))
    ref = await call.respond(waiting, False)
    assert ref is not None
    await page.wait_text("#3 in line", LAST)
    await page.wait(f"/\\(in \\d+\\smin/.test(document.querySelector('{LAST}').innerText)")
    today = time.localtime(moment.at).tm_yday == time.localtime().tm_yday
    await page.wait_text("ready at " if today else "ready ", LAST)

    drawing = Content(body=("step 12/28",), files=(image(shade=10),), buttons=((CANCEL,),))
    await stage.web.edit(ref, drawing)
    await page.wait(f"document.querySelector('{LAST} img')?.naturalWidth === 64")
    assert "#3 in line" not in await page.text("#messages")

    done = image("a cat.png", (256, 192))
    result = Content(body=("a cat\nflux · seed 1234",), files=(done,), buttons=((AGAIN,),))
    await stage.web.edit(ref, result)
    await page.wait(f"document.querySelector('{LAST} img')?.naturalWidth === 256")
    await page.wait_text("Again", LAST)
    assert "Cancel" not in await page.text(LAST)
    assert await page.evaluate("document.querySelectorAll('.message').length") == 2


async def test_an_image_is_shown_large_and_can_be_downloaded(stage: Stage) -> None:
    """People could not look at their image closely, or save it."""
    page = stage.page
    await stage.show(Content(files=(image("one.png"), image("two.png", shade=1))))
    await page.click(f"{LAST} .image")
    await page.wait("document.querySelector('#large').open")
    await page.wait_text("1/2 · one.png")
    await page.press("ArrowRight")
    await page.wait_text("2/2 · two.png")
    link = "document.querySelector('#large-download')"
    assert await page.evaluate(f"{link}.download") == "two.png"
    answer = f"fetch({link}.href).then((a) => a.headers.get('content-disposition'))"
    assert "two.png" in await page.evaluate(answer)
    await page.press("Escape")
    await page.wait("!document.querySelector('#large').open")


async def test_a_streamed_answer_grows_and_keeps_its_elements(stage: Stage) -> None:
    """Streaming would flicker, lose a selection, or show Markdown's marks."""
    page = stage.page
    text = "First **bold** and `code`.\n\n- one\n- two\n\n```python\nprint('hi')\n```\n\n## End\n\n"
    ref = await stage.show(Content(body=(Markdown(text[:28]),)))
    await page.evaluate(f"window.first = document.querySelector('{LAST} .markdown p')")
    for end in range(30, len(text), 7):
        await stage.web.edit(ref, Content(body=(Markdown(text[:end]),)))
    await stage.web.edit(ref, Content(body=(Markdown(text + "[docs](https://example.org/a)"),)))
    await page.wait(
        f"document.querySelector('{LAST} .markdown a')?.href === 'https://example.org/a'"
    )
    kinds = f"[...document.querySelector('{LAST} .markdown').children].map((n) => n.tagName)"
    assert await page.evaluate(kinds) == ["P", "UL", "DIV", "H3", "P"]
    assert await page.evaluate("window.first.isConnected")
    assert await page.text(f"{LAST} strong") == "bold"
    assert await page.text(f"{LAST} pre") == "print('hi')"


async def test_a_cursor_stays_in_the_line_it_writes(stage: Stage) -> None:
    """A streaming answer's cursor would jump to a new line below the text."""
    page = stage.page
    ref = await stage.show(Content(body=(Markdown("One word"), "▌")))
    assert await page.text(f"{LAST} .markdown p") == "One word▌"
    await stage.web.edit(ref, Content(body=(Markdown("One word\n\n- more"), "▌")))
    await page.wait_text("more▌", f"{LAST} li")
    assert await page.text(f"{LAST} .markdown p") == "One word"
    await stage.web.edit(ref, Content(body=(Markdown("One word\n\n- more"), "\nllama · 8 s")))
    await page.wait_text("llama · 8\u00a0s", f"{LAST} .line")
    assert "▌" not in await page.text(LAST)


@pytest.mark.parametrize("markdown", [False, True])
async def test_hostile_texts_stay_texts(stage: Stage, markdown: bool) -> None:
    """A prompt or an answer could run code in the page of anyone who reads it."""
    page = stage.page
    for attack in ATTACKS:
        body = (Markdown(attack) if markdown else attack,)
        button = Button(command="again", job_id=1, label=attack)
        hostile = File(name=f"{attack}.png", mime="image/png", data=image().data)
        await stage.show(Content(body=body, buttons=((button,),), files=(hostile,)))
    await stage.say(ATTACKS[1])
    await page.wait_text("onerror", ".message.mine")
    assert await page.evaluate("window.hacked === undefined")
    made = "document.querySelectorAll('#messages :is(script, svg:not(.sign), iframe, b)').length"
    assert await page.evaluate(made) == 0
    assert await page.evaluate("document.querySelectorAll('#messages [onerror]').length") == 0
    links = "[...document.querySelectorAll('#messages .markdown a')].map((a) => a.protocol)"
    assert set(await page.evaluate(links)) <= {"https:"}


async def test_long_hostile_markdown_does_not_hang_the_page(stage: Stage) -> None:
    """One answer full of unclosed marks would freeze the tab of everyone who sees it."""
    for text in ("*" * 50_000, "[" * 50_000, "`" * 50_000 + " x", "_a" * 25_000, "> " * 25_000,
                 "**a " * 12_000, "|" * 50_000 + "\n|-|", "- " * 25_000, "~~" * 25_000 + "x",
                 "\n".join(" " * at + "- x" for at in range(300))):  # fmt: skip
        await stage.show(Content(body=(Markdown(text),)))
    await stage.say("still alive?")


async def test_buttons_act_by_mouse_and_by_keyboard(stage: Stage) -> None:
    """Without a mouse no one could cancel, or a mouse click would do nothing."""
    page = stage.page
    ref = await stage.show(Content(body=("waiting",), buttons=((CANCEL,),)))
    await page.click(f"{LAST} .danger")
    call = await stage.handler.taken()
    assert (call.command, call.options, call.replied_to) == ("cancel", {"id": 7}, ref)
    await page.wait(f"!document.querySelector('{LAST} .danger').hasAttribute('aria-busy')")
    await page.evaluate(f"document.querySelector('{LAST} .danger').focus()")
    await page.press("Enter")
    await stage.handler.taken()
    # The focus stays where it is when the buttons below it change.
    await stage.web.edit(ref, Content(body=("done",), buttons=((AGAIN,),)))
    await page.wait("document.activeElement.innerText === 'Again'")


async def test_a_command_is_completed_by_keyboard_alone(stage: Stage) -> None:
    """People would have to memorise commands and models."""
    page = stage.page
    assert await page.evaluate("document.activeElement.id") == "text"
    await page.type("/im")
    await page.wait_text("/image", "#choices")
    assert await page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    await page.press("Enter")
    await page.type("fl")
    await page.wait_text("flux-fast", "#choices")
    await page.press("ArrowDown")
    await page.press("ArrowDown")
    await page.press("Enter")
    await page.type("a cat --st")
    await page.wait_text("--steps", "#choices")
    await page.press("Tab")
    await page.type("20")
    await page.press("Enter", shift=True)
    await page.type("in a hat")
    await page.press("Enter")
    call = await stage.handler.taken()
    assert call.text == "flux-fast a cat --steps 20\nin a hat"


async def test_a_style_is_completed_and_choices_are_named(stage: Stage) -> None:
    """People would have to memorise the styles and the values of a command."""
    page = stage.page
    await page.type("/image cat --style n")
    await page.wait_text("noir", "#choices")
    await page.press("Tab")
    assert await page.evaluate("document.querySelector('#text').value") == (
        "/image cat --style noir "
    )
    await page.evaluate("document.querySelector('#text').value = ''")
    await page.type("/forget ")
    await page.wait_text("/forget <conversation|me>", "#hint")


async def test_an_empty_page_offers_what_a_newcomer_needs(stage: Stage) -> None:
    """A person who has no job yet would be offered to cancel or repeat one."""
    names = "[...document.querySelectorAll('.start span')].map((node) => node.innerText)"
    assert await stage.page.evaluate(names) == ["/image"]


async def test_an_image_is_named_for_those_who_hear_the_page(stage: Stage) -> None:
    """A screen reader would spell out "ComfyUI_00012_.png" instead of what was drawn."""
    images = (image("x_01.png"), image("x_02.png", shade=1))
    await stage.show(Content(body=("a cat\nflux · 9 s",), files=images))
    labels = f"[...document.querySelectorAll('{LAST} .image')].map((node) => node.ariaLabel)"
    assert await stage.page.evaluate(labels) == ["Enlarge Image 1", "Enlarge Image 2"]
    heard = f"document.querySelector('{LAST} img').alt"
    assert await stage.page.evaluate(heard) == "Image 1: a cat flux · 9 s"


async def test_a_short_label_says_in_words_what_it_does(stage: Stage) -> None:
    """A screen reader would say "game die 2", and no one would guess what that does."""
    button = Button(command="show", job_id=7, label="Show 7", hint="Show job 7")
    await stage.show(Content(body=("done",), buttons=((button,),)))
    shown = f"document.querySelector('{LAST} .buttons button')"
    said = await stage.page.evaluate(f"[{shown}.title, {shown}.ariaLabel, {shown}.innerText]")
    assert said == ["Show job 7", "Show job 7", "Show 7"]


async def test_a_file_that_only_claims_to_be_an_image_stays_reachable(
    stage: Stage, tmp_path: Path
) -> None:
    """Its place would be empty, with no text about what was sent."""
    page = stage.page
    path = tmp_path / "fake.png"
    await asyncio.to_thread(path.write_bytes, b"no image")
    await page.evaluate(
        "const set = window.setTimeout; window.setTimeout = (act, ms) => set(act, ms === 2000 ? 0 : ms)"
    )
    await page.set_files("#file", path)
    await page.wait("document.querySelector('#attached .done') !== null")
    await stage.say("/describe")
    await page.wait_text("fake.png", ".message.mine .file")


async def test_one_image_too_many_is_told_until_something_changes(
    stage: Stage, tmp_path: Path
) -> None:
    """The fifth image would silently be missing."""
    page = stage.page
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path in paths:
        await asyncio.to_thread(path.write_bytes, image().data)
    await page.set_files("#file", *paths)
    await page.wait("document.querySelectorAll('#attached .done').length === 4")
    assert await page.text("#notice") == "You can attach at most 4 files to one message."
    await page.type("cat")
    assert await page.text("#notice") == ""


async def test_arrow_up_brings_back_what_was_sent(stage: Stage) -> None:
    """A prompt could not be changed a little without typing it again."""
    page = stage.page
    await stage.say("first line")
    await stage.say("second line")
    await page.wait("document.querySelectorAll('.message.mine:not(.pending)').length === 2")
    await page.type("draft")
    for _ in range(5):
        await page.call(
            "Input.dispatchKeyEvent", type="keyDown", key="Home", windowsVirtualKeyCode=36
        )
    await page.press("ArrowUp")
    await page.press("ArrowUp")
    assert await page.evaluate("document.querySelector('#text').value") == "first line"
    await page.press("ArrowDown")
    await page.press("ArrowDown")
    assert await page.evaluate("document.querySelector('#text').value") == "draft"


async def test_a_preview_that_did_not_come_is_not_asked_for_once_the_next_one_is_there(
    stage: Stage,
) -> None:
    """The page would keep asking for deleted previews, with errors in its console."""
    broken = File(name="a.png", mime="image/png", data=b"no image")
    ref = await stage.show(Content(body=("step 1",)))
    await stage.web.edit(ref, Content(files=(broken,)))
    await stage.page.wait(f"document.querySelector('{LAST} img')?.complete")
    await stage.page.evaluate(f"window.first = document.querySelector('{LAST} img')")
    await stage.web.edit(ref, Content(files=(image(),)))
    await stage.page.wait(f"document.querySelector('{LAST} img').naturalWidth === 64")
    assert await stage.page.evaluate("window.first.onerror === null")


async def test_an_image_is_attached_and_sent(stage: Stage, tmp_path: Path) -> None:
    """A person could not start from an image on the page."""
    page = stage.page
    path = tmp_path / "start.png"
    await asyncio.to_thread(path.write_bytes, image().data)
    await page.set_files("#file", path)
    await page.wait("document.querySelector('#attached .done') !== null")
    call = await stage.say("/image make it blue")
    assert [(file.name, file.mime) for file in call.files] == [("start.png", "image/png")]
    assert await call.files[0].read() == image().data
    await page.wait("document.querySelector('.message.mine .image img')?.naturalWidth === 64")
    await page.wait("document.querySelector('#attached').hidden")


@pytest.mark.parametrize(
    "event",
    [
        "new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })",
        "new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })",
    ],
)
async def test_a_pasted_or_dropped_image_is_attached(stage: Stage, event: str) -> None:
    """An image copied elsewhere would have to be saved first, and a dropped one replace the page."""
    put = (
        "(() => { const data = new DataTransfer();"
        "data.items.add(new File([new Uint8Array([1, 2, 3])], 'put.png', {type: 'image/png'}));"
        f"return document.querySelector('#text').dispatchEvent({event}); }})()"
    )
    assert await stage.page.evaluate(put) is False  # the browser's own handling was prevented
    await stage.page.wait("document.querySelector('#attached .done') !== null")
    call = await stage.say("what is this?")
    assert [file.name for file in call.files] == ["put.png"]


async def test_a_reply_names_its_message(stage: Stage) -> None:
    """A conversation could not be continued by a reply."""
    page = stage.page
    ref = await stage.show(Content(body=(Markdown("The answer is 42."),)))
    await page.evaluate(f"document.querySelector('{LAST} .meta .plain').focus()")
    await page.press("Enter")
    await page.wait_text("The answer is 42.", "#reply")
    call = await stage.say("why?")
    assert call.replied_to == ref
    await page.wait_text("The answer is 42.", ".message.mine .quote")
    await page.wait("document.querySelector('#reply').hidden")


async def test_a_press_whose_confirmation_was_lost_is_no_mistake(chromium: Chromium) -> None:
    """A person who cancelled just before a crash would be told that there was no such button."""
    log, handler = MemoryLog(), ScriptedHandler()
    port = port_of(handler)
    async with chromium.page() as page:
        async with running(Web(port=port, log=log), handler) as web:
            await page.goto(web.url)
            await page.wait_text("Connected")
            ref = await web.send("local", Content(body=("waiting",), buttons=((CANCEL,),)))
            await page.wait_text("Cancel", LAST)
            handler.open.clear()
            await page.click(f"{LAST} .danger")
            await handler.taken()
            await web.edit(ref, Content(body=("cancelled",)))
        await page.wait_text("Connection lost")
        async with running(Web(port=port, log=log), handler):
            await page.wait("sessionStorage.getItem('usher-outbox') === null")
            assert await page.text("#notice") == ""


async def test_the_conversation_is_there_after_a_reload_and_a_restart(chromium: Chromium) -> None:
    """Results would be lost with the tab or with the bot's process."""
    log, handler = MemoryLog(), ScriptedHandler()
    port = port_of(handler)
    async with chromium.page() as page:
        async with running(Web(port=port, log=log), handler) as web:
            await page.goto(web.url)
            await page.wait_text("Connected")
            ref = await web.send("local", Content(body=("kept",)))
            await page.wait_text("kept")
            await page.reload()
            await page.wait_text("kept")
        await page.wait_text("Connection lost")
        await page.click("#text")
        await page.type("typed while away")
        await page.press("Enter")
        await page.wait_text("waiting for the connection", ".message.pending")
        async with running(Web(port=port, log=log), handler) as web:
            await web.edit(ref, Content(body=("changed meanwhile",)))
            await page.wait_text("changed meanwhile")
            assert (await handler.taken()).text == "typed while away"
            await page.wait("document.querySelector('.message.pending') === null")
            assert await page.evaluate("document.querySelectorAll('.message').length") == 2
        assert all("ERR_CONNECTION_REFUSED" in error for error in page.errors)


async def test_a_refused_line_can_be_written_again(stage: Stage) -> None:
    """What a person typed would be lost with the refusal."""
    page = stage.page
    line = {"type": "say", "key": uuid4().hex, "text": "about my image", "uploads": ["gone"]}
    outbox = json.dumps(json.dumps([line]))
    await page.evaluate(f"sessionStorage.setItem('usher-outbox', {outbox})")
    await page.reload()
    await page.wait_text("Not sent.", ".message.failed")
    await page.click(".message.failed .meta .plain")
    await page.wait("document.querySelector('#text').value === 'about my image'")
    await page.wait("document.querySelector('.message.failed') === null")


async def test_a_flood_of_lines_arrives_whole_and_in_order(stage: Stage) -> None:
    """Messages typed faster than the server accepts them would be lost, or change order."""
    page = stage.page
    for at in range(CALLS_BURST + 3):
        await page.click("#text")
        await page.type(f"line {at}")
        await page.press("Enter")
    texts = [(await stage.handler.taken()).text for _ in range(CALLS_BURST + 3)]
    assert texts == [f"line {at}" for at in range(CALLS_BURST + 3)]
    await page.wait("document.querySelector('.message.pending') === null")


async def test_a_line_that_came_too_fast_is_not_overtaken(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later request would get the place in the queue of the one typed before it."""
    answers = iter([False])
    monkeypatch.setattr(Calls, "allowed", lambda *_: next(answers, True))
    for text in ("first", "second"):
        await stage.page.click("#text")
        await stage.page.type(text)
        await stage.page.press("Enter")
    assert [(await stage.handler.taken()).text for _ in range(2)] == ["first", "second"]


async def test_the_first_message_of_a_chat_is_shown_however_it_changed(stage: Stage) -> None:
    """The first of two messages that came together would be missing until the next reload."""
    first = await stage.web.send("local", Content(body=("waiting",)))
    await stage.web.send("local", Content(body=("another",)))
    await stage.web.edit(first, Content(body=("ready",)))
    await stage.page.wait_text("another", "#messages .message:last-child .line")
    await stage.page.wait_text("ready", "#messages .message:first-child .line")


async def test_the_page_speaks_german(stage: Stage) -> None:
    """Half of the page would stay English for a German reader, and so would the answers."""
    page = stage.page
    agent = {"userAgent": "test", "acceptLanguage": "de-DE,de"}
    await page.call("Emulation.setUserAgentOverride", **agent)
    await page.reload()
    await page.wait_text("Verbunden")
    assert await page.evaluate("document.documentElement.lang") == "de"
    assert (await stage.say("hallo")).language == "de-DE"


async def test_earlier_messages_are_shown_above_those_that_are_there(stage: Stage) -> None:
    """An older image could not be found again on the page."""
    page = stage.page
    for at in range(75):
        await stage.web.send("local", Content(body=(f"message {at}",)))
    await page.wait_text("message 74")
    await page.reload()
    await page.wait_text("message 74")
    assert "message 3\n" not in await page.text("#messages")
    await page.evaluate("document.querySelector('#earlier').click()")
    await page.wait_text("message 3\n", "#messages")
    texts = await page.evaluate("[...document.querySelectorAll('.line')].map((n) => n.innerText)")
    assert texts == [f"message {at}" for at in range(75)]
    assert await page.evaluate("document.querySelector('#earlier').hidden")


async def test_the_page_follows_the_end_until_the_reader_scrolls_up(stage: Stage) -> None:
    """A growing answer would run out of view, or scroll away what a person is reading."""
    page = stage.page
    ref = await stage.show(Content(body=(Markdown("start"),)))
    at_end = "(() => { const s = document.querySelector('#scroll'); return s.scrollTop > 500 &&"
    at_end += " s.scrollTop + s.clientHeight >= s.scrollHeight - 2; })()"
    for lines in (20, 60, 120):
        await stage.web.edit(ref, Content(body=(Markdown("\n\n".join(["more"] * lines)),)))
        await page.wait(f"document.querySelectorAll('{LAST} .markdown p').length === {lines}")
    await page.wait(at_end)
    await page.look(width=700, height=500)
    await page.wait(at_end)
    await page.click("#text")
    await page.press("PageUp")
    before = await page.evaluate("document.querySelector('#scroll').scrollTop")
    await stage.show(Content(body=("something new",)))
    await page.wait("!document.querySelector('#to-end').hidden")
    assert await page.evaluate("document.querySelector('#scroll').scrollTop") == before
    await page.click("#to-end")
    await page.wait(at_end)
    await page.wait("document.querySelector('#to-end').hidden")


async def test_what_grows_in_the_moment_of_scrolling_tears_nobody_away(stage: Stage) -> None:
    """A person who scrolls up while an answer streams would be returned to its end."""
    page = stage.page
    await stage.show(Content(body=(Markdown("\n\n".join(["more"] * 90)),)))
    scroll = "document.querySelector('#scroll')"
    await page.wait(f"{scroll}.scrollTop > 500")
    grow = f"document.querySelector('{LAST} .markdown').append(document.createElement('hr'))"
    before = await page.evaluate(f"{scroll}.scrollBy(0, -300); {grow}; {scroll}.scrollTop")
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    await page.evaluate(frames)
    assert await page.evaluate(f"{scroll}.scrollTop") == before


async def test_the_title_marks_what_came_while_nobody_looked(stage: Stage) -> None:
    """A person who has the page in another tab would not see that their image is done."""
    page = stage.page
    await page.evaluate("document.hasFocus = () => false")
    await stage.show(Content(body=("done",)))
    await page.wait("document.title === '(1) Usher'")
    await page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
    await page.wait("document.title === 'Usher'")


@pytest.mark.parametrize("dark", [False, True])
async def test_on_a_phone_everything_fits(stage: Stage, dark: bool) -> None:
    """On a phone the page would scroll sideways or hide its buttons."""
    page = stage.page
    await page.look(width=360, height=740, phone=True, dark=dark)
    wide = "```\n" + "x" * 300 + "\n```\n\n|" + "cell|" * 30 + "\n|" + "---|" * 30
    row = tuple(Button(command="again", job_id=1, label=f"Button {at}") for at in range(5))
    await stage.show(Content(body=("w" * 200,), files=(image(size=(900, 300)),), buttons=(row,)))
    await stage.show(Content(body=(Markdown(wide),)))
    await stage.say("/image " + "long" * 60)
    assert await page.evaluate("document.documentElement.scrollWidth") == 360
    inside = (
        "[...document.querySelectorAll('.bubble, .button, .image, .box, .send, .code')]"
        ".every((n) => n.getBoundingClientRect().right <= 360.5)"
    )
    assert await page.evaluate(inside)
    lum = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (await page.evaluate(lum) < 60) is dark


async def test_everything_pressable_has_a_name(stage: Stage) -> None:
    """A screen reader would say "button" and nothing more."""
    page = stage.page
    await stage.show(Content(body=("x",), files=(image(),), buttons=((CANCEL, AGAIN),)))
    nodes = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    pressable = [node for node in nodes if node.get("role", {}).get("value") in
                 {"button", "link", "textbox", "image"} and not node.get("ignored")]  # fmt: skip
    assert len(pressable) >= 6
    assert all(node["name"]["value"].strip() for node in pressable)


async def test_a_settled_message_is_read_out(stage: Stage) -> None:
    """A person who cannot see the page would not learn that a result came."""
    await stage.show(Content(body=("Ready: your flux image",)))
    await stage.page.wait_text("Ready: your flux image", "#announce")


async def test_a_stranger_is_asked_to_sign_in(chromium: Chromium) -> None:
    """Without the right token a person would see a broken page, or get in."""
    token, handler = "correct-horse-battery-staple", ScriptedHandler()
    async with (
        running(web_chat(port=0, token=token), handler) as web,
        chromium.page() as page,
    ):
        await page.goto(web.url)
        await page.wait_text("Sign in")
        await page.type("wrong-wrong-wrong")
        await page.press("Enter")
        await page.wait_text("Unknown token")
        await page.click("#signin-token")
        await page.type(token)
        await page.press("Enter")
        await page.wait_text("Connected")
        assert await page.evaluate("document.cookie") == ""
        assert await page.evaluate("location.href") == f"{web.url}#chat/first"
        await page.click("#text")
        await page.type("hello")
        await page.press("Enter")
        assert (await handler.taken()).text == "hello"
