"""Bodies of responses: records as JSON; large ones in pieces, so that others have their turn."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from pydantic import BaseModel


def json_response(
    record: BaseModel,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return a record as a response."""
    return web.Response(
        text=record.model_dump_json(),
        content_type="application/json",
        status=status,
        headers=headers,
    )


PIECE = 256 * 1024  # bytes


class LargeBody(Payload):
    """Bytes that are sent without a further copy: aiohttp would make one of a whole body or more."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._size = len(data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body; each piece waits until most of those before it are on their way."""
        data = memoryview(self._value)
        for at in range(0, len(data), PIECE):
            await writer.write(data[at : at + PIECE])
            await asyncio.sleep(0)


def body_of(data: bytes) -> bytes | LargeBody:
    """Return the body of an answer."""
    return data if len(data) <= PIECE else LargeBody(data)
