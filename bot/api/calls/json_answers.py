"""Responses that hold a record as JSON."""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
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
