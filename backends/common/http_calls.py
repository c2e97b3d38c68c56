"""A request to an inference server, and the bodies that it may send."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import aiohttp
from yarl import URL

PIECES_FROM = 1024 * 1024  # bytes of a body


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCall:
    """A request to a server; its text names it without host, credentials or query."""

    method: Literal["GET", "POST", "DELETE"]
    url: URL
    data: "bytes | io.BytesIO | aiohttp.FormData | None" = None
    headers: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.url.path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormPart:
    """A file in a form; several may have one name."""

    name: str
    file: str
    data: bytes
    mime: str = "image/png"


def pieces(data: bytes) -> bytes | io.BytesIO:
    """Return a body so that a large one is sent in pieces: at once, it would hold the loop up."""
    return data if len(data) < PIECES_FROM else io.BytesIO(data)
