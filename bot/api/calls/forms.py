"""Files inside requests: multipart forms of limited size, data URLs and bare base64."""

import base64
import binascii
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from aiohttp import BodyPartReader, MultipartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from bot.api.calls.bodies import PIECE, Body, broken
from bot.api.calls.errors import ApiError, in_words, invalid
from bot.core.refusals import Declined
from bot.requests.images import require_weight

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w-]+=[^;,]*)*;base64,", re.ASCII)


class NotData(ValueError):
    """The text is not base64, or a data URL that does not use base64."""


def is_data_url(text: str) -> bool:
    """Return whether a text is a data URL."""
    return text[:5].casefold() == "data:"


def data_of(text: str) -> bytes:
    """Return the bytes of a data URL, or of bare base64. Raises `NotData`.

    The media type in the URL is ignored: the bytes are examined where they are used.
    """
    if is_data_url(text):
        match = _DATA_URL.match("data:" + text[5:])
        if match is None:
            raise NotData("a data URL must be base64")
        text = text[match.end() :]
    try:
        return base64.b64decode(text.encode("ascii").translate(None, _SPACES), validate=True)
    except (binascii.Error, ValueError):
        raise NotData("the data is not valid base64") from None


_SPACES = b" \r\n\t"  # programs break long lines


PARTS_LIMIT = 64
FIELD_LIMIT = 64 * 1024  # bytes
Weigh = Callable[[int, str], None]
"""Refuses a file of so many bytes in that field. Raises `ApiError`."""
_NUMBERED = re.compile(r"\[\d{0,4}\]\Z", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormFile:
    """A file of a form; nothing is known about its bytes but that they are not too many.

    `name` is its field without brackets, `param` with them, such as `image[]`.
    """

    name: str
    param: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientForm:
    """What a form contains: texts by their field, and files in the order in which they came."""

    fields: dict[str, str]
    files: tuple[FormFile, ...]

    def named(self, name: str) -> tuple[FormFile, ...]:
        """Return the files of a field."""
        return tuple(file for file in self.files if file.name == name)


def is_form(request: web.Request) -> bool:
    """Return whether a request is declared to be in multipart form."""
    return request.content_type == "multipart/form-data"


def require_image_weight(size: int, param: str) -> None:
    """Refuse an image that is too large. Raises `ApiError`."""
    try:
        require_weight(size)
    except Declined as declined:
        raise invalid(in_words(declined.refusal), param) from None


async def form_of(
    request: web.Request,
    *,
    files: Collection[str],
    field_limit: int = FIELD_LIMIT,
    weigh: Weigh = require_image_weight,
) -> ClientForm:
    """Return the form of a request. Raises `ApiError`.

    The fields named in `files` are files, whatever their parts say of themselves, each at most as
    large as `weigh` allows; `image`, `image[]` and `image[0]` are the same field. All other fields
    are texts; of those that may come several times, such as `include[]`, the last is kept.
    """
    if not is_form(request):
        raise _no_form()
    reading = _Reading(frozenset(files), field_limit, weigh)
    body = Body(request)
    try:
        reader = MultipartReader(request.headers, cast("Any", body))
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader):
                raise invalid("A part of the form must not have parts itself.")
            await reading.take(part)
    except (ValueError, RuntimeError, BadHttpMessage):
        raise broken() from None
    return ClientForm(fields=reading.fields, files=tuple(reading.files))


class _Reading:
    """The parts of a form that have been read so far."""

    def __init__(self, files: frozenset[str], field_limit: int, weigh: Weigh) -> None:
        self.fields: dict[str, str] = {}
        self.files: list[FormFile] = []
        self._names = files
        self._field_limit = field_limit
        self._weigh = weigh
        self._parts = 0

    async def take(self, part: BodyPartReader) -> None:
        """Read one more part. Raises `ApiError`, and the errors of aiohttp for a broken one."""
        self._parts += 1
        if self._parts > PARTS_LIMIT:
            raise invalid(f"A form must not have more than {PARTS_LIMIT} parts.")
        param = part.name
        if not param:
            raise invalid("Every part of the form needs a name.")
        name = _NUMBERED.sub("", param)
        if name in self._names:
            self.files.append(FormFile(name=name, param=param, data=await self._file(part, param)))
        elif param in self.fields and not param.endswith("[]"):
            raise invalid(f"{param}: was sent twice.", param)
        else:
            self.fields[param] = await self._text(part, param)

    async def _text(self, part: BodyPartReader, param: str) -> str:
        data = bytearray()
        while not part.at_eof():
            data += await part.read_chunk(PIECE)
            if len(data) > self._field_limit:
                limit = self._field_limit
                raise invalid(f"{param}: must not be longer than {limit} bytes.", param)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise invalid(f"{param}: must be text in UTF-8.", param) from None

    async def _file(self, part: BodyPartReader, param: str) -> bytes:
        data = bytearray()
        while not part.at_eof():
            data += await part.read_chunk(PIECE)
            self._weigh(len(data), param)
        return bytes(data)


def _no_form() -> ApiError:
    return ApiError(
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        message="The body must be in multipart form, with “Content-Type: multipart/form-data”.",
    )
