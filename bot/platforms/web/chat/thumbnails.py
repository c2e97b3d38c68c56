"""Smaller versions of images for the page, made in a thread and cached for a while.

Each request first looks up both the requesting person and the original. So a deleted image is also
gone from here.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont, ImageOps

from backends.common.file_types import SENT, is_image, is_sound, is_video, mime_of
from backends.media import videos
from backends.media.helper.pixels import in_eight_bits
from bot.core.queue import ResultFiles
from bot.http.files import Sendable, sendable
from bot.http.signed_links import LinkReader
from bot.platforms.web.chat.chat_log import ChatLog
from bot.texts.results import length
from queueing.core.requests import File

MOST_BYTES = 16 * 1024 * 1024  # of all small images together
MEGAPIXELS = 40  # larger images are not decoded
THUMB = 160  # pixels of the longer side; displayed at half that size
SCREEN = 1280

LARGEST = 64 * 1024 * 1024  # bytes; larger files are not read

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_HEAD = 64  # bytes that identify a file
_QUALITY = 82
STILL = 320  # pixels; displayed smaller
_NIGHT = (32, 34, 40)

Read = Callable[[], Awaitable[bytes | None]]


class Thumbnails:
    """Makes small images, one at a time, and caches the most recently used.

    A past job has the first image of its result, or the still of a video or sound. A result that
    was deleted in the chat gets no image, although `/show` can still show it.
    """

    def __init__(
        self,
        log: ChatLog,
        results: ResultFiles | None,
        links: LinkReader | None,
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._log = log
        self._results = results
        self._links = links
        self._most = most_bytes
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._one = asyncio.Lock()

    async def of_file(self, chat: str, file: Sendable) -> Sendable | None:
        """Return a chat's file as a screen-sized image, or None if it cannot be made smaller."""
        if file.size > LARGEST or not file.mime.startswith("image/"):
            return None

        async def read() -> bytes | None:
            kept = await self._log.file(chat, file.tag)
            return None if kept is None else kept.data

        return await self.of(f"file {chat} {file.tag}", file.name, SCREEN, read)

    async def of_past_job(self, owner: str, said: str) -> Sendable | None:
        """Return the image of the past job with the number in `said`, as `result` finds it."""
        file = await self.result(owner, said, "1")
        return None if file is None else await self.of_result(file, THUMB)

    async def result(self, owner: str, job: str, number: str) -> Sendable | None:
        """Return a file of a result by the numbers of its job and in it.

        None if it does not exist, is not the owner's, was forgotten or deleted, or is a text.
        """
        results, links = self._results, self._links
        if results is None or links is None or not all(map(_NUMBER.fullmatch, (job, number))):
            return None
        job_id, at = int(job), int(number)
        head = await results.head(job_id, at)
        if head is None or head.owner != owner or await links.ended(job_id):
            return None
        mime = mime_of(await results.piece(job_id, at, 0, _HEAD) or b"")
        if not (is_image(mime) or is_video(mime) or is_sound(mime)):
            return None
        return Sendable(
            name=head.name,
            mime=mime,
            size=head.size,
            tag=f"result-{job_id}-{at}",
            piece=lambda start, length: results.piece(job_id, at, start, length),
        )

    async def of_result(self, file: Sendable, side: int) -> Sendable | None:
        """Return a small image of a result's file: a video's or sound's still has a play sign."""
        if file.size > LARGEST:
            return None

        async def read() -> bytes | None:
            data = await file.piece(0, file.size)
            return None if data is None else await still(file.name, file.mime, data)

        return await self.of(file.tag, file.name, side, read)

    async def of(self, key: str, name: str, side: int, read: Read) -> Sendable | None:
        """Return an image as WebP with at most `side` pixels along its longer side.

        `key` identifies the image's content. None if it is missing, animated, or not an image.
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
    """Return an image as WebP of that size, or b"" if that fails. Blocking, for a thread."""
    try:
        with Image.open(BytesIO(data), formats=SENT) as opened:
            large = opened.width * opened.height > MEGAPIXELS * 1_000_000
            if large or getattr(opened, "n_frames", 1) > 1:
                return b""
            image = in_eight_bits(ImageOps.exif_transpose(opened))
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    except Exception:  # noqa: BLE001  # readers raise anything for hostile bytes, and only the size is lost
        return b""
    image.thumbnail((side, side))
    out = BytesIO()
    image.save(out, "WEBP", quality=_QUALITY)
    return out.getvalue()


async def still(name: str, mime: str, data: bytes) -> bytes:
    """Return a still image: the image itself, a video's first frame, or only a play sign."""
    if is_image(mime):
        return await asyncio.to_thread(_of_image, data)
    try:
        video = await videos.looked_at(File(name=name, mime=mime, data=data))
    except videos.VideoError:
        # No decoder, or the file cannot be read; the browser may still play it.
        return await asyncio.to_thread(_signed, b"", 0.0)
    return await asyncio.to_thread(_signed, video.still, video.looks.seconds)


def _of_image(data: bytes) -> bytes:
    """Return an image unchanged, or the first frame of an animation with a play sign."""
    try:
        with Image.open(BytesIO(data), formats=(*SENT, "GIF")) as opened:
            if getattr(opened, "n_frames", 1) == 1 and opened.format != "GIF":
                return data
            if opened.width * opened.height > MEGAPIXELS * 1_000_000:
                return _signed(b"", 0.0)
            first = BytesIO()
            in_eight_bits(opened).convert("RGB").save(first, "PNG")
    except Exception:  # noqa: BLE001  # readers raise anything for broken bytes, and only a small square is lost
        return data
    return _signed(first.getvalue(), 0.0)


def _signed(still_: bytes, seconds: float) -> bytes:
    """Return a square with a play sign on the video's image, if there is one."""
    square = Image.new("RGB", (STILL, STILL), _NIGHT)
    if still_:
        with Image.open(BytesIO(still_), formats=("PNG", "JPEG")) as opened:
            square = ImageOps.fit(opened.convert("RGB"), (STILL, STILL))
    draw = ImageDraw.Draw(square, "RGBA")
    middle = STILL // 2
    draw.ellipse((middle - 60, middle - 60, middle + 60, middle + 60), fill=(0, 0, 0, 150))
    draw.polygon(
        ((middle - 20, middle - 34), (middle - 20, middle + 34), (middle + 38, middle)),
        fill="white",
    )
    if label := length(seconds):
        font = ImageFont.load_default(size=56)
        box = draw.textbbox((STILL - 12, STILL - 12), label, font=font, anchor="rb")
        draw.rectangle((box[0] - 8, box[1] - 8, STILL, STILL), fill=(0, 0, 0, 170))
        draw.text((STILL - 12, STILL - 12), label, font=font, fill="white", anchor="rb")
    out = BytesIO()
    square.save(out, "PNG")
    return out.getvalue()
