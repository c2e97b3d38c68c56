"""A result's buttons and what they do, in virtual time."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.commands.registry import COMMANDS
from bot.core.asker import Asker
from bot.core.content import Content
from bot.core.errors import ChatGone, ContentRefused
from bot.core.platform import MessageRef
from bot.texts import results as buttons
from bot.texts.results import Abilities
from queueing.core.jobs import JobState, stand_in
from queueing.core.requests import Capability, TextToImage
from tests.bot.results import (
    DEAF,
    ask,
    bot_with,
    done,
    drawn,
    image,
    in_bot,
    model,
    of,
    play,
    press,
    shown,
)
from tests.fakes.chat import FakeChat
from tests.fakes.servers.backend import IMAGE
from tests.simulation.bot_installation import ADMIN, Bot, settled
from tests.simulation.installation import ended
from tests.simulation.loop import in_virtual_time

if TYPE_CHECKING:
    from bot.core.content import Button

# ---------------------------------------------------------------- which buttons there are


def test_numbered_buttons_say_in_words_what_they_do() -> None:
    """Of four images no one would know what the second 🎲 is for."""
    job = replace(stand_in(7, "flux", 0.0), request=TextToImage(prompt="a cat"))
    rows = buttons.of_result(job, "en", Abilities(vary=True, edit=True), images=2)
    numbered = [(each.label, each.hint) for row in rows for each in row if each.number]
    assert numbered == [
        ("🎲 1", "Vary 1"), ("🎲 2", "Vary 2"), ("🖌️ 1", "Edit image 1"), ("🖌️ 2", "Edit image 2"),
    ]  # fmt: skip


ADA = Asker(user="fake:1", rooms=("fake:1", "fake"))


@in_bot()
async def test_only_models_that_can_do_it_are_suggested(running: Bot) -> None:
    """People would choose a model from the list and be refused."""
    for command in running.dispatcher.commands:
        for param in command.params:
            if (command.name, param.name) in {("image", "model"), ("settings", "image")}:
                assert list(running.dispatcher.suggest(param, "", ADA)) == ["flux"]
            if (command.name, param.name) == ("preload", "model"):
                assert len(running.dispatcher.suggest(param, "", ADA)) > 1


def test_a_result_has_the_buttons_its_models_can_serve() -> None:
    """People would press a button only to be refused, or not see what is possible."""
    found: dict[str, list[str]] = {}

    async def scenario(running: Bot) -> None:
        for text in ("/image flux a cat", "/ask qwen why?"):
            job = await done(running, text)
            found[job.model] = [each.command for each in shown(running, await of(running, job))]

    play(scenario)
    always = ["again", "edit", "delete"]
    assert found == {"flux": [*always, "vary", "vary-subtle", "upscale"], "qwen": always}
    plain = model("flux", Capability.TEXT_TO_IMAGE)
    play(scenario, plain, DEAF, model("qwen", Capability.TEXT_TO_TEXT))
    assert found == {"flux": always, "qwen": always}


@in_bot()
async def test_every_button_names_a_command_and_fits_a_row(running: Bot) -> None:
    """A button would reach no command, or a platform refuse the whole message."""
    names = {command.name for command in COMMANDS}
    rows: list[tuple[Button, ...]] = []
    job = await done(running, "/image flux a cat --count 3")
    content = running.chat.messages[(await of(running, job)).message].contents
    rows.extend(row for each in content for row in each.buttons)
    assert {button.command for row in rows for button in row} <= names
    assert max(map(len, rows)) <= 5


# ---------------------------------------------------------------- vary, upscale, delete


@in_bot()
async def test_a_variation_starts_from_the_result_with_its_words_and_a_new_seed(
    running: Bot,
) -> None:
    """Varying would draw the same image, or a completely different one."""
    job = await done(running, "/image flux a cat --size 512x512 --seed 7")
    strong = await press(running, job, "vary")
    subtle = await press(running, job, "vary-subtle")
    for asked, strength in ((strong, 0.7), (subtle, 0.4)):
        request = drawn(asked)
        assert (request.prompt, request.strength, request.width) == ("a cat", strength, None)
        assert request.seed != 7
        assert await running.queue.jobs.inputs(asked) == (IMAGE,)
        varied = await ended(running.queue, asked)
        await asyncio.sleep(10)
        told = running.chat.messages[(await of(running, varied)).message].text
        assert told.startswith(f"a cat\nvariation of {job.id} · flux")


@in_bot(model("flux", Capability.TEXT_TO_IMAGE))
async def test_a_model_that_only_draws_varies_by_a_new_seed(running: Bot) -> None:
    """`/vary` would be refused although the model could draw again with a new seed."""
    job = await done(running, "/image flux a cat --seed 7")
    varied = await ask(running, f"/vary --id {job.id}")
    assert drawn(varied).seed != 7
    assert varied is not None
    assert await running.queue.jobs.inputs(varied) == ()


@in_bot()
async def test_an_image_of_ones_own_is_varied_and_enlarged(running: Bot) -> None:
    """The menu on a person's own image would do nothing."""
    varied = await ask(running, "/vary in winter", files=(image(),))
    larger = await ask(running, "/upscale", files=(image(),))
    assert drawn(varied).prompt == "in winter"
    nameless = await done(running, "/vary", files=(image(),))
    message = running.chat.messages[(await of(running, nameless)).message]
    assert message.text.startswith("flux · ")
    await ask(running, "/history")
    assert "done · from an image · " in running.chat.private[-1][1]
    assert larger is not None
    assert (larger.model, drawn(larger).upscale) == ("lens", True)
    await ask(running, "/upscale")
    assert "Attach an image" in (await settled(running)).private[-1][1]


@in_bot()
async def test_a_larger_image_keeps_the_words_and_cannot_be_enlarged_for_ever(running: Bot) -> None:
    """The enlarged image would not say what it shows, or grow with every press."""
    job = await done(running, "/image flux a cat")
    larger = await press(running, job, "upscale")
    larger = await ended(running.queue, larger)
    await asyncio.sleep(10)
    assert larger.state is JobState.COMPLETED
    ref = await of(running, larger)
    told = running.chat.messages[ref.message].text
    assert told.startswith(f"a cat\nfrom {job.id} · lens")
    buttons = [(each.command, each.job_id) for each in shown(running, ref)]
    assert buttons == [("show", job.id), ("delete", larger.id)]


@in_bot()
async def test_an_image_that_is_large_already_stays_as_it_is(running: Bot) -> None:
    """Repeated enlarging would take a server's whole memory."""
    assert await ask(running, "/upscale", files=(image(side=4_100),)) is None
    assert "16 megapixels" in (await settled(running)).private[-1][1]


@in_bot()
async def test_only_the_owner_or_an_admin_may_press(running: Bot) -> None:
    """A stranger could delete another person's result, or spend their quota."""
    job = await done(running, "/image flux a cat")
    for command in ("vary", "upscale", "edit", "delete", "again"):
        assert await press(running, job, command, "fake:2") is None
    assert (await of(running, job)).message in running.chat.messages
    varied = await press(running, job, "vary", ADMIN)
    assert varied is not None
    assert drawn(varied).source is None  # the admin could not show that job
    private = (await settled(running)).private
    assert [text for _, text in private] == [
        "Only the person who asked, or an admin, can do that."
    ] * 5


@in_bot()
async def test_delete_takes_the_message_away_and_keeps_the_result(running: Bot) -> None:
    """The button would do nothing, or delete a result that /show still promises."""
    job = await done(running, "/image flux a cat")
    ref = await of(running, job)
    await press(running, job, "delete")
    await asyncio.sleep(1)
    assert ref.message not in running.chat.messages
    assert await running.queue.jobs.output(job) is not None
    assert (await settled(running)).private == []


class Unforgiving(FakeChat):
    """A chat that deletes nothing, as Telegram does with messages older than two days."""

    async def delete(self, ref: MessageRef) -> None:
        raise ContentRefused("message can't be deleted")


@in_virtual_time
async def test_a_message_that_cannot_be_deleted_any_more_is_emptied() -> None:
    """The image that a person wants to delete would silently stay."""
    async with bot_with(chat=Unforgiving()) as running:
        job = await done(running, "/image flux a cat")
        await press(running, job, "delete")
        await asyncio.sleep(5)
        content = running.chat.messages[(await of(running, job)).message].contents[-1]
        assert (content.body, content.files, content.buttons) == (("Deleted.",), (), ())


class Unchangeable(Unforgiving):
    """A chat in which nothing can be taken back either, such as one that the bot has left."""

    async def edit(self, ref: MessageRef, content: Content) -> None:
        if content.body == ("Deleted.",):
            raise ChatGone("missing access")
        await super().edit(ref, content)


@in_virtual_time
async def test_a_message_that_stays_is_not_said_to_be_deleted() -> None:
    """A person would believe that nobody sees the image any more."""
    async with bot_with(chat=Unchangeable()) as running:
        job = await done(running, "/image flux a cat")
        await press(running, job, "delete")
        await running.dispatcher.call(running.chat.call(f"/delete {job.id}"))
        told = (await settled(running)).private
    assert [text.partition(";")[0] for _, text in told] == [
        "I couldn't delete every message of job 1"
    ] * 2


@in_bot()
async def test_a_running_job_is_not_deleted_under_its_owner(running: Bot) -> None:
    """A message would vanish and return as soon as its job continues."""
    job = await ask(running, "/image flux a cat")
    assert job is not None
    await running.dispatcher.call(running.chat.call(f"/delete {job.id}"))
    await asyncio.sleep(1)
    assert "hasn't finished" in (await settled(running)).private[-1][1]
