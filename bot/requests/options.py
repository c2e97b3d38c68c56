"""Sizes, LoRAs and styles of images as people write them. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from bot.core.refusals import Refusal, RefusalKind
from queueing.core.requests import LORAS_MOST, LoraWeight

SIDE_LEAST, SIDE_MOST, SIDE_STEP = 64, 4096, 64
_MEGAPIXEL = 1024 * 1024
SHAPES = {"square": "1:1", "portrait": "2:3", "landscape": "3:2", "wide": "16:9", "tall": "9:16"}
SIZES = (*SHAPES, "1:1", "3:2", "2:3", "16:9", "9:16", "1024x1024", "768x1024")
"""Common shapes and sizes, offered for completion."""

_SIZE = re.compile(r"(\d{1,5})\s*[xX×*]\s*(\d{1,5})")
_ASPECT = re.compile(r"(\d{1,3}):(\d{1,3})")


def size(text: str) -> tuple[int, int] | None:
    """Return (width, height) of "768x1024", or of "3:2" or "portrait" at one megapixel.

    The sides of an aspect ratio are multiples of 64, and at most one megapixel together. None for
    any other text, or out of range.
    """
    text = SHAPES.get(text.strip().lower(), text)
    if exact := _SIZE.fullmatch(text.strip()):
        sides = int(exact[1]), int(exact[2])
    elif aspect := _ASPECT.fullmatch(text.strip()):
        across, down = int(aspect[1]), int(aspect[2])
        if not across or not down:
            return None
        sides = _at_a_megapixel(across / down)
    else:
        return None
    return sides if all(SIDE_LEAST <= side <= SIDE_MOST for side in sides) else None


def is_shape(text: str) -> bool:
    """Return whether a size such as "3:2" or "portrait" leaves the number of pixels open."""
    return size(text) is not None and not _SIZE.fullmatch(text.strip())


def _at_a_megapixel(ratio: float) -> tuple[int, int]:
    short = _grid(math.sqrt(_MEGAPIXEL * min(ratio, 1 / ratio)))
    most = _MEGAPIXEL // max(short, SIDE_LEAST) // SIDE_STEP * SIDE_STEP
    long = min(_grid(math.sqrt(_MEGAPIXEL * max(ratio, 1 / ratio))), most)
    return (short, long) if ratio < 1 else (long, short)


def _grid(side: float) -> int:
    return round(side / SIDE_STEP) * SIDE_STEP


BAD_LORAS = Refusal(RefusalKind.BAD_LORAS, most=LORAS_MOST, example="ink:0.8, video")


def loras_in(written: str) -> tuple[LoraWeight, ...]:
    """Return the LoRAs in a text such as `ink:0.8, video`. The default weight is 1.

    Raises `ValueError` if there are too many, or a weight is out of range.
    """
    words = [word.strip() for word in written.split(",") if word.strip()]
    if len(words) > LORAS_MOST:
        raise ValueError(f"at most {LORAS_MOST} LoRAs")
    return tuple(_lora(word) for word in words)


def _lora(word: str) -> LoraWeight:
    name, _, after = word.rpartition(":")
    try:
        weight = float(after)
    except ValueError:  # the name may contain a colon
        return LoraWeight(name=word)
    if not name:
        return LoraWeight(name=word)
    try:
        return LoraWeight(name=name, weight=weight)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None


PLACE = "{prompt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """A style preset: its additions to a request for images.

    The person's explicit options override them.

    `prompt` contains the person's prompt at `{prompt}`, or is appended to it. `options` are fields
    of `TextToImage` by name. `model` is used if the call names none.
    """

    prompt: str = PLACE
    negative: str | None = None
    size: str | None = None
    model: str | None = None
    options: Mapping[str, int | float | str] = field(default_factory=dict)

    def apply(self, prompt: str) -> str:
        """Return a prompt in this style."""
        if PLACE in self.prompt:
            return self.prompt.replace(PLACE, prompt)
        return f"{prompt}, {self.prompt}"

    def without(self, own: str | None) -> str | None:
        """Return the negative prompt: the person's words and the style's."""
        said = [words for words in (own, self.negative) if words]
        return ", ".join(said) or None
