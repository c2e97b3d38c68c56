"""What represents a video, an animation or a sound in the history."""

from io import BytesIO

import pytest
from PIL import Image

from backends.common.file_types import mime_of
from backends.media import videos
from bot.platforms.web.chat.thumbnails import STILL, THUMB, smaller, still
from bot.texts.results import length
from tests.backends.media.planted import PLANTED
from tests.backends.media.recorded_videos import video


def shown(data: bytes) -> Image.Image:
    """Return the small image that the page gets of a still."""
    small = smaller(data, THUMB)
    assert small
    with Image.open(BytesIO(small)) as opened:
        return opened.convert("RGB")


async def test_a_video_shows_its_first_image_with_a_sign() -> None:
    """Videos would be empty squares between the images."""
    data = video("mp4", size=(320, 240), frames=24)
    image = shown(await still("wan-1.mp4", mime_of(data), data))
    bare = shown(await still("wan-1.mp4", "video/mp4", b"no video"))
    assert image.size == bare.size == (THUMB, THUMB)
    assert image.tobytes() != bare.tobytes()
    middle = (THUMB // 2, THUMB // 2)
    assert min(image.getpixel(middle)) > 200  # type: ignore[arg-type]
    assert min(bare.getpixel(middle)) > 200  # type: ignore[arg-type]


async def test_without_the_libraries_a_video_has_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bot without the libraries for videos would show empty squares."""
    monkeypatch.setattr(videos, "available", lambda: False)
    data = video("webm", size=(64, 48), frames=5)
    assert shown(await still("wan-1.webm", mime_of(data), data)).size == (THUMB, THUMB)


async def test_an_animation_shows_its_first_frame() -> None:
    """Its square would be empty, as it has no small form of its own."""
    for kind in ("WEBP", "GIF"):
        frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "blue")]
        out = BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:], lossless=True)
        corner = shown(await still("a", f"image/{kind.lower()}", out.getvalue())).getpixel((8, 8))
        assert isinstance(corner, tuple), kind
        assert corner[0] > 200, kind
        assert max(corner[1:]) < 60, kind


async def test_an_image_stays_as_it_is() -> None:
    """Every image of the history would be encoded once more than needed."""
    data = PLANTED["PNG"]()
    assert await still("a.png", "image/png", data) == data


def test_a_length_is_told_as_players_do() -> None:
    """A video of a second would have no length, or one of a minute 0:60."""
    cases: list[tuple[float, str]] = [
        (0.0, ""),
        (0.2, "0:01"),
        (5.4, "0:05"),
        (59.7, "1:00"),
        (3725.0, "62:05"),
    ]
    for seconds, told in cases:
        assert length(seconds) == told, seconds
        assert STILL >= THUMB, seconds
