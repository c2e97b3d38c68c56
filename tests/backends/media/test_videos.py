"""Videos and sounds are cleaned, examined and reduced to the allowed size."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from backends.common.file_types import mime_of
from backends.media import videos
from backends.media.helper.video_encoding import sound_rate, video_plan
from queueing.core.requests import File

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

import av

from backends.media.helper import video_encoding
from backends.media.helper.containers import clean, without_comment
from tests.backends.media.planted import MOVES, MOVING, PLANTED, SECRET, words_of
from tests.backends.media.recorded_videos import KINDS, shown_and_heard, tags_of, video

FRAMES: Any = av.VideoFrame
SHORT = video("mp4", frames=3, silent=True)
pytestmark = pytest.mark.usefixtures("helper_here")


def file(data: bytes, name: str = "wan-1.bin") -> File:
    return File(name=name, mime=mime_of(data), data=data)


# ---------------------------------------------------------------- metadata


def test_the_workflow_leaves_a_video_and_all_that_is_seen_and_heard_stays(
    subtests: pytest.Subtests,
) -> None:
    """Prompts and paths would be published with every video."""
    for kind in KINDS:
        with subtests.test(kind=kind):
            before = video(kind)
            after = clean(before, KINDS[kind].mime)
            assert mime_of(before) == mime_of(after) == KINDS[kind].mime
            assert SECRET in tags_of(before)
            assert SECRET not in tags_of(after)
            was, now = shown_and_heard(before), shown_and_heard(after)
            assert [each for each in was if each not in now] == []
            assert len(now) <= len(was) + (
                kind == "ogg-vorbis"
            )  # its last piece is cut by its container


def test_a_comment_leaves_the_headers_of_vorbis() -> None:
    """A sound within a video would keep its comment."""
    first, comment, last = b"\x01vorbis" + bytes(23), b"\x03vorbis" + b"x" * 600, b"\x05vorbis"
    headers = b"\x02" + bytes([30]) + b"\xff\xff" + bytes([607 - 510]) + first + comment + last
    cleaned = without_comment(headers)
    assert cleaned == b"\x02" + bytes([30, 16]) + first + b"\x03vorbis" + bytes(8) + b"\x01" + last
    assert without_comment(cleaned) == cleaned


async def test_what_cannot_be_read_is_told() -> None:
    """A broken video would be delivered with all its metadata."""
    whole = video("mp4")
    for data in (b"\0\0\0\x18ftypmp42" + bytes(40), whole[:200], b"fLaC" + bytes(9)):
        with pytest.raises(videos.VideoError):
            await videos.cleaned(data)


@given(
    st.lists(st.tuples(st.integers(0, len(SHORT) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
def test_a_damaged_video_is_cleaned_or_refused(damage: list[tuple[int, int]]) -> None:
    """A damaged video would become a file of another kind, or crash the process."""
    data = bytearray(SHORT)
    for at, value in damage:
        data[at] = value
    try:
        after = clean(bytes(data), "video/mp4")
    except Exception:  # noqa: BLE001  the process reports whatever its libraries raise
        return
    assert mime_of(after) == "video/mp4"


# ---------------------------------------------------------------- looks and sizes


async def test_a_video_is_looked_at() -> None:
    """Chats would show a square without a length."""
    found = await videos.looked_at(file(video("mp4")))
    assert (found.looks.width, found.looks.height) == (64, 48)
    assert found.looks.seconds == pytest.approx(0.75, abs=0.1)
    assert (found.looks.image, found.looks.sound) == ("h264", "aac")
    with Image.open(io.BytesIO(found.still)) as still:
        assert still.size == (64, 48)


async def test_a_video_too_large_is_made_to_fit_and_plays() -> None:
    """A video would never arrive."""
    large = file(video("webm", size=(160, 120), frames=24), "wan-1.webm")
    limit = len(large.data) // 4
    small = await videos.fitted(large, limit)
    assert small.name == "wan-1.mp4"
    assert small.mime == mime_of(small.data) == "video/mp4"
    assert len(small.data) <= limit
    found = (await videos.looked_at(small)).looks
    assert (found.image, found.sound) == ("h264", "aac")
    assert found.seconds == pytest.approx(1.5, abs=0.2)
    assert SECRET not in tags_of(small.data)


async def test_a_sound_too_large_is_made_to_fit() -> None:
    """A song would never arrive."""
    large = file(video("wav"), "song-1.wav")
    small = await videos.fitted(large, len(large.data) // 4)
    assert (small.name, small.mime) == ("song-1.mp3", "audio/mpeg")
    assert len(small.data) <= len(large.data) // 4
    assert (await videos.looked_at(small)).looks.seconds == pytest.approx(0.64, abs=0.1)


async def test_an_animation_becomes_a_video(subtests: pytest.Subtests) -> None:
    """Chats that cannot show animations would show only the first image."""
    for kind in MOVES:
        with subtests.test(kind=kind):
            before = PLANTED[kind](**MOVING)
            made = await videos.fitted(file(before, "wan-1.webp"), 1_000_000)
            assert SECRET in words_of(before)
            assert SECRET not in tags_of(made.data)
            assert len(shown_and_heard(made.data)) == 2


async def test_an_animation_keeps_its_length(subtests: pytest.Subtests) -> None:
    """Every video of a server that sends WebP would play in slow motion."""
    for kind in ("WEBP", "PNG", "GIF"):
        with subtests.test(kind=kind):
            out, frames = (
                io.BytesIO(),
                [Image.new("RGB", (64, 64), (n, 9, 9)) for n in range(0, 200, 20)],
            )
            frames[0].save(out, kind, save_all=True, append_images=frames[1:], duration=40, loop=0)
            made = await videos.fitted(file(out.getvalue(), "wan-1.webp"), 1_000_000)
            assert (await videos.looked_at(made)).looks.seconds == pytest.approx(0.4, abs=0.05)


async def test_a_video_of_an_odd_size_is_made_to_fit(subtests: pytest.Subtests) -> None:
    """H.264 accepts only even sizes: such a video would never arrive."""
    for kind in ("webm", "GIF", "WEBP"):
        with subtests.test(kind=kind):
            size = (63, 47)
            if kind == "webm":
                before = video("webm", size=size)
            else:
                out = io.BytesIO()
                images = [Image.effect_noise(size, 50 + at) for at in range(3)]
                images[0].save(out, kind, save_all=True, append_images=images[1:], duration=100)
                before = out.getvalue()
            made = await videos.fitted(file(before), 1_000_000)
            looks = (await videos.looked_at(made)).looks
            assert (looks.width, looks.height) == (64, 48)


def test_a_video_of_noise_is_encoded_quickly(subtests: pytest.Subtests) -> None:
    """Encoding would take twice the processor time and look no better."""
    cases: list[tuple[int, int, bool]] = [
        (10_000_000, 38_000_000, True),
        (10_000_000, 11_000_000, False),
        (1_000_000, 38_000_000, False),
    ]
    for limit, weight, noisy in cases:
        with subtests.test(limit=limit, weight=weight):
            plan = video_plan(
                limit=limit,
                seconds=81 / 16,
                size=(832, 480),
                fps=16,
                has_sound=False,
                share=1.0,
                weight=weight,
            )
            assert plan is not None
            assert plan.noisy is noisy


def test_an_encoder_gets_its_threads_before_the_first_image() -> None:
    """Once encoding has begun the setting is ignored, and one video takes all processors."""
    plan = video_plan(limit=10**6, seconds=1, size=(64, 48), fps=16, has_sound=False, share=1.0)
    assert plan is not None
    with av.open(io.BytesIO(), "w", format="mp4") as target:
        stream = video_encoding._image_stream(target, plan, 16)
        assert (stream.codec_context.thread_count, stream.codec_context.is_open) == (2, False)


async def test_a_recording_that_does_not_say_how_long_it_is_is_counted() -> None:
    """Browsers record videos like this; a chat would show a video without a length."""
    unsaid = video("webm", silent=True).replace(b"\x44\x89", b"\xec\x88")  # its length, now a void
    with av.open(io.BytesIO(unsaid), "r") as opened:
        assert not opened.duration
    assert (await videos.looked_at(file(unsaid))).looks.seconds == pytest.approx(0.75, abs=0.1)
    assert len(await videos.frames(file(unsaid), 3)) == 3


# ---------------------------------------------------------------- frames and silence


def rising(kind: str, frames: int, size: tuple[int, int] = (64, 48)) -> bytes:
    """Return a video that goes from black to white."""
    shades = [Image.new("RGB", size, (round(255 * at / (frames - 1)),) * 3) for at in range(frames)]
    out = io.BytesIO()
    if kind in {"GIF", "WEBP", "PNG"}:
        shades[0].save(out, kind, save_all=True, append_images=shades[1:], duration=50)
        return out.getvalue()
    codec = "libvpx" if kind == "webm" else "libx264"
    with av.open(out, "w", format=kind) as made:
        target: Any = made
        stream = target.add_stream(codec, rate=16)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for shade in shades:
            target.mux(stream.encode(FRAMES.from_image(shade)))
        target.mux(stream.encode(None))
    return out.getvalue()


async def test_images_of_a_video_are_spread_over_it(subtests: pytest.Subtests) -> None:
    """A model that sees images would be shown only the beginning."""
    for kind in ("mp4", "webm", "matroska", "GIF", "WEBP", "PNG"):
        with subtests.test(kind=kind):
            found = await videos.frames(file(rising(kind, 60, (800, 40)), "wan.mp4"), 4)
            assert [each.name for each in found] == [f"wan-{number}.jpg" for number in range(1, 5)]
            for number, each in enumerate(found):
                with Image.open(io.BytesIO(each.data), formats=["JPEG"]) as image:
                    assert image.size == (768, 38)
                    shade = image.convert("L").resize((1, 1)).getpixel((0, 0))
                    assert shade == pytest.approx(255 * (number + 0.5) / 4, abs=14)


async def test_a_short_video_has_no_more_images_than_it_has() -> None:
    """A model would be shown one image eight times."""
    assert 1 <= len(await videos.frames(file(SHORT), 8)) <= 3
    with pytest.raises(videos.VideoError):
        await videos.frames(file(video("wav")), 8)


async def test_a_silent_video_is_given_a_track_of_silence(subtests: pytest.Subtests) -> None:
    """Telegram would play it as an endless loop, without a slider."""
    for kind in ("mp4", "webm", "mkv"):
        with subtests.test(kind=kind):
            before = video(kind, silent=True)
            after = (await videos.with_silence(file(before))).data
            looks = (await videos.looked_at(file(after))).looks
            assert looks.sound in {"aac", "opus"}
            assert looks.seconds == pytest.approx(0.75, abs=0.15)
            assert mime_of(after) == KINDS[kind].mime
            assert SECRET not in tags_of(after)
            seen = [each for each in shown_and_heard(after) if each[0] == "VideoFrame"]
            assert seen == shown_and_heard(before)
            with pytest.raises(videos.VideoError, match="audio"):
                await videos.with_silence(file(video(kind)))


async def test_what_cannot_fit_is_told_not_tried_for_ever() -> None:
    """A delivery would never end."""
    with pytest.raises(videos.VideoError, match="fit"):
        await videos.fitted(file(video("mp4")), 60)


@given(
    limit=st.integers(1_000, 200_000_000),
    seconds=st.floats(0.01, 3600),
    width=st.integers(2, 8192),
    height=st.integers(2, 8192),
    fps=st.floats(1, 120),
    has_sound=st.booleans(),
)
def test_a_plan_keeps_to_the_bytes(
    *, limit: int, seconds: float, width: int, height: int, fps: float, has_sound: bool
) -> None:
    """A video would be encoded repeatedly, or distorted."""
    plan = video_plan(
        limit=limit,
        seconds=seconds,
        size=(width, height),
        fps=fps,
        has_sound=has_sound,
        share=1.0,
    )
    if plan is None:
        assert limit * 8 / max(seconds, 0.1) < 30_000
        return
    assert (plan.image + (plan.sound or 0)) * max(seconds, 0.1) <= limit * 8
    assert plan.width % 2 == plan.height % 2 == 0
    assert max(plan.width, plan.height) <= max(
        1920, 64 * max(width, height) / min(width, height) + 2
    )
    assert plan.width <= width + 1
    assert plan.height <= height + 1


def test_a_sound_gets_the_best_rate_that_fits() -> None:
    """A song would sound worse than it must, or not fit."""
    assert sound_rate(limit=10_000_000, seconds=240, share=1.0) == 256_000
    assert sound_rate(limit=1_000_000, seconds=240, share=1.0) == 24_000
    assert sound_rate(limit=100_000, seconds=240, share=1.0) is None


async def test_without_the_libraries_videos_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the libraries would deliver videos unchanged."""
    monkeypatch.setattr(videos, "available", lambda: False)
    with pytest.raises(videos.NoVideos):
        await videos.cleaned(b"\0\0\0\x18ftypmp42")
