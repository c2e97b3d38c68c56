"""Composes a demo image: reads the prompt's words and places the things that they name.

The same prompt and seed give the same scene. A word without a drawing is written on a wooden sign.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from backends.demo.things import (
    BY_WORD,
    COLOUR_WORDS,
    DUSK,
    HAT,
    NIGHT,
    NUMBERS,
    SAND,
    SEA,
    SIGN,
    SNOW,
    SPACE,
    Place,
    Thing,
)
from backends.demo.things import words as words_of

MOST = 8  # things in one scene
HORIZON = 0.6  # from the top
_WORD = re.compile(r"[^\W_]+")
_INTO = words_of("in on inside riding upon driving flying auf im")
_FILLERS = words_of(
    "make add paint draw change turn please it one mach male füge bitte ein "
    "a an the of in on at with and or to for by from my your his her its is are under over "
    "ein eine einen einem einer der die das mit und im am auf von"
)


class Light(Enum):
    """The time of day, or space, where there is none."""

    DAY = auto()
    DUSK = auto()
    NIGHT = auto()
    SPACE = auto()


class Ground(Enum):
    """The ground below the horizon."""

    MEADOW = auto()
    SEA = auto()
    SNOW = auto()
    SAND = auto()
    NONE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A thing in a scene. Positions and height are shares of the scene; y points downwards."""

    thing: Thing
    colour: str
    x: float = 0.5
    y: float = 0.9
    height: float = 0.3
    faces_left: bool = False
    label: str = ""  # on a sign
    rider: "Item | None" = None
    hat: str | None = None  # its colour


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """The items of an image, the farthest first. `tint` is the first colour of the prompt."""

    light: Light
    ground: Ground
    items: tuple[Item, ...]
    tint: str | None = None


def scene(prompt: str, source: random.Random) -> Scene:
    """Return what a prompt asks for, completed and placed by `source`."""
    words = _words(prompt)
    named = _named(words, source)
    light, ground = _light(set(words), source), _ground(set(words), named)
    if light is Light.SPACE and not {Ground.SEA, Ground.SNOW} & {ground}:
        ground = Ground.NONE
    label = _label(words)
    items = named or ([Item(thing=SIGN, colour="gold", label=label)] if label else [])
    tint = next((COLOUR_WORDS[word] for word in words if word in COLOUR_WORDS), None)
    return Scene(light=light, ground=ground, items=tuple(_placed(items, source)), tint=tint)


def _words(prompt: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(prompt[:1000])]


def _thing(word: str) -> Thing | None:
    for form in (word, word.removesuffix("s"), word.removesuffix("es")):
        if form in BY_WORD:
            return BY_WORD[form]
    return None


def _named(words: Sequence[str], source: random.Random) -> list[Item]:
    """Return the items that words name, with riders in what carries them."""
    items: list[Item] = []
    ends: list[int] = []
    for at, word in enumerate(words):
        if (thing := _thing(word)) is None or len(items) >= MOST:
            continue
        item = Item(thing=thing, colour=_colour(words[max(0, at - 2) : at], thing, source))
        before = words[ends[-1] + 1 : at] if ends else []
        if thing is HAT and items and items[-1].thing.head is not None:
            items[-1] = replace(items[-1], hat=item.colour)
        elif thing.seat and items and items[-1].thing.head is not None and _INTO & set(before):
            items[-1] = replace(item, rider=items[-1])
        elif all(thing is not other.thing for other in items):
            items += [item] * min(_count(words[max(0, at - 3) : at]), MOST - len(items))
        ends.append(at)
    return items


def _colour(before: Sequence[str], thing: Thing, source: random.Random) -> str:
    chosen = source.choice(thing.colours)
    said = [COLOUR_WORDS[word] for word in before if word in COLOUR_WORDS]
    return said[-1] if said else chosen


def _count(before: Sequence[str]) -> int:
    return next((NUMBERS[word] for word in reversed(before) if word in NUMBERS), 1)


def _label(words: Sequence[str]) -> str:
    """Return the longest meaningful word, for a sign, or ""."""
    telling = [word for word in words if word not in _FILLERS and word not in COLOUR_WORDS]
    return max(telling, key=len, default="")[:14]


def _light(words: set[str], source: random.Random) -> Light:
    chosen = source.choice((Light.DAY, Light.DAY, Light.DUSK))
    for light, about in ((Light.SPACE, SPACE), (Light.NIGHT, NIGHT), (Light.DUSK, DUSK)):
        if words & about:
            return light
    return chosen


def _ground(words: set[str], items: Sequence[Item]) -> Ground:
    if words & SEA or any(item.thing.place is Place.WATER for item in items):
        return Ground.SEA
    if words & SNOW:
        return Ground.SNOW
    return Ground.SAND if words & SAND else Ground.MEADOW


def _placed(items: Sequence[Item], source: random.Random) -> Iterator[Item]:
    """Yield items at their places, from the horizon to the front."""
    for place in (Place.HORIZON, Place.AIR, Place.WATER, Place.GROUND):
        here = [item for item in items if item.thing.place is place]
        slots = list(range(len(here)))
        source.shuffle(slots)
        for slot, item in zip(slots, here, strict=True):
            yield _at(item, (slot + 0.5) / len(here), len(here), source)


def _at(item: Item, x: float, of: int, source: random.Random) -> Item:
    """Return an item in its slot; where there are many, each is smaller."""
    crowd = 1.0 if of < 3 else 2.4 / of
    height = item.thing.height * source.uniform(0.92, 1.08) * max(crowd, 0.4)
    x += source.uniform(-0.12, 0.12) / of
    edge = min(0.5, item.thing.reach * height)
    y = {
        Place.HORIZON: HORIZON + 0.015,
        Place.AIR: source.uniform(0.1, 0.2) + height,
        Place.WATER: source.uniform(0.7, 0.78),
        Place.GROUND: source.uniform(0.78, 0.85),
    }[item.thing.place]
    left = source.random() < 0.5 and not item.label
    return replace(
        item, x=min(max(x, edge), 1 - edge), y=min(y, 0.85), height=height, faces_left=left
    )
