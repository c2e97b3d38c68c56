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
from bot.requests.files.images import require_weight

_DATA_URL = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE
)


class NotData(ValueError):
    """Raised for a text that is neither base64 nor a base64 data URL."""


def is_data_url(text: str) -> bool:
    """Return whether a text is a data URL."""
    return text[:5].casefold() == "data:"


def data_of(text: str) -> bytes:
    """Decode a data URL or bare base64. Raises `NotData`.

    The URL's media type is ignored, because the content is examined later.
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
"""Checks the size in bytes of a file in the given field. Raises `ApiError`."""
_NUMBERED = re.compile(r"\[\d{0,4}\]\Z", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormFile:
    """A file of a form. Only its size has been checked.

    `name` is its field without brackets. `param` includes them, as in `image[]`.
    """

    name: str
    param: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientForm:
    """The contents of a form: texts by field, and files in order of arrival."""

    fields: dict[str, str]
    files: tuple[FormFile, ...]

    def named(self, name: str) -> tuple[FormFile, ...]:
        """Return the files of a field."""
        return tuple(file for file in self.files if file.name == name)


def is_form(request: web.Request) -> bool:
    """Return whether a request declares a multipart form."""
    return request.content_type == "multipart/form-data"


def require_image_weight(size: int, param: str) -> None:
    """Reject an image that is too large. Raises `ApiError`."""
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
    """Read the form of a request. Raises `ApiError`.

    Fields named in `files` are files, whatever their parts declare, and `weigh` checks their size.
    `image`, `image[]` and `image[0]` are the same field. All other fields are texts. A field such
    as `include[]` may occur several times, and its last value is kept.
    """
    if not is_form(request):
        raise _no_form()
    reading = _Reading(frozenset(files), field_limit, weigh)
    body = Body(request)
    try:
        reader = MultipartReader(request.headers, cast("Any", body))
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader):
                raise invalid("A part of the form must not contain further parts.")
            await reading.take(part)
    except (ValueError, RuntimeError, BadHttpMessage):
        raise broken() from None
    return ClientForm(fields=reading.fields, files=tuple(reading.files))


class _Reading:
    """Collects the parts of a form."""

    def __init__(self, files: frozenset[str], field_limit: int, weigh: Weigh) -> None:
        self.fields: dict[str, str] = {}
        self.files: list[FormFile] = []
        self._names = files
        self._field_limit = field_limit
        self._weigh = weigh
        self._parts = 0

    async def take(self, part: BodyPartReader) -> None:
        """Read the next part. Raises `ApiError`, and aiohttp's errors for a broken part."""
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
            raise invalid(f"{param}: must be sent only once.", param)
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
        message="The body must be a multipart form, with “Content-Type: multipart/form-data”.",
    )
