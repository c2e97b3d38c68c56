"""Turns what a picture server made into the files people receive, without what it wrote into them.

SwarmUI and stable-diffusion.cpp write the prompt and all settings into their files.
"""

import asyncio
import binascii
import logging
from collections.abc import Sequence

from backends.common.file_types import is_picture, mime_of
from backends.common.http import Http
from backends.images.errors import classified
from backends.images.replies import DrawnPicture
from backends.media.result_files import KeptBack, bare
from queueing.core.errors import Rejected, UnreadableAnswer
from queueing.core.problems import What, problem
from queueing.core.requests import File, Output

PICTURE_LIMIT = 64 * 1024 * 1024  # bytes of one picture
KEPT_BACK = problem(What.KEPT_BACK)
NO_PICTURE = problem(What.NO_PICTURE)

_log = logging.getLogger(__name__)


async def collected(
    http: Http, pictures: Sequence[DrawnPicture], model: str, *, keep_metadata: bool
) -> Output:
    """Return everything an attempt made; with `keep_metadata`, as the server wrote it.

    A file that cannot be cleaned is left out, and `missing` says so. Raises `Rejected` if no file
    is left, `UnreadableAnswer` for anything that is not a picture.
    """
    if not pictures:
        raise Rejected(f"attempt ended without a picture ({model})", problem=NO_PICTURE)
    given: list[File] = []
    for number, picture in enumerate(pictures, start=1):
        data = await _bytes(http, picture)
        if not is_picture(mime_of(data)):
            raise UnreadableAnswer("the server answered something that is not a picture")
        try:
            data = data if keep_metadata else await _cleaned(data)
        except KeptBack as why:
            _log.warning("%s: a picture is kept back: %s", model, why)
            continue
        mime = mime_of(data)
        name = f"{model}-{number}.{mime.rpartition('/')[2].replace('jpeg', 'jpg')}"
        given.append(File(name=name, mime=mime, data=data))
    if not given:
        raise Rejected(f"no picture of {model} could be cleaned", problem=KEPT_BACK)
    missing = "" if len(given) == len(pictures) else KEPT_BACK.code()
    return Output(files=tuple(given), missing=missing)


async def _cleaned(data: bytes) -> bytes:
    try:
        return await bare(data)
    except ValueError as error:
        raise UnreadableAnswer(f"the server answered a damaged picture: {error}") from error


async def _bytes(http: Http, picture: DrawnPicture) -> bytes:
    if picture.path:
        with classified():
            data, _ = await http.get_bytes(picture.path, limit=PICTURE_LIMIT)
        return data
    try:
        return await asyncio.to_thread(binascii.a2b_base64, picture.base64, strict_mode=True)
    except ValueError:  # binascii's own, and letters that base64 does not have
        raise UnreadableAnswer("the server answered something that is not base64") from None
