"""Fetches an attempt's files from a ComfyUI server and strips the workflow from them."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from backends.comfyui.answers import ServerFile
from backends.comfyui.server import ComfyUIServer
from backends.common.file_types import is_film, is_picture, is_sound, is_text, mime_of, moves
from backends.media.result_files import KeptBack, bare
from queueing.core.errors import Rejected, UnreadableAnswer
from queueing.core.problems import What, problem
from queueing.core.requests import File, Output

KEPT_BACK = problem(What.KEPT_BACK)
FILES_MOST = 32  # a workflow may save every frame of a film
BYTES_MOST = 512 * 1024 * 1024  # held at once; the last file may go beyond

_MEDIA = re.compile(r"png|jpe?g|webp|gif|avif|mp[34]|webm|mkv|mov|flac|opus|ogg|wav|m4a")
_SHOWN = re.compile(r"(image/(?!svg)|video/|audio/)")
"""Types of media that are known by their bytes, whatever the server says."""

_log = logging.getLogger(__name__)


async def collected(
    server: ComfyUIServer, files: Sequence[ServerFile], model: str, *, keep_metadata: bool
) -> Output:
    """Return everything an attempt made; with `keep_metadata`, including the workflow.

    Films come first, animated pictures among them, then sounds, then pictures, as their own bytes
    tell. What is beyond `FILES_MOST` and `BYTES_MOST` stays on the server, and a file that cannot
    be stripped is left out; `missing` says so. Raises `Rejected` if no file is left.
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
            _log.warning("%s: a file of %s is kept back: %s", model, _shown(file), why)
    if not given:
        raise Rejected(f"no file of {model} could be cleaned", problem=KEPT_BACK)
    named = [
        replace(file, name=f"{model}-{number}.{file.name}")
        for number, file in enumerate(sorted(given, key=_rank), start=1)
    ]
    more = len(files) - len(given) - kept_back
    left = KEPT_BACK if kept_back else problem(What.MORE_RESULTS, count=more)
    return Output(files=tuple(named), missing=left.code() if kept_back or more else "")


async def _download(server: ComfyUIServer, file: ServerFile, keep_metadata: bool) -> File:
    """Return one file under a name that is only its ending.

    Raises `UnreadableAnswer` for a page or other text in place of a picture, a film or a sound.
    """
    data, said = await server.download(file)
    mime = mime_of(data)
    ending = re.search(r"\.([a-z0-9]{1,8})$", file.filename.lower(), re.ASCII)
    suffix = ending[1] if ending else "bin"  # nothing else of the server's name is used
    if not mime and _MEDIA.fullmatch(suffix) and is_text(data):
        raise UnreadableAnswer(f"{_shown(file)} is text")
    if not keep_metadata:
        try:
            data = await bare(data)
        except ValueError as error:
            raise UnreadableAnswer(f"{_shown(file)}: {error}") from error
        if is_picture(mime) and mime != mime_of(data):
            mime = mime_of(data)
            suffix = mime.rpartition("/")[2]
    other = "application/octet-stream" if _SHOWN.match(said) else said
    return File(name=suffix, mime=mime or other, data=data)


def _rank(file: File) -> int:
    if is_film(file.mime) or moves(file.data):
        return 0
    if is_sound(file.mime):
        return 1
    return 2 if is_picture(file.mime) else 3


def _rank_by_name(file: ServerFile) -> int:
    """Return where a file belongs as far as its name tells, before it is fetched."""
    name = file.filename.lower()
    if name.endswith((".mp4", ".webm", ".mkv", ".mov", ".gif", ".avi")):
        return 0
    return 1 if name.endswith((".mp3", ".flac", ".opus", ".ogg", ".wav", ".m4a")) else 2


def _shown(file: ServerFile) -> str:
    return f"{file.filename[:200]!a}"
