"""Fetches an attempt's files from a ComfyUI server and strips the workflow from them."""

import logging
import re
from collections.abc import Sequence

from backends.comfyui.answers import ServerFile
from backends.comfyui.server import ComfyUIServer
from backends.media.metadata.kinds import mime_of
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

    A file that cannot be stripped is left out, and `missing` says so. Raises `Rejected` if no file
    is left.
    """
    given: list[File] = []
    for number, file in enumerate(files, start=1):
        try:
            given.append(await _download(server, file, f"{model}-{number}", keep_metadata))
        except KeptBack as why:
            _log.warning("%s: a file of %s is kept back: %s", model, _shown(file), why)
    if not given:
        raise Rejected(f"no file of {model} could be cleaned", problem=KEPT_BACK)
    return Output(files=tuple(given), missing="" if len(given) == len(files) else KEPT_BACK.code())


async def _download(
    server: ComfyUIServer, file: ServerFile, name: str, keep_metadata: bool
) -> File:
    data, mime = await server.download(file)
    ending = re.search(r"\.([a-z0-9]{1,8})$", file.filename.lower(), re.ASCII)
    suffix = ending[1] if ending else "bin"  # nothing else of the server's name is used
    if not keep_metadata:
        try:
            data = await bare(data)
        except ValueError as error:
            raise Unavailable(f"{_shown(file)}: {error}") from error
    return File(name=f"{name}.{suffix}", mime=mime_of(data) or mime, data=data)


def _shown(file: ServerFile) -> str:
    return f"{file.filename[:200]!a}"
