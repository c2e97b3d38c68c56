"""What can be done with a result: its buttons, forms and replies, in virtual time."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

from PIL import Image

from bot import buttons
from bot.buttons import Abilities
from bot.commands.registry import COMMANDS
from bot.platforms.base import Attachment, Button, Content, ContentRefused, Form, MessageRef
from bot.rooms import Room, Rooms
from bot.styles import Style
from queueing.catalog import ModelSpec
from queueing.events import Progressed
from queueing.jobs import Job, JobState, stand_in
from queueing.requests import Capability, Chat, Progress, TextToImage
from tests.fakes.backend import PICTURE
from tests.fakes.chat import FakeChat
from tests.simulation.bot_house import ADMIN, Bot, bot
from tests.simulation.house import House, ended, host
from tests.simulation.loop import run

DRAWS = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})


def model(name: str, *able: Capability, **fields: Any) -> ModelSpec:
    given: dict[str, Any] = {"load_s": 10.0, "service_s": 5.0, "vram_mb": 2000} | fields
    return ModelSpec(name=name, backends=("comfy",), capabilities=frozenset(able), **given)


FLUX = model("flux", *DRAWS)
LENS = model("lens", Capability.UPSCALE)
QWEN = model("qwen", Capability.TEXT_TO_TEXT, Capability.VISION)
DEAF = model("deaf", Capability.TEXT_TO_TEXT)


def in_bot(
    story: Any,
    *models: ModelSpec,
    options: frozenset[str] | None = None,
    **fields: Any,
) -> FakeChat:
    """Play a story in the bot on these models, by default a painter, a lens and a writer."""
    house = House.of(models or (FLUX, LENS, QWEN), [host("gpu-1", "comfy")])
    house.servers["comfy"].options = options
    house.servers["comfy"].loras = fields.pop("loras", ())
    house.servers["comfy"].service_s = fields.pop("service_s", 5.0)
    chat = fields.pop("chat", None) or FakeChat()

    async def play() -> None:
        async with bot(house, chat, **fields) as running:
            await story(running)
            await asyncio.sleep(5)

    run(play())
    return chat


async def ask(running: Bot, text: str, user: str = "fake:1", **fields: Any) -> Job | None:
    """Make a call and return the newest job if it made one."""
    before = {job.id for job in await running.queue.unacknowledged()}
    await running.gate.call(running.chat.call(text, user=user, **fields))
    new = [job for job in await running.queue.unacknowledged() if job.id not in before]
    return new[-1] if new else None


async def done(running: Bot, text: str, user: str = "fake:1", **fields: Any) -> Job:
    """Make a call, wait until its job has ended and is shown, and return it."""
    job = await ask(running, text, user, **fields)
    assert job is not None, running.chat.private
    job = await ended(running.queue, job)
    await asyncio.sleep(10)
    return job


async def press(running: Bot, job: Job, command: str, user: str = "fake:1", **fields: Any) -> Any:
    """Press a button that is under a job's message and return the job that makes."""
    button = next(
        each for each in shown(running, await of(running, job)) if each.command == command
    )
    values = {"id": job.id} | ({"number": button.number} if button.number else {})
    options = fields.pop("options", values)
    ref = await of(running, job)
    call = {"button": True, "options": options, "replied_to": ref} | fields
    return await ask(running, f"/{command}", user, **call)


async def of(running: Bot, job: Job) -> MessageRef:
    sent = await running.records.message(job.id)
    assert sent is not None
    return sent.ref


def shown(running: Bot, ref: MessageRef) -> list[Button]:
    content = running.chat.messages[ref.message].contents[-1]
    return [button for row in content.buttons for button in row]


def picture(side: int = 64) -> Attachment:
    buffer = BytesIO()
    Image.new("L", (side, side)).save(buffer, "PNG")

    async def read() -> bytes:
        return buffer.getvalue()

    return Attachment(name="a.png", mime="image/png", size=len(buffer.getvalue()), read=read)


def drawn(job: Any) -> TextToImage:
    assert job is not None
    assert isinstance(job.request, TextToImage)
    return job.request


def said(job: Any) -> list[tuple[str, str]]:
    assert job is not None
    assert isinstance(job.request, Chat)
    return [(turn.role, turn.text) for turn in job.request.messages]


# ---------------------------------------------------------------- which buttons there are


def test_numbered_buttons_say_in_words_what_they_do() -> None:
    """Of four pictures nobody would know what the second 🎲 is for."""
    job = replace(stand_in(7, "flux", 0.0), request=TextToImage(prompt="a cat"))
    rows = buttons.of_result(job, "en", Abilities(vary=True, upscale=True), pictures=2)
    numbered = [(each.label, each.hint) for row in rows for each in row if each.number]
    assert numbered == [
        ("🎲 1", "Vary 1"), ("🎲 2", "Vary 2"), ("⬆️ 1", "Upscale 1"), ("⬆️ 2", "Upscale 2"),
    ]  # fmt: skip


def test_only_models_that_can_do_it_are_suggested() -> None:
    """People would choose a model from the list and be refused."""

    async def story(running: Bot) -> None:
        for command in running.gate.commands:
            for param in command.params:
                if (command.name, param.name) in {("image", "model"), ("settings", "image")}:
                    assert list(running.gate.suggest(param, "", "fake:1")) == ["flux"]
                if (command.name, param.name) == ("preload", "model"):
                    assert len(running.gate.suggest(param, "", "fake:1")) > 1

    in_bot(story)


def test_a_result_has_the_buttons_its_models_can_serve() -> None:
    """People would press what ends in a refusal, or miss what there is."""
    found: dict[str, list[str]] = {}

    async def story(running: Bot) -> None:
        for text in ("/image flux a cat", "/ask qwen why?"):
            job = await done(running, text)
            found[job.model] = [each.command for each in shown(running, await of(running, job))]

    in_bot(story)
    always = ["again", "edit", "delete"]
    assert found == {"flux": [*always, "vary", "vary-subtle", "upscale"], "qwen": always}
    plain = model("flux", Capability.TEXT_TO_IMAGE)
    in_bot(story, plain, DEAF, model("qwen", Capability.TEXT_TO_TEXT))
    assert found == {"flux": always, "qwen": always}


def test_every_button_names_a_command_and_fits_a_row() -> None:
    """A button would reach no command, or a platform refuse the whole message."""
    names = {command.name for command in COMMANDS}
    rows: list[tuple[Button, ...]] = []

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat --count 3")
        content = running.chat.messages[(await of(running, job)).message].contents
        rows.extend(row for each in content for row in each.buttons)

    in_bot(story)
    assert {button.command for row in rows for button in row} <= names
    assert max(map(len, rows)) <= 5


# ---------------------------------------------------------------- vary, upscale, delete


def test_a_variation_starts_from_the_result_with_its_words_and_a_new_seed() -> None:
    """Varying would draw the same picture, or another one altogether."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat --size 512x512 --seed 7")
        strong = await press(running, job, "vary")
        subtle = await press(running, job, "vary-subtle")
        for varied, strength in ((strong, 0.7), (subtle, 0.4)):
            request = drawn(varied)
            assert (request.prompt, request.strength, request.width) == ("a cat", strength, None)
            assert request.seed != 7
            assert await running.queue.inputs(varied) == (PICTURE,)

    in_bot(story)


def test_a_model_that_only_draws_varies_by_a_new_seed() -> None:
    """`/vary` would be refused although there is something it can do."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat --seed 7")
        varied = await ask(running, f"/vary --id {job.id}")
        assert drawn(varied).seed != 7
        assert varied is not None
        assert await running.queue.inputs(varied) == ()

    in_bot(story, model("flux", Capability.TEXT_TO_IMAGE))


def test_a_picture_of_ones_own_is_varied_and_enlarged() -> None:
    """The menu on somebody's picture would do nothing."""

    async def story(running: Bot) -> None:
        varied = await ask(running, "/vary in winter", files=(picture(),))
        larger = await ask(running, "/upscale", files=(picture(),))
        assert drawn(varied).prompt == "in winter"
        nameless = await done(running, "/vary", files=(picture(),))
        message = running.chat.messages[(await of(running, nameless)).message]
        assert message.text.startswith("flux · ")
        await ask(running, "/history")
        assert "done · from a picture · " in running.chat.private[-1][1]
        assert larger is not None
        assert (larger.model, drawn(larger).upscale) == ("lens", True)
        await ask(running, "/upscale")

    assert "A picture is missing" in in_bot(story).private[-1][1]


def test_a_larger_picture_keeps_the_words_and_cannot_be_enlarged_for_ever() -> None:
    """The enlarged picture would not say what it shows, or grow with every press."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        larger = await press(running, job, "upscale")
        larger = await ended(running.queue, larger)
        await asyncio.sleep(10)
        assert larger.state is JobState.COMPLETED
        ref = await of(running, larger)
        assert running.chat.messages[ref.message].text.startswith("a cat\nlens")
        assert [each.command for each in shown(running, ref)] == ["delete"]

    in_bot(story)


def test_a_picture_that_is_large_already_stays_as_it_is() -> None:
    """Enlarging what was enlarged again and again would take a server's whole memory."""

    async def story(running: Bot) -> None:
        assert await ask(running, "/upscale", files=(picture(side=4_100),)) is None

    assert "16 megapixels" in in_bot(story).private[-1][1]


def test_only_the_owner_or_an_admin_may_press() -> None:
    """A stranger could spend or delete what is somebody else's."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        for command in ("vary", "upscale", "edit", "delete", "again"):
            assert await press(running, job, command, "fake:2") is None
        assert (await of(running, job)).message in running.chat.messages
        assert await press(running, job, "vary", ADMIN) is not None

    private = in_bot(story).private
    assert [text for _, text in private] == [
        "Only the person who asked, or an admin, can do that."
    ] * 5


def test_delete_takes_the_message_away_and_keeps_the_result() -> None:
    """The bin would do nothing, or take what /show still promises."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        ref = await of(running, job)
        await press(running, job, "delete")
        await asyncio.sleep(1)
        assert ref.message not in running.chat.messages
        assert await running.queue.output(job) is not None

    assert in_bot(story).private == []


class Unforgiving(FakeChat):
    """A chat that deletes nothing, as Telegram does with messages older than two days."""

    async def delete(self, ref: MessageRef) -> None:
        raise ContentRefused("message can't be deleted")


def test_a_message_that_cannot_be_deleted_any_more_is_emptied() -> None:
    """The picture somebody wants gone would stay, without a word."""

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        await press(running, job, "delete")
        await asyncio.sleep(5)
        content = running.chat.messages[(await of(running, job)).message].contents[-1]
        assert (content.body, content.files, content.buttons) == (("Deleted.",), (), ())

    in_bot(story, chat=Unforgiving())


def test_a_running_job_is_not_deleted_under_its_owner() -> None:
    """A message would vanish and come back as soon as its job goes on."""

    async def story(running: Bot) -> None:
        job = await ask(running, "/image flux a cat")
        assert job is not None
        await running.gate.call(running.chat.call(f"/delete {job.id}"))
        await asyncio.sleep(1)

    assert "has not ended" in in_bot(story).private[-1][1]


# ---------------------------------------------------------------- edit


def form_of(forms: list[Form]) -> Mapping[str, str]:
    return {field.name: field.value for field in forms[-1].fields}


def test_edit_shows_the_old_values_and_draws_with_the_new_ones() -> None:
    """People would type everything again to change one word."""
    forms: list[Form] = []

    async def show(form: Form) -> None:
        forms.append(form)

    async def story(running: Bot) -> None:
        text = "/image flux a cat --size 512x768 --seed 7 --steps 20 --negative dogs"
        job = await done(running, text)
        assert await press(running, job, "edit", show_form=show) is None
        await asyncio.sleep(1)
        assert form_of(forms) == {
            "prompt": "a cat", "negative": "dogs", "size": "512x768", "steps": "20", "seed": "7",
        }  # fmt: skip
        sent = {
            "id": job.id,
            "prompt": "a dog",
            "negative": "",
            "size": "",
            "steps": "9",
            "seed": "7",
        }
        edited = await ask(running, "/edit", options=sent, form=True)
        request = drawn(edited)
        assert (request.prompt, request.negative, request.width) == ("a dog", None, None)
        assert (request.steps, request.seed) == (9, 7)

    in_bot(story)


def test_a_form_has_no_fields_a_model_would_ignore() -> None:
    """A person would fill in what is then refused."""
    forms: list[Form] = []

    async def show(form: Form) -> None:
        forms.append(form)

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        await press(running, job, "edit", show_form=show)
        await asyncio.sleep(1)
        sent = {"id": job.id, "prompt": "a dog", "seed": ""}
        edited = await ask(running, "/edit", options=sent, form=True)
        assert drawn(edited).seed != drawn(job).seed

    in_bot(story, options=frozenset({"seed"}))
    assert set(form_of(forms)) == {"prompt", "seed"}


def test_where_there_are_no_forms_a_reply_to_the_prompt_edits_after_a_restart_too() -> None:
    """On Telegram the button would lead nowhere."""
    chat = FakeChat()

    async def story(running: Bot) -> None:
        job = await done(running, "/image flux a cat --seed 7")
        await press(running, job, "edit")
        await asyncio.sleep(1)
        number, prompt = list(chat.messages.items())[-1]
        assert prompt.contents[-1].awaits
        assert "a cat" in prompt.text
        ref = MessageRef(platform="fake", chat="1", message=number)
        assert await ask(running, "/ask mine now", "fake:2", replied_to=ref) is None
        edited = await ask(running, "/ask a dog --steps 9", replied_to=ref)
        request = drawn(edited)
        assert (request.prompt, request.seed, request.steps) == ("a dog", 7, 9)

    in_bot(story, chat=chat)


def test_a_question_is_asked_differently_in_the_same_conversation() -> None:
    """An edited question would forget what was said before it."""

    async def story(running: Bot) -> None:
        first = await done(running, "/ask qwen why?")
        second = await done(running, "/ask and how?", replied_to=await of(running, first))
        edited = await ask(running, "/edit", options={"id": second.id, "prompt": "and when?"})
        assert said(edited) == [
            ("user", "why?"), ("assistant", "result of why?"), ("user", "and when?"),
        ]  # fmt: skip

    in_bot(story)


# ---------------------------------------------------------------- texts


def test_an_answer_is_stopped_and_what_was_written_stays() -> None:
    """Who stops an answer would lose what they stopped to read."""

    async def story(running: Bot) -> None:
        job = await ask(running, "/ask qwen why?")
        assert job is not None
        await asyncio.sleep(30)
        progress = Progress(text="Because of")
        running.presenter.notice(Progressed(job_id=job.id, progress=progress))
        await asyncio.sleep(5)
        assert [each.label for each in shown(running, await of(running, job))] == ["⏹ Stop"]
        await press(running, job, "cancel")
        await asyncio.sleep(5)
        text = running.chat.messages[(await of(running, job)).message].text
        assert text == "Because of\n\n⏹ Stopped here."

    in_bot(story, QWEN, service_s=100.0)


def test_describe_shows_the_picture_to_a_model_that_sees() -> None:
    """A blind model would be asked, or nothing shown to the one that sees."""

    async def story(running: Bot) -> None:
        described = await ask(running, "/describe", files=(picture(),))
        assert described is not None
        assert described.model == "qwen"
        assert said(described) == [("user", "Describe this picture.")]
        assert len(await running.queue.inputs(described)) == 1
        job = await done(running, "/image flux a cat")
        again = await ask(running, "/describe what colour?", replied_to=await of(running, job))
        assert said(again) == [("user", "what colour?")]
        assert again is not None
        assert await running.queue.inputs(again) == (PICTURE,)
        await ask(running, "/describe")

    private = in_bot(story, DEAF, FLUX, QWEN).private
    assert "A picture is missing" in private[-1][1]


def test_a_follow_up_sees_the_picture_again() -> None:
    """What is behind it would be asked of a model that no longer sees anything."""

    async def story(running: Bot) -> None:
        first = await done(running, "/describe", files=(picture(),))
        second = await ask(running, "/ask and behind it?", replied_to=await of(running, first))
        assert second is not None
        assert isinstance(second.request, Chat)
        assert [turn.pictures for turn in second.request.messages] == [(0,), (), ()]
        assert await running.queue.inputs(second) == await running.queue.inputs(first)

    in_bot(story)


def test_quoted_words_go_with_a_question_about_them() -> None:
    """A question about somebody's words would be asked about nothing."""

    async def story(running: Bot) -> None:
        job = await ask(running, "/ask qwen what is meant?", quoted="first\nsecond")
        assert said(job) == [("user", "> first\n> second\n\nwhat is meant?")]

    in_bot(story)


# ---------------------------------------------------------------- rooms and styles


def test_a_chats_rules_hold_there_and_nowhere_else() -> None:
    """Words, hidden pictures or a system prompt of one chat would leak into the others."""
    room = Room(system="Answer in rhymes.", words=("Snow Crash",), spoiler=True)
    rooms = Rooms(by_key={"fake:g5": room})
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in "SNOW")

    async def story(running: Bot) -> None:
        assert await ask(running, f"/image flux a {wide}-crash!", chat="g5") is None
        assert await ask(running, "/ask qwen snowcrash?", chat="g5") is not None
        assert await ask(running, "/image flux a snow crash", chat="1") is not None
        there = await done(running, "/image flux a cat", chat="g5/7")
        here = await done(running, "/image flux a cat", chat="1")
        content: list[Content] = []
        for job in (there, here):
            message = running.chat.messages[(await of(running, job)).message]
            content.append(message.contents[-1])
        assert [each.spoiler for each in content] == [True, False]
        first = await done(running, "/ask qwen why?", chat="g5")
        second = await ask(running, "/ask how?", chat="g5", replied_to=await of(running, first))
        assert said(second) == [
            ("system", "Answer in rhymes."),
            ("user", "why?"),
            ("assistant", "result of why?"),
            ("user", "how?"),
        ]

    private = in_bot(story, rooms=rooms).private
    assert private == [("g5", "“Snow Crash” is not wanted in this chat.")]


def test_a_style_adds_its_words_and_options_and_the_person_has_the_last_word() -> None:
    """A style would be ignored, or overrule what a person asked for."""
    styles = {
        "Noir": Style(
            prompt="{prompt}, film noir", negative="colour", size="3:2", options={"steps": 30}
        ),
        "sketch": Style(prompt="pencil sketch"),
    }

    async def story(running: Bot) -> None:
        plain = drawn(await ask(running, "/image a {prompt} cat --style noir"))
        assert plain.prompt == "a {prompt} cat, film noir"
        assert (plain.negative, plain.steps, plain.width) == ("colour", 30, 1280)
        own = drawn(
            await ask(running, "/image a cat --style noir --steps 9 --negative dogs --size square")
        )
        assert (own.negative, own.steps, own.width) == ("dogs, colour", 9, 1024)
        await ask(running, "/settings --style SKETCH")
        assert drawn(await ask(running, "/image a cat")).prompt == "a cat, pencil sketch"
        await ask(running, "/styles")
        await ask(running, "/image a cat --style oil")

    private = [text for _, text in in_bot(story, styles=styles).private]
    assert "style of pictures: sketch" in private[0]
    assert private[1] == "Noir · {prompt}, film noir\nsketch · pencil sketch"
    assert private[2] == "There is no style called “oil”. There are: Noir, sketch."


def test_loras_are_listed_by_model_and_only_where_one_fits() -> None:
    """Nobody could know what --lora takes, or read the same list for every model."""

    async def story(running: Bot) -> None:
        await ask(running, "/loras")
        await asyncio.sleep(5)

    def told(**fields: Any) -> str:
        chat = in_bot(story, FLUX, model("sdxl", *DRAWS), **fields)
        (message,) = chat.messages.values()
        return message.text

    takes = frozenset({"lora"})
    many = tuple(f"l{number}" for number in range(50))
    assert told(options=takes, loras=("ink", "oil")) == "flux, sdxl: ink, oil\n"
    assert told(options=takes, loras=many).endswith("l39 … and 10 more\n")
    nothing = "No model here has a place for a LoRA, or its server has none."
    assert told(options=takes) == told(options=frozenset(), loras=("ink",)) == nothing
