"""Decoding strangers' images: what is refused, and what the result is."""

import io
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from backends.media.helper.pixels import MAX_PIXELS, as_jpeg, as_png
from backends.media.images import open_image
from queueing.core.errors import Rejected
from queueing.core.requests import File
from tests.backends.media.planted import PLANTED, SECRET, words_of
from tests.told import words


def file(image: Image.Image, kind: str, **how: object) -> File:
    buffer = io.BytesIO()
    image.save(buffer, kind, **how)
    return File(name="x", mime="image/x", data=buffer.getvalue())


def test_transparency_becomes_white() -> None:
    """Hidden colours would appear, or JPEG would refuse the image."""
    for mode in ("RGBA", "LA", "P"):
        clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0)).convert(mode)
        how = {"transparency": 0} if mode == "P" else {}
        opened = open_image(file(clear, "PNG", **how))
        assert opened.mode == "RGB"
        assert opened.getpixel((4, 4)) == (255, 255, 255)


def test_a_photo_is_turned_upright() -> None:
    """The model would see a phone's photo sideways."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    photo = file(Image.new("RGB", (30, 10)), "JPEG", exif=exif)
    assert open_image(photo).size == (10, 30)


def test_every_usual_kind_of_image_can_be_encoded(subtests: pytest.Subtests) -> None:
    """A scan or a print file would crash an attempt."""
    for mode in ["1", "L", "I;16", "CMYK", "P", "RGB"]:
        with subtests.test(mode=mode):
            kind = "JPEG" if mode == "CMYK" else "PNG"
            opened = open_image(file(Image.new(mode, (12, 9)), kind))
            for data in (as_jpeg(opened), as_png(opened)):
                with Image.open(io.BytesIO(data)) as again:
                    assert again.size == (12, 9)


@pytest.mark.parametrize("kind", list(PLANTED))
@pytest.mark.parametrize("encode", [as_jpeg, as_png])
def test_nothing_beside_the_pixels_reaches_a_server(
    kind: str, encode: Callable[[Image.Image], bytes]
) -> None:
    """A comment in a photo could be read by anyone who runs the server."""
    before = PLANTED[kind]()
    if kind == "AVIF":  # not taken from people
        with pytest.raises(Rejected):
            open_image(File(name="x", mime="image/avif", data=before))
        return
    after = encode(open_image(File(name="x", mime="image/x", data=before)))
    assert SECRET in words_of(before)
    assert SECRET not in words_of(after)
    with Image.open(io.BytesIO(after)) as image:
        assert not {"icc_profile", "exif", "comment", "xmp"} & image.info.keys()


def test_the_colours_of_a_profile_become_those_servers_expect() -> None:
    """A phone's photo would look dull to the model."""
    wide = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    at = wide.index(b"rXYZ")  # swap red and green: a profile no one can overlook
    (red, green) = (wide[at + 4 : at + 12], wide[wide.index(b"gXYZ") + 4 :][:8])
    other = wide.index(b"gXYZ")
    wide[at + 4 : at + 12], wide[other + 4 : other + 12] = green, red
    photo = file(Image.new("RGB", (8, 8), "red"), "PNG", icc_profile=bytes(wide))
    assert open_image(photo).getpixel((4, 4)) == (0, 255, 0)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    """A small file could take gigabytes."""
    side = int(MAX_PIXELS**0.5) + 100
    for size in ((side, side), (20_000, 10_000)):
        with pytest.raises(Rejected) as caught:
            open_image(file(Image.new("1", size), "PNG"))
        assert "pixels" in words(caught.value)


@given(
    st.binary(max_size=200), st.integers(0, 400), st.sampled_from(["PNG", "JPEG", "WEBP", "GIF"])
)
def test_broken_bytes_are_refused_and_nothing_else(noise: bytes, at: int, kind: str) -> None:
    """A stranger's file could crash the attempt with a traceback."""
    whole = file(Image.new("RGB", (16, 16), "red"), kind).data
    broken = whole[:at] + noise + whole[at + len(noise) :]
    with suppress(Rejected):
        open_image(File(name="x", mime="image/x", data=broken))
