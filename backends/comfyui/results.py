"""Fetches an attempt's files from a ComfyUI server and strips the workflow from them."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from backends.comfyui.answers import ServerFile
from backends.comfyui.server import ComfyUIServer
from backends.media.metadata.kinds import is_film, is_picture, is_sound, mime_of, moves
from backends.media.results import KeptBack, bare
from queueing.core.errors import Rejected, Unavailable
from queueing.core.problems import What, problem
from queueing.core.requests import File, Output

KEPT_BACK = problem(What.KEPT_BACK)

_log = logging.getLogger(__name__)


async def collected(
    server: ComfyUIServer, files: Sequence[ServerFile], model: str, *, keep_metadata: bool
) -> Output:
    """Return everything an attempt made; with `keep_metadata`, including the workflow.

    Films come first, animated pictures among them, then sounds, then pictures, as their own bytes
    tell. A file that cannot be stripped is left out, and `missing` says so. Raises `Rejected` if no
    file is left.
    """
    given: list[File] = []
    for file in files:
        try:
            given.append(await _download(server, file, keep_metadata))
        except KeptBack as why:
            _log.warning("%s: a file of %s is kept back: %s", model, _shown(file), why)
    if not given:
        raise Rejected(f"no file of {model} could be cleaned", problem=KEPT_BACK)
    named = [
        replace(file, name=f"{model}-{number}.{file.name}")
        for number, file in enumerate(sorted(given, key=_rank), start=1)
    ]
    return Output(files=tuple(named), missing="" if len(given) == len(files) else KEPT_BACK.code())


async def _download(server: ComfyUIServer, file: ServerFile, keep_metadata: bool) -> File:
    """Return one file under a name that is only its ending."""
    data, mime = await server.download(file)
    ending = re.search(r"\.([a-z0-9]{1,8})$", file.filename.lower(), re.ASCII)
    suffix = ending[1] if ending else "bin"  # nothing else of the server's name is used
    if not keep_metadata:
        try:
            data = await bare(data)
        except ValueError as error:
            raise Unavailable(f"{_shown(file)}: {error}") from error
    return File(name=suffix, mime=mime_of(data) or mime, data=data)


def _rank(file: File) -> int:
    if is_film(file.mime) or moves(file.data):
        return 0
    if is_sound(file.mime):
        return 1
    return 2 if is_picture(file.mime) else 3


def _shown(file: ServerFile) -> str:
    return f"{file.filename[:200]!a}"
