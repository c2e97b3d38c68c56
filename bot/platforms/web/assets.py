"""Static files and texts of the web pages, and helpers for the requests of both pages.

There is no build step, and nothing is fetched from other servers.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files

from aiohttp import web

from bot.texts.catalogue import CATALOGUES

PAGE_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' blob:; "  # blob: previews an image before it is sent
    "media-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"  # makes Chromium refuse innerHTML altogether
)
_SCHEMES = ("http", "https")

HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",  # no other site can embed these images
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def origin_allowed(origin: str | None, host: str, scheme: str | None = None) -> bool:
    """Return whether a request comes from this server's own page.

    Browsers send the page's origin with every WebSocket and POST, always in the same spelling.
    Refuses other sites, other ports, and clients that send no origin. `scheme` is how the client
    reached a proxy, if the proxy reports it.
    """
    schemes = (scheme,) if scheme in _SCHEMES else _SCHEMES
    return bool(host) and origin in {f"{each}://{host.lower()}" for each in schemes}


TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def page_files(folder: str = "page") -> dict[str, tuple[str, bytes]]:
    """Return a page's files by name: their MIME type and bytes."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (files("bot.platforms.web") / folder).iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = (kind, file.read_bytes())
    return found


def page_texts() -> dict[str, tuple[str, bytes]]:
    """Return the texts of both pages, one file per language."""
    return {language: ("application/json", _words(language)) for language in CATALOGUES}


def _words(language: str) -> bytes:
    tables: dict[str, dict[str, str]] = {"page": {}, "dashboard": {}}
    for key, text in CATALOGUES[language].items():
        table, _, name = key.partition(".")
        if table in tables:
            tables[table][name] = text
    return json.dumps({"language": language} | tables, ensure_ascii=False).encode()


class Assets:
    """Files by name: their MIME types and bytes, read at startup."""

    def __init__(self, files: Mapping[str, tuple[str, bytes]]) -> None:
        self._files = files
        self._tags = {
            name: hashlib.sha256(body).hexdigest()[:16] for name, (_, body) in files.items()
        }

    def answer(self, request: web.Request, name: str) -> web.Response:
        """Return a file, or 304 if the browser already has it. Raises `HTTPNotFound`."""
        # Looked up among the files read at startup; a request never becomes a path.
        if name not in self._files:
            raise web.HTTPNotFound
        kind, body = self._files[name]
        tag = self._tags[name]
        headers = {"Cache-Control": "no-cache", "ETag": f'"{tag}"'}
        if any(known.value == tag for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)


def require_own_page(request: web.Request) -> None:
    """Refuse a request sent by another site's page. Raises `HTTPForbidden`."""
    headers = request.headers
    scheme = headers.get("X-Forwarded-Proto")
    if not origin_allowed(headers.get("Origin"), headers.get("Host", ""), scheme):
        raise web.HTTPForbidden(text="Only the web chat's own page may do that.")


def browsers_language(request: web.Request) -> str | None:
    """Return the browser's preferred language."""
    first = request.headers.get("Accept-Language", "").split(",")[0].split(";")[0].strip()
    return first[:20] or None
