"""Sends a file: whole, or the range that a player or a resumed download asks for."""

from http import HTTPStatus
from urllib.parse import quote

from aiohttp import web

from bot.gateway.errors import ApiError
from queueing.core.requests import File

FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
    "Accept-Ranges": "bytes",
}


def download(request: web.Request, file: File) -> web.Response:
    """Return a file, or the part of it that is asked for; 416 if it has no such part."""
    headers = {**FILE_HEADERS, "Content-Disposition": _disposition(file.name)}
    size = len(file.data)
    try:
        asked = request.http_range
    except ValueError:  # several parts, or not bytes: the whole file is always a right answer
        asked = slice(None)
    if asked.start is None:
        return web.Response(body=file.data, content_type=file.mime, headers=headers)
    start, stop, _ = asked.indices(size)
    if start >= stop:
        return _unfit(size)
    return web.Response(
        body=file.data[start:stop],
        status=HTTPStatus.PARTIAL_CONTENT,
        content_type=file.mime,
        headers={**headers, "Content-Range": f"bytes {start}-{stop - 1}/{size}"},
    )


def _disposition(name: str) -> str:
    plain = "".join(each for each in name if each.isascii() and each.isprintable())
    plain = plain.replace('"', "").replace("\\", "")
    return f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _unfit(size: int) -> web.Response:
    error = ApiError(
        status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        message=f"The file has only {size} bytes.",
    )
    headers = {**error.headers, "Content-Range": f"bytes */{size}"}
    return web.json_response(error.body, status=error.status, headers=headers)
