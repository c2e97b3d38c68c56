"""Results are converted to a size and format that the chat can play."""

import io
from dataclasses import replace

import pytest
from PIL import Image

from backends.common.file_types import mime_of
from backends.media import videos
from bot.core.live_settings import ChatSettings, ChatSettingsTable
from bot.delivery.result_renderer import fitted
from bot.texts import results
from bot.texts.catalogue import plain, say
from bot.texts.results import Abilities
from queueing.core.requests import File, Output
from tests.backends.media.planted import MOVING, PLANTED
from tests.bot.delivery.results.rendering import completed, origin, renderer
from tests.fakes.chat import LIMITS

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from typing import TYPE_CHECKING

from tests.backends.media.recorded_videos import video

if TYPE_CHECKING:
    from bot.core.platform import ChatLimits

TELEGRAM = replace(LIMITS, plays=frozenset({"video/mp4", "audio/mpeg"}), animations=False)
SMALL = replace(LIMITS, upload=9000)


def file(data: bytes, name: str = "wan-1.bin") -> File:
    return File(name=name, mime=mime_of(data), data=data)


@pytest.mark.parametrize(
    "pixels", ["yuv420p10le", pytest.param("yuv444p", marks=pytest.mark.thorough)]
)
async def test_a_video_in_pixels_that_players_do_not_know_is_made_again(pixels: str) -> None:
    """Half of the readers would see a black square, as servers can save ten bits per colour."""
    odd = file(video("mp4", pixels=pixels))
    again = await fitted(odd, LIMITS)
    assert again is not None
    assert (await videos.looked_at(again)).looks.pixels == "yuv420p"
    assert again.data != odd.data, pixels


async def test_a_video_that_fits_and_plays_stays_as_it_is() -> None:
    """Every video would lose quality, and need a second of work."""
    whole = file(video("mp4"))
    assert await fitted(whole, LIMITS) is whole


async def test_what_does_not_play_in_a_chat_is_encoded_so_that_it_does() -> None:
    """A video would be a file to download, or a still image with sound."""
    cases: list[tuple[str, str]] = [
        ("mkv", "video/mp4"),
        ("webm", "video/mp4"),
        ("wav", "audio/mpeg"),
    ]
    for kind, mime in cases:
        made = await fitted(file(video(kind)), TELEGRAM)
        assert made is not None, kind
        assert made.mime == mime_of(made.data) == mime, kind


async def test_a_video_too_large_comes_smaller() -> None:
    """A video would never arrive."""
    whole = file(video("mp4", size=(320, 240), frames=24))
    limit = len(whole.data) // 3
    made = await fitted(whole, replace(LIMITS, upload=limit))
    assert made is not None
    assert len(made.data) <= limit


async def test_an_animation_moves_where_only_videos_do() -> None:
    """An animation would become a still image."""
    for kind in ("WEBP", "PNG", "AVIF"):
        moving = file(PLANTED[kind](**MOVING), "wan-1.webp")
        assert await fitted(moving, LIMITS) is moving, kind
        made = await fitted(moving, TELEGRAM)
        assert made is not None, kind
        assert made.mime == "video/mp4", kind


async def test_a_still_image_and_a_small_gif_stay() -> None:
    """An image would become a video of one frame."""
    for data in (PLANTED["WEBP"](), PLANTED["GIF"](**MOVING)):
        whole = file(data)
        assert await fitted(whole, TELEGRAM) is whole


async def test_a_gif_too_large_goes_on_moving() -> None:
    """An animation would become a still image."""
    out = io.BytesIO()
    shots = [Image.effect_noise((200, 160), 40 + n).convert("RGB") for n in range(8)]
    shots[0].save(out, "GIF", save_all=True, append_images=shots[1:])
    made = await fitted(file(out.getvalue()), replace(LIMITS, upload=len(out.getvalue()) // 3))
    assert made is not None
    assert made.mime == "video/mp4"


async def test_without_the_libraries_what_fits_goes_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small video would be lost because a library is missing."""
    monkeypatch.setattr(videos, "available", lambda: False)
    whole = file(video("mkv"))
    assert await fitted(whole, TELEGRAM) is whole
    assert await fitted(whole, replace(TELEGRAM, upload=100)) is None


async def test_a_video_has_no_buttons_for_images_and_is_hidden_as_they_are() -> None:
    """Upscale under a video would be refused, and an unwanted video be shown at once."""
    output, ended = Output(files=(file(video("mp4")),)), completed()
    hides = ChatSettingsTable(by_key={"fake:1": ChatSettings(spoiler=True)})
    rendered = await renderer(output, hides).render(ended, origin(), LIMITS)
    assert rendered.content.files == output.files
    assert rendered.content.spoiler
    names = {button.command for row in rendered.content.buttons for button in row}
    assert names == {"again", "edit", "delete"}
    assert len(results.of_result(ended, "en", Abilities(vary=True, upscale=True), images=1)) == 2


async def test_what_was_left_out_is_counted_in_good_grammar() -> None:
    """The message would say that one file "are" larger."""
    for count, said in ((1, "1 file is too large"), (2, "2 files are too large")):
        lost = File(name="a.zip", mime="application/zip", data=bytes(2000))
        limits = replace(LIMITS, upload=100)
        rendered = await renderer(Output(files=(lost,) * count)).render(
            completed(), origin(), limits
        )
        assert said in plain(rendered.content.body)
    assert "1 Datei ist" in plain(say("de", "result.files_left_out", count=1))


async def test_what_was_changed_is_said_as_it_is() -> None:
    """Two smaller images would be reported as one, or a converted animation as "smaller"."""
    cases: list[tuple[str, ChatLimits, str]] = [
        ("L", SMALL, "The image was made smaller to fit this chat."),
        ("LL", SMALL, "The images were made smaller to fit this chat."),
        ("LS", SMALL, "1 of 2 images was made smaller to fit this chat."),
        ("LSL", SMALL, "2 of 3 images were made smaller to fit this chat."),
        ("M", TELEGRAM, "Re-encoded to play in this chat."),
        ("S", SMALL, ""),
    ]
    for made, limits, said in cases:
        large = io.BytesIO()
        Image.effect_noise((200, 160), 60).save(large, "PNG")
        data = {"L": large.getvalue(), "S": PLANTED["PNG"](), "M": PLANTED["WEBP"](**MOVING)}
        fitting, note = await renderer()._fit_files(
            completed(), tuple(file(data[each]) for each in made), limits, "en"
        )
        assert len(fitting) == len(made), made
        assert plain(note) == said, made
