"""Blanks what programs wrote beside the pixels of an AVIF or HEIC. Pure.

The pixels are found by their offset in the file, so nothing moves: everything that is not part of a
picture is overwritten with zeros in place.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from backends.media.metadata.icc import blanked

_CONTAINERS = frozenset(b"trak mdia minf stbl edts dinf iprp".split())
_MOVING = frozenset(
    b"mvhd tkhd mdhd vmhd nmhd elst dref stsd stts ctts stss stsc stsz stco co64 tref".split()
)
_STILL = frozenset(b"ftyp pitm iref ipma grpl".split())
_PROPERTIES = frozenset(
    b"ispe pixi av1C hvcC irot imir clap pasp auxC auxi a1op lsel a1lx clli mdcv cclv amve "
    b"ccst btrt".split()
)
_PIXELS = frozenset(b"av01 hvc1 grid iden iovl tmap jpeg avc1 unci".split())
_COMPRESSOR = 42  # where a track's entry names its encoder, in 32 bytes
_DEPTH_MOST = 12  # boxes within boxes
_EXTENTS_MOST = 100_000  # pieces of items; a file of a few bytes may claim billions
_ENTRY = 78  # bytes of it before its own properties


@dataclass(slots=True)
class _File:
    """A file being cleaned, and what has been learnt about it."""

    data: bytearray
    pictures: set[int] = field(default_factory=set)
    stores: list[tuple[int, int]] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)  # item, from, to
    inner: int = 0  # where the data box within `meta` begins
    moves: bool = False
    in_tracks: bool = False
    depth: int = 0

    def blank(self, start: int, end: int) -> None:
        """Overwrite with zeros."""
        self.data[start:end] = bytes(max(end - start, 0))


def clean(data: bytes) -> bytes:
    """Return the file with texts zeroed. Raises `ValueError`, `struct.error` when it is damaged."""
    file = _File(bytearray(data))
    for kind, start, end in _boxes(data, 0, len(data)):
        _box(file, kind, start, end)
    _blank_stores(file)
    return bytes(file.data)


def _boxes(data: bytes | bytearray, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the kind of each box and where its body begins and ends."""
    while at < end:
        size, kind = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        after = at + size if size else end
        if not start <= after <= end:
            raise ValueError("the picture is cut off")
        yield kind, start, after
        at = after


def _box(file: _File, kind: bytes, start: int, end: int) -> None:
    if (reader := _READERS.get(kind)) is not None:
        reader(file, start, end)
    elif kind in _CONTAINERS:
        _inside(file, start, end)
    elif kind in {b"mdat", b"idat"}:
        file.stores.append((start, end))
        file.inner = start if kind == b"idat" else file.inner
    elif kind not in _STILL | _MOVING:
        _free(file, start, end)


def _tracks(file: _File, start: int, end: int) -> None:
    file.moves = file.in_tracks = True
    _inside(file, start, end)
    file.in_tracks = False


def _meta(file: _File, start: int, end: int) -> None:
    if file.in_tracks:
        _free(file, start, end)
    else:
        _inside(file, start + 4, end)


def _handler(file: _File, start: int, end: int) -> None:
    file.blank(start + 24, end)  # its name


def _entries(file: _File, start: int, end: int) -> None:
    for _, at, after in _boxes(file.data, start + 8, end):
        file.blank(at + _COMPRESSOR, min(at + _COMPRESSOR + 32, after))
        _properties(file, min(at + _ENTRY, after), after)


def _inside(file: _File, start: int, end: int) -> None:
    if file.depth >= _DEPTH_MOST:
        raise ValueError("the picture is cut off")
    file.depth += 1
    for each in _boxes(file.data, start, end):
        _box(file, *each)
    file.depth -= 1


def _free(file: _File, start: int, end: int) -> None:
    """Turn a box into free space: its position stays, its content is zeroed."""
    file.data[start - 4 : start] = b"free"
    file.blank(start, end)


def _properties(file: _File, start: int, end: int) -> None:
    for kind, at, after in _boxes(file.data, start, end):
        if kind == b"colr":
            if bytes(file.data[at : at + 4]) in {b"prof", b"rICC"}:
                profile = bytes(file.data[at + 4 : after])
                file.data[at + 4 : after] = blanked(profile) or bytes(len(profile))
        elif kind not in _PROPERTIES:
            _free(file, at, after)


def _items(file: _File, start: int, end: int) -> None:
    """Learn which items are pictures; blank all names and the kinds of other items."""
    first = start + (6 if file.data[start] == 0 else 8)
    for _, at, after in _boxes(file.data, first, end):
        wide = file.data[at] >= 3
        if file.data[at] < 2:
            raise ValueError("the picture is cut off")
        (number,) = struct.unpack_from(">I" if wide else ">H", file.data, at + 4)
        kind = at + (10 if wide else 8)
        if bytes(file.data[kind : kind + 4]) in _PIXELS:
            file.pictures.add(number)
            file.blank(kind + 4, after)
        else:
            file.data[kind : kind + 4] = b"none"
            file.blank(kind + 4, after)


def _locations(file: _File, start: int, end: int) -> None:  # noqa: ARG001  # read while parsing
    file.places = list(islice(_places(file.data, start), _EXTENTS_MOST))
    if len(file.places) == _EXTENTS_MOST:
        raise ValueError("the picture is cut off")


def _places(data: bytearray, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the bytes of each item are; negative offsets count within `meta`."""
    version = data[start]
    sizes, more = data[start + 4 : start + 6]
    wide, at = ("I" if version == 2 else "H"), start + 6
    (count,) = struct.unpack_from(f">{wide}", data, at)
    at += struct.calcsize(wide)
    index = more & 15 if version else 0
    for _ in range(count):
        (item,) = struct.unpack_from(f">{wide}", data, at)
        at += struct.calcsize(wide)
        method = data[at + 1] & 15 if version else 0
        at += 4 if version else 2
        base, at = _number(data, at, more >> 4)
        (extents,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(extents):
            offset, at = _number(data, at + index, sizes >> 4)
            length, at = _number(data, at, sizes & 15)
            yield item | method << 32, base + offset, base + offset + (length or len(data))


def _number(data: bytearray, at: int, size: int) -> tuple[int, int]:
    if at + size > len(data):
        raise ValueError("the picture is cut off")
    return int.from_bytes(data[at : at + size], "big"), at + size


def _blank_stores(file: _File) -> None:
    """Blank all stored bytes but those that pictures are made of."""
    kept: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []
    for item, start, end in file.places:
        method, shift = item >> 32, file.inner if item >> 32 == 1 else 0
        if method > 1:  # pieces of another item
            continue
        span = (start + shift, end + shift)
        (kept if item & 0xFFFFFFFF in file.pictures else gone).append(span)
    for start, end in file.stores:
        # The frames of a moving picture belong to no item.
        for begin, after in gone if file.moves else list(_between(kept, start, end)):
            file.blank(max(begin, start), min(after, end))


def _between(kept: list[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    for begin, after in sorted(kept):
        if begin > start:
            yield start, min(begin, end)
        start = max(start, after)
    if start < end:
        yield start, end


_READERS: Mapping[bytes, Callable[[_File, int, int], None]] = {
    b"moov": _tracks,
    b"meta": _meta,
    b"hdlr": _handler,
    b"iinf": _items,
    b"iloc": _locations,
    b"ipco": _properties,
    b"stsd": _entries,
}
