"""What the chat page's and the operator's page's requests have in common."""

import hashlib
from collections.abc import Mapping

from aiohttp import web

from bot.platforms.web.guard import origin_allowed


class Assets:
    """The files of a page: their types and bytes by name, as read at start."""

    def __init__(self, files: Mapping[str, tuple[str, bytes]]) -> None:
        self._files = files
        self._tags = {
            name: hashlib.sha256(body).hexdigest()[:16] for name, (_, body) in files.items()
        }

    def answer(self, request: web.Request, name: str) -> web.Response:
        """Return a file, or that the browser has it already. Raises `HTTPNotFound`."""
        # Looked up among the files read at start: no path is ever made from a request.
        if name not in self._files:
            raise web.HTTPNotFound
        kind, body = self._files[name]
        tag = self._tags[name]
        headers = {"Cache-Control": "no-cache", "ETag": f'"{tag}"'}
        if any(known.value == tag for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)


def require_own_page(request: web.Request) -> None:
    """Refuse a request that another site's page sent. Raises `HTTPForbidden`."""
    headers = request.headers
    scheme = headers.get("X-Forwarded-Proto")
    if not origin_allowed(headers.get("Origin"), headers.get("Host", ""), scheme):
        raise web.HTTPForbidden(text="Only the web chat's own page may do that.")


def browsers_language(request: web.Request) -> str | None:
    """Return the first language a browser asks for."""
    first = request.headers.get("Accept-Language", "").split(",")[0].split(";")[0].strip()
    return first[:20] or None
