"""Videos, music, speech and transcripts from words, files and results in a chat."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from backends.common.file_types import mime_of
from backends.media.sounds import SoundError, SoundFault, Voice
from bot.core.attachments import AttachmentKind
from bot.requests.files import media
from bot.requests.recordings import SPOKEN_MOST, spoken
from bot.texts import results
from bot.texts.results import Abilities
from queueing.core.jobs import Job, stand_in
from queueing.core.requests import (
    Capability,
    File,
    LoraWeight,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from tests.bot.results import (
    FLUX,
    LENS,
    QWEN,
    ask,
    attachment,
    done,
    image,
    in_bot,
    model,
    of,
    play,
    press,
    shown,
)
from tests.fakes.servers.backend import IMAGE
from tests.simulation.bot_installation import Bot, settled
from tests.simulation.installation import ended

if TYPE_CHECKING:
    from bot.core.content import Button

WAN = model("wan", Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO)
STILL = model("still", Capability.IMAGE_TO_VIDEO)
ACE = model("ace", Capability.TEXT_TO_AUDIO)
AMY = model("amy", Capability.TEXT_TO_SPEECH)
EAR = model("ear", Capability.SPEECH_TO_TEXT)
ALL = (FLUX, WAN, ACE, AMY, EAR, QWEN)
VOICE = b"OggS" + bytes(64)


def voice(data: bytes = VOICE, **fields: Any) -> Any:
    return attachment(data, "voice.ogg", "audio/ogg", kind=AttachmentKind.VOICE, **fields)


@pytest.fixture(autouse=True)
def no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the conversion of recordings, which the helper's own tests cover."""

    async def as_it_is(file: File, **_: object) -> Voice:
        if mime_of(file.data) != "audio/ogg":
            raise SoundError(SoundFault.UNREADABLE, "no sound")
        return Voice(file=file, seconds=1.0)

    monkeypatch.setattr(media, "as_voice", as_it_is)


def request(job: Job | None) -> Any:
    assert job is not None
    return job.request


# ---------------------------------------------------------------- videos


@in_bot(*ALL)
async def test_a_video_is_asked_for_with_all_its_options(running: Bot) -> None:
    """A person would get a video of another length, or one that cannot be reproduced."""
    line = "/video wan a cat jumps --seconds 5 --fps 24 --size 832x480 --seed 7 --steps 20"
    job = await ask(running, f"{line} --negative blurry --lora ink:0.8 --lora slow")
    assert request(job) == TextToVideo(
        prompt="a cat jumps",
        seconds=5,
        fps=24,
        width=832,
        height=480,
        seed=7,
        steps=20,
        negative="blurry",
        lora=(LoraWeight(name="ink", weight=0.8), LoraWeight(name="slow")),
    )


@in_bot(*ALL)
async def test_film_is_another_name_for_the_command(running: Bot) -> None:
    """People who know the other word would be sent to the list of commands."""
    job = await ask(running, "/film wan a cat jumps --seconds 5")
    assert (request(job).prompt, request(job).seconds) == ("a cat jumps", 5)
    await ask(running, "/film")
    await ask(running, "/help film")
    usage, helped = (await settled(running)).answers
    assert "/video [model] [prompt]" in usage
    assert helped.startswith("/video [model] [prompt]")


@in_bot(*ALL)
async def test_a_video_begins_and_ends_with_the_images_that_are_attached(running: Bot) -> None:
    """The last image would be lost, or used as the first."""
    first, last = image(64), image(128)
    job = await ask(running, "/video a cat", files=(first, last))
    files = (await running.queue.jobs.inputs(job) or ()) if job else ()
    assert [len(file.data) for file in files] == [first.size, last.size]
    assert job is not None
    assert job.model == "wan"
    await ask(running, "/video a cat", files=(first, last, first))
    assert (await settled(running)).answers == ["You attached 3 images; /video takes at most 2."]


@in_bot(*ALL)
async def test_the_button_under_an_image_videos_it_with_its_words(running: Bot) -> None:
    """People would have to save the image and send it back."""
    job = await done(running, "/image flux a cat")
    video = await press(running, job, "video")
    assert (request(video).prompt, request(video).source) == ("a cat", job.id)
    assert await running.queue.jobs.inputs(video) == (IMAGE,)
    ref = await of(running, job)
    other = await ask(running, "/video it jumps", replied_to=ref, files=(image(),))
    assert other is not None
    assert request(other).prompt == "it jumps"
    first, _ = await running.queue.jobs.inputs(other) or ()
    assert first == IMAGE


def test_a_video_that_no_model_can_make_is_refused_with_what_can() -> None:
    """A person would wait for a job that no server can run."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/video a cat")
        await ask(running, "/video flux a cat")
        await ask(running, "/video still a cat")

    assert play(scenario).answers == [
        "No model here can make videos. /models lists what each of them can do.",
        "flux can't make videos from a description alone.",
        "No model here can make videos. /models lists what each of them can do.",
    ]
    only_images, *_ = play(scenario, STILL).answers
    assert only_images.startswith("Attach an image, or reply to one.")
    _, refused = play(scenario, FLUX, STILL, WAN).answers
    assert refused.startswith("still can't make videos from a description alone. These can: wan.")


@in_bot(WAN, options=frozenset({"steps"}))
async def test_an_option_that_the_model_lacks_is_refused(running: Bot) -> None:
    """A video would silently have another length than the person asked for."""
    options = ("seconds", "fps", "lora")
    for option in options:
        assert await ask(running, f"/video wan a cat --{option} 3") is None, option
    chat = await settled(running)
    assert chat.answers == [f"wan doesn't take --{option}." for option in options]


@in_bot(*ALL)
async def test_styles_and_sizes_are_for_images_alone(running: Bot) -> None:
    """A video would get an image's size, which is eight times as slow, and a style's words."""
    await ask(running, "/settings --size 2048x2048")
    job = await ask(running, "/video a cat")
    assert (request(job).prompt, request(job).width) == ("a cat", None)


WITHOUT = {
    "en": (
        "Job {} hasn't finished yet.",
        "Job {} has no text to read aloud.",
        "Job {} has no images.",
        "Job {} has no recording or video.",
    ),
    "de": (
        "Auftrag {} ist noch nicht fertig.",
        "Auftrag {} hat keinen Text zum Vorlesen.",
        "Auftrag {} hat keine Bilder.",
        "Auftrag {} hat weder eine Aufnahme noch ein Video.",
    ),
}


@pytest.mark.parametrize("language", WITHOUT)
@in_bot(*ALL, LENS)
async def test_why_a_job_has_nothing_to_build_on_is_told_as_it_is(
    running: Bot, language: str
) -> None:
    """An image still being drawn, or a video, was said to be no longer stored."""
    calls = ("/upscale", "/vary", "/video it jumps", "/transcribe", "/speak")

    unfinished, no_text, no_images, no_recording = WITHOUT[language]
    await ask(running, f"/settings --language {language}")
    drawing = await ask(running, "/image flux a cat")
    assert drawing is not None
    for call in calls:
        await ask(running, f"{call} --id {drawing.id}")
    await ended(running.queue, drawing)
    await ask(running, f"/speak --id {drawing.id}")
    text = await done(running, "/ask qwen why")
    await ask(running, f"/vary --id {text.id}")
    video = await done(running, "/video a cat")
    await ask(running, f"/speak --id {video.id}")
    stopped = await ask(running, "/video a dog")
    assert stopped is not None
    await running.queue.submitter.cancel(stopped.id)
    await ask(running, f"/transcribe --id {stopped.id}")
    assert (await settled(running)).answers[1:] == [
        *[unfinished.format(1)] * 5,
        no_text.format(1),
        no_images.format(2),
        no_text.format(3),
        no_recording.format(4),
    ]


@in_bot(*ALL, service_s=300.0)
async def test_a_reply_to_a_drawing_that_is_not_done_is_told_as_that(running: Bot) -> None:
    """People who replied to an image were told to reply to an image."""
    drawing = await ask(running, "/image flux a cat")
    await asyncio.sleep(30)
    assert drawing is not None
    for call in ("/describe", "/vary in winter", "/video it jumps"):
        await ask(running, call, replied_to=await of(running, drawing))
    assert (await settled(running)).answers == ["Job 1 hasn't finished yet."] * 3


# ---------------------------------------------------------------- music and speech


@in_bot(*ALL)
async def test_music_has_lyrics_and_a_length(running: Bot) -> None:
    """A song would have no words."""
    job = await ask(running, '/music ace a waltz --lyrics "la la" --seconds 90 --seed 1')
    assert request(job) == TextToAudio(prompt="a waltz", lyrics="la la", seconds=90, seed=1)
    assert await ask(running, "/music a waltz --seconds 900") is None
    chat = await settled(running)
    assert chat.answers == ["--seconds must be between 0.5 and 600."]


@in_bot(*ALL)
async def test_a_text_is_read_with_a_voice(running: Bot) -> None:
    """A person would get another voice than the one that was named."""
    job = await ask(running, "/speak amy what does git --amend do? --voice bella --speed 1,2")
    assert request(job) == TextToSpeech(text="what does git --amend do?", voice="bella", speed=1.2)
    assert await ask(running, f"/speak {'a' * (SPOKEN_MOST + 1)}") is None
    assert await ask(running, "/speak") is None
    long, empty = (await settled(running)).answers
    assert long == "Your text has 10001 characters; the limit is 10000."
    assert empty.startswith("Your text is empty. Usage: /speak [model] [text]")


@in_bot(*ALL)
async def test_an_answer_is_read_by_its_button_a_reply_or_its_number(running: Bot) -> None:
    """A person would have to copy the answer, with its formatting."""
    job = await done(running, "/ask qwen why?")
    output = await running.queue.jobs.output(job)
    assert output is not None
    for asked in (
        await press(running, job, "speak"),
        await ask(running, "/speak", replied_to=await of(running, job)),
        await ask(running, f"/speak --id {job.id}"),
    ):
        assert request(asked) == TextToSpeech(text=spoken(output.text), source=job.id)
    quoted = await ask(running, "/speak", quoted="**Good** morning")
    assert request(quoted) == TextToSpeech(text="Good morning")


def test_only_words_are_read() -> None:
    """A voice would read out asterisks, addresses and a hundred lines of code."""
    answer = (
        "# Title\n\nUse **bold** and `code`, see [the docs](https://a.example/b).\n\n"
        "```python\nprint(1)\n```\n\n- one\n- two\n\n---\n> quoted snake_case 2*3*4\n"
    )
    assert spoken(answer) == (
        "Title\n\nUse bold and code, see the docs.\n\none\ntwo\n\nquoted snake_case 2*3*4"
    )
    assert spoken("```\nnever closed") == ""
    assert spoken("plain words") == "plain words"


# ---------------------------------------------------------------- transcripts


@in_bot(*ALL)
async def test_a_recording_is_transcribed_attached_or_replied_to(running: Bot) -> None:
    """A voice message could not be read by those who cannot listen."""
    for sound in (voice(), voice(replied=True)):
        line = "/transcribe --language de-AT --translate"
        job = await ask(running, line, files=(sound,))
        assert request(job) == SpeechToText(language="de", translate=True)
        assert job is not None
        (file,) = await running.queue.jobs.inputs(job) or ()
        assert (file.mime, file.data) == ("audio/ogg", VOICE)
    ear = await ask(running, "/transcribe ear", files=(voice(),))
    assert ear is not None
    assert ear.model == "ear"


@in_bot(*ALL)
async def test_what_cannot_be_transcribed_is_refused_before_anything_is_accepted(
    running: Bot,
) -> None:
    """A job would fail on the server, a minute later."""
    for line, files in (
        ("/transcribe", ()),
        ("/transcribe", (voice(), attachment(VOICE, "b.mp3", "audio/mpeg"))),
        ("/transcribe", (voice(b"no sound"),)),
        ("/transcribe", (voice(bytes(26_000_000)),)),
        ("/transcribe --language deutsch!", (voice(),)),
    ):
        assert await ask(running, line, files=files) is None
    await asyncio.sleep(5)
    none, two, other, heavy, language = (await settled(running)).answers
    assert none.startswith("Attach one recording or video, or reply to one.")
    assert two == "You attached 2 recordings; /transcribe takes at most 1."
    assert other.startswith("I can't play voice.ogg.")
    assert heavy.startswith("voice.ogg is too large (26 MB)")
    assert language == "“deutsch!” isn't a language code such as de or en."


# ---------------------------------------------------------------- what is offered


def test_buttons_are_offered_where_a_model_can() -> None:
    """People would press a button only to be refused, or not see what is possible."""
    found: dict[str, list[Button]] = {}

    async def scenario(running: Bot) -> None:
        for line in ("/image flux a cat", "/ask qwen why?", "/video wan a cat"):
            job = await done(running, line)
            found[line] = shown(running, await of(running, job))

    def commands(line: str) -> set[str]:
        return {each.command for each in found[line]} & {"video", "speak", "edit-image"}

    play(scenario, FLUX, QWEN, model("wan", Capability.TEXT_TO_VIDEO))
    assert not any(map(commands, found))
    play(scenario, *ALL, model("pen", Capability.IMAGE_EDIT))
    assert [commands(line) for line in found] == [{"video", "edit-image"}, {"speak"}, set()]


def test_each_of_several_images_can_be_filmed_and_edited() -> None:
    """People could only make a video of the first, or a chat refuse so many rows of buttons."""
    job = replace(stand_in(1, "flux", 0.0), request=TextToImage(prompt="cats"))
    able = Abilities(vary=True, upscale=True, video=True, edit=True, speak=True)
    rows = results.of_result(job, "en", able, images=4)
    assert [each.label for each in rows[-2]] == ["🎞️ 1", "🎞️ 2", "🎞️ 3", "🎞️ 4"]
    assert [each.label for each in rows[-1]] == ["🖌️ 1", "🖌️ 2", "🖌️ 3", "🖌️ 4"]
    assert len(rows) <= 5
    assert max(map(len, rows)) <= 4


def test_help_leaves_out_what_no_model_can_make() -> None:
    """People would try commands that can only be refused."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/help")

    made = ("/video", "/music", "/speak", "/transcribe")
    (few,) = play(scenario, FLUX, QWEN).answers
    (all_,) = play(scenario, *ALL).answers
    assert not any(f"\n{each} " in few for each in made)
    assert all(f"\n{each} " in all_ for each in made)
