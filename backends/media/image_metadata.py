"""Removes metadata from image files without encoding the pixels again. Pure.

ComfyUI writes the whole graph into its files: the prompt, file names, sometimes paths. Cameras
write place and time. Everything that affects the appearance stays: colours and orientation.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

from backends.common.file_types import is_image, mime_of

_ORIENTATION = 0x0112
_SHORT = 3
_UPRIGHT = 1
_TURNED = range(2, 9)


def only_orientation(exif: bytes) -> bytes:
    """Return EXIF with only the orientation; b"" for an upright image.

    `exif` begins with its byte order, or with an "Exif" marker before it, which is kept.
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


_HEADER = 128
_TAGS_MOST = 200
_COLOURS = frozenset(
    b"rXYZ gXYZ bXYZ wtpt bkpt rTRC gTRC bTRC kTRC chad lumi cicp chrm "
    b"A2B0 A2B1 A2B2 A2B3 B2A0 B2A1 B2A2 B2A3 D2B0 D2B1 D2B2 D2B3 B2D0 B2D1 B2D2 B2D3 "
    b"gamt pre0 pre1 pre2 view meas tech".split()
)
_WORDS = frozenset(b"desc cprt dmnd dmdd".split())  # readers require the first two


def blanked(profile: bytes) -> bytes:
    """Return a colour profile with texts and private parts zeroed; b"" if it is unreadable."""
    try:
        return _blanked(profile)
    except struct.error:
        return b""


def _blanked(profile: bytes) -> bytes:
    (size, count) = struct.unpack_from(">I124xI", profile)
    table = _HEADER + 4 + 12 * count
    if profile[36:40] != b"acsp" or count > _TAGS_MOST or not table <= size <= len(profile):
        return b""
    out = bytearray(len(profile))
    out[:table] = profile[:table]
    out[48:56] = bytes(8)  # manufacturer and model
    out[80:_HEADER] = bytes(_HEADER - 80)  # creator, checksum, reserved
    for at in range(_HEADER + 4, table, 12):
        kind, start, length = struct.unpack_from(">4sII", profile, at)
        if start < table or start + length > size:
            return b""
        if kind in _COLOURS:
            kept = length
        else:
            kept = min(_shape(profile[start : start + length]), length) if kind in _WORDS else 0
        out[start : start + kept] = profile[start : start + kept]
    return bytes(out)


def _shape(tag: bytes) -> int:
    """Return how many bytes of a text tag precede its characters."""
    if tag.startswith(b"mluc"):
        (records,) = struct.unpack_from(">I", tag, 8)
        return int(16 + 12 * min(records, _TAGS_MOST))
    return 12 if tag.startswith(b"desc") else 8


_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_NEEDED = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDC, 0xDD, 0xDE, 0xDF}) - {0xC8}
_MARK = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")  # neither a stuffed byte nor a restart marker
_JFIF, _EXIF, _ICC, _ADOBE = b"JFIF\0", b"Exif\0\0", b"ICC_PROFILE\0", b"Adobe"
_ICC_PART_MOST = 65_519

Segment = tuple[int, bytes]


def clean_jpeg(data: bytes) -> bytes:
    """Return the file without metadata. Raises `ValueError` or `struct.error` if it is damaged."""
    segments = list(_segments(data))
    return b"\xff\xd8" + b"".join(_jpeg_segments(segments)) + b"\xff\xd9"


def _segments(data: bytes) -> Iterator[Segment]:
    """Yield every marker with its body; a scan's body includes the pixel data after it."""
    at = 2
    while True:
        found = _MARK.search(data, at)
        if found is None:
            raise ValueError("the image is truncated")
        mark = found[1][0]
        if mark == _END:
            return
        if mark in {0x01, _START}:  # without a body
            at = found.end()
            continue
        (length,) = struct.unpack_from(">H", data, found.end())
        at = found.end() + max(length, 2)
        if mark == _SCAN:
            following = _MARK.search(data, at)
            at = following.start() if following is not None else len(data)
        if at > len(data):
            raise ValueError("the image is truncated")
        yield mark, data[found.end() + 2 : at]


def _jpeg_segments(segments: list[Segment]) -> Iterator[bytes]:
    profile = _jpeg_profile(segments)
    for mark, body in segments:
        if mark == _SCAN:
            (length,) = struct.unpack_from(">B", body)
            head = 2 * length + 4
            yield b"\xff\xda" + struct.pack(">H", head + 2) + body
        elif mark in _NEEDED:
            yield _segment(mark, body)
        elif kept := _kept_of_segment(mark, body):
            yield _segment(mark, kept)
        if profile and (mark, body[:12]) == (0xE2, _ICC):
            yield from profile
            profile = []


def _kept_of_segment(mark: int, body: bytes) -> bytes:
    """Return the part of an application segment to keep; b"" for none."""
    if mark == 0xE0 and body.startswith(_JFIF):
        return body[:12] + b"\0\0"  # without the thumbnail
    if mark == 0xE1 and body.startswith(_EXIF):
        return only_orientation(body)
    return body[:12] if mark == 0xEE and body.startswith(_ADOBE) else b""


def _jpeg_profile(segments: list[Segment]) -> list[bytes]:
    """Return the blanked colour profile's segments; a profile may come in several parts."""
    parts = {body[12]: body[14:] for mark, body in segments if mark == 0xE2 and body[:12] == _ICC}
    whole = blanked(b"".join(parts[number] for number in sorted(parts)))
    pieces = [whole[at : at + _ICC_PART_MOST] for at in range(0, len(whole), _ICC_PART_MOST)]
    return [
        _segment(0xE2, _ICC + bytes([number, len(pieces)]) + piece)
        for number, piece in enumerate(pieces, start=1)
    ]


def _segment(mark: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, mark, len(body) + 2) + body


SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The chunks a PNG needs to be decoded and to look right; all others are dropped.
_PNG_KEPT = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB sBIT pHYs bKGD cICP mDCV cLLI acTL fcTL fdAT".split()
)
_PROFILE_MOST = 4_000_000  # bytes; no image's profile is larger


def clean_png(data: bytes) -> bytes:
    """Return the file without metadata. Raises `ValueError` or `struct.error` if it is damaged."""
    return SIGNATURE + b"".join(_png_chunks(data))


def _png_chunks(data: bytes) -> Iterator[bytes]:
    view, at, kind = memoryview(data), len(SIGNATURE), b""
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data):
            raise ValueError("the image is truncated")
        if kind in _PNG_KEPT:
            yield bytes(view[at:end])
        elif kind == b"eXIf" and (exif := only_orientation(data[at + 8 : end - 4])):
            yield _png_chunk(kind, exif)
        elif kind == b"iCCP" and (profile := _png_profile(data[at + 8 : end - 4])):
            yield _png_chunk(kind, b"icc\0\0" + zlib.compress(profile))
        at = end


def _png_profile(body: bytes) -> bytes:
    packed = body.partition(b"\0")[2][1:]
    try:
        return blanked(zlib.decompressobj().decompress(packed, _PROFILE_MOST))
    except zlib.error:
        return b""


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum


_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_TIMING, _APPLICATION, _PLAIN_TEXT = b"\xf9\x04", 0xFF, 0x01
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def clean_gif(data: bytes) -> bytes:
    """Return the file without metadata. Raises `ValueError` or `IndexError` if it is damaged."""
    at = 13 + _palette(data[10])
    return data[:at] + b"".join(_blocks(data, at)) + bytes([_TRAILER])


def _blocks(data: bytes, at: int) -> Iterator[bytes]:
    timing = b""  # applies to the next block
    while data[at] != _TRAILER:
        begin, kind = at, data[at]
        if kind == _IMAGE:
            head = at + 10 + _palette(data[at + 9])
            at = _after_pieces(data, head + 1)
            yield timing + data[begin:at]
            timing = b""
        elif kind == _EXTENSION:
            at = _after_pieces(data, begin + 2)
            if data[begin + 1 : begin + 3] == _TIMING:
                timing = data[begin : begin + 7] + b"\0"
            elif data[begin + 1] == _PLAIN_TEXT:
                timing = b""
            else:
                yield _loop(data[begin:at])
        else:
            raise ValueError("the image is truncated")


def _loop(extension: bytes) -> bytes:
    """Return an extension that sets the animation's repeats; b"" for any other."""
    if extension[1] != _APPLICATION or extension[3:14] not in _LOOPS:
        return b""
    if extension[14:16] != b"\x03\x01":
        return b""
    return extension[:18] + b"\0"


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_pieces(data: bytes, at: int) -> int:
    """Return the end of a chain of length-prefixed blocks."""
    while data[at]:
        at += 1 + data[at]
    return at + 1


_PIXELS = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM"})
_FRAME = b"ANMF"
_FRAME_HEAD = 16
_HAS_PROFILE, _HAS_EXIF, _HAS_XMP = 0x20, 0x08, 0x04  # flags of the VP8X header


def clean_webp(data: bytes) -> bytes:
    """Return the file without metadata. Raises `ValueError` or `struct.error` if it is damaged."""
    (length,) = struct.unpack_from("<I", data, 4)
    if 8 + length > len(data):
        raise ValueError("the image is truncated")
    cleaned = (
        (kind, _kept_of_chunk(kind, part)) for kind, part in _webp_chunks(data, 12, 8 + length)
    )
    chunks = [each for each in cleaned if each[1]]
    kinds = {kind for kind, _ in chunks}
    body = b"WEBP" + b"".join(
        _webp_chunk(kind, _flagged(kind, part, kinds)) for kind, part in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _webp_chunks(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and content of every chunk."""
    while at < end:
        kind, length = struct.unpack_from("<4sI", data, at)
        part = data[at + 8 : at + 8 + length]
        if at + 8 + length > end:
            raise ValueError("the image is truncated")
        yield kind, part
        at += 8 + length + length % 2


def _kept_of_chunk(kind: bytes, part: bytes) -> bytes:
    """Return the part of a chunk to keep; b"" for none."""
    if kind in _PIXELS:
        return part
    if kind == _FRAME:
        inner = _webp_chunks(part, _FRAME_HEAD, len(part))
        return part[:_FRAME_HEAD] + b"".join(
            _webp_chunk(*each) for each in inner if each[0] in _PIXELS
        )
    if kind == b"EXIF":
        return only_orientation(part)
    return blanked(part) if kind == b"ICCP" else b""


def _flagged(kind: bytes, part: bytes, kinds: set[bytes]) -> bytes:
    """Clear the header's flags for removed chunks."""
    if kind != b"VP8X":
        return part
    gone = _HAS_XMP
    gone |= 0 if b"EXIF" in kinds else _HAS_EXIF
    gone |= 0 if b"ICCP" in kinds else _HAS_PROFILE
    return bytes([part[0] & ~gone]) + part[1:]


def _webp_chunk(kind: bytes, part: bytes) -> bytes:
    return struct.pack("<4sI", kind, len(part)) + part + b"\0" * (len(part) % 2)


_CLEANERS: Mapping[str, Callable[[bytes], bytes]] = {
    "image/png": clean_png,
    "image/jpeg": clean_jpeg,
    "image/gif": clean_gif,
    "image/webp": clean_webp,
}


def without_metadata(data: bytes) -> bytes:
    """Return an image file without metadata; files other than images are returned unchanged.

    Raises `ValueError` for a damaged file and for an unsupported image type.
    """
    mime = mime_of(data)
    if not is_image(mime):
        return data
    if mime not in _CLEANERS:
        raise ValueError(f"the metadata of {mime} cannot be removed")
    try:
        return _CLEANERS[mime](data)
    except (struct.error, IndexError):
        raise ValueError("the image is truncated") from None
