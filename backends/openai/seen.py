"""Pictures that a program wants looked at: sent as they came, in their size and format.

Letters on a page would blur if they were scaled down. A picture is encoded again only where servers
would see something else than people do: turned, with the colours that transparency hides, or in
a format that the server cannot read. Pillow runs in a thread.
"""

import asyncio
import base64
import io
from collections.abc import Sequence

from PIL import Image

from backends.common.file_types import SENT
from backends.media.images import as_jpeg, as_png, open_picture
from queueing.core.errors import Rejected
from queueing.core.requests import File

_ORIENTATION = 0x0112  # in EXIF
_QUALITY = 95


async def unchanged_url(files: Sequence[File], index: int, readable: frozenset[str]) -> str:
    """Return one of the job's pictures for a server that reads those formats.

    Raises `Rejected` where there is none, or for an unusable one.
    """
    if not 0 <= index < len(files):
        raise Rejected(f"the conversation names picture {index} of {len(files)}")
    return await asyncio.to_thread(_url, files[index], readable)


def _url(file: File, readable: frozenset[str]) -> str:
    kind, alike = _looks(file)
    data = file.data
    if not alike or kind not in readable:
        picture = open_picture(file)
        kind = "JPEG" if kind == "JPEG" else "PNG"
        data = as_jpeg(picture, quality=_QUALITY) if kind == "JPEG" else as_png(picture)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode()}"


def _looks(file: File) -> tuple[str, bool]:
    """Return a picture's format, and whether servers see what people do, from its header."""
    try:
        with Image.open(io.BytesIO(file.data), formats=SENT) as picture:
            upright = picture.getexif().get(_ORIENTATION, 1) == 1
            plain = picture.mode != "CMYK" and not picture.has_transparency_data
            return str(picture.format), upright and plain
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return "", False
