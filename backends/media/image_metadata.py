"""Removes what programs and cameras wrote beside the pixels of a JPEG. Pure.

Comments, EXIF but for the orientation, XMP, thumbnails, further pictures and everything after the
end (a phone's moving picture, with its sound) are dropped.
"""

import re
import struct
from collections.abc import Iterator

from backends.media.exif import only_orientation
from backends.media.icc import blanked

_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_NEEDED = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDC, 0xDD, 0xDE, 0xDF}) - {0xC8}
_MARK = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")  # neither a stuffed byte nor a restart
_JFIF, _EXIF, _ICC, _ADOBE = b"JFIF\0", b"Exif\0\0", b"ICC_PROFILE\0", b"Adobe"
_ICC_PART_MOST = 65_519

Segment = tuple[int, bytes]


def clean(data: bytes) -> bytes:
    """Return the file without texts. Raises `ValueError`, `struct.error` when it is damaged."""
    segments = list(_segments(data))
    return b"\xff\xd8" + b"".join(_written(segments)) + b"\xff\xd9"


def _segments(data: bytes) -> Iterator[Segment]:
    """Yield every marker with its body; a scan's body includes the pixels that follow it."""
    at = 2
    while True:
        found = _MARK.search(data, at)
        if found is None:
            raise ValueError("the picture is cut off")
        mark = found[1][0]
        if mark == _END:
            return
        if mark in {0x01, _START}:  # have no body
            at = found.end()
            continue
        (length,) = struct.unpack_from(">H", data, found.end())
        at = found.end() + max(length, 2)
        if mark == _SCAN:
            following = _MARK.search(data, at)
            at = following.start() if following is not None else len(data)
        if at > len(data):
            raise ValueError("the picture is cut off")
        yield mark, data[found.end() + 2 : at]


def _written(segments: list[Segment]) -> Iterator[bytes]:
    profile = _profile(segments)
    for mark, body in segments:
        if mark == _SCAN:
            (length,) = struct.unpack_from(">B", body)
            head = 2 * length + 4
            yield b"\xff\xda" + struct.pack(">H", head + 2) + body
        elif mark in _NEEDED:
            yield _segment(mark, body)
        elif kept := _kept(mark, body):
            yield _segment(mark, kept)
        if profile and (mark, body[:12]) == (0xE2, _ICC):
            yield from profile
            profile = []


def _kept(mark: int, body: bytes) -> bytes:
    """Return what is kept of an application segment; b"" if nothing is."""
    if mark == 0xE0 and body.startswith(_JFIF):
        return body[:12] + b"\0\0"  # without the thumbnail
    if mark == 0xE1 and body.startswith(_EXIF):
        return only_orientation(body)
    return body[:12] if mark == 0xEE and body.startswith(_ADOBE) else b""


def _profile(segments: list[Segment]) -> list[bytes]:
    """Return the segments of the colour profile, which may come in several parts, blanked."""
    parts = {body[12]: body[14:] for mark, body in segments if mark == 0xE2 and body[:12] == _ICC}
    whole = blanked(b"".join(parts[number] for number in sorted(parts)))
    pieces = [whole[at : at + _ICC_PART_MOST] for at in range(0, len(whole), _ICC_PART_MOST)]
    return [
        _segment(0xE2, _ICC + bytes([number, len(pieces)]) + piece)
        for number, piece in enumerate(pieces, start=1)
    ]


def _segment(mark: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, mark, len(body) + 2) + body
