"""Cleans, inspects and re-encodes videos and audio in a separate confined process.

Results are cached for a while, because a message that is retried needs them again.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import PurePath

from backends.common.file_types import mime_of
from backends.media.helper.process import WALL_S, MediaError, NoLibrary, ask, installed
from backends.media.helper.protocol import Answer, Looks, MediaTask, Order, pieces
from queueing.core.requests import File

__all__ = [
    "Looks",
    "NoVideos",
    "Video",
    "VideoError",
    "available",
    "cleaned",
    "fitted",
    "frames",
    "looked_at",
    "with_silence",
]

VideoError, NoVideos = MediaError, NoLibrary

_REMEMBERED = 64  # inspected files
_KEPT_BYTES = 128_000_000  # total of fitted files
_ENDINGS = {"video/mp4": "mp4", "audio/mpeg": "mp3"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Video:
    """The properties of a video or audio file; `still` is a video's first image as a small JPEG."""

    looks: Looks
    still: bytes = b""


_looks: OrderedDict[str, Video] = OrderedDict()
_fits: OrderedDict[tuple[str, int], File] = OrderedDict()


def available() -> bool:
    """Return whether the library for videos and audio (`usher-bot[media]`) is installed."""
    return installed("av")


async def cleaned(data: bytes, *, wall_s: float = WALL_S) -> bytes:
    """Return a video or audio file without its metadata; the streams stay identical bit for bit.

    Raises `VideoError` if it cannot be read, or not within `wall_s` seconds.
    """
    order = Order(task=MediaTask.CLEAN, mime=mime_of(data), size=len(data))
    _, made = await _ask_helper(order, data, wall_s=wall_s)
    return made


async def looked_at(file: File) -> Video:
    """Return the properties of a video or audio file. Raises `VideoError`."""
    key = await _digest(file)
    if key not in _looks:
        order = Order(task=MediaTask.LOOK, mime=mime_of(file.data), size=len(file.data))
        answer, still = await _ask_helper(order, file.data)
        _looks[key] = Video(looks=answer.looks or Looks(), still=still)
        while len(_looks) > _REMEMBERED:
            _looks.popitem(last=False)
    return _looks[key]


async def fitted(file: File, limit: int) -> File:
    """Make a video, audio file or animation play everywhere and fit into `limit` bytes.

    Raises `VideoError`, including for a video that cannot be made to fit.
    """
    key = (await _digest(file), limit)
    if key not in _fits:
        order = Order(task=MediaTask.FIT, mime=mime_of(file.data), size=len(file.data), limit=limit)
        answer, made = await _ask_helper(order, file.data)
        stem = file.name.rpartition(".")[0] or file.name
        name = f"{stem}.{_ENDINGS[answer.mime]}"
        _fits[key] = File(name=name, mime=answer.mime, data=made)
        while len(_fits) > 1 and sum(len(kept.data) for kept in _fits.values()) > _KEPT_BYTES:
            _fits.popitem(last=False)
    return _fits[key]


async def frames(file: File, most: int = 8, *, wall_s: float = 60.0) -> list[File]:
    """Return up to `most` evenly spread images of a video, as JPEGs for a vision model.

    Animated images (GIF, WebP, APNG, AVIF) count as videos. Raises `VideoError`.
    """
    mime = mime_of(file.data)
    order = Order(task=MediaTask.FRAMES, mime=mime, size=len(file.data), images=most)
    answer, made = await _ask_helper(order, file.data, wall_s=wall_s)
    stem = PurePath(file.name).stem or "video"
    return [
        File(name=f"{stem}-{number}.jpg", mime="image/jpeg", data=image)
        for number, image in enumerate(pieces(made, answer.parts), start=1)
    ]


async def with_silence(file: File) -> File:
    """Return a video with a silent audio track. Without one, some players treat it as a GIF.

    Raises `VideoError`, including for a video that already has audio.
    """
    mime = mime_of(file.data)
    order = Order(task=MediaTask.SOUNDTRACK, mime=mime, size=len(file.data))
    _, made = await _ask_helper(order, file.data)
    return File(name=file.name, mime=mime, data=made)


async def _ask_helper(order: Order, data: bytes, *, wall_s: float = WALL_S) -> tuple[Answer, bytes]:
    if not available():
        raise NoVideos("videos and audio need usher-bot[media]")
    return await ask(order, data, wall_s=wall_s)


async def _digest(file: File) -> str:
    return await asyncio.to_thread(lambda: hashlib.sha256(file.data).hexdigest())
