"""Sizes of pictures as people name them; pure."""

import math
import re

SIDE_LEAST, SIDE_MOST, SIDE_STEP = 64, 4096, 64
_MEGAPIXEL = 1024 * 1024
SHAPES = {"square": "1:1", "portrait": "2:3", "landscape": "3:2", "wide": "16:9", "tall": "9:16"}

_SIZE = re.compile(r"(\d{1,5})\s*[xX×*]\s*(\d{1,5})")
_ASPECT = re.compile(r"(\d{1,3}):(\d{1,3})")


def size(text: str) -> tuple[int, int] | None:
    """Return (width, height) of "768x1024", or of "3:2" or "portrait" at one megapixel.

    Sides of an aspect are multiples of 64. None for any other text, or out of range.
    """
    text = SHAPES.get(text.strip().lower(), text)
    if exact := _SIZE.fullmatch(text.strip()):
        sides = int(exact[1]), int(exact[2])
    elif aspect := _ASPECT.fullmatch(text.strip()):
        across, down = int(aspect[1]), int(aspect[2])
        if not across or not down:
            return None
        ratio = across / down
        sides = _grid(math.sqrt(_MEGAPIXEL * ratio)), _grid(math.sqrt(_MEGAPIXEL / ratio))
    else:
        return None
    return sides if all(SIDE_LEAST <= side <= SIDE_MOST for side in sides) else None


def _grid(side: float) -> int:
    return round(side / SIDE_STEP) * SIDE_STEP
