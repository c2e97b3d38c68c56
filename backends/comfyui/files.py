"""Sends a request's files to a ComfyUI server, as its loaders take them.

`uploaded` prepares them in a thread; everything else here is blocking Pillow work.
"""

import asyncio
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image, ImageOps

from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.rendering import fit_size
from backends.comfyui.workflow.template import Workflow
from backends.comfyui.workflow.words import Asked
from backends.media.images import as_png, open_picture, transparent_parts
from queueing.core.requests import File, TextToImage, TextToVideo

UPLOAD_SIDE = 4096  # pixels; templates scale down anyway, and uploads are limited to 100 MB

_ENDINGS: Mapping[str, str] = {
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/flac": "flac",
}
_SILENCE_HZ = 8000


@dataclass(frozen=True, slots=True)
class ServerUpload:
    """A file as the server receives it; pictures have a size in pixels."""

    file: File
    size: tuple[int, int] | None = None


async def uploaded(
    server: ComfyUIServer, files: Mapping[str, File], request: Asked, workflow: Workflow
) -> tuple[dict[str, str], Asked]:
    """Upload files and return their names on the server by placeholder, and the request.

    A size left open follows the first picture's shape. Without a place for them, or with too few,
    nothing is uploaded, because filling the graph will refuse them.
    """
    if not files.keys() <= workflow.placeholders or not workflow.needs <= files.keys():
        return dict.fromkeys(files, ""), request
    prepared = await asyncio.to_thread(prepare_uploads, files)
    width, height = (workflow.defaults.get(side) for side in ("width", "height"))
    size = prepared["picture"].size if "picture" in prepared else None
    if size and isinstance(width, int) and isinstance(height, int):
        request = _shaped(request, size, (width, height))
    return {word: await server.upload(each.file) for word, each in prepared.items()}, request


def prepare_uploads(files: Mapping[str, File]) -> dict[str, ServerUpload]:
    """Return a request's files, by placeholder, as the server should receive them.

    A mask gets the size of the first picture. Raises `Rejected` for a picture that is none.
    """
    found = {
        word: _sound(file) if word == "audio" else as_upload(file)
        for word, file in files.items()
        if word != "mask"
    }
    if "mask" in files:
        picture = found.get("picture")
        found["mask"] = as_mask(files["mask"], picture.size if picture else None)
    return found


def as_upload(file: File) -> ServerUpload:
    """Return a person's picture as the server should receive it, and its size in pixels.

    Only the first frame (LoadImage makes a batch of all), upright, and nothing but the pixels. The
    name is a hash of the content, so the same picture takes no further space on the server. Raises
    `Rejected` for anything that is not a picture.
    """
    image = open_picture(file)
    image.thumbnail((UPLOAD_SIDE, UPLOAD_SIDE))
    return ServerUpload(_named(as_png(image), "png"), image.size)


def as_mask(file: File, size: tuple[int, int] | None) -> ServerUpload:
    """Return a mask that is transparent and white where is to be painted, and black elsewhere.

    So it is right for nodes that read its opacity and for those that read a colour. A mask without
    transparency paints where it is white.
    """
    painted = transparent_parts(file)
    if painted is None:
        painted = open_picture(file).convert("L")
    if size is None:
        painted.thumbnail((UPLOAD_SIDE, UPLOAD_SIDE))
    elif painted.size != size:
        painted = painted.resize(size)
    mask = Image.merge("RGBA", (painted, painted, painted, ImageOps.invert(painted)))
    return ServerUpload(_named(as_png(mask), "png"), mask.size)


def stand_in(word: str) -> File:
    """Return a small file for a warm-up of a template that needs one."""
    if word == "audio":
        return _named(_silence(), "wav")
    if word == "mask":
        return _named(as_png(Image.new("RGBA", (64, 64), (255, 255, 255, 0))), "png")
    return _named(as_png(Image.new("RGB", (64, 64), "grey")), "png")


def _shaped(request: Asked, picture: tuple[int, int], default: tuple[int, int]) -> Asked:
    """Return a request whose open size follows a picture's shape."""
    if not isinstance(request, TextToImage | TextToVideo) or request.width or request.height:
        return request
    width, height = fit_size(picture, default)
    return request.model_copy(update={"width": width, "height": height})


def _sound(file: File) -> ServerUpload:
    return ServerUpload(_named(file.data, _ENDINGS.get(file.mime, "bin"), file.mime))


def _silence() -> bytes:
    """Return one second of silence as a WAV file."""
    data = bytes(2 * _SILENCE_HZ)
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, _SILENCE_HZ, 2 * _SILENCE_HZ, 2, 16)
    body = b"WAVE" + head + struct.pack("<4sI", b"data", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _named(data: bytes, ending: str, mime: str = "image/png") -> File:
    name = f"{hashlib.sha256(data).hexdigest()[:32]}.{ending}"
    return File(name=name, mime=mime, data=data)
