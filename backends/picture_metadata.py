"""Takes out what programs wrote beside the pixels of a picture, without encoding it again. Pure.

ComfyUI writes the whole graph into its files: the prompt, file names, sometimes paths.
"""

import struct
from collections.abc import Iterator

_PNG = b"\x89PNG\r\n\x1a\n"
# What a PNG needs to look right, moving ones included; everything else is dropped.
_PNG_LOOKS = frozenset(
    b"tRNS gAMA cHRM sRGB iCCP sBIT pHYs bKGD cICP mDCV cLLI acTL fcTL fdAT".split()
)
_WEBP_TEXTS = frozenset({b"EXIF", b"XMP "})
_WEBP_TEXT_FLAGS = 0x08 | 0x04  # of the VP8X header: "has EXIF", "has XMP"


def without_metadata(data: bytes) -> bytes:
    """Return a PNG or WebP file without texts; files of other kinds unchanged.

    Raises `ValueError` when the file is damaged.
    """
    try:
        if data.startswith(_PNG):
            return _PNG + b"".join(_png_chunks(data))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
    except (struct.error, IndexError):
        raise ValueError("the picture is cut off") from None
    return data


def _png_chunks(data: bytes) -> Iterator[memoryview]:
    view, at, kind = memoryview(data), len(_PNG), b""
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data):
            raise ValueError("the picture is cut off")
        if kind[:1].isupper() or kind in _PNG_LOOKS:  # upper case: needed to decode it at all
            yield view[at:end]
        at = end


def _webp(data: bytes) -> bytes:
    parts, at = [b"WEBP"], 12
    while at < len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        end = at + 8 + length + length % 2
        if end > len(data):
            raise ValueError("the picture is cut off")
        chunk = bytearray(data[at:end])
        if kind == b"VP8X":
            chunk[8] &= ~_WEBP_TEXT_FLAGS
        if kind not in _WEBP_TEXTS:
            parts.append(bytes(chunk))
        at = end
    body = b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body
