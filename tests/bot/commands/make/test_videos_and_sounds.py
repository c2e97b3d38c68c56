"""Videos, music, speech and transcripts are asked for in a chat, from words, files and results."""

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
    press,
    shown,
)
from tests.fakes.chat import FakeChat
from tests.fakes.servers.backend import IMAGE
from tests.simulation.bot_installation import Bot
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
    """Take recordings as they are: what they become in the helper is tested with it."""

    async def as_it_is(file: File, **_: object) -> Voice:
        if mime_of(file.data) != "audio/ogg":
            raise SoundError(SoundFault.UNREADABLE, "no sound")
        return Voice(file=file, seconds=1.0)

    monkeypatch.setattr(media, "as_voice", as_it_is)


def request(job: Job | None) -> Any:
    assert job is not None
    return job.request


def told(chat: FakeChat) -> list[str]:
    return [text for _, text in chat.private]


# ---------------------------------------------------------------- videos


def test_a_video_is_asked_for_with_all_its_options() -> None:
    """A person would get a video of another length, or one that is not the same again."""

    async def scenario(running: Bot) -> None:
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

    in_bot(scenario, *ALL)


def test_film_is_another_name_for_the_command() -> None:
    """People who know the other word would be sent to the list of commands."""

    async def scenario(running: Bot) -> None:
        job = await ask(running, "/film wan a cat jumps --seconds 5")
        assert (request(job).prompt, request(job).seconds) == ("a cat jumps", 5)
        await ask(running, "/film")
        await ask(running, "/help film")

    usage, helped = told(in_bot(scenario, *ALL))
    assert "/video [model] [prompt]" in usage
    assert helped.startswith("/video [model] [prompt]")


def test_a_video_begins_and_ends_with_the_images_that_are_attached() -> None:
    """The last image would be lost, or taken for the first."""

    async def scenario(running: Bot) -> None:
        first, last = image(64), image(128)
        job = await ask(running, "/video a cat", files=(first, last))
        files = (await running.queue.jobs.inputs(job) or ()) if job else ()
        assert [len(file.data) for file in files] == [first.size, last.size]
        assert job is not None
        assert job.model == "wan"
        await ask(running, "/video a cat", files=(first, last, first))

    assert told(in_bot(scenario, *ALL)) == ["You attached 3 images; /video takes at most 2."]


def test_the_button_under_an_image_videos_it_with_its_words() -> None:
    """People would have to save the image and send it back."""

    async def scenario(running: Bot) -> None:
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

    in_bot(scenario, *ALL)


def test_a_video_that_no_model_can_make_is_refused_with_what_can() -> None:
    """A person would wait for a job that no server can run."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/video a cat")
        await ask(running, "/video flux a cat")
        await ask(running, "/video still a cat")

    assert told(in_bot(scenario)) == [
        "No model here can make videos. /models lists what each of them can do.",
        "flux can't make videos from a description alone.",
        "No model here can make videos. /models lists what each of them can do.",
    ]
    only_images, *_ = told(in_bot(scenario, STILL))
    assert only_images.startswith("Attach an image, or reply to one.")
    _, refused = told(in_bot(scenario, FLUX, STILL, WAN))
    assert refused.startswith("still can't make videos from a description alone. These can: wan.")


def test_an_option_that_the_model_lacks_is_refused() -> None:
    """A video would be of any length, in silence."""
    options = ("seconds", "fps", "lora")

    async def scenario(running: Bot) -> None:
        for option in options:
            assert await ask(running, f"/video wan a cat --{option} 3") is None, option

    chat = in_bot(scenario, WAN, options=frozenset({"steps"}))
    assert told(chat) == [f"wan doesn't take --{option}." for option in options]


def test_styles_and_sizes_are_for_images_alone() -> None:
    """A video would be made at an image's size, eight times as slow, and with its words."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/settings --size 2048x2048")
        job = await ask(running, "/video a cat")
        assert (request(job).prompt, request(job).width) == ("a cat", None)

    in_bot(scenario, *ALL)


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
def test_why_a_job_has_nothing_to_build_on_is_told_as_it_is(language: str) -> None:
    """An image that is being drawn, or a video, was said to be kept no longer."""
    calls = ("/upscale", "/vary", "/video it jumps", "/transcribe", "/speak")

    async def scenario(running: Bot) -> None:
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

    unfinished, no_text, no_images, no_recording = WITHOUT[language]
    assert told(in_bot(scenario, *ALL, LENS))[1:] == [
        *[unfinished.format(1)] * 5,
        no_text.format(1),
        no_images.format(2),
        no_text.format(3),
        no_recording.format(4),
    ]


def test_a_reply_to_a_drawing_that_is_not_done_is_told_as_that() -> None:
    """People who replied to an image were told to reply to one."""

    async def scenario(running: Bot) -> None:
        drawing = await ask(running, "/image flux a cat")
        await asyncio.sleep(30)
        assert drawing is not None
        for call in ("/describe", "/vary in winter", "/video it jumps"):
            await ask(running, call, replied_to=await of(running, drawing))

    assert told(in_bot(scenario, *ALL, service_s=300.0)) == ["Job 1 hasn't finished yet."] * 3


# ---------------------------------------------------------------- music and speech


def test_music_has_lyrics_and_a_length() -> None:
    """A song would have no words."""

    async def scenario(running: Bot) -> None:
        job = await ask(running, '/music ace a waltz --lyrics "la la" --seconds 90 --seed 1')
        assert request(job) == TextToAudio(prompt="a waltz", lyrics="la la", seconds=90, seed=1)
        assert await ask(running, "/music a waltz --seconds 900") is None

    chat = in_bot(scenario, *ALL)
    assert told(chat) == ["--seconds must be between 0.5 and 600."]


def test_a_text_is_read_with_a_voice() -> None:
    """A person would get another voice than the one that was named."""

    async def scenario(running: Bot) -> None:
        job = await ask(running, "/speak amy what does git --amend do? --voice bella --speed 1,2")
        assert request(job) == TextToSpeech(
            text="what does git --amend do?", voice="bella", speed=1.2
        )
        assert await ask(running, f"/speak {'a' * (SPOKEN_MOST + 1)}") is None
        assert await ask(running, "/speak") is None

    long, empty = told(in_bot(scenario, *ALL))
    assert long == "Your text has 10001 characters; the limit is 10000."
    assert empty.startswith("Your text is empty. Usage: /speak [model] [text]")


def test_an_answer_is_read_by_its_button_a_reply_or_its_number() -> None:
    """A person would have to copy the answer, with its formatting."""

    async def scenario(running: Bot) -> None:
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

    in_bot(scenario, *ALL)


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


def test_a_recording_is_transcribed_attached_or_replied_to() -> None:
    """A voice message could not be read by those who cannot listen."""

    async def scenario(running: Bot) -> None:
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

    in_bot(scenario, *ALL)


def test_what_cannot_be_transcribed_is_refused_before_anything_is_accepted() -> None:
    """A job would fail on the server, a minute later."""

    async def scenario(running: Bot) -> None:
        for line, files in (
            ("/transcribe", ()),
            ("/transcribe", (voice(), attachment(VOICE, "b.mp3", "audio/mpeg"))),
            ("/transcribe", (voice(b"no sound"),)),
            ("/transcribe", (voice(bytes(26_000_000)),)),
            ("/transcribe --language deutsch!", (voice(),)),
        ):
            assert await ask(running, line, files=files) is None
        await asyncio.sleep(5)

    none, two, other, heavy, language = told(in_bot(scenario, *ALL))
    assert none.startswith("Attach one recording or video, or reply to one.")
    assert two == "You attached 2 recordings; /transcribe takes at most 1."
    assert other.startswith("I can't play voice.ogg.")
    assert heavy.startswith("voice.ogg is too large (26 MB)")
    assert language == "“deutsch!” isn't a language code such as de or en."


# ---------------------------------------------------------------- what is offered


def test_buttons_are_offered_where_a_model_can() -> None:
    """People would press what ends in a refusal, or miss what there is."""
    found: dict[str, list[Button]] = {}

    async def scenario(running: Bot) -> None:
        for line in ("/image flux a cat", "/ask qwen why?", "/video wan a cat"):
            job = await done(running, line)
            found[line] = shown(running, await of(running, job))

    def commands(line: str) -> set[str]:
        return {each.command for each in found[line]} & {"video", "speak", "edit-image"}

    in_bot(scenario, FLUX, QWEN, model("wan", Capability.TEXT_TO_VIDEO))
    assert not any(map(commands, found))
    in_bot(scenario, *ALL, model("pen", Capability.IMAGE_EDIT))
    assert [commands(line) for line in found] == [{"video", "edit-image"}, {"speak"}, set()]


def test_each_of_several_images_can_be_filmed() -> None:
    """People would video the first one only; a form cannot say which one to edit."""
    job = replace(stand_in(1, "flux", 0.0), request=TextToImage(prompt="cats"))
    able = Abilities(vary=True, upscale=True, video=True, edit=True, speak=True)
    rows = results.of_result(job, "en", able, images=4)
    assert [each.label for each in rows[-1]] == ["🎞️ 1", "🎞️ 2", "🎞️ 3", "🎞️ 4"]
    assert len(rows) <= 5
    assert max(map(len, rows)) <= 4


def test_help_leaves_out_what_no_model_can_make() -> None:
    """People would try commands that can only be refused."""

    async def scenario(running: Bot) -> None:
        await ask(running, "/help")

    made = ("/video", "/music", "/speak", "/transcribe")
    (few,) = told(in_bot(scenario, FLUX, QWEN))
    (all_,) = told(in_bot(scenario, *ALL))
    assert not any(f"\n{each} " in few for each in made)
    assert all(f"\n{each} " in all_ for each in made)
