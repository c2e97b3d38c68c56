"""Decompresses request bodies, and limits how far they expand.

The `Listener` turns off aiohttp's own decompression, which would also expand bodies that no route
reads.
"""

import zlib

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong

ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
EXPANDED_FREELY = 1024 * 1024  # bytes
EXPANSION_MOST = 100  # repetitive JSON reaches 50, a bomb 1,000
_PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_LINE_MOST = 8 * 1024


class Bomb(Exception):
    """Raised when a body expands further than a legitimate one does."""


def encoding_of(request: web.Request) -> str:
    """Return a request's content encoding, or "" if it is not compressed."""
    named = request.headers.get("Content-Encoding", "").strip().casefold()
    return "" if named == "identity" else named


class UnpackedBody:
    """Reads a gzip or deflate body, with the interface of a `StreamReader`.

    Reading raises `Bomb`, or `RequestPayloadError` if the body does not match its encoding.
    """

    def __init__(self, packed: StreamReader, encoding: str) -> None:
        self._packed = packed
        self._gzip = encoding == "gzip"
        self._unpacker: zlib._Decompress | None = None
        self._rest = b""  # still compressed
        self._ready = b""
        self._read = 0
        self.total_bytes = 0

    def at_eof(self) -> bool:
        """Return whether the whole body has been read."""
        return not self._ready and not self._rest and self._packed.at_eof()

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes, or b"" at the end."""
        if not self._ready:
            await self._more()
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece

    async def readline(self, *, max_line_length: int | None = None) -> bytes:
        """Return a line including its newline, or b"" at the end. Raises `LineTooLong`."""
        most = max_line_length or _LINE_MOST
        while b"\n" not in self._ready:
            if len(self._ready) > most:
                raise LineTooLong(self._ready[:100], most)
            before = self._ready
            await self._more()
            if self._ready == before:
                break
        line, end, self._ready = self._ready.partition(b"\n")
        return line + end

    async def _more(self) -> None:
        """Decompress another piece, unless the body has ended."""
        grown = b""
        while not grown:
            packed = self._rest or await self._packed.read(_PIECE)
            if not packed:
                if self._unpacker is not None and not self._unpacker.eof:
                    raise web.RequestPayloadError("the compressed body is incomplete")
                return
            self._read += 0 if self._rest else len(packed)
            grown = self._expanded(packed)
        self._ready += grown
        self.total_bytes += len(grown)
        if self.total_bytes > max(EXPANDED_FREELY, EXPANSION_MOST * self._read):
            raise Bomb

    def _expanded(self, packed: bytes) -> bytes:
        if self._unpacker is None or self._unpacker.eof:  # gzip may have several members
            self._unpacker = zlib.decompressobj(self._bits(packed[0]))
        try:
            grown = self._unpacker.decompress(packed, _PIECE)
        except zlib.error as error:
            raise web.RequestPayloadError("the compressed body is broken") from error
        self._rest = self._unpacker.unconsumed_tail or self._unpacker.unused_data
        return grown

    def _bits(self, first: int) -> int:
        if self._gzip:
            return _GZIP
        # Some clients omit the header.
        return zlib.MAX_WBITS if first & 0xF == 8 else -zlib.MAX_WBITS
