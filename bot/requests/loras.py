"""Reads LoRAs and their weights as people write them; pure."""

from pydantic import ValidationError

from queueing.core.requests import LORAS_MOST, LoraWeight


def loras_in(written: str) -> tuple[LoraWeight, ...]:
    """Return the LoRAs in a text such as `ink:0.8, film`; a weight left out is 1.

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
    except ValueError:  # the name may hold a colon
        return LoraWeight(name=word)
    if not name:
        return LoraWeight(name=word)
    try:
        return LoraWeight(name=name, weight=weight)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None
