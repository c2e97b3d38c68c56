"""Decides how a film or sound is encoded so that it fits a number of bytes. Pure."""

import math
from dataclasses import dataclass

_FILLED = 0.92  # of the bytes; the rest is for the container and the encoder's overshoot
_SOUND_SHARE = 0.25  # of the bits, in a film
_FILM_SOUND = (128_000, 96_000, 64_000, 48_000, 32_000)  # bits per second
_SOUND = (256_000, 192_000, 160_000, 128_000, 96_000, 64_000, 48_000, 32_000, 24_000)
_BITS_PER_PIXEL = 0.05  # with fewer bits, a smaller picture looks better
_NOISY = 4.0  # bits per pixel of a film that no encoder makes small
_PLENTY = 0.5  # bits per pixel with which a quick encoder does as well as a careful one
_SIDE_LEAST = 64
_SIDE_MOST = 1920
_BITS_LEAST = 8_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FilmPlan:
    """How a film is encoded: its size in pixels, and bits per second for picture and sound.

    `sound` is None for a silent film, or if no bits are left for sound. `noisy` is set for a film
    that takes the encoder long and has bits in plenty, so that a quick one does as well.
    """

    width: int
    height: int
    picture: int
    sound: int | None
    noisy: bool = False


def film_plan(
    *,
    limit: int,
    seconds: float,
    size: tuple[int, int],
    fps: float,
    has_sound: bool,
    share: float,
    weight: int = 0,
) -> FilmPlan | None:
    """Return how to fit a film of `weight` bytes into `share` of `limit` bytes; None if it cannot.

    The size of the picture is reduced before the bits per pixel are.
    """
    room = limit * 8 * _FILLED * share / max(seconds, 0.1)
    sound = _first_below(_FILM_SOUND, room * _SOUND_SHARE) if has_sound else None
    picture = int(room - (sound or 0))
    if picture < _BITS_LEAST:
        return None
    pixels = picture / (_BITS_PER_PIXEL * max(fps, 1.0))
    width, height = size
    scale = min(1.0, math.sqrt(pixels / (width * height)), _SIDE_MOST / max(size))
    if round(min(size) * scale) < min(_SIDE_LEAST, *size):
        scale = min(_SIDE_LEAST / min(size), 1.0)
    each_s = width * height * max(fps, 1.0)
    return FilmPlan(
        width=_even(width * scale),
        height=_even(height * scale),
        picture=picture,
        sound=sound,
        noisy=weight * 8 / max(seconds, 0.1) > _NOISY * each_s
        and picture > _PLENTY * each_s * scale**2,
    )


def sound_rate(*, limit: int, seconds: float, share: float) -> int | None:
    """Return bits per second that fit a sound into `share` of `limit` bytes; None if none do."""
    return _first_below(_SOUND, limit * 8 * _FILLED * share / max(seconds, 0.1))


def _first_below(rates: tuple[int, ...], most: float) -> int | None:
    return next((rate for rate in rates if rate <= most), None)


def _even(side: float) -> int:
    """Round to a length that H.264 accepts."""
    return max(2, round(side / 2) * 2)
