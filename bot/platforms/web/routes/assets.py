"""Static files and texts of the web pages, and helpers for the requests of both pages.

There is no build step, and nothing is fetched from other servers. Texts are compressed at startup.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from aiohttp import web

from bot.texts.catalogue import CATALOGUES

PAGE_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' blob:; "  # blob: previews an image before it is sent
    "media-src 'self'; "
    "font-src 'self'; "
    "manifest-src 'self'; "
    "worker-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "  # makes browsers refuse innerHTML altogether
    "trusted-types usher"  # the only policy there can be: notify.js, for the service worker
)
_SCHEMES = ("http", "https")

HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",  # no other site can embed these images
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
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
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


def page_files(folder: str = "page") -> dict[str, tuple[str, bytes]]:
    """Return a page's files by their path in its folder: their MIME type and bytes.

    Its subfolders contain other people's libraries.
    """
    return dict(_files_in(files("bot.platforms.web") / folder, ""))


def _files_in(folder: Traversable, path: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    for file in folder.iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if file.is_dir():
            yield from _files_in(file, f"{path}{file.name}/")
        elif kind is not None:
            yield path + file.name, (kind, file.read_bytes())


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


_COMPRESSED = frozenset({"woff2", "png"})  # already, as files


@dataclass(frozen=True, slots=True)
class _Asset:
    """A file in one encoding. Each encoding has a separate ETag (RFC 9110, 8.8.3)."""

    body: bytes
    tag: str
    headers: Mapping[str, str]


def _asset(kind: str, body: bytes, encoding: str = "") -> _Asset:
    tag = hashlib.sha256(body).hexdigest()[:16]
    text = kind.startswith(("text/", "application/"))
    headers = {
        "Cache-Control": "no-cache",
        "Content-Type": f"{kind}; charset=utf-8" if text else kind,
        "ETag": f'"{tag}"',
        "Vary": "Accept-Encoding",
    }
    return _Asset(body, tag, headers | ({"Content-Encoding": encoding} if encoding else {}))


@lru_cache(maxsize=256)
def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _takes_gzip(request: web.Request) -> bool:
    """Return whether the client accepts gzip, at any quality but 0."""
    accepted = request.headers.get("Accept-Encoding", "").replace(" ", "").lower().split(",")
    named = next((each for each in accepted if each.partition(";")[0] == "gzip"), "")
    return bool(named) and not re.search(r";q=0(\.0*)?$", named)


class Assets:
    """Files by name: their MIME types and bytes, read and compressed at startup.

    `headers` are further headers of files, by name.
    """

    def __init__(
        self,
        files: Mapping[str, tuple[str, bytes]],
        headers: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._headers = headers
        self._plain = {name: _asset(kind, body) for name, (kind, body) in files.items()}
        self._gzip = {
            name: _asset(kind, _gzip(body), "gzip")
            for name, (kind, body) in files.items()
            if name.rpartition(".")[2] not in _COMPRESSED
        }

    def answer(self, request: web.Request, name: str) -> web.Response:
        """Return a file, or 304 if the browser already has it. Raises `HTTPNotFound`."""
        # Looked up among the files read at startup; a request never becomes a path.
        if name not in self._plain:
            raise web.HTTPNotFound
        encoded = self._gzip.get(name) if _takes_gzip(request) else None
        asset = encoded or self._plain[name]
        headers = {**asset.headers, **self._headers.get(name, {})}
        if any(known.value in {asset.tag, "*"} for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=asset.body, headers=headers)


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
