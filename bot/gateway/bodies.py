"""Reads the bodies of requests: of limited size, and only if they are declared as JSON."""

from http import HTTPStatus

from aiohttp import web

from bot.gateway.errors import ApiError

JSON_LIMIT = 64 * 1024 * 1024  # bytes; enough for several pictures in base64
TOO_LARGE = ApiError(
    status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    message=f"The body of a request must not exceed {JSON_LIMIT // 1024 // 1024} MB.",
)


async def json_body(request: web.Request, limit: int = JSON_LIMIT) -> bytes:
    """Return the body of a request that is declared as JSON. Raises `ApiError`.

    A form on any web page can post `text/plain` or multipart without a CORS preflight.
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
        if len(data) > limit:  # the Content-Length header may be missing
            raise TOO_LARGE
    return bytes(data)
