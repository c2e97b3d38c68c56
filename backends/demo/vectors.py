"""Vectors without a model: hashes of words, of tokens, or of the brightness of a picture's parts.

Inputs that share words get similar vectors, which is enough to try a program; they mean nothing else.
"""

import hashlib
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from PIL import Image

from queueing.core.outputs import Vector
from queueing.core.requests import Embed, EmbedInput, PictureInput

DIMENSIONS = 256
NOTE = "These vectors are hashes of words, made without a model."
_GRID = 8
_PLACES = 4  # of each feature in a vector, so that two features rarely share all of them
_LETTERS = 3
Features = Iterator[tuple[str, float]]


def hashed(request: Embed, pictures: Mapping[int, Image.Image]) -> list[Vector]:
    """Return a vector for each input of a request; `pictures` are those it names."""
    dimensions = request.dimensions or DIMENSIONS
    return [_vector(_features(given, pictures), dimensions) for given in request.inputs]


def tokens_of(inputs: Sequence[EmbedInput]) -> int:
    """Return how many words and tokens the inputs have."""
    return sum(len(given) if isinstance(given, tuple) else len(_words(given)) for given in inputs)


def _words(given: str | PictureInput) -> list[str]:
    text = given.text if isinstance(given, PictureInput) else given
    return re.findall(r"\w+", text.casefold())


def _features(given: EmbedInput, pictures: Mapping[int, Image.Image]) -> Features:
    if isinstance(given, tuple):
        yield from ((f"token {token}", 1.0) for token in given)
        return
    for word in _words(given):
        yield f"word {word}", 1.0
        for at in range(len(word) - _LETTERS + 1):
            yield f"letters {word[at : at + _LETTERS]}", 0.3
    if isinstance(given, PictureInput):
        yield from _brightness(pictures[given.picture])


def _brightness(picture: Image.Image) -> Features:
    small = picture.convert("L").resize((_GRID, _GRID))
    values = small.tobytes()
    middle = sum(values) / len(values)
    for at, value in enumerate(values):
        yield f"part {at}", (value - middle) / 255


def _vector(features: Features, dimensions: int) -> Vector:
    values = [0.0] * dimensions
    for name, weight in features:
        digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=4 * _PLACES).digest()
        for at in range(0, len(digest), 4):
            number = int.from_bytes(digest[at : at + 4], "big")
            values[(number >> 1) % dimensions] += weight if number & 1 else -weight
    length = sqrt(sum(value * value for value in values))
    return array("f", (value / (length or 1.0) for value in values))
