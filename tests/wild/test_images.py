"""Images in every mode of every format that is taken, through every door.

Each file of `images/` is a ramp from black on the left to white on the right. Each file of `masks/`
marks its upper left corner and leaves the lower right one. Each file of `cut-outs/` is transparent
in its upper left corner. Each file of `unread/` has the first bytes (`starts`) of a file, the name
it is `called`, and the `form` that a person knows it by.
"""

import asyncio
import base64
import io
import struct
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageOps

from backends.comfyui.files import as_upload
from backends.common.file_types import CONVERTED, mime_of
from backends.media.helper.pixels import as_jpeg, as_page, as_png, converted, in_eight_bits
from backends.media.helper.protocol import MediaTask, Order
from backends.media.images import keeping_transparency, open_image
from backends.openai.chat.passthrough import unchanged_url
from bot.commands.call.files import used_files
from bot.commands.make.ask import ASK
from bot.commands.make.image import COMMAND as IMAGE
from bot.core.attachments import AttachmentKind
from bot.core.platform import Attachment
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.platforms.telegram.media import SendKind, shown_as, shown_together
from bot.platforms.web.chat.thumbnails import smaller
from bot.requests.files.images import MEGAPIXELS, checked, fitted, in_form, mask_of
from queueing.core.requests import File
from tests.fakes.chat import FakeChat
from tests.samples import in_turn
from tests.wild.cases import read_case

HERE = Path(__file__).parent
RAMPS = sorted((HERE / "images").iterdir())
MASKS = sorted((HERE / "masks").iterdir())
PNG = "image/png"
PLAIN = File(name="rgb.png", mime=PNG, data=(HERE / "images" / "rgb.png").read_bytes())


def opened(data: bytes) -> Image.Image:
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data)))


@cache
def taken(path: Path) -> File:
    """Return an image as it is accepted from a person; this process converts rarer formats."""
    data = path.read_bytes()
    if (mime := mime_of(data)) in CONVERTED:
        _, data = converted(Order(task=MediaTask.IMAGE, mime=mime, size=len(data)), data)
    return asyncio.run(checked(data))


def kept_by_mask(file: File) -> Image.Image:
    """Return what a mask of that image leaves, as brightness: white parts of the mask change."""
    return opened(asyncio.run(mask_of(file, file)).data).getchannel("A").point(lambda v: 255 - v)


def in_data_url(file: File) -> Image.Image:
    """Return what a text server gets in a program's request: it converts modes as Pillow does."""
    readable = frozenset({"PNG", "JPEG", "WEBP"})
    sent = asyncio.run(unchanged_url((file,), 0, readable))
    return opened(base64.b64decode(sent.partition(",")[2])).convert("RGB")


DOORS: dict[str, Callable[[File], Image.Image]] = {
    "image server": open_image,
    "vision": lambda file: opened(as_jpeg(open_image(file))),
    "vision of a program": in_data_url,
    "page of a document": lambda file: opened(as_page(opened(file.data))),
    "mask": kept_by_mask,
    "thumbnail": lambda file: opened(smaller(file.data, 64) or still_of(file)),
    "smaller result": lambda file: in_eight_bits(opened(fits(file).data)),
    "result as PNG": lambda file: in_eight_bits(opened(in_form(file, "png").data)),
    "result as JPEG": lambda file: opened(in_form(file, "jpeg").data),
    "result as WebP": lambda file: opened(in_form(file, "webp").data),
}


def still_of(file: File) -> bytes:
    """Return the first frame of an animation, which has no thumbnail."""
    return as_png(open_image(file))


def fits(file: File) -> File:
    found = asyncio.run(fitted(file, 100_000))
    assert found is not None
    return found


@in_turn("ramp", RAMPS)
def test_a_ramp_stays_a_ramp(ramp: Path) -> None:
    """A depth map or a scan would become plain white, and people would blame the model."""
    given = taken(ramp)
    for door, shown in DOORS.items():
        values = brightness(shown(given).convert("RGBA").convert("L"))
        assert values[0] < 30, (door, values)
        assert values[-1] > 225, (door, values)
        assert all(one <= other + 8 for one, other in pairwise(values)), (door, values)


def brightness(shown: Image.Image) -> list[Any]:
    """Return how bright an image is at five places from left to right."""
    middle = shown.height // 2
    return [shown.getpixel((at * (shown.width - 1) // 4, middle)) for at in range(5)]


CUTS = sorted((HERE / "cut-outs").iterdir())


def read(path: Path) -> File:
    data = path.read_bytes()
    return File(name=path.name, mime=mime_of(data), data=data)


def is_cut_out(file: File) -> bool:
    corner = opened(file.data).convert("RGBA").getpixel((1, 1))
    return isinstance(corner, tuple) and corner[3] == 0


@in_turn("cut", CUTS)
async def test_a_cut_out_stays_one(cut: Path) -> None:
    """The point of the image would be lost: it would be on white or on black."""
    given = read(cut)
    assert (await shown_as(given)).kind is SendKind.DOCUMENT
    assert {each.kind for each in await shown_together([given, PLAIN])} == {SendKind.DOCUMENT}
    assert (await shown_as(given, hidden=True)).kind is SendKind.PHOTO  # documents cannot be
    smaller_one = await fitted(given, len(given.data) - 1)
    assert smaller_one is None or is_cut_out(smaller_one)
    assert is_cut_out(in_form(given, "webp"))
    larger = as_upload(given).size
    assert larger is not None
    white = Image.new("RGB", (larger[0] * 2, larger[1] * 2), "white")
    upscaled = File(name="sdxl-1.jpg", mime="image/jpeg", data=as_jpeg(white))
    kept = keeping_transparency(upscaled, given)
    assert (kept.name, kept.mime, opened(kept.data).size) == ("sdxl-1.png", PNG, white.size)
    assert is_cut_out(kept)


async def test_only_what_would_lose_something_is_no_photo() -> None:
    """People would have to open each image, or a depth map would lose half of its bits."""
    for ramp in RAMPS:
        if ramp.suffix in {".png", ".jpg", ".webp"}:
            shown = await shown_as(read(ramp))
            loses = ramp.name.startswith(("grey-16", "animated"))
            assert (shown.kind is SendKind.DOCUMENT) is loses, ramp.name


def test_a_result_keeps_its_own_transparency_and_shape() -> None:
    cut = read(HERE / "cut-outs" / "rgba.png")
    other = File(name="o.png", mime=PNG, data=as_png(Image.new("RGB", (64, 16))))
    broken = File(name="b.png", mime=PNG, data=b"\x89PNG\r\n\x1a\n")
    for made in (cut, other, broken, File(name="v.mp4", mime="video/mp4", data=b"")):
        assert keeping_transparency(made, cut) is made
    assert keeping_transparency(other, PLAIN) is other


@pytest.mark.parametrize("kind", ["rgb.avif", "rgba.bmp", "animated.gif", "grey-16.tif"])
async def test_a_rarer_format_is_converted_by_a_process_of_its_own(kind: str) -> None:
    """A person could not send the format of their phone, camera or scanner."""
    found = await checked((HERE / "images" / kind).read_bytes())
    assert (found.name, found.mime, opened(found.data).size) == ("image.png", PNG, (64, 16))


async def nothing() -> bytes:
    return b""


def test_a_gif_is_an_image_for_a_command_that_takes_no_animations() -> None:
    """A person would read that /image accepts no animations, though they sent an image."""
    moving = AttachmentKind.ANIMATION
    for command, kind in ((IMAGE, AttachmentKind.IMAGE), (ASK, moving)):
        sent = Attachment(kind=moving, name="a.gif", mime="image/gif", size=1, read=nothing)
        call = FakeChat().call(f"/{command.name} red", files=(sent,))
        assert [file.kind for file in used_files(command, call, "en")] == [kind]


UNREAD = sorted((HERE / "unread").glob("*.json"))


@in_turn("case", UNREAD)
def test_what_cannot_be_read_is_named(case: Path) -> None:
    """A person would not know what is wrong with an image that they see on their screen."""
    odd = read_case(case)
    with pytest.raises(Declined) as declined:
        asyncio.run(checked(bytes.fromhex(odd["starts"]), odd["called"]))
    assert declined.value.refusal == Refusal(RefusalKind.UNREAD_IMAGE, form=odd["form"])


async def test_a_broken_or_huge_image_of_a_rarer_format_is_refused() -> None:
    """A decoder would run in the bot itself, or take all of its memory."""
    head = struct.pack("<IIiiHHIIIIII", 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    huge = b"BM" + bytes(8) + head
    with pytest.raises(Declined) as declined:
        await checked(huge)
    assert declined.value.refusal == Refusal(RefusalKind.TOO_MANY_PIXELS, limit=MEGAPIXELS)
    for kind in ("rgb.avif", "lzw.tif"):
        with pytest.raises(Declined) as declined:
            await checked((HERE / "images" / kind).read_bytes()[:-200])
        assert declined.value.refusal == Refusal(RefusalKind.NOT_AN_IMAGE)


@in_turn("mask", MASKS)
def test_a_mask_marks_what_its_person_painted(mask: Path) -> None:
    """The rest of the image would change instead."""
    image = taken(mask)
    alpha = opened(asyncio.run(mask_of(image, image)).data).getchannel("A")
    assert (alpha.getpixel((1, 1)), alpha.getpixel((alpha.width - 2, alpha.height - 2))) == (0, 255)
