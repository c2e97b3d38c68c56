"""Prepares files for a ComfyUI server's loaders, and fetches results without their workflow.

`uploaded` and `collected` call the server, and run Pillow in a thread.
"""

import asyncio
import hashlib
import logging
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageOps

from backends.comfyui.answers import ServerFile
from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.nodes import Asked
from backends.comfyui.workflow.rendering import fit_size
from backends.comfyui.workflow.template import Template
from backends.common.file_types import is_image, is_sound, is_text, is_video, mime_of, moves
from backends.media.helper.pixels import as_png
from backends.media.images import keeping_transparency, open_image, transparent_parts
from backends.media.result_files import KeptBack, bare
from queueing.core.errors import ProblemKind, Rejected, UnreadableAnswer, problem
from queueing.core.requests import File, Output, TextToImage, TextToVideo

KEPT_BACK = problem(ProblemKind.KEPT_BACK)
FILES_MOST = 32  # a workflow may save every frame of a video
BYTES_MOST = 512 * 1024 * 1024  # in memory at once; the last file may exceed it

_MEDIA = re.compile(r"png|jpe?g|webp|gif|avif|mp[34]|webm|mkv|mov|flac|opus|ogg|wav|m4a")
_SHOWN = re.compile(r"(image/(?!svg)|video/|audio/)")
"""Media types detected from a file's bytes, whatever type the server states."""

_log = logging.getLogger(__name__)


async def collected(
    server: ComfyUIServer, files: Sequence[ServerFile], model: str, *, keep_metadata: bool
) -> Output:
    """Fetch all files of an attempt; `keep_metadata` leaves the workflow in them.

    Videos and animated images come first, then sounds, then images; the file's bytes decide. Files
    beyond `FILES_MOST` and `BYTES_MOST` stay on the server. A file whose metadata cannot be removed
    is omitted, and `missing` says so. Raises `Rejected` if no file is left.
    """
    given: list[File] = []
    kept_back = 0
    for file in sorted(files, key=_rank_by_name)[:FILES_MOST]:
        if sum(len(each.data) for each in given) > BYTES_MOST:
            break
        try:
            given.append(await _download(server, file, keep_metadata))
        except KeptBack as why:
            kept_back += 1
            _log.warning("%s: %s is withheld: %s", model, _shown(file), why)
    if not given:
        raise Rejected(f"the metadata of no file of {model} could be removed", problem=KEPT_BACK)
    named = [
        replace(file, name=f"{model}-{number}.{file.name}")
        for number, file in enumerate(sorted(given, key=_rank), start=1)
    ]
    more = len(files) - len(given) - kept_back
    left = KEPT_BACK if kept_back else problem(ProblemKind.MORE_RESULTS, count=more)
    return Output(files=tuple(named), missing=left.code() if kept_back or more else "")


def as_clear(output: Output, source: File) -> Output:
    """Return an enlarged image with the transparent parts of its source."""
    files = tuple(keeping_transparency(file, source) for file in output.files)
    return replace(output, files=files)


async def _download(server: ComfyUIServer, file: ServerFile, keep_metadata: bool) -> File:
    """Fetch one file; its name in the result is only its extension.

    Raises `UnreadableAnswer` for a web page or other text instead of an image, a video or a sound.
    """
    data, said = await server.download(file)
    mime = mime_of(data)
    ending = re.search(r"\.([a-z0-9]{1,8})$", file.filename.lower(), re.ASCII)
    suffix = ending[1] if ending else "bin"  # the rest of the name is not used
    if not mime and _MEDIA.fullmatch(suffix) and is_text(data):
        raise UnreadableAnswer(f"{_shown(file)} is text")
    if not keep_metadata:
        try:
            data = await bare(data)
        except ValueError as error:
            raise UnreadableAnswer(f"{_shown(file)}: {error}") from error
        if is_image(mime) and mime != mime_of(data):
            mime = mime_of(data)
            suffix = mime.rpartition("/")[2]
    other = "application/octet-stream" if _SHOWN.match(said) else said
    return File(name=suffix, mime=mime or other, data=data)


def _rank(file: File) -> int:
    if is_video(file.mime) or moves(file.data):
        return 0
    if is_sound(file.mime):
        return 1
    return 2 if is_image(file.mime) else 3


def _rank_by_name(file: ServerFile) -> int:
    """Return a file's rank by its name, before it is fetched."""
    name = file.filename.lower()
    if name.endswith((".mp4", ".webm", ".mkv", ".mov", ".gif", ".avi")):
        return 0
    return 1 if name.endswith((".mp3", ".flac", ".opus", ".ogg", ".wav", ".m4a")) else 2


def _shown(file: ServerFile) -> str:
    return f"{file.filename[:200]!a}"


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
    """A file as it is sent to the server; images have a size in pixels."""

    file: File
    size: tuple[int, int] | None = None


async def uploaded(
    server: ComfyUIServer, files: Mapping[str, File], request: Asked, workflow: Template
) -> tuple[dict[str, str], Asked]:
    """Upload files. Returns their names on the server by placeholder, and the request.

    A request without a size gets the first image's aspect ratio. If files are missing or have no
    placeholder, nothing is uploaded; filling the graph then reports the error.
    """
    if not files.keys() <= workflow.placeholders or not workflow.needs <= files.keys():
        return dict.fromkeys(files, ""), request
    prepared = await asyncio.to_thread(prepare_uploads, files)
    width, height = (workflow.defaults.get(side) for side in ("width", "height"))
    size = prepared["image"].size if "image" in prepared else None
    if size and isinstance(width, int) and isinstance(height, int):
        request = _shaped(request, size, (width, height))
    return {word: await server.upload(each.file) for word, each in prepared.items()}, request


def prepare_uploads(files: Mapping[str, File]) -> dict[str, ServerUpload]:
    """Return a request's files by placeholder, in the form the server needs.

    A mask gets the size of the first image. Raises `Rejected` if an image is invalid.
    """
    found = {
        word: _sound(file) if word == "audio" else as_upload(file)
        for word, file in files.items()
        if word != "mask"
    }
    if "mask" in files:
        image = found.get("image")
        found["mask"] = as_mask(files["mask"], image.size if image else None)
    return found


def as_upload(file: File) -> ServerUpload:
    """Return a person's image as it is sent to the server, with its size in pixels.

    It contains only the first frame (LoadImage makes a batch of all), upright and without metadata.
    Its name is a hash of the content, so that the same image takes no more space on the server.
    Raises `Rejected` for anything that is not an image.
    """
    image = open_image(file)
    image.thumbnail((UPLOAD_SIDE, UPLOAD_SIDE))
    return ServerUpload(_named(as_png(image), "png"), image.size)


def as_mask(file: File, size: tuple[int, int] | None) -> ServerUpload:
    """Return a mask that is transparent and white in the area to paint, and black elsewhere.

    It works for nodes that read the opacity and for nodes that read a colour. For a mask without
    transparency, the area to paint is the white one.
    """
    painted = transparent_parts(file)
    if painted is None:
        painted = open_image(file).convert("L")
    if size is None:
        painted.thumbnail((UPLOAD_SIDE, UPLOAD_SIDE))
    elif painted.size != size:
        painted = painted.resize(size)
    mask = Image.merge("RGBA", (painted, painted, painted, ImageOps.invert(painted)))
    return ServerUpload(_named(as_png(mask), "png"), mask.size)


def stand_in(word: str) -> File:
    """Return a small placeholder file, for the warm-up of a template that needs a file."""
    if word == "audio":
        return _named(_silence(), "wav")
    if word == "mask":
        return _named(as_png(Image.new("RGBA", (64, 64), (255, 255, 255, 0))), "png")
    return _named(as_png(Image.new("RGB", (64, 64), "grey")), "png")


def _shaped(request: Asked, image: tuple[int, int], default: tuple[int, int]) -> Asked:
    """Return the request with a size that matches an image's shape, unless it has one."""
    if not isinstance(request, TextToImage | TextToVideo) or request.width or request.height:
        return request
    width, height = fit_size(image, default)
    return request.model_copy(update={"width": width, "height": height})


def _sound(file: File) -> ServerUpload:
    return ServerUpload(_named(file.data, _ENDINGS.get(file.mime, "bin"), file.mime))


def _silence() -> bytes:
    data = bytes(2 * _SILENCE_HZ)
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, _SILENCE_HZ, 2 * _SILENCE_HZ, 2, 16)
    body = b"WAVE" + head + struct.pack("<4sI", b"data", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _named(data: bytes, ending: str, mime: str = "image/png") -> File:
    name = f"{hashlib.sha256(data).hexdigest()[:32]}.{ending}"
    return File(name=name, mime=mime, data=data)
