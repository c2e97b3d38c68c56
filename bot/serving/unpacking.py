"""Bounds what the compressed body of a request may expand to, before anything reads it.

aiohttp expands a body while it is read, a piece at a time, so a reader can stop in time.
"""

from aiohttp import StreamReader, web

ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
EXPANDED_FREELY = 1024 * 1024  # bytes
EXPANSION_MOST = 100  # repetitive JSON reaches 50, a bomb 1,000


def is_known_encoding(request: web.Request) -> bool:
    """Return whether the body of a request is plain, or compressed in a way that is bounded."""
    encoding = request.headers.get("Content-Encoding", "")
    return encoding.strip().casefold() in ENCODINGS


def is_bomb(content: StreamReader) -> bool:
    """Return whether a body has expanded further than honest ones do."""
    if (packed := _packed_bytes(content)) is None:
        return False
    return content.total_bytes > max(EXPANDED_FREELY, EXPANSION_MOST * packed)


def _packed_bytes(content: StreamReader) -> int | None:
    return getattr(content, "total_compressed_bytes", None)  # without a body, nothing is counted
