"""Removes what programs wrote beside the pixels of a WebP, animated ones included. Pure."""

import struct
from collections.abc import Iterator

from backends.media.exif import only_orientation
from backends.media.icc import blanked

_PIXELS = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM"})
_FRAME = b"ANMF"
_FRAME_HEAD = 16
_HAS_PROFILE, _HAS_EXIF, _HAS_XMP = 0x20, 0x08, 0x04  # flags of the VP8X header


def clean(data: bytes) -> bytes:
    """Return the file without texts. Raises `ValueError`, `struct.error` when it is damaged."""
    (length,) = struct.unpack_from("<I", data, 4)
    if 8 + length > len(data):
        raise ValueError("the picture is cut off")
    cleaned = ((kind, _cleaned(kind, part)) for kind, part in _parts(data, 12, 8 + length))
    chunks = [each for each in cleaned if each[1]]
    kinds = {kind for kind, _ in chunks}
    body = b"WEBP" + b"".join(_chunk(kind, _flagged(kind, part, kinds)) for kind, part in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _parts(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and content of every chunk."""
    while at < end:
        kind, length = struct.unpack_from("<4sI", data, at)
        part = data[at + 8 : at + 8 + length]
        if at + 8 + length > end:
            raise ValueError("the picture is cut off")
        yield kind, part
        at += 8 + length + length % 2


def _cleaned(kind: bytes, part: bytes) -> bytes:
    """Return what is kept of a chunk; b"" if nothing is."""
    if kind in _PIXELS:
        return part
    if kind == _FRAME:
        inner = _parts(part, _FRAME_HEAD, len(part))
        return part[:_FRAME_HEAD] + b"".join(_chunk(*each) for each in inner if each[0] in _PIXELS)
    if kind == b"EXIF":
        return only_orientation(part)
    return blanked(part) if kind == b"ICCP" else b""


def _flagged(kind: bytes, part: bytes, kinds: set[bytes]) -> bytes:
    """Clear the header's flags for chunks that were removed."""
    if kind != b"VP8X":
        return part
    gone = _HAS_XMP
    gone |= 0 if b"EXIF" in kinds else _HAS_EXIF
    gone |= 0 if b"ICCP" in kinds else _HAS_PROFILE
    return bytes([part[0] & ~gone]) + part[1:]


def _chunk(kind: bytes, part: bytes) -> bytes:
    return struct.pack("<4sI", kind, len(part)) + part + b"\0" * (len(part) % 2)
