"""Chooses how Telegram shows a file: inline as photo, video, animation or sound, or as a document.

Videos carry their size, duration and a still image. Telegram does not determine these itself for
videos over about 10 MB, and shows a square of unknown duration.
"""

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from PIL import Image
from telegram import (
    InputFile,
    InputMediaAnimation,
    InputMediaAudio,
    InputMediaDocument,
    InputMediaPhoto,
    InputMediaVideo,
)

from backends.common.file_types import SENT, mime_of
from backends.media import sounds, videos
from backends.media.helper.pixels import DEEP, is_clear
from queueing.core.requests import File

UPLOAD_MOST = 50_000_000  # bytes
PHOTO_BYTES_MOST = 10_000_000
PHOTO_SIDES_MOST = 10_000  # sum of width and height
PHOTO_RATIO_MOST = 20
LOOPS_MOST_S = 10.0  # a silent video up to this long loops, as animations do
PLAYED = frozenset({"video/mp4", "audio/mpeg", "audio/mp4"})

Media = (
    InputMediaPhoto | InputMediaVideo | InputMediaAnimation | InputMediaAudio | InputMediaDocument
)


class SendKind(StrEnum):
    """The type as which Telegram receives a file. The value is also the parameter's name."""

    PHOTO = "photo"
    VIDEO = "video"
    ANIMATION = "animation"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"


# These can be hidden behind a spoiler.
HIDDEN = frozenset({SendKind.PHOTO, SendKind.VIDEO, SendKind.ANIMATION})
_MEDIA: Mapping[SendKind, Any] = {
    SendKind.PHOTO: InputMediaPhoto,
    SendKind.VIDEO: InputMediaVideo,
    SendKind.ANIMATION: InputMediaAnimation,
    SendKind.AUDIO: InputMediaAudio,
    SendKind.DOCUMENT: InputMediaDocument,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SentFile:
    """A file and how it is sent. `about` has the further parameters of its kind."""

    file: File
    kind: SendKind
    about: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self, *, spoiler: bool) -> dict[str, Any]:
        """Return the parameters of the sending method for this file."""
        hidden = {"has_spoiler": spoiler or None} if self.kind in HIDDEN else {}
        return {self.kind.value: self._read(), "filename": self.file.name, **self.about, **hidden}

    def media(self, caption: Mapping[str, Any], *, spoiler: bool) -> Media:
        """Return the file in the form that an album or an edit needs."""
        hidden = {"has_spoiler": spoiler or None} if self.kind in HIDDEN else {}
        made: Media = _MEDIA[self.kind](
            self._read(attach=True), filename=self.file.name, **self.about, **hidden, **caption
        )
        return made

    def _read(self, *, attach: bool = False) -> InputFile:
        """Return a streamed upload. An upload of 50 MB in one piece would block everything else."""
        name, data = self.file.name, io.BytesIO(self.file.data)
        return InputFile(data, filename=name, attach=attach, read_file_handle=False)


def as_document(file: File) -> SentFile:
    """Return a file as a download. Telegram does not inspect its content."""
    return SentFile(
        file=file, kind=SendKind.DOCUMENT, about={"disable_content_type_detection": True}
    )


async def as_voice_message(file: File) -> SentFile | None:
    """Return a sound as a voice message, or None if it cannot be converted."""
    try:
        voice = await sounds.as_voice(file)
    except sounds.SoundError:
        return None
    about = {"duration": max(1, round(voice.seconds))}
    return SentFile(file=voice.file, kind=SendKind.VOICE, about=about)


async def shown_as(file: File, *, hidden: bool = False) -> SentFile:
    """Return the best way for Telegram to show a file.

    A `hidden` image loses its transparency, because only photos can be hidden.
    """
    mime = mime_of(file.data)
    if mime in PLAYED:
        return await _played(file, mime)
    if mime.startswith("image/"):
        kind = await asyncio.to_thread(_kind_of_image, file, hidden=hidden)
        return (
            SentFile(file=file, kind=kind) if kind is not SendKind.DOCUMENT else as_document(file)
        )
    return as_document(file)


async def shown_together(files: Sequence[File], *, hidden: bool = False) -> list[SentFile]:
    """Return how to show files in one album.

    Images and videos can be mixed. All other kinds need an album of their kind only.
    """
    shown = [await shown_as(file, hidden=hidden) for file in files]
    seen = [
        SentFile(
            file=each.file, kind=SendKind.VIDEO, about={**each.about, "supports_streaming": True}
        )
        if each.kind is SendKind.ANIMATION and each.about
        else each
        for each in shown
    ]
    kinds = {each.kind for each in seen}
    if kinds <= {SendKind.PHOTO, SendKind.VIDEO} or kinds == {SendKind.AUDIO}:
        return seen
    return [as_document(file) for file in files]


async def _played(file: File, mime: str) -> SentFile:
    try:
        video = await videos.looked_at(file)
    except videos.VideoError:  # the video libraries are missing, or the file cannot be read
        return SentFile(
            file=file, kind=SendKind.AUDIO if mime.startswith("audio/") else SendKind.VIDEO
        )
    looks = video.looks
    about: dict[str, Any] = {"duration": max(1, round(looks.seconds))}
    if mime.startswith("audio/"):
        title = {"title": PurePath(file.name).stem}
        return SentFile(file=file, kind=SendKind.AUDIO, about=about | title)
    about |= {"width": looks.width, "height": looks.height}
    about |= {"thumbnail": video.still} if video.still else {}
    if not looks.sound and looks.seconds < LOOPS_MOST_S:
        return SentFile(file=file, kind=SendKind.ANIMATION, about=about)
    if not looks.sound:
        file = await _not_a_loop(file)
    return SentFile(file=file, kind=SendKind.VIDEO, about=about | {"supports_streaming": True})


async def _not_a_loop(file: File) -> File:
    """Add a silent audio track to a long silent video.

    Without one, Telegram clients loop the video and hide its slider.
    """
    try:
        made = await videos.with_silence(file)
    except videos.VideoError:
        return file
    return made if len(made.data) <= max(len(file.data), UPLOAD_MOST) else file


def _kind_of_image(file: File, *, hidden: bool) -> SendKind:
    try:
        with Image.open(io.BytesIO(file.data), formats=(*SENT, "GIF")) as image:
            moves = getattr(image, "n_frames", 1) > 1 and image.format != "MPO"
            form = image.format
            moves = moves or form == "GIF"
            kind = None if moves else _kind_of_still(image, len(file.data), hidden=hidden)
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return SendKind.DOCUMENT
    return kind or (SendKind.ANIMATION if form == "GIF" else SendKind.DOCUMENT)


def _kind_of_still(image: Image.Image, weight: int, *, hidden: bool) -> SendKind:
    """Return how a still image is sent. A photo becomes a JPEG, without transparency."""
    longer, shorter = max(image.size), min(image.size)
    fits = longer + shorter <= PHOTO_SIDES_MOST and longer <= shorter * PHOTO_RATIO_MOST
    fits = fits and weight <= PHOTO_BYTES_MOST
    whole = hidden or (image.mode not in DEEP and not is_clear(image))
    return SendKind.PHOTO if fits and whole else SendKind.DOCUMENT
