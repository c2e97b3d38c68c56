"""Removes what programs wrote beside the pixels of a PNG, animated ones included. Pure."""

import struct
import zlib
from collections.abc import Iterator

from backends.media.exif import only_orientation
from backends.media.icc import blanked

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The chunks a PNG needs to be decoded and to look right; all others are dropped.
_KEPT = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB sBIT pHYs bKGD cICP mDCV cLLI acTL fcTL fdAT".split()
)
_PROFILE_MOST = 4_000_000  # bytes; no picture's profile is larger


def clean(data: bytes) -> bytes:
    """Return the file without texts. Raises `ValueError`, `struct.error` when it is damaged."""
    return SIGNATURE + b"".join(_chunks(data))


def _chunks(data: bytes) -> Iterator[bytes]:
    view, at, kind = memoryview(data), len(SIGNATURE), b""
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data):
            raise ValueError("the picture is cut off")
        if kind in _KEPT:
            yield bytes(view[at:end])
        elif kind == b"eXIf" and (exif := only_orientation(data[at + 8 : end - 4])):
            yield _chunk(kind, exif)
        elif kind == b"iCCP" and (profile := _profile(data[at + 8 : end - 4])):
            yield _chunk(kind, b"icc\0\0" + zlib.compress(profile))
        at = end


def _profile(body: bytes) -> bytes:
    packed = body.partition(b"\0")[2][1:]
    try:
        return blanked(zlib.decompressobj().decompress(packed, _PROFILE_MOST))
    except zlib.error:
        return b""


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum
