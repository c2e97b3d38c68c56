"""Images are changed and combined: `/edit` and `/image` with images, masks, and the button."""

from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from bot.core.refusals import Declined
from bot.requests.files.images import mask_of
from queueing.core.jobs import Job
from queueing.core.requests import Capability, File, TextToImage
from tests.bot.results import (
    FLUX,
    QWEN,
    ask,
    attachment,
    bot_with,
    done,
    drawn,
    image,
    in_bot,
    model,
    of,
    play,
    press,
    said,
)
from tests.fakes.servers.backend import IMAGE
from tests.simulation.bot_installation import Bot, settled
from tests.simulation.loop import in_virtual_time

PEN = model("pen", Capability.IMAGE_EDIT)
ALL = (FLUX, PEN, QWEN)


def png(
    mode: str, color: Any, box: tuple[int, int, int, int] | None = None, fill: Any = 0
) -> bytes:
    image = Image.new(mode, (64, 32), color)
    if box is not None:
        image.paste(fill, box)
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def sent(data: bytes, **fields: Any) -> Any:
    return attachment(data, "a.png", "image/png", **fields)


async def files_of(running: Bot, job: Job | None) -> tuple[File, ...]:
    assert job is not None
    return await running.queue.jobs.inputs(job) or ()


# ---------------------------------------------------------------- which request it is


@in_bot(*ALL)
async def test_edit_with_images_changes_them_and_with_a_number_the_request(running: Bot) -> None:
    """An image would be ignored, or a job's number be mistaken for words."""
    edited = await ask(running, "/edit make it red --seed 3", files=(image(), image(128)))
    request = drawn(edited)
    assert (request.prompt, request.seed, request.edit) == ("make it red", 3, True)
    assert edited is not None
    assert edited.model == "pen"
    assert len(await files_of(running, edited)) == 2
    first = await done(running, "/image flux a cat --seed 3")
    again = await ask(running, f"/edit {first.id} flux is a dog")
    assert (drawn(again).prompt, drawn(again).edit) == ("flux is a dog", False)
    await ask(running, f"/edit {first.id} red", files=(image(),))
    await ask(running, "/edit", files=(image(),))
    await ask(running, "/edit pen make it red --voice x", files=(image(),))
    both, empty, voice = (await settled(running)).answers
    assert both.startswith("Do you mean the image you attached or job")
    assert empty.startswith("Your text is empty.")
    assert voice == "pen doesn't take --voice."


def test_a_reply_to_a_result_edits_its_image_where_a_model_can() -> None:
    """People would draw the whole image again, or be refused where nothing can edit."""
    prompts: list[TextToImage] = []

    async def scenario(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        edited = await ask(
            running, "/edit make it red", replied_to=await of(running, job), files=(image(),)
        )
        both = await ask(running, "/edit make it blue", replied_to=await of(running, job))
        prompts.extend((drawn(edited), drawn(both)))
        assert (await files_of(running, edited))[0] == IMAGE
        assert len(await files_of(running, edited)) == 2
        assert await files_of(running, both) == (IMAGE,)

    play(scenario, *ALL)
    assert [(each.edit, each.source) for each in prompts] == [(True, 1), (True, 1)]

    async def redrawn(running: Bot) -> None:
        job = await done(running, "/image flux a cat")
        again = await ask(running, "/edit a dog", replied_to=await of(running, job))
        assert (drawn(again).prompt, drawn(again).edit) == ("a dog", False)
        await ask(running, "/edit make it red", files=(image(),))

    (refused,) = play(redrawn).answers
    assert refused.startswith("No model here can edit or combine images.")


def test_edit_without_a_reply_is_about_the_latest_image() -> None:
    """People would get a picture of "make the roof green", or have it read aloud."""

    async def scenario(running: Bot) -> None:
        await done(running, "/image flux a house")
        await done(running, "/speak hello")
        edited = await ask(running, "/edit make the roof green")
        assert (drawn(edited).prompt, drawn(edited).edit) == ("make the roof green", True)
        assert await files_of(running, edited) == (IMAGE,)
        await done(running, "/ask why is it?")
        asked = await ask(running, "/edit why is it so?")
        assert asked is not None
        assert asked.request.words == "why is it so?"
        await done(running, "/image flux a cat", "fake:2")
        smaller = await ask(running, "/edit --steps 9", "fake:2")
        assert (drawn(smaller).prompt, drawn(smaller).edit) == ("a cat", False)

    async def redrawn(running: Bot) -> None:
        await done(running, "/image flux a house")
        await done(running, "/speak hello")
        again = await ask(running, "/edit a green house")
        assert (drawn(again).prompt, drawn(again).edit) == ("a green house", False)

    parrot = model("parrot", Capability.TEXT_TO_SPEECH)
    play(scenario, *ALL, parrot)
    play(redrawn, FLUX, QWEN, parrot)


@in_bot(*ALL)
async def test_a_question_below_an_image_is_about_its_prompt(running: Bot) -> None:
    """The model would mistake the model's name, the size and the seed for a person's words."""
    job = await done(running, "/image flux a house")
    ref = await of(running, job)
    shown = "a house\nflux · 64×64 · seed 3"
    asked = await ask(running, "/ask qwen is it old?", replied_to=ref, quoted=shown)
    assert said(asked) == [("user", "> a house\n\nis it old?")]


@in_bot(*ALL, model("sdxl", Capability.TEXT_TO_IMAGE))
async def test_a_job_is_done_again_by_another_model(running: Bot) -> None:
    """People would have to type the whole prompt again to compare two models."""
    job = await done(running, "/image flux a cat --seed 3")
    again = await ask(running, f"/edit {job.id} --model sdxl")
    assert again is not None
    assert (again.model, drawn(again).seed) == ("sdxl", 3)
    assert await ask(running, f"/edit {job.id} --model qwen") is None
    chat = await settled(running)
    assert chat.answers[-1].startswith("qwen can't draw images.")


@in_bot(*ALL)
async def test_another_persons_image_is_edited_by_words(running: Bot) -> None:
    """They would read that only the other person may do it, and never learn that words are enough."""
    ref = await of(running, await done(running, "/image flux a cat"))
    assert await ask(running, "/edit", "fake:2", replied_to=ref) is None
    assert "Usage: /edit" in (await settled(running)).answers[-1]
    edited = await ask(running, "/edit make it red", "fake:2", replied_to=ref)
    assert await files_of(running, edited) == (IMAGE,)


@in_bot(*ALL)
async def test_an_answer_becomes_the_prompt_of_an_image(running: Bot) -> None:
    """Who had a model write a prompt would have to copy it."""
    answered = await done(running, "/ask qwen a prompt, please")
    ref = await of(running, answered)
    image = await ask(running, "/image", "fake:2", replied_to=ref)
    assert drawn(image).prompt == "result of a prompt, please"
    assert await ask(running, "/ask", replied_to=ref) is None
    assert await ask(running, "/image", replied_to=await of(running, answered)) is not None
    shown = await of(running, await done(running, "/image a cat"))
    assert await ask(running, "/image", replied_to=shown) is None


@in_bot(*ALL)
async def test_the_button_asks_for_the_words_and_edits(running: Bot) -> None:
    """A press would redraw the image from its old words."""
    job = await done(running, "/image flux a cat")
    assert await press(running, job, "edit-image") is None
    asked = running.chat.messages[max(running.chat.messages, key=int)]
    assert asked.text == "Reply to this message with what should change in the image."
    options = {"id": job.id, "prompt": "make it red --seed 7"}
    edited = await ask(running, "/edit-image", options=options, form=True)
    assert (drawn(edited).edit, drawn(edited).prompt) == (True, "make it red")
    assert drawn(edited).seed == 7
    assert await files_of(running, edited) == (IMAGE,)


@pytest.mark.parametrize(
    ("models", "files", "edit", "chosen"),
    [
        ((FLUX, PEN), 1, False, "flux"),
        ((FLUX, PEN), 2, True, "pen"),
        ((model("flux", Capability.TEXT_TO_IMAGE), PEN), 1, True, "pen"),
    ],
)
@in_virtual_time
async def test_image_edits_several_images_or_where_a_model_can_only_edit(
    models: Any, files: int, edit: bool, chosen: str
) -> None:
    """The second image would be ignored, or a model that can edit a single one be refused."""
    async with bot_with(*models) as running:
        job = await ask(running, "/image a red cat", files=(image(),) * files)
        assert drawn(job).edit is edit
        assert job is not None
        assert job.model == chosen
        named = await ask(running, "/image pen a red cat", files=(image(),))
        assert drawn(named).edit


@in_bot(*ALL)
async def test_an_edit_ignores_what_is_for_drawing(running: Bot) -> None:
    """A person's usual size and style would be applied to their photo."""
    await ask(running, "/settings --size 2048x2048")
    job = await ask(running, "/edit make it red", files=(image(),))
    assert drawn(job).width is None
    assert await ask(running, "/edit red --strength 0.5", files=(image(),)) is None
    assert (await settled(running)).answers[-1] == "pen doesn't take --strength."


# ---------------------------------------------------------------- masks


@in_bot(*ALL)
async def test_a_mask_is_the_last_image_or_the_own_transparency_of_the_only_one(
    running: Bot,
) -> None:
    """The mask would be combined with the image like any other."""
    hole = png("RGBA", (1, 2, 3, 255), (0, 0, 32, 32), (1, 2, 3, 0))
    for files in (
        (sent(png("RGB", "white")), sent(hole)),
        (sent(hole),),
    ):
        job = await ask(running, "/edit a hat --mask", files=files)
        assert drawn(job).mask
        _, mask = await files_of(running, job)
        with Image.open(BytesIO(mask.data)) as opened:
            assert opened.getchannel("A").getcolors() == [(1024, 0), (1024, 255)]
    plain = (sent(png("RGB", "white")),)
    assert await ask(running, "/edit a hat --mask", files=plain) is None
    (refused,) = (await settled(running)).answers
    assert refused.startswith("The mask doesn't mark anything.")


@in_bot(*ALL)
async def test_a_mask_of_a_field_of_its_own_is_known_by_the_field(running: Bot) -> None:
    """Discord names the fields and has no flag: the mask would be treated as another image."""
    black = png("L", 0, (0, 0, 32, 32), 255)
    files = (sent(png("RGB", "red"), option="image"), sent(black, option="mask"))
    job = await ask(running, "/edit", files=files, options={"prompt": "a hat"})
    assert drawn(job).mask
    _, mask = await files_of(running, job)
    with Image.open(BytesIO(mask.data)) as opened:
        assert opened.getpixel((0, 0))[3] == 0  # type: ignore[index]
        assert opened.getpixel((63, 0))[3] == 255  # type: ignore[index]


async def test_a_mask_takes_the_size_of_the_image() -> None:
    """A server would refuse it, or paint beside the marked area."""
    small = Image.new("L", (8, 4), 255)
    out = BytesIO()
    small.save(out, "PNG")
    first = File(name="a.png", mime="image/png", data=png("RGB", "red"))
    mask = await mask_of(first, File(name="m.png", mime="image/png", data=out.getvalue()))
    with Image.open(BytesIO(mask.data)) as opened:
        assert opened.size == (64, 32)
        assert opened.getchannel("A").getextrema() == (0, 0)
    with pytest.raises(Declined):
        await mask_of(IMAGE)
