"""Forms and hidden images of the web chat: over its WebSocket, and in a real Chromium."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import pytest_asyncio

from bot.core.content import Button, Content, Form, FormField
from bot.core.platform import Invocation, MessageRef
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.web_client import image, running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.programs.chromium import Chromium, Page, running_chromium

EDIT = Button(command="edit", job_id=7, label="Edit")
SECOND = Button(command="vary", job_id=7, label="🎲 2", number=2)
FORM = Form(
    command="edit",
    job_id=7,
    title="Draw it <b>differently</b>",
    fields=(
        FormField(name="prompt", label="What to draw", value="a cat", long=True, required=True),
        FormField(name="seed", label="Seed", value="7"),
    ),
    send="Send",
)


# ---------------------------------------------------------------- over the WebSocket


async def test_a_form_goes_to_the_page_that_asked_and_comes_back_once() -> None:
    """A form would open on every page of a person, or be carried out twice."""
    handler = ScriptedHandler()
    async with running(web_chat(port=0), handler) as web, tab(web) as page, tab(web) as other:
        ref = await web.send("local", Content(body=("done",), buttons=((EDIT,),)))
        press = {"key": uuid4().hex, "message": ref.message, "command": "edit", "job": 7}
        await page.send(type="press", **press)
        call = await handler.taken()
        assert call.show_form is not None
        await call.show_form(FORM)
        form = await page.next("form")
        assert (form["command"], form["job"], form["send"]) == ("edit", 7, "Send")
        assert form["number"] is None
        assert [field["value"] for field in form["fields"]] == ["a cat", "7"]
        submit = {"key": uuid4().hex, "command": "edit", "job": 7, "values": {"prompt": "a dog"}}
        for _ in range(2):
            await page.send(type="submit", **submit)
            await page.next("taken")
        call = await handler.taken()
        assert (call.command, call.form, call.options) == (
            "edit",
            True,
            {"id": 7, "prompt": "a dog"},
        )
        assert call.user == "web:local"
        await other.send(type="suggest", id=1, command="image", param="model", typed="")
        await other.next("values")
        assert not [each for each in other.unread if each["type"] == "form"]
        assert len(handler.keys) == 2


async def test_a_form_no_page_sends_is_not_taken() -> None:
    """A stranger's program could fill the memory, or send a command what it cannot read."""
    cases: list[dict[str, object]] = [
        {"prompt": 7},
        {"x" * 100: "y"},
        {f"v{n}": "" for n in range(11)},
        {"prompt": "x" * 300_000},
    ]
    for values in cases:
        handler = ScriptedHandler()
        async with running(web_chat(port=0), handler) as web, tab(web) as page:
            await page.send(type="submit", key=uuid4().hex, command="edit", job=7, values=values)
            assert (await page.next("refused"))["reason"] == "invalid", values
        assert handler.keys == [], values


async def test_a_button_of_one_image_among_several_says_which() -> None:
    """The second image's button would vary the first."""
    handler = ScriptedHandler()
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ref = await web.send("local", Content(body=("done",), buttons=((SECOND,),)))
        press = {"message": ref.message, "command": "vary", "job": 7}
        await page.send(type="press", key=uuid4().hex, **press, number=2)
        assert (await handler.taken()).options == {"id": 7, "number": 2}
        await page.send(type="press", key=uuid4().hex, **press, number=3)
        assert (await page.next("refused"))["reason"] == "button-gone"


async def test_a_reply_brings_the_words_it_answers_along() -> None:
    """A question about a message would be sent without that message."""
    handler = ScriptedHandler()
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ref = await web.send("local", Content(body=("a cat\nflux",)))
        await page.say("what is this?", reply_to=ref.message)
        assert (await handler.taken()).quoted == "a cat\nflux"


# ---------------------------------------------------------------- in a browser


class Stage:
    """One person's page, and the bot behind it, played by the test."""

    def __init__(self, web: Web, handler: ScriptedHandler, page: Page) -> None:
        self.web = web
        self.handler = handler
        self.page = page

    async def show(self, content: Content) -> MessageRef:
        ref = await self.web.send("local", content)
        await self.page.wait_message(ref.message)
        return ref

    async def opened(self) -> Invocation:
        """Press the button and show the form it asks for."""
        await self.show(Content(body=("done",), buttons=((EDIT,),)))
        await self.page.click(".message:last-child .button")
        call = await self.handler.taken()
        assert call.show_form is not None
        await call.show_form(FORM)
        await self.page.wait("document.querySelector('#form').open")
        return call


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest_asyncio.fixture
async def stage(chromium: Chromium) -> AsyncIterator[Stage]:
    handler = ScriptedHandler()
    async with running(web_chat(port=0), handler) as web, chromium.page() as page:
        await page.goto(web.url)
        await page.wait_text("Connected")
        yield Stage(web, handler, page)
        assert page.errors == []


@pytest.mark.browser
async def test_a_form_is_filled_in_by_keyboard_alone(stage: Stage) -> None:
    """A person who uses no mouse could not change a request; or a title could become markup."""
    page = stage.page
    await stage.opened()
    assert await page.evaluate("document.querySelector('#form-title').innerText") == FORM.title
    assert await page.evaluate("document.activeElement.name") == "prompt"
    assert await page.evaluate("document.activeElement.labels[0].innerText") == "What to draw"
    await page.type(" in a hat")
    await page.press("Enter")
    await page.type("and gloves")
    await page.press("Tab")
    await page.press("Tab")
    await page.press("Tab")
    await page.press("Enter")
    call = await stage.handler.taken()
    assert call.form
    assert call.options == {"id": 7, "prompt": "a cat in a hat\nand gloves", "seed": "7"}
    assert not await page.evaluate("document.querySelector('#form').open")


@pytest.mark.browser
async def test_a_form_can_be_left_and_its_texts_stay_texts(stage: Stage) -> None:
    """No one could leave a form, or the old values would run as code."""
    page = stage.page
    await stage.opened()
    await page.press("Escape")
    await page.wait("!document.querySelector('#form').open")
    await stage.opened()
    await page.click("#form-cancel")
    await page.wait("!document.querySelector('#form').open")
    taken = len(stage.handler.keys)
    assert taken == 2
    await page.click("#text")
    await page.type("later than a form that was sent")
    await page.press("Enter")
    assert (await stage.handler.taken()).command != "edit"
    assert len(stage.handler.keys) == taken + 1


@pytest.mark.browser
async def test_a_hidden_image_is_seen_only_when_asked_for(stage: Stage) -> None:
    """Hidden images would be shown at once, or never."""
    page, node = stage.page, "document.querySelector('.message:last-child .image')"
    drawing = Content(files=(image(shade=1),), spoiler=True)
    ref = await stage.show(drawing)
    assert await page.evaluate(f"{node}.classList.contains('spoiler')")
    assert await page.evaluate(f"{node}.getAttribute('aria-label')") == "Show the hidden image"
    await page.click(".message:last-child .image")
    assert not await page.evaluate("document.querySelector('#large').open")
    await page.wait(f"!{node}.classList.contains('spoiler')")
    await stage.web.edit(ref, Content(files=(image(size=(128, 96)),), spoiler=True))
    await page.wait(f"{node}.querySelector('img').naturalWidth === 128")
    assert not await page.evaluate(f"{node}.classList.contains('spoiler')")
    await page.click(".message:last-child .image")
    await page.wait("document.querySelector('#large').open")
