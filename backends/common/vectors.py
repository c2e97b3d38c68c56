"""Stores a batch of embedding vectors of equal length in one file.

The file contains either little-endian 32-bit floats, or the base64 text of each vector as the
server sent it. Most callers ask for base64, which then need not be decoded. The media type shows
which form a file has.
"""

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from queueing.core.requests import File

_FLOATS, _TEXTS = "application/octet-stream", "application/base64"
Part = bytes | memoryview  # of a file, without copying
Vector: TypeAlias = "array[float]"  # only type checkers may subscript it before Python 3.12


def vectors_file(vectors: Iterable[Vector]) -> File:
    """Return vectors of one length as a file."""
    return File(name="embeddings.f32", mime=_FLOATS, data=b"".join(map(_packed, vectors)))


def texts_file(texts: Iterable[bytes]) -> File:
    """Return the base64 texts of vectors of one length as a file."""
    return File(name="embeddings.b64", mime=_TEXTS, data=b"".join(texts))


def vectors_of(file: File, count: int) -> Sequence[Part]:
    """Return the bytes of each of `count` vectors, in their order."""
    parts = _parts(file, count)
    return [b64decode(part) for part in parts] if file.mime == _TEXTS else parts


def texts_of(file: File, count: int) -> Sequence[Part]:
    """Return the base64 text of each of `count` vectors, in their order."""
    parts = _parts(file, count)
    return parts if file.mime == _TEXTS else [b64encode(part) for part in parts]


def numbers(packed: Part) -> list[float]:
    """Return the numbers of one vector as a list."""
    return unpacked(packed).tolist()


def unpacked(packed: Part) -> Vector:
    """Convert the bytes of one vector. Raises `ValueError` unless they are whole floats."""
    vector: Vector = array("f")
    vector.frombytes(packed)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def _parts(file: File, count: int) -> Sequence[Part]:
    data, size = memoryview(file.data), len(file.data) // count
    return [data[at : at + size] for at in range(0, size * count, size)]


def _packed(vector: Vector) -> bytes:
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector.tobytes()
