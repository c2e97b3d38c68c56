"""Forms, message menus and hidden images on Discord: real discord.py, a fake Discord."""

import asyncio
from dataclasses import replace

import discord
import pytest

from bot.commands.registry import COMMANDS as REAL_COMMANDS
from bot.core.asker import Asker
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Button, Content, Form, FormField
from bot.core.platform import Invocation
from bot.platforms.discord.commands import fields_of, has_form, options_form
from bot.texts.catalogue import CATALOGUES, describe
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import COMMANDS, RecordingHandler, running, says
from tests.fakes.discord.discord import FakeDiscord

IMAGE = File(name="cat.png", mime="image/png", data=b"\x89PNG cat")
EDIT = Command(
    name="edit",
    help="help.edit",
    opens_form=True,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),),
)
DESCRIBE = Command(name="describe", help="help.describe", menu="menu.describe")
FORM = Form(
    command="edit",
    job_id=12,
    title="Edit and redraw " * 5,
    fields=(
        FormField(name="prompt", label="What to draw", value="a cat", long=True, required=True),
        FormField(name="seed", label="Seed " * 20, value="7"),
    ),
    send="Send",
)
WITH_EDIT = Content(
    body=("done",), buttons=((Button(command="edit", job_id=12, label="Edit", number=2),),)
)


def handler(**fields: object) -> RecordingHandler:
    return replace(RecordingHandler(commands=(*COMMANDS, EDIT, DESCRIBE)), **fields)  # type: ignore[arg-type]


async def showing(call: Invocation) -> None:
    if call.show_form is not None and not call.form:
        await call.show_form(FORM)


async def test_a_button_opens_a_form_whose_values_come_back_as_a_call() -> None:
    """No one could change a request on Discord, or the changes would go to another job."""
    async with FakeDiscord() as fake, running(fake, handler(then=showing)) as chat:
        person = fake.person(7)
        ref = await chat.send("100", WITH_EDIT)
        message = fake.channel().messages[0]
        opened = await person.click(message, "Edit")
        await fake.wait_for(lambda: opened.form is not None)
        assert opened.fields == {"prompt": "a cat", "seed": "7"}
        noting = handler()
    async with FakeDiscord() as fake, running(fake, noting) as chat:
        opened.source = None
        person = fake.person(7)
        await person.send_off(opened, prompt="a dog\nin a hat", seed="")
        call = await noting.called()
        await call.respond(says("⏳"), False)
    assert ref is not None
    assert (call.command, call.form, call.button) == ("edit", True, False)
    assert call.options == {"id": 12, "prompt": "a dog\nin a hat", "seed": ""}
    assert call.show_form is None


async def test_a_press_that_opens_a_form_is_not_confirmed_before_it() -> None:
    """The press would do nothing, since Discord accepts a form only as the first answer."""
    waiting = asyncio.Event()

    async def late(call: Invocation) -> None:
        await waiting.wait()
        await showing(call)

    noting = handler()
    async with FakeDiscord() as fake, running(fake, noting) as chat:
        await chat.send("100", WITH_EDIT)
        opened = await fake.person(7).click(fake.channel().messages[0], "Edit")
        call = await noting.called()
        assert call.options == {"id": 12, "number": 2}
        answering = asyncio.create_task(late(call))
        await chat.send("100", says("later than any confirmation"))
        waiting.set()
        await answering
        assert opened.response_type == 9


async def test_the_menu_of_a_message_brings_its_words_and_files() -> None:
    """The menu entry "Describe" on a person's image would not work, or work without the image."""
    noting = handler()
    async with FakeDiscord() as fake, running(fake, noting):
        person = fake.person(7)
        image = person.file("cat.png", b"png bytes")
        clip = person.file("cat.mp4", b"a video", "video/mp4")
        written = fake.person(8).write("look at this", clip, image)
        await person.open_menu(written, "menu.describe")
        call = await noting.called()
        await call.respond(says("⏳"), False)
        video, file = call.files
        assert (video.name, video.replied) == ("cat.mp4", True)
        assert await file.read() == b"png bytes"
    assert (call.command, call.quoted, call.user) == ("describe", "look at this", "discord:7")
    assert (call.replied_to, call.quoted_by) == (None, "Person8")


async def test_the_menu_of_a_gallery_brings_its_words_and_files() -> None:
    """Discord lists no attachments for galleries: "Describe" would say that there is no image."""
    noting = handler()
    images = (IMAGE, File(name="two cats.png", mime="image/png", data=b"\x89PNG two"))
    rows = tuple((Button(command="vary", job_id=1, label=f"{n}", number=n),) for n in (1, 2))
    shown = Content(body=("*cats*",), files=images, buttons=rows)
    async with FakeDiscord() as fake, running(fake, noting) as chat:
        await chat.send("100", shown)
        await fake.person(7).open_menu(fake.channel().messages[0], "menu.describe")
        call = await noting.called()
        await call.respond(says("⏳"), False)
        assert [await each.read() for each in call.files] == [each.data for each in images]
    assert [each.name for each in call.files] == ["1-cat.png", "2-two_cats.png"]
    assert [each.kind for each in call.files] == [AttachmentKind.IMAGE] * 2
    assert call.quoted == "\\*cats\\*"


async def test_the_menu_of_our_own_message_tells_which_it_is() -> None:
    """The button "Vary" on a result would not know what it was drawn from."""
    noting = handler()
    async with FakeDiscord() as fake, running(fake, noting) as chat:
        ref = await chat.send("100", WITH_EDIT)
        await fake.person(7).open_menu(fake.channel().messages[0], "menu.describe")
        call = await noting.called()
        await call.respond(says("⏳"), False)
    assert call.replied_to == ref


async def test_a_hidden_image_is_marked_as_such_when_sent_and_when_edited() -> None:
    """A chat that wants images hidden would show them to everyone."""
    hidden = Content(body=("a cat",), files=(IMAGE,), spoiler=True)
    async with FakeDiscord() as fake, running(fake, handler()) as chat:
        await chat.send("100", hidden)
        ref = await chat.send("100", says("⏳"))
        await chat.edit(ref, hidden)
        names = [each.files[0].name for each in fake.channel().messages]
    assert names == ["SPOILER_cat.png", "SPOILER_cat.png"]


@pytest.mark.parametrize("language", CATALOGUES)
async def test_no_word_of_a_form_is_cut(language: str) -> None:
    """A field would be called "further options, such as --steps 30 --guidanc"."""
    asker = Asker(user="discord:7", rooms=(), rights=frozenset(), group=False)
    texts = {describe(p.help, language) for each in REAL_COMMANDS for p in fields_of(each)}
    for command in filter(has_form, REAL_COMMANDS):
        form = options_form(command, RecordingHandler(), describe, language, asker)
        assert form.title == describe(command.help, language)
        labels = {each.text for each in form.children if isinstance(each, discord.ui.Label)}
        assert labels <= texts, command.name
