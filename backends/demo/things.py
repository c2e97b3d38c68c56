"""What the demo can draw: each thing with its words, its place in a scene and its colours."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from backends.demo import creatures, props
from backends.demo.shapes import COLOURS, Shape


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class Place(Enum):
    """Where a thing belongs in a scene."""

    GROUND = auto()
    HORIZON = auto()
    AIR = auto()
    WATER = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    """A drawing; `height` is a share of the scene's height.

    `seat` is the place and size of a rider: x, y and height in the thing's own coordinates. `head`
    is the place of a hat.
    """

    shapes: tuple[Shape, ...]
    words: frozenset[str]
    height: float
    place: Place = Place.GROUND
    colours: tuple[str, ...] = ("red", "blue", "teal", "purple", "orange")
    seat: tuple[float, float, float] | None = None
    head: float | None = None

    @property
    def reach(self) -> float:
        """How far it extends to the sides, in multiples of its height."""
        return max(
            abs(x) + (shape.points[1][0] if shape.form == "oval" else 0.0)
            for shape in self.shapes
            for x, _ in (shape.points[:1] if shape.form == "oval" else shape.points)
        )


def _animal(
    shapes: tuple[Shape, ...], names: str, colours: str, head: float = 0.88, height: float = 0.42
) -> Thing:
    drawn = _thing(shapes, names, height, colours=colours)
    return replace(drawn, head=head)


def _thing(
    shapes: tuple[Shape, ...],
    names: str,
    height: float,
    place: Place = Place.GROUND,
    *,
    colours: str = "red blue teal purple orange",
    seat: tuple[float, float, float] | None = None,
) -> Thing:
    return Thing(
        shapes=shapes,
        words=words(names),
        height=height,
        place=place,
        colours=tuple(colours.split()),
        seat=seat,
    )


HAT = _thing(props.HAT, "hat cap hut mütze", 0.16, colours="ink purple blue")
SIGN = _thing(props.SIGN, "sign schild", 0.42, colours="gold")
THINGS: tuple[Thing, ...] = (
    _animal(creatures.CAT, "cat kitten kitty katze kater kätzchen katzen", "orange grey black"),
    _animal(creatures.DOG, "dog puppy hund hunde welpe", "brown gold grey"),
    _animal(creatures.FOX, "fox foxes fuchs füchse", "orange", 0.8),
    _animal(creatures.RABBIT, "rabbit bunny hare hase hasen kaninchen", "grey brown", 0.7, height=0.36),
    _animal(creatures.BEAR, "bear teddy bär bären panda", "brown black", 0.92, height=0.5),
    _animal(creatures.OWL, "owl eule eulen uhu", "brown grey", 0.86, height=0.38),
    _animal(creatures.PENGUIN, "penguin pinguin pinguine", "black", 0.9),
    _animal(creatures.DRAGON, "dragon drache drachen dinosaur dino", "green purple red", 0.88, height=0.55),
    _animal(creatures.PERSON, "person man woman girl boy child knight wizard king queen mann frau "
            "kind mädchen junge mensch people portrait", "red teal purple gold", 0.94, height=0.48),
    _animal(creatures.ASTRONAUT, "astronaut cosmonaut spaceman", "orange red", 1.0, height=0.5),
    _animal(creatures.ROBOT, "robot android roboter bot cyborg", "teal grey gold", 0.88, height=0.48),
    _animal(creatures.GHOST, "ghost spirit geist gespenst", "white", 0.92),
    _animal(creatures.TURTLE, "turtle tortoise schildkröte", "green teal", 0.74, height=0.28),
    _thing(creatures.BIRD, "bird parrot sparrow robin vogel vögel spatz raven eagle", 0.16, Place.AIR),
    _thing(creatures.BUTTERFLY, "butterfly butterflies schmetterling moth bee", 0.16, Place.AIR),
    _thing(creatures.FISH, "fish shark goldfish fisch fische hai", 0.24, Place.WATER, colours="orange red teal"),
    _thing(creatures.WHALE, "whale dolphin wal wale delfin", 0.34, Place.WATER, colours="blue teal", seat=(0.1, 0.68, 0.8)),
    _thing(props.BOAT, "boat ship sailboat yacht boot schiff segelboot", 0.5, Place.WATER, colours="red blue brown", seat=(-0.26, 0.2, 0.62)),
    _thing(props.TREE, "tree oak baum bäume apple orchard park garden", 0.6, colours="green orange"),
    _thing(props.PINE, "pine fir forest wood woods wald tanne christmas", 0.6, colours="green teal"),
    _thing(props.PALM, "palm palme island insel beach strand", 0.6, colours="green"),
    _thing(props.FLOWER, "flower rose tulip daisy blume blumen bouquet meadow wiese", 0.28),
    _thing(props.MUSHROOM, "mushroom toadstool pilz pilze", 0.26, colours="red brown"),
    _thing(props.CACTUS, "cactus cacti kaktus desert wüste", 0.4, colours="green"),
    _thing(props.HOUSE, "house home cottage cabin barn hut haus hütte village dorf", 0.5,
           colours="red brown teal"),
    _thing(props.CASTLE, "castle palace fortress tower schloss burg turm", 0.5, Place.HORIZON, colours="grey"),
    _thing(props.LIGHTHOUSE, "lighthouse leuchtturm", 0.52, Place.HORIZON, colours="red"),
    _thing(props.CITY, "city skyline town street cyberpunk stadt skyscraper", 0.42, Place.HORIZON, colours="purple blue grey"),
    _thing(props.MOUNTAIN, "mountain hill alps volcano berg berge gebirge landscape landschaft", 0.4,
           Place.HORIZON, colours="grey purple blue"),
    _thing(props.TENT, "tent camp camping zelt", 0.34),
    _thing(props.CAR, "car auto taxi truck wagen", 0.26, seat=(0.12, 0.62, 1.0)),
    _thing(props.TRAIN, "train locomotive zug lok eisenbahn", 0.36, colours="green blue",
           seat=(-0.55, 0.7, 0.7)),
    _thing(props.BICYCLE, "bicycle bike fahrrad rad", 0.34, seat=(-0.14, 0.62, 0.8)),
    _thing(props.ROCKET, "rocket spaceship rakete raumschiff", 0.5, Place.AIR, colours="red blue"),
    _thing(props.PLANE, "plane airplane aircraft jet flugzeug", 0.2, Place.AIR, colours="red blue"),
    _thing(props.BALLOON, "balloon ballon", 0.44, Place.AIR, seat=(0, 0.08, 0.3)),
    _thing(props.SUN, "sun sunny sonne sunrise", 0.3, Place.AIR, colours="gold"),
    _thing(props.MOON, "moon mond", 0.24, Place.AIR, colours="gold"),
    _thing(props.CLOUD, "cloud cloudy wolke wolken", 0.18, Place.AIR, colours="white", seat=(0, 0.55, 1.0)),
    _thing(props.RAINBOW, "rainbow regenbogen", 0.5, Place.HORIZON),
    _thing(props.STAR, "star stern", 0.12, Place.AIR, colours="gold"),
    _thing(props.CAKE, "cake pie torte kuchen birthday geburtstag", 0.3, colours="pink brown"),
    _thing(props.CUP, "cup mug coffee tea tasse kaffee tee", 0.28, seat=(0, 0.44, 0.9)),
    _thing(props.GUITAR, "guitar gitarre music", 0.4, colours="orange brown"),
    _thing(props.HEART, "heart love herz liebe", 0.26, Place.AIR, colours="red pink"),
    _thing(props.SNOWMAN, "snowman schneemann", 0.44, colours="red green"),
    HAT,
    SIGN,
)  # fmt: skip
BY_WORD: Mapping[str, Thing] = {word: thing for thing in THINGS for word in thing.words}
COLOUR_WORDS: Mapping[str, str] = {word: word for word in COLOURS if word != "ink"} | {
    "gray": "grey",
    "golden": "gold",
    "violet": "purple",
    "turquoise": "teal",
    "ginger": "orange",
    "silver": "grey",
    "rot": "red",
    "gelb": "yellow",
    "grün": "green",
    "blau": "blue",
    "lila": "purple",
    "rosa": "pink",
    "braun": "brown",
    "weiß": "white",
    "schwarz": "black",
    "grau": "grey",
}
NUMBERS: Mapping[str, int] = {
    word: number
    for number, names in {
        2: "2 two pair couple zwei",
        3: "3 three some drei einige",
        4: "4 four several vier",
        5: "5 five many fünf viele",
        6: "6 six sechs",
    }.items()
    for word in words(names)
}
NIGHT = words("night midnight moon moonlight stars dark nacht mond sterne dunkel neon")
DUSK = words("sunset dusk evening dawn sunrise abend sonnenuntergang morgen autumn")
SPACE = words("space planet galaxy nebula weltraum astronaut spaceship orbit mars")
SNOW = words("snow snowy winter ice snowman penguin schnee schneemann eis christmas")
SAND = words("desert beach sand cactus palm wüste strand kaktus island insel")
SEA = words("sea ocean lake water river harbour meer see ozean wasser fluss lighthouse")
