"""Keeps the one EXIF value that affects how a picture looks: its orientation. Pure."""

import struct

_ORIENTATION = 0x0112
_SHORT = 3
_UPRIGHT = 1
_TURNED = range(2, 9)


def only_orientation(exif: bytes) -> bytes:
    """Return EXIF with nothing but the orientation; b"" for an upright picture.

    `exif` begins with its byte order, or with the "Exif" mark before that, which is kept.
    """
    mark = b"Exif\0\0" if exif.startswith(b"Exif\0\0") else b""
    try:
        turned = _orientation(exif[len(mark) :])
    except struct.error:
        return b""
    if turned not in _TURNED:
        return b""
    head = struct.pack(">2sHIH", b"MM", 42, 8, 1)
    return mark + head + struct.pack(">HHIHHI", _ORIENTATION, _SHORT, 1, turned, 0, 0)


def _orientation(tiff: bytes) -> int:
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return _UPRIGHT
    (first,) = struct.unpack_from(f"{order}I", tiff, 4)
    (count,) = struct.unpack_from(f"{order}H", tiff, first)
    for number in range(count):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, first + 2 + 12 * number)
        if (tag, kind) == (_ORIENTATION, _SHORT):
            return int(value)
    return _UPRIGHT
