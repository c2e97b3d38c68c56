"""Repeating a request with changes, and continuing answers, in virtual time."""

import asyncio
from collections.abc import Mapping
from functools import partial

from bot.core.content import Form
from bot.core.platform import MessageRef
from bot.texts.catalogue import plain
from queueing.core.errors import UnreadableAnswer
from queueing.core.events import Progressed
from queueing.core.requests import Chat, Progress
from tests.bot.results import (
    DEAF,
    FLUX,
    QWEN,
    ask,
    bot_with,
    done,
    drawn,
    image,
    in_bot,
    of,
    play,
    press,
    said,
    shown,
)
from tests.fakes.chat import FakeChat
from tests.fakes.servers.backend import IMAGE, Fate
from tests.simulation.bot_installation import Bot, settled
from tests.simulation.installation import Installation, ended, host
from tests.simulation.loop import in_virtual_time

# ---------------------------------------------------------------- edit


def form_of(forms: list[Form]) -> Mapping[str, str]:
    return {field.name: field.value for field in forms[-1].fields}


@in_bot()
async def test_edit_shows_the_old_values_and_draws_with_the_new_ones(running: Bot) -> None:
    """People would type everything again to change one word."""
    forms: list[Form] = []

    async def show(form: Form) -> None:
        forms.append(form)

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


@in_bot()
async def test_an_option_in_the_text_of_a_form_is_one(running: Bot) -> None:
    """The words "--steps 8" would be drawn, though everywhere else they are an option."""
    job = await done(running, "/image --seed 7 --steps 20 -- a sign that says --size")
    forms: list[Form] = []

    async def show(form: Form) -> None:
        forms.append(form)

    await press(running, job, "edit", show_form=show)
    await asyncio.sleep(1)
    shown = form_of(forms)
    same = await ask(running, "/edit", options={**shown, "id": job.id}, form=True)
    assert drawn(same).prompt == drawn(job).prompt == "a sign that says --size"
    told = {**shown, "id": job.id, "prompt": "a cat --steps 8 --cfg 4"}
    request = drawn(await ask(running, "/edit", options=told, form=True))
    assert (request.prompt, request.steps, request.seed) == ("a cat", 8, 7)
    assert request.guidance == 4


@in_bot()
async def test_a_question_keeps_what_looks_like_an_option(running: Bot) -> None:
    """A question about a program's options would be refused, or its words changed."""
    job = await done(running, "/ask qwen why?")
    words = "what does git --amend and ls --size do?"
    fields = {"id": job.id, "prompt": words}
    for edited in (
        await ask(running, "/edit", options=fields, form=True),
        await ask(running, f"/edit {job.id} {words}"),
        await ask(running, f"/edit {words}", replied_to=await of(running, job)),
    ):
        assert said(edited)[-1] == ("user", words)


@in_bot(options=frozenset({"seed"}))
async def test_a_form_has_no_fields_a_model_would_ignore(running: Bot) -> None:
    """A person would fill in fields that are then refused."""
    forms: list[Form] = []

    async def show(form: Form) -> None:
        forms.append(form)

    job = await done(running, "/image flux a cat")
    await press(running, job, "edit", show_form=show)
    await asyncio.sleep(1)
    sent = {"id": job.id, "prompt": "a dog", "seed": ""}
    edited = await ask(running, "/edit", options=sent, form=True)
    assert drawn(edited).seed != drawn(job).seed
    assert set(form_of(forms)) == {"prompt", "seed"}


@in_virtual_time
async def test_where_there_are_no_forms_a_reply_to_the_prompt_edits_after_a_restart_too() -> None:
    """On Telegram the button would have no effect."""
    chat = FakeChat()
    async with bot_with(chat=chat) as running:
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


@in_bot()
async def test_a_question_is_asked_differently_in_the_same_conversation(running: Bot) -> None:
    """An edited question would forget what was said before it."""
    first = await done(running, "/ask qwen why?")
    second = await done(running, "/ask and how?", replied_to=await of(running, first))
    edited = await ask(running, "/edit", options={"id": second.id, "prompt": "and when?"})
    assert said(edited) == [
        ("user", "why?"), ("assistant", "result of why?"), ("user", "and when?"),
    ]  # fmt: skip


# ---------------------------------------------------------------- texts


@in_virtual_time
async def test_the_longest_text_of_failed_attempts_stays() -> None:
    """A text that everybody has read would be replaced by an error message."""
    installation = Installation.of([QWEN], [host("gpu-1", "comfy")])
    broken = Fate(service_s=100.0, error=UnreadableAnswer("cut off"))
    installation.servers["comfy"].fates = lambda _request: broken
    async with bot_with(installation=installation) as running:
        job = await ask(running, "/ask qwen why?")
        assert job is not None
        for text in ("Because of the sky", "Because"):
            await asyncio.sleep(30)  # it is loaded, or begins again
            assert (await running.queue.jobs.get(job.id) or job).backend == "comfy"
            running.presenter.on_event(Progressed(job_id=job.id, progress=Progress(text=text)))
            await asyncio.sleep(90)
        await ended(running.queue, job)
        await asyncio.sleep(10)
        text = running.chat.messages[(await of(running, job)).message].text
        assert text.startswith("Because of the sky\n\n✂️ The server broke off here.\n❌")


@in_bot(QWEN, service_s=100.0)
async def test_an_answer_is_stopped_and_what_was_written_stays(running: Bot) -> None:
    """A person who stops an answer would lose the part they want to read."""
    job = await ask(running, "/ask qwen why?")
    assert job is not None
    await asyncio.sleep(30)
    progress = Progress(text="Because of")
    running.presenter.on_event(Progressed(job_id=job.id, progress=progress))
    await asyncio.sleep(5)
    assert [each.label for each in shown(running, await of(running, job))] == ["⏹ Stop"]
    await press(running, job, "cancel")
    await asyncio.sleep(5)
    text = running.chat.messages[(await of(running, job)).message].text
    assert text == "Because of\n\n⏹ Stopped here."


@in_bot(DEAF, FLUX, QWEN)
async def test_describe_shows_the_image_to_a_model_that_sees(running: Bot) -> None:
    """A model that cannot see images would be asked, or the image not be shown to one that can."""
    described = await ask(running, "/describe", files=(image(),))
    assert described is not None
    assert described.model == "qwen"
    assert said(described) == [("user", "Describe this image.")]
    assert len(await running.queue.jobs.inputs(described) or ()) == 1
    job = await done(running, "/image flux a cat")
    again = await ask(running, "/describe what colour?", replied_to=await of(running, job))
    assert said(again) == [("user", "what colour?")]
    assert again is not None
    assert await running.queue.jobs.inputs(again) == (IMAGE,)
    await ask(running, "/describe")
    private = (await settled(running)).private
    assert "Attach an image" in private[-1][1]


@in_bot()
async def test_a_follow_up_sees_the_image_again(running: Bot) -> None:
    """A question about the background would be asked of a model that no longer sees the image."""
    first = await done(running, "/describe", files=(image(),))
    second = await ask(running, "/ask and behind it?", replied_to=await of(running, first))
    assert second is not None
    assert isinstance(second.request, Chat)
    assert [turn.images for turn in second.request.messages] == [(0,), (), ()]
    assert await running.queue.jobs.inputs(second) == await running.queue.jobs.inputs(first)


@in_bot()
async def test_quoted_words_go_with_a_question_about_them(running: Bot) -> None:
    """A question about a person's words would be sent without those words."""
    job = await ask(running, "/ask qwen what is meant?", quoted="first\nsecond")
    assert said(job) == [("user", "> first\n> second\n\nwhat is meant?")]


@in_bot()
async def test_what_is_no_longer_kept_is_said_and_not_left_out(running: Bot) -> None:
    """After files were deleted, a repeat went without its image and a follow-up failed."""
    seen = await done(running, "/describe", files=(image(),))
    winter = await done(running, "/image in winter --strength 0.5", files=(image(),))
    larger = await done(running, "/upscale", files=(image(),))
    begun = await done(running, "/image in winter", files=(image(),))
    words = await done(running, "/image a cat")
    await running.queue.jobs.purge(0, keep_mb=0)
    for job in (seen, winter, larger, begun):
        assert await ask(running, f"/again {job.id}") is None
    assert await ask(running, f"/edit {winter.id} in summer") is None
    assert await ask(running, f"/again {words.id}") is not None
    behind = await ask(running, "/ask and behind it?", replied_to=await of(running, seen))
    assert behind is not None
    assert said(behind)[-1] == ("user", "and behind it?")
    assert await running.queue.jobs.inputs(behind) == ()
    other = await ask(
        running, "/ask and here?", replied_to=await of(running, seen), files=(image(),)
    )
    assert other is not None
    assert isinstance(other.request, Chat)
    assert [turn.images for turn in other.request.messages] == [(), (0,)]
    told = (await settled(running)).answers
    assert told == [f"The files of job {job} are no longer kept." for job in (1, 2, 3, 4, 2)]


# ---------------------------------------------------------------- a model without a seed


def test_a_seed_without_effect_is_not_shown_and_again_says_so() -> None:
    """People would write down a number that changes nothing, or press 🔄 again and again."""

    async def scenario(running: Bot, *, seeded: bool) -> None:
        first = await done(running, "/image flux a cat")
        job = await press(running, first, "again")
        await ended(running.queue, job)
        await asyncio.sleep(10)
        captions = []
        for each in (first, job):
            content = running.chat.messages[(await of(running, each)).message].contents[-1]
            captions.append(plain(content.body))
        assert ["seed " in caption for caption in captions] == [seeded, seeded]
        assert ["takes no seed" in caption for caption in captions] == [False, not seeded]

    play(partial(scenario, seeded=True))
    play(partial(scenario, seeded=True), options=frozenset({"seed"}))
    play(partial(scenario, seeded=False), options=frozenset({"width", "height"}))
