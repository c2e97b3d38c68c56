"""Every kind of request is announced, listed, shown, repeated and changed in a chat."""

import asyncio
from dataclasses import replace
from typing import get_args

import pytest

from bot.core.content import Markdown
from bot.core.origin import Origin
from bot.texts import results
from bot.texts.catalogue import CATALOGUES, plain, say
from bot.texts.results import Abilities, Measures
from bot.texts.status import ping, result, running
from queueing.core.jobs import JobState, NewJob, SubmitLimits, stand_in
from queueing.core.requests import (
    AnyRequest,
    Capability,
    Chat,
    ChatMessage,
    Embed,
    File,
    Output,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from queueing.core.status import Standing
from tests.bot.commands.admin.test_admin_commands import say as typing
from tests.fakes.servers.backend import IMAGE
from tests.simulation.bot_installation import Bot, played, settled
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import Inside

SOUND = File(name="voice.ogg", mime="audio/ogg", data=b"OggS never decoded")
ASKED: tuple[tuple[AnyRequest, tuple[File, ...]], ...] = (
    (TextToImage(prompt="a cat"), ()),
    (TextToImage(prompt="a red cat", edit=True), (IMAGE, IMAGE)),
    (TextToImage(prompt="", upscale=True), (IMAGE,)),
    (TextToVideo(prompt="a cat jumps", seconds=5, fps=16), ()),
    (TextToAudio(prompt="a waltz", lyrics="la la"), ()),
    (TextToSpeech(text="Good evening.", voice="amy"), ()),
    (SpeechToText(), (SOUND,)),
    (Chat(messages=(ChatMessage(role="user", text="why?"),)), ()),
)
USER = "fake:1"


def test_every_kind_is_among_the_examples() -> None:
    """The tests below would not notice a kind that is added later."""
    assert {type(request) for request, _ in ASKED} | {Embed} == set(get_args(AnyRequest))


def test_what_runs_and_what_is_ready_is_said_of_every_kind() -> None:
    """A video would be announced as an image, or as an answer that is being written."""
    for language in CATALOGUES:
        for request_ in [each for each, _ in ASKED] + [Embed(inputs=("a",))]:
            job = replace(stand_in(1, "wan", 0.0), request=request_)
            standing = Standing(job=job, shown="processing", position=None, reason=None)
            told = plain(running(standing, None, language, previews=False).body)
            assert "wan" in told, language
            assert (told == plain(say(language, "status.writing", model="wan"))) is isinstance(
                request_, Chat
            ), language
            assert "wan" in plain(
                ping(replace(job, state=JobState.COMPLETED), language, "1").body
            ), language


def test_the_facts_of_a_result_say_how_it_was_made() -> None:
    """A person could not make the same video again, or would not know how long it plays."""

    def told(request: AnyRequest, measures: Measures, text: str = "") -> str:
        job = replace(stand_in(1, "m", 0.0), request=request, started_at=1.0, finished_at=61.0)
        shown = result(
            job, Output(text=text), "en", files=(), abilities=Abilities(), measures=measures
        )
        return plain(shown.body)

    video = TextToVideo(prompt="a cat", seed=7, fps=16, source=3)
    assert told(video, Measures(size=(832, 480), seconds=5.06)) == (
        "a cat\nfrom 3 · m · 0:05 · 832×480 · 16 fps · seed 7 · 60 s"
    )
    assert told(TextToAudio(prompt="a waltz", seed=7), Measures(seconds=65)) == (
        "a waltz\nm · 1:05 · seed 7 · 60 s"
    )
    speech = TextToSpeech(text="Good evening.", voice="amy")
    assert told(speech, Measures(seconds=2)) == "Good evening.\nm · 0:02 · voice amy · 60 s"
    assert told(SpeechToText(), Measures(), "Hello.") == "Hello.\n\nm · 60 s"
    assert told(SpeechToText(), Measures()) == "I couldn't make out any words in it.\nm · 60 s"


def test_a_transcript_is_an_answer_of_any_length() -> None:
    """A long transcript would be cut off at the end of a message."""
    job = replace(stand_in(1, "m", 0.0), request=SpeechToText())
    shown = result(job, Output(text="Hello."), "en", files=(), abilities=Abilities())
    assert Markdown("Hello.") in shown.body


def in_bot() -> Inside[Bot]:
    """Run a test in a bot with one model that can do everything."""
    able = frozenset(Capability) - {Capability.EMBEDDING, Capability.IMAGE_EMBEDDING}
    models = [replace(image_model("all"), capabilities=able)]
    return Inside(lambda: played(Installation.of(models, [host("gpu-1", "comfy")])))


@pytest.mark.parametrize(("request_", "files"), ASKED)
@in_bot()
async def test_a_job_of_every_kind_is_listed_shown_repeated_and_changed(
    bot: Bot, request_: AnyRequest, files: tuple[File, ...]
) -> None:
    """A person would be told that their video is an embedding for a program."""
    call = bot.chat.call("/x", user=USER)
    new = NewJob(
        model="all",
        request=request_,
        files=files,
        owner=USER,
        key="k",
        reply_to=Origin.of(call, "en").model_dump_json(),
    )
    await bot.queue.submitter.submit(new, limits=SubmitLimits())
    await asyncio.sleep(60)
    for line in ("/history", "/show 1", "/edit 1", "/again 1"):
        await typing(bot, line, USER)
        await asyncio.sleep(60)
    job = await bot.queue.jobs.get(2)
    assert job is not None, bot.chat.answers
    assert job.state is JobState.COMPLETED
    assert await bot.queue.jobs.inputs(job) == files
    chat = await settled(bot)
    (history, *rest) = chat.answers
    words = request_.words or plain(say("en", results.no_words(request_)))
    assert words in history
    transcript = isinstance(request_, SpeechToText)
    assert [text.partition(".")[0] for text in rest] == [
        "A transcript has no text to change"
    ] * transcript
    assert job.request.model_copy(update={"seed": 0}) == request_.model_copy(update={"seed": 0})


@in_bot()
async def test_each_kind_has_a_usual_model_that_can_be_chosen_and_taken_back(bot: Bot) -> None:
    """A person would have to name their video model in every call, or see meaningless settings."""
    for line in (
        "--video ALL --speak all --edit all --music all --transcribe all",
        "--video reset",
    ):
        await typing(bot, f"/settings {line}", USER)
    chosen, taken_back = (await settled(bot)).answers
    for told in ("video model: all\n", "model for reading aloud: all\n", "music model: all\n"):
        assert told in chosen
    assert "video model: all (default)" in taken_back
    assert "model for editing images: all\n" in taken_back
