"""The demo: honest, repeatable, and otherwise like a server."""

import asyncio
import io
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageStat
from pydantic import JsonValue

from backends.common.file_types import mime_of
from backends.demo import audio, images
from backends.demo.backend import Demo
from backends.demo.painting import HONEST_LINE, Painting
from backends.demo.texts import answer
from backends.media import videos as clips
from queueing.core.errors import BadModel, NotLoaded, OutOfMemory, Rejected, Unavailable
from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    File,
    Output,
    Progress,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.samples import examples
from tests.simulation import loop
from tests.told import words

pytestmark = pytest.mark.usefixtures("helper_here")

needs_videos = pytest.mark.skipif(not clips.available(), reason="needs usher-bot[media]")
MODEL = ModelSpec(name="m", backends=("d",), capabilities=frozenset(Capability))


def demo(**options: JsonValue) -> Demo:
    fast: dict[str, JsonValue] = {"load_s": 0, "step_s": 0}
    return Demo(BackendSpec(name="d", kind="demo", options={**fast, **options}))


def ask(text: str, **fields: JsonValue) -> Chat:
    return Chat.model_validate({"messages": [{"role": "user", "text": text}], **fields})


async def made(
    backend: Demo,
    request: Request,
    *files: File,
    key: str = "k",
    report: Callable[[Progress], None] = lambda _: None,
) -> Output:
    await backend.load(MODEL)
    work = Work(key=key, request=request, files=files)
    return await (await backend.run(MODEL, work, report))()


def image(file: File) -> Image.Image:
    with Image.open(io.BytesIO(file.data), formats=["PNG"]) as opened:
        opened.load()
        return opened.copy()


def photo(size: tuple[int, int] = (300, 150)) -> File:
    buffer = io.BytesIO()
    Image.new("RGB", size, "orange").save(buffer, "JPEG")
    return File(name="p.jpg", mime="image/jpeg", data=buffer.getvalue())


async def test_size_count_and_steps_are_honoured() -> None:
    """The demo would seem to ignore its options."""
    reports: list[Progress] = []
    request = TextToImage(prompt="cat", width=320, height=192, count=2, steps=4)
    output = await made(demo(), request, report=reports.append)
    assert [image(file).size for file in output.files] == [(320, 192)] * 2
    assert len({file.name for file in output.files}) == 2
    assert len({file.data for file in output.files}) == 2
    assert [report.step for report in reports] == [(n, 8) for n in range(1, 9)]
    assert reports[-1].fraction == 1
    assert any(report.preview for report in reports)


async def test_the_same_prompt_and_seed_give_the_same_image() -> None:
    """The buttons "again" and "vary" could not be tried in the demo."""
    request = TextToImage(prompt="cat", width=64, height=64, steps=5, seed=7)
    first = (await made(demo(), request)).files[0].data
    assert (await made(demo(), request)).files[0].data == first
    for other in ({"seed": 8}, {"prompt": "dog"}):
        changed = request.model_copy(update=other)
        assert (await made(demo(), changed)).files[0].data != first


async def test_an_image_to_start_from_is_used() -> None:
    """The demo would pretend to change an image that it never looked at."""
    request = TextToImage(prompt="cat", steps=3, strength=0.0)
    output = await made(demo(), request, photo())
    result = image(output.files[0])
    assert result.size == (768, 384)
    red, green, blue = (band.getextrema() for band in result.crop((0, 0, 768, 200)).split())
    assert (red[0], green[0], blue[1]) >= (240, 150, 20)
    different = await made(demo(), request.model_copy(update={"strength": 1.0}), photo())
    assert ImageChops.difference(image(different.files[0]), result).getbbox()


def test_more_work_takes_longer_and_a_lora_is_not_taken() -> None:
    """The demo would contradict its own status messages."""

    def took(**fields: JsonValue) -> float:
        async def main() -> float:
            await made(demo(step_s=0.5), TextToImage.model_validate({"prompt": "cat", **fields}))
            return virtual().time()

        return loop.run(main())

    usual = took()
    assert took(count=3) == pytest.approx(3 * usual)
    assert took(steps=40) == pytest.approx(2 * usual)
    assert took(width=512, height=512) == pytest.approx(usual / 4)
    assert "lora" not in demo().options(MODEL)


async def test_every_image_says_that_no_model_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person could mistake the placeholder for the work of a model."""
    assert "no model" in HONEST_LINE
    size = (512, 512)
    with_line = Painting("cat", 1, size).finish()
    monkeypatch.setattr("backends.demo.painting.HONEST_LINE", " ")
    without = Painting("cat", 1, size).finish()
    assert ImageChops.difference(with_line, without).getbbox()


async def test_a_text_streams_and_says_that_no_model_was_used() -> None:
    """A person could mistake the placeholder for a model's answer, or never see streaming."""
    reports: list[Progress] = []
    output = await made(demo(), ask("Why is grass green?"), report=reports.append)
    assert "no language model was used" in output.text
    assert "Why is grass green?" in output.text
    texts = [report.text or "" for report in reports]
    assert texts == sorted(texts, key=len)
    assert texts[-1] == output.text
    assert len(texts) > 20


async def test_a_text_knows_its_conversation_and_its_images() -> None:
    """Replies and attached images would seem to have no effect."""
    turns = [("user", "one"), ("assistant", "two"), ("user", "three")]
    messages = tuple(ChatMessage.model_validate({"role": r, "text": t}) for r, t in turns)
    text = (await made(demo(), Chat(messages=messages), photo())).text
    assert "1 earlier question" in text
    assert "300 by 150 pixels" in text
    assert len((await made(demo(), ask("hi", max_tokens=5))).text.split(" ")) == 5


async def test_times_are_those_of_the_options_or_of_the_model() -> None:
    """Estimates in the demo would be wrong from the start."""
    slow = Demo(BackendSpec(name="d", kind="demo", options={"service_s": 8}))
    assert slow._step_s(MODEL, 20) == 0.4
    assert Demo(BackendSpec(name="d", kind="demo"))._step_s(MODEL, 5) == MODEL.usual_service_s / 5
    quick = ModelSpec(name="q", backends=(), capabilities=frozenset(), options={"step_s": 0.25})
    assert slow._step_s(quick, 20) == 0.25


@pytest.mark.parametrize(
    "request_",
    [TextToImage(prompt="cat", steps=8), ask("why?"), TextToVideo(prompt="cat", steps=8)],
    ids=["image", "text", "video"],
)
def test_a_busy_machine_takes_no_longer_than_it_says(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People who try the demo would be told a time that none of its jobs keeps."""
    monkeypatch.setattr(Painting, "paint", lambda *_: virtual().stall(0.3))

    async def main() -> float:
        backend = demo(step_s=0.5)
        await backend.load(MODEL)
        work = Work(key="k", request=request_)
        steps: list[Progress] = []
        began = virtual().time()
        await backend.run(MODEL, work, steps.append)
        return (virtual().time() - began) / len(steps)

    assert loop.run(main()) == pytest.approx(0.5, abs=0.3 / 8)


def virtual() -> loop.VirtualLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, loop.VirtualLoop)
    return running


async def test_nothing_runs_that_is_not_loaded() -> None:
    """The demo would hide faults of the loader."""
    backend = demo()
    with pytest.raises(NotLoaded):
        await backend.run(MODEL, Work(key="k", request=ask("hi")), lambda _: None)
    await backend.load(MODEL)
    await backend.unload(MODEL)
    with pytest.raises(NotLoaded):
        await backend.run(MODEL, Work(key="k", request=ask("hi")), lambda _: None)


async def test_faults_come_as_often_as_asked_and_repeat_by_key() -> None:
    """Failures could not be tried out, or a failing try could not be repeated."""
    request = TextToImage(prompt="x", width=64, height=64, steps=2)
    with pytest.raises(Unavailable):
        await made(demo(fail_rate=1), request)
    with pytest.raises(OutOfMemory):
        await demo(oom_rate=1).load(MODEL)

    async def fails(key: str) -> bool:
        try:
            await made(demo(fail_rate=0.5), ask("hi", max_tokens=2), key=key)
        except Unavailable:
            return True
        return False

    first = [await fails(str(n)) for n in range(40)]
    assert first == [await fails(str(n)) for n in range(40)]
    assert 8 <= sum(first) <= 32


async def test_one_load_serves_all_who_wait_for_it() -> None:
    """Two simultaneous first requests would load the model twice."""
    backend = demo()
    await asyncio.gather(*(backend.load(MODEL) for _ in range(5)))
    assert backend._loads == 1


async def test_a_file_that_is_no_image_is_refused_with_a_sentence(
    subtests: pytest.Subtests,
) -> None:
    """A stranger's file would crash the demo."""
    for data in [b"", b"text", b"\x89PNG\r\n\x1a\nbroken"]:
        with subtests.test(data=data):
            file = File(name="x", mime="image/png", data=data)
            with pytest.raises(Rejected) as caught:
                await made(demo(), TextToImage(prompt="x"), file)
            assert words(caught.value)


async def test_a_pixel_bomb_costs_nothing() -> None:
    """A small file could take gigabytes of memory."""
    buffer = io.BytesIO()
    Image.new("1", (8_000, 7_000)).save(buffer, "PNG")
    file = File(name="x.png", mime="image/png", data=buffer.getvalue())
    assert len(file.data) < 200_000
    with pytest.raises(Rejected) as caught:
        await made(demo(), TextToImage(prompt="x"), file)
    assert "pixels" in words(caught.value)


def test_wrong_options_are_named() -> None:
    """A misspelt option would silently do nothing."""
    with pytest.raises(BadModel, match=r"backends\.d\.speed"):
        demo(speed=2)
    with pytest.raises(BadModel, match=r"models\.m\.fail_rate"):
        demo().check(
            ModelSpec(name="m", backends=(), capabilities=frozenset(), options={"fail_rate": 2})
        )


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=400), st.integers(64, 300), st.integers(64, 300))
def test_any_prompt_can_be_painted(prompt: str, width: int, height: int) -> None:
    """A strange prompt, or a strange shape, would crash the demo."""
    painting = Painting(prompt, 1, (width, height))
    painting.paint(0, 1)
    assert painting.finish().size == (width, height)


@given(st.text(max_size=400))
def test_any_question_gets_an_honest_answer(question: str) -> None:
    """A strange question would crash the demo, or lose its notice."""
    assert "no language model was used" in answer(ask(question))


# ---------------------------------------------------------------- clips and sounds


def deviation(image: Image.Image) -> list[float]:
    return ImageStat.Stat(image).stddev


def length_of(data: bytes) -> float:
    length = audio.length_s(data)
    assert length is not None
    return length


@needs_videos
async def test_a_video_has_the_length_and_size_that_were_asked_for() -> None:
    """The demo would ignore its options, or make a video that no chat can play."""
    request = TextToVideo(prompt="cat", width=320, height=192, seconds=1.5, fps=10, steps=2)
    (made_,) = (await made(demo(), request)).files
    looks = (await clips.looked_at(made_)).looks
    assert (made_.mime, looks.image) == ("video/mp4", "h264")
    assert (looks.width, looks.height) == (320, 192)
    assert looks.seconds == pytest.approx(1.5, abs=0.1)


async def test_without_the_video_libraries_a_video_is_an_animation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A newcomer whose machine has no PyAV would see no video at all."""
    monkeypatch.setattr("backends.media.videos.installed", lambda _library: False)
    request = TextToVideo(prompt="cat", width=128, height=64, seconds=0.5, steps=2)
    (moving,) = (await made(demo(), request)).files
    with Image.open(io.BytesIO(moving.data), formats=["WEBP"]) as opened:
        assert getattr(opened, "n_frames", 1) == 8
    for spoken in (TextToSpeech(text="hello"), TextToAudio(prompt="x", seconds=1)):
        (sound,) = (await made(demo(), spoken)).files
        assert sound.mime == mime_of(sound.data) == "audio/wav"


async def test_a_long_video_has_fewer_frames_and_its_whole_length() -> None:
    """A minute of large frames would take gigabytes of memory."""
    request = TextToVideo(prompt="x", width=4096, height=2048, seconds=60, fps=120)
    size = images.video_size(request, [])
    lengths = images.shown_ms(request, size)
    assert sum(lengths) == 60_000
    assert len(lengths) * size[0] * size[1] <= images.PIXELS_MOST


async def test_every_frame_says_that_no_model_was_used(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """A person could mistake the video for the work of a model."""
    for files in [0, 1, 2]:
        with subtests.test(files=files):
            scene = Painting("cat", 1, (400, 240), moving=True)
            view, last = scene.unlabelled(), Image.new("RGB", (320, 192), "red")
            for at in (0.0, 0.5, 1.0):
                shown = images.frame(scene, view, at, last if files == 2 else None)
                with monkeypatch.context() as patch:
                    patch.setattr("backends.demo.painting.HONEST_LINE", " ")
                    without = images.frame(scene, view, at, last if files == 2 else None)
                assert ImageChops.difference(shown, without).getbbox()


async def test_speech_has_a_tone_for_each_word_and_the_words_as_its_name() -> None:
    """All speech would sound alike, and a list of files would not say which is which."""
    (short,) = (await made(demo(), TextToSpeech(text="Hello there.", format="wav"))).files
    assert short.name == "Hello there.wav"
    (long,) = (await made(demo(), TextToSpeech(text="hello there " * 5, format="wav"))).files
    assert length_of(long.data) > 3 * length_of(short.data)
    fast = TextToSpeech(text="Hello there.", format="wav", speed=2)
    assert length_of((await made(demo(), fast)).files[0].data) < length_of(short.data)
    other = TextToSpeech(text="Hello there.", format="wav", voice="low")
    assert (await made(demo(), other)).files[0].data != short.data


@examples(100, quick=25)
@given(st.text(min_size=1, max_size=300))
def test_any_text_can_be_spoken_and_named(text: str) -> None:
    """A strange text would crash the demo, or write outside its folder."""
    assert length_of(audio.spoken(text)) > 0
    name = audio.title_of(text)
    assert not set(name) & set('/\\:*?"<>|.\0')
    assert len(name) <= 60


async def test_music_lasts_as_long_as_was_asked_for() -> None:
    """The demo would ignore its only option."""
    assert length_of(audio.played("calm", 1, 12.5)) == pytest.approx(12.5)
    assert audio.played("calm", 1, 3) != audio.played("calm", 2, 3)


async def test_a_transcript_says_what_was_heard_and_that_no_model_listened(
    subtests: pytest.Subtests,
) -> None:
    """A person would mistake an invented text for a transcript."""
    for translate in [False, True]:
        with subtests.test(translate=translate):
            recording = File(name="r.wav", mime="audio/wav", data=audio.played("x", 1, 2.5))
            reports: list[Progress] = []
            request = SpeechToText(translate=translate, timestamps=True)
            output = await made(demo(), request, recording, report=reports.append)
            assert "no model listened" in output.text
            assert "2.5 seconds" in output.text
            assert json.loads(output.answer)["segments"][0]["end"] == 2.5
            assert reports[-1].text == output.text
            nothing = File(name="r.bin", mime="application/octet-stream", data=b"rubbish")
            assert "cannot be measured" in (await made(demo(), request, nothing)).text


async def test_an_edit_uses_every_image_and_keeps_what_its_mask_covers() -> None:
    """The demo would pretend to combine images that it never looked at."""
    request = TextToImage(prompt="hat", edit=True, steps=4, strength=1.0)
    one = image((await made(demo(), request, photo())).files[0])
    both = image((await made(demo(), request, photo(), photo())).files[0])
    assert both.width / both.height > 1.5 * one.width / one.height
    cover = Image.new("RGBA", (300, 150), "white")
    cover.paste((0, 0, 0, 0), (150, 0, 300, 150))
    buffer = io.BytesIO()
    cover.save(buffer, "PNG")
    mask = File(name="m.png", mime="image/png", data=buffer.getvalue())
    masked = request.model_copy(update={"mask": True})
    result = image((await made(demo(), masked, photo(), mask)).files[0])
    left, right = result.crop((0, 0, 300, 200)), result.crop((420, 0, 768, 200))
    assert max(deviation(left)) < 4 < max(deviation(right))
