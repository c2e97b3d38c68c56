"""Bodies of requests: bounded before they are read, and JSON only where they say so."""

from http import HTTPStatus

from aiohttp import web

from bot.gateway.errors import ApiError

JSON_LIMIT = 64 * 1024 * 1024  # bytes; some pictures as base64
TOO_LARGE = ApiError(
    status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    message=f"The body of a request may have at most {JSON_LIMIT // 1024 // 1024} MB.",
)


async def json_body(request: web.Request, limit: int = JSON_LIMIT) -> bytes:
    """Return the body of a request that says it is JSON. Raises `ApiError`.

    A form of a page posts `text/plain` or multipart without being asked for permission.
    """
    if request.content_type != "application/json":
        raise ApiError(
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            message="The body must be JSON, with “Content-Type: application/json”.",
        )
    if (request.content_length or 0) > limit:
        raise TOO_LARGE
    data = bytearray()
    async for piece in request.content.iter_chunked(64 * 1024):
        data += piece
        if len(data) > limit:  # the announced length may be missing
            raise TOO_LARGE
    return bytes(data)
