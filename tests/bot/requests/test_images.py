"""Strangers' images are checked before they are decoded; results are made to fit."""

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.files.images import bare, checked, dimensions, fitted
from queueing.core.requests import File
from tests.backends.media.planted import PLANTED, SECRET, exif, frames, words_of
from tests.bot.api.calls.test_hostile_images import png


def encoded(form: str, size: tuple[int, int] = (32, 24), mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.effect_noise(size, 90).convert(mode).save(out, form)
    return out.getvalue()


async def test_an_image_is_taken_under_our_own_name() -> None:
    """A stranger's file name would reach servers and disks."""
    for form in ("PNG", "JPEG", "WEBP"):
        file = await checked(encoded(form))
        assert file.name == f"image.{form.lower()}", form
        assert await dimensions(file) == (32, 24), form


async def test_an_image_is_kept_without_what_a_camera_wrote() -> None:
    """The place where a photo was taken would be in the database."""
    for form in ("PNG", "JPEG", "WEBP"):
        before = PLANTED[form](exif=exif(6))
        for after in ((await checked(before)).data, await bare(before)):
            assert SECRET in words_of(before), form
            assert SECRET not in words_of(after), form
            assert frames(after) == frames(before)[:1], form
            with Image.open(io.BytesIO(after)) as image:
                assert image.getexif()[0x0112] == 6, form


async def test_a_photo_of_several_images_is_one_image() -> None:
    """A phone's portrait would end in an internal error."""
    out = io.BytesIO()
    Image.new("RGB", (40, 30)).save(
        out, "MPO", save_all=True, append_images=[Image.new("RGB", (40, 30), "red")]
    )
    assert (await checked(out.getvalue())).mime == "image/jpeg"


async def test_of_a_damaged_image_nothing_is_kept() -> None:
    """Metadata beside the pixels would be stored unnoticed."""
    assert await bare(PLANTED["JPEG"]()[:400]) == b""
    assert await bare(b"plain words") == b"plain words"


async def test_what_is_no_image_is_refused() -> None:
    """A broken or foreign file would end as a failed job minutes later, or run a decoder."""
    cases: list[bytes] = [
        b"",
        b"hello, I am a text",
        b"\x89PNG\r\n\x1a\n",
        encoded("PNG")[:60],
        encoded("JPEG")[:-200],
        encoded("GIF")[:20],
        encoded("BMP")[:60],
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    ]
    for data in cases:
        with pytest.raises(Declined) as declined:
            await checked(data)
        assert declined.value.refusal == Refusal(RefusalKind.NOT_AN_IMAGE), data[:40]


async def test_a_pixel_bomb_is_refused_before_it_is_decoded() -> None:
    """A few bytes would take ten gigabytes of memory."""
    with pytest.raises(Declined) as declined:
        await checked(png(60_000, 60_000))
    assert declined.value.refusal == Refusal(RefusalKind.TOO_MANY_PIXELS, limit=40)


@given(st.binary(max_size=400), st.sampled_from(["PNG", "JPEG", "WEBP"]), st.integers(0, 300))
async def test_no_bytes_break_the_check(noise: bytes, form: str, at: int) -> None:
    """A crafted file would end in an internal error."""
    whole = encoded(form)
    for data in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(Declined):
            assert (await checked(data)).mime.startswith("image/")


async def test_a_result_that_fits_is_untouched() -> None:
    """Images would lose quality without need."""
    file = File(name="a.png", mime="image/png", data=encoded("PNG"))
    assert await fitted(file, len(file.data)) is file


async def test_a_result_too_large_is_made_smaller() -> None:
    """A large image would never arrive, whatever its format."""
    for mode in ("RGB", "RGBA", "P", "L", "I;16"):
        out = io.BytesIO()
        image = Image.effect_noise((700, 500), 90)
        (image.convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)).save(
            out, "PNG"
        )
        file = File(name="a.png", mime="image/png", data=out.getvalue())
        smaller = await fitted(file, 40_000)
        assert smaller is not None, mode
        assert len(smaller.data) <= 40_000, mode
        assert smaller.name == "a.jpg", mode


async def test_what_cannot_fit_is_left_out() -> None:
    """A hopeless attempt would go on forever."""
    file = File(name="a.zip", mime="application/zip", data=bytes(1000))
    assert await fitted(file, 10) is None
    broken = File(name="a.png", mime="image/png", data=bytes(1000))
    assert await fitted(broken, 10) is None


async def test_the_size_of_a_drawn_image_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result would wait for a thread, and the event loop for each thread."""

    def no_thread(*_: object) -> None:
        raise AssertionError("a thread was asked")

    monkeypatch.setattr("asyncio.to_thread", no_thread)
    for mode in ("1", "L", "P", "RGB", "RGBA", "I;16"):
        out = io.BytesIO()
        Image.new(mode, (33, 7)).save(out, "PNG")
        for data in (out.getvalue(), out.getvalue()[:33]):  # the header is enough
            assert await dimensions(File(name="a.png", mime="image/png", data=data)) == (33, 7), (
                mode
            )


async def test_a_broken_header_names_no_size() -> None:
    """A result would be said to have millions of pixels that no one can see."""
    for at in (0, 8, 13, 17, 22, 24, 30):
        data = bytearray(encoded("PNG"))
        data[at] ^= 0x40
        for broken in (bytes(data), encoded("PNG")[: at + 1]):
            assert await dimensions(File(name="a.png", mime="image/png", data=broken)) is None, at
