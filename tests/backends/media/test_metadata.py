"""Metadata leaves an image, and nothing else does."""

import asyncio
import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps

from backends.common.file_types import mime_of
from backends.media.image_metadata import without_metadata
from backends.media.result_files import KeptBack, bare
from tests.backends.media.planted import (
    IMAGE,
    MOVES,
    MOVING,
    OTHER,
    PLANTED,
    SECRET,
    exif,
    frames,
    profile,
    saved,
    words_of,
)
from tests.samples import examples

CLEAN = {kind: without_metadata(each()) for kind, each in PLANTED.items() if kind != "AVIF"}
STILL: list[tuple[str, dict[str, object]]] = [(kind, {}) for kind in PLANTED]
VIDEOS = [(kind, dict(MOVING)) for kind in MOVES]


def cleaned(data: bytes) -> bytes:
    return asyncio.run(bare(data))


def test_words_leave_an_image_and_the_pixels_stay(subtests: pytest.Subtests) -> None:
    """Prompts, file paths and locations would be published with every image."""
    cases: list[tuple[str, dict[str, object]]] = STILL + VIDEOS
    for kind, options in cases:
        with subtests.test(kind=kind):
            before = PLANTED[kind](**options)
            after = cleaned(before)
            assert SECRET in words_of(before)
            assert SECRET not in words_of(after)
            assert frames(after) == frames(before)
            assert cleaned(after) == after


def test_an_image_stays_turned_as_it_was(subtests: pytest.Subtests) -> None:
    """Photos would appear sideways."""
    for kind in ["PNG", "JPEG", "WEBP", "AVIF"]:
        with subtests.test(kind=kind):
            for orientation in range(1, 9):
                before = PLANTED[kind](exif=exif(orientation))
                after = cleaned(before)
                assert SECRET not in words_of(after), orientation
                shown = [
                    ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
                    for data in (before, after)
                ]
                assert shown[0].tobytes() == shown[1].tobytes(), orientation
                assert shown[0].size == shown[1].size, orientation


def test_the_colours_of_a_profile_stay(subtests: pytest.Subtests) -> None:
    """Images with a wide range of colours would look dull."""
    for kind in ["PNG", "JPEG", "WEBP", "AVIF"]:
        with subtests.test(kind=kind):
            after = cleaned(PLANTED[kind]())
            with Image.open(io.BytesIO(after)) as image:
                kept = image.info["icc_profile"]
            for each in (kept, profile()):
                assert (
                    ImageCms.getOpenProfile(io.BytesIO(each)).profile.xcolor_space.strip() == "RGB"
                )
            srgb = ImageCms.createProfile("sRGB")
            shown = [
                ImageCms.profileToProfile(IMAGE, ImageCms.getOpenProfile(io.BytesIO(each)), srgb)
                for each in (kept, profile())
            ]
            assert shown[0] is not None
            assert shown[1] is not None
            assert shown[0].tobytes() == shown[1].tobytes()


def test_resolution_and_transparency_of_a_png_stay() -> None:
    """Prints would have another size."""
    after = without_metadata(PLANTED["PNG"](dpi=(300, 300), icc_profile=None))
    with Image.open(io.BytesIO(after)) as image:
        assert image.info.keys() == {"dpi"}


def test_a_gif_repeats_as_often_as_before() -> None:
    """Animations would stop after the first run."""
    after = without_metadata(PLANTED["GIF"](**MOVING, loop=0, duration=70))
    with Image.open(io.BytesIO(after)) as image:
        assert image.info["loop"] == 0
        assert image.info["duration"] == 70


def test_a_phones_second_image_and_video_leave_a_jpeg() -> None:
    """A portrait would contain the unedited image, or three seconds of sound."""
    before = saved(IMAGE, "MPO", save_all=True, append_images=[OTHER]) + b"ftypmp42" * 9
    after = without_metadata(before)
    with Image.open(io.BytesIO(after)) as image:
        assert image.format == "JPEG"
    assert frames(after) == frames(before)[:1]
    assert b"ftyp" not in after
    assert len(after) < len(before) * 0.6


def test_files_of_other_kinds_stay_as_they_are() -> None:
    """A text node's file would be damaged."""
    for data in (b"", b"GIF8?a...", b"\xff\xfb", b"words"):
        assert without_metadata(data) == data


@pytest.mark.parametrize("kind", list(CLEAN))
@given(cut=st.integers(45, 500))
def test_an_image_that_is_cut_off_is_noticed(kind: str, cut: int) -> None:
    """Half a download would be delivered as an image."""
    whole = CLEAN[kind]
    data = whole[: max(12, len(whole) - cut)]
    with pytest.raises(ValueError, match="truncated"):
        without_metadata(data)


@given(noise=st.binary(), flip=st.integers(0, 400))
def test_any_bytes_can_be_read(noise: bytes, flip: int) -> None:
    """A broken file would end in a traceback."""
    starts = [each[:flip] for each in CLEAN.values()]
    starts += [b"", b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0", b"\0\0\0\x10ftypavif\0\0\0\0\0\0\0\0"]
    for start in starts:
        with suppress(ValueError):
            without_metadata(start + noise)


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _deep(kind: bytes, depth: int) -> bytes:
    return b"".join(struct.pack(">I4s", 8 * left, kind) for left in range(depth, 0, -1))


@pytest.mark.parametrize(
    "data",
    [
        _box(b"ftyp", b"avif\0\0\0\0") + _deep(b"trak", 100_000),
        _box(b"ftyp", b"avif\0\0\0\0")
        + _box(
            b"meta", bytes(4) + _box(b"iloc", bytes(6) + b"\xff\xff" + b"\0\0\0\0\xff\xff" * 65535)
        ),
    ],
    ids=["nested", "many"],
)
def test_a_file_that_claims_too_much_costs_little(data: bytes) -> None:
    """A few bytes would occupy the process for minutes, or crash it."""
    with pytest.raises(ValueError, match="unreadable AVIF"):
        cleaned(data)


def test_an_avif_becomes_a_webp_that_moves_as_before() -> None:
    """An animation would stop moving, or play too fast."""
    before = PLANTED["AVIF"](**MOVING, duration=[70, 90])
    after = cleaned(before)
    assert mime_of(after) == "image/webp"
    with Image.open(io.BytesIO(after)) as image:
        shown = []
        for number in range(2):
            image.seek(number)
            image.load()
            shown.append(image.info["duration"])
    assert shown == [70, 90]


@examples(100, quick=25)
@given(cut=st.integers(45, 500), flip=st.integers(30, 400))
def test_a_broken_avif_costs_itself_only(cut: int, flip: int) -> None:
    """One of a server's files would fail the attempt with a traceback."""
    whole = bytearray(PLANTED["AVIF"]())
    whole[flip] ^= 0xFF
    for data in (bytes(whole), bytes(whole[:-cut])):
        with suppress(ValueError, KeptBack):
            cleaned(data)


def test_what_cannot_be_cleaned_is_kept_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A location or a prompt would be published, or a small file would fill the memory."""
    heic = b"\0\0\0\x18ftypheic" + bytes(40)
    with pytest.raises(KeptBack):
        cleaned(heic)
    for unread in (heic, PLANTED["AVIF"]()):
        with pytest.raises(ValueError, match="cannot be removed"):
            without_metadata(unread)
    monkeypatch.setattr("backends.media.result_files.MAX_PIXELS", IMAGE.width * IMAGE.height)
    with pytest.raises(KeptBack):
        cleaned(PLANTED["AVIF"](**MOVING))


def test_a_file_is_known_by_its_bytes(subtests: pytest.Subtests) -> None:
    """A page could be sent where a video is expected."""
    cases: list[tuple[bytes, str]] = [
        (b"\0\0\0\x18ftypmp42....", "video/mp4"),
        (b"\0\0\0\x18ftypqt  ....", "video/quicktime"),
        (b"\0\0\0\x18ftypM4A ....", "audio/mp4"),
        (b"\x1a\x45\xdf\xa3\x01....\x42\x82\x84webm", "video/webm"),
        (b"\x1a\x45\xdf\xa3\x01....\x42\x82\x88matroska", "video/x-matroska"),
        (b"RIFF....WAVEfmt ", "audio/wav"),
        (b"RIFF....AVI LIST", "video/x-msvideo"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xff\xff\xff", ""),
        (b"<html>", ""),
    ]
    for data, mime in cases:
        with subtests.test(data=data, mime=mime):
            assert mime_of(data) == mime
