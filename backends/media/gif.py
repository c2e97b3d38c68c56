"""Removes what programs wrote beside the pixels of a GIF. Pure."""

from collections.abc import Iterator

_EXTENSION, _PICTURE, _END = 0x21, 0x2C, 0x3B
_TIMING, _APPLICATION, _PLAIN_TEXT = b"\xf9\x04", 0xFF, 0x01
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def clean(data: bytes) -> bytes:
    """Return the file without texts. Raises `ValueError`, `IndexError` when it is damaged."""
    at = 13 + _palette(data[10])
    return data[:at] + b"".join(_blocks(data, at)) + bytes([_END])


def _blocks(data: bytes, at: int) -> Iterator[bytes]:
    timing = b""  # belongs to what follows it
    while data[at] != _END:
        begin, kind = at, data[at]
        if kind == _PICTURE:
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
            raise ValueError("the picture is cut off")


def _loop(extension: bytes) -> bytes:
    """Return how often the animation repeats, b"" for any other extension."""
    if extension[1] != _APPLICATION or extension[3:14] not in _LOOPS:
        return b""
    if extension[14:16] != b"\x03\x01":
        return b""
    return extension[:18] + b"\0"


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_pieces(data: bytes, at: int) -> int:
    """Return where a chain of length-prefixed pieces ends."""
    while data[at]:
        at += 1 + data[at]
    return at + 1
