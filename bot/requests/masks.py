"""Masks of edited pictures: what a person marked, as models read it."""

import asyncio
import io

from PIL import Image, ImageChops

from backends.common.file_types import SENT
from bot.core.refusals import Declined, NoMask, NotAPicture
from queueing.core.requests import File

_OPAQUE = 255
_MARKED_MOST = 127  # of opacity; what is more opaque stays


async def mask_of(picture: File, given: File | None = None) -> File:
    """Return a PNG of a picture's size that is transparent where the picture is to be painted.

    `given` is what the person sent as the mask, otherwise the picture's own transparent parts count.
    A mask without transparency marks by white. Both files are checked pictures. Raises `Declined`
    if nothing is marked, or a result is no picture that can be read.
    """
    try:
        return await asyncio.to_thread(_mask, picture, given)
    except (OSError, ValueError) as error:
        raise Declined(NotAPicture()) from error


def _mask(picture: File, given: File | None) -> File:
    with Image.open(io.BytesIO(picture.data), formats=SENT) as opened:
        size = opened.size
    with Image.open(io.BytesIO((given or picture).data), formats=SENT) as opened:
        kept = opened.convert("RGBA").getchannel("A")
        if given is not None and _least(kept) == _OPAQUE:
            kept = ImageChops.invert(opened.convert("L"))
    if _least(kept) > _MARKED_MOST:
        raise Declined(NoMask())
    mask = Image.new("RGBA", size)
    mask.putalpha(kept.resize(size))
    out = io.BytesIO()
    mask.save(out, "PNG")
    return File(name="mask.png", mime="image/png", data=out.getvalue())


def _least(channel: Image.Image) -> float:
    low = channel.getextrema()[0]
    return low[0] if isinstance(low, tuple) else low
