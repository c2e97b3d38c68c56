"""Pictures in a smaller form for the page: made off the loop, and cached for a while.

A small picture is never served by itself: both the requesting person and the original are looked up
first, each time. A deleted picture is therefore gone from here as well.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol

from PIL import Image

from backends.media.metadata.kinds import SENT
from bot.chat.records.stored_log import ChatLog
from bot.serving.files import Sendable, sendable
from queueing.core.requests import File

MOST_BYTES = 16 * 1024 * 1024  # of all small pictures together
MEGAPIXELS = 40  # larger ones are not decoded
THUMB = 160  # pixels along the longer side; shown at half of that
SCREEN = 1280

LARGEST = 64 * 1024 * 1024  # bytes; larger files are not read for a small picture

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_QUALITY = 82

Read = Callable[[], Awaitable[bytes | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastPicture:
    """A picture of a past job; `read` returns None once it is gone."""

    name: str
    read: Read


class PastPictures(Protocol):
    """Finds the pictures of past jobs."""

    async def find(self, owner: str, job_id: int) -> PastPicture | None:
        """Return the first file of a job's result; None if it is not kept or not the owner's."""


class Small:
    """Makes small pictures, one at a time, and caches the most recently requested."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._one = asyncio.Lock()

    async def of(self, key: str, name: str, side: int, read: Read) -> Sendable | None:
        """Return a picture as WebP with at most `side` pixels along its longer side.

        `key` is the same as long as the picture is. None if it is not a picture, moves, or is gone.
        """
        async with self._one:
            data = self._kept.get((key, side))
            if data is None:
                whole = await read()
                data = b"" if whole is None else await asyncio.to_thread(smaller, whole, side)
                self._keep((key, side), data)
            self._kept.move_to_end((key, side))
        if not data:
            return None
        name = f"{name.rpartition('.')[0] or name}.webp"
        tag = hashlib.sha256(data).hexdigest()[:40]
        return sendable(File(name=name, mime="image/webp", data=data), tag=tag)

    def _keep(self, key: tuple[str, int], data: bytes) -> None:
        self._kept[key] = data
        self._bytes += len(data) + len(key[0])
        while self._bytes > self._most and len(self._kept) > 1:
            (old, _), dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped) + len(old)


def smaller(data: bytes, side: int) -> bytes:
    """Return a picture as a WebP of that size, b"" if none can be made. For a thread."""
    try:
        with Image.open(BytesIO(data), formats=SENT) as opened:
            large = opened.width * opened.height > MEGAPIXELS * 1_000_000
            if large or getattr(opened, "n_frames", 1) > 1:
                return b""
            picture = opened.convert("RGBA" if opened.has_transparency_data else "RGB")
    except Exception:  # noqa: BLE001  # readers raise anything for hostile bytes, and only the size is lost
        return b""
    picture.thumbnail((side, side))
    out = BytesIO()
    picture.save(out, "WEBP", quality=_QUALITY)
    return out.getvalue()


async def past_file(
    small: Small, past: PastPictures | None, owner: str, said: str
) -> Sendable | None:
    """Return the small picture of a past job by the number in `said`, None if there is none."""
    if past is None or not _NUMBER.fullmatch(said):
        return None
    found = await past.find(owner, int(said))
    return None if found is None else await small.of(f"past {said}", found.name, THUMB, found.read)


async def small_file(small: Small, log: ChatLog, chat: str, file: Sendable) -> Sendable | None:
    """Return a file of a chat as a picture for a screen, None if it cannot be made smaller."""
    if file.size > LARGEST or not file.mime.startswith("image/"):
        return None

    async def read() -> bytes | None:
        kept = await log.file(chat, file.tag)
        return None if kept is None else kept.data

    return await small.of(f"file {chat} {file.tag}", file.name, SCREEN, read)
