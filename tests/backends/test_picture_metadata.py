"""Metadata leaves a picture, and nothing else does."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from backends.picture_metadata import without_metadata

PICTURE = Image.effect_noise((40, 30), 80).convert("RGB")


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(**options: Any) -> bytes:
    info = PngInfo()
    info.add_text("prompt", "SECRET" * 50)
    info.add_text("workflow", "SECRET", zip=True)
    info.add_itxt("parameters", "SECRET ü")
    exif = Image.Exif()
    exif[0x010E] = "SECRET"
    return saved(PICTURE, "PNG", pnginfo=info, exif=exif, **options)


def test_texts_leave_a_png_and_the_pixels_stay() -> None:
    """If this failed prompts and paths would be published with every picture."""
    before = png(dpi=(300, 300))
    after = without_metadata(before)
    assert b"SECRET" in before
    assert len(after) < len(before)
    for kind in (b"tEXt", b"zTXt", b"iTXt", b"eXIf"):
        assert kind not in after
    with Image.open(io.BytesIO(after)) as image:
        assert image.tobytes() == PICTURE.tobytes()
        assert image.info.keys() == {"dpi"}
    assert without_metadata(after) == after


def test_a_moving_png_keeps_moving() -> None:
    """If this failed animations would become single pictures."""
    other = PICTURE.rotate(180)
    after = without_metadata(png(save_all=True, append_images=[other]))
    with Image.open(io.BytesIO(after)) as image:
        assert image.n_frames == 2  # type: ignore[attr-defined]


def test_texts_leave_a_webp_and_the_pixels_stay() -> None:
    """If this failed the prompts of animations would be published."""
    exif = Image.Exif()
    exif[0x010F] = "SECRET"
    before = saved(PICTURE, "WEBP", lossless=True, exif=exif, xmp=b"<SECRET/>")
    after = without_metadata(before)
    assert b"SECRET" in before
    assert b"SECRET" not in after
    with Image.open(io.BytesIO(after)) as image:
        assert image.tobytes() == PICTURE.tobytes()
        assert "exif" not in image.info
        assert "xmp" not in image.info


def test_files_of_other_kinds_stay_as_they_are() -> None:
    """If this failed a video node's file would be damaged."""
    for data in (b"", b"GIF89a...", saved(PICTURE, "JPEG")):
        assert without_metadata(data) == data


@given(cut=st.integers(0, len(png()) - 1))
def test_a_png_that_is_cut_off_is_noticed(cut: int) -> None:
    """If this failed half a download would be delivered as a picture."""
    data = png()[:cut]
    if len(data) < 8:
        assert without_metadata(data) == data
    else:
        with pytest.raises(ValueError, match="cut off"):
            without_metadata(data)


@given(noise=st.binary())
def test_any_bytes_can_be_read(noise: bytes) -> None:
    """If this failed a broken file would end in a traceback."""
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0"):
        try:
            without_metadata(start + noise)
        except ValueError as error:
            assert "cut off" in str(error)  # noqa: PT017  # not always raised
