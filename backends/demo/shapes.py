"""Draws the flat shapes that the demo's images consist of.

A shape uses the coordinates of its thing, whose base is at (0, 0): the thing is about 1 high, and y
points upwards. Its colour is a role ("main", "light", "dark") or a name of `COLOURS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]

COLOURS: Mapping[str, Colour] = {
    "ink": (38, 34, 46),
    "white": (250, 248, 240),
    "grey": (140, 146, 158),
    "black": (62, 60, 72),
    "red": (214, 66, 62),
    "orange": (234, 132, 52),
    "yellow": (250, 208, 84),
    "green": (98, 164, 84),
    "blue": (74, 128, 208),
    "purple": (144, 98, 190),
    "pink": (242, 150, 168),
    "brown": (150, 98, 62),
    "teal": (64, 160, 160),
    "gold": (236, 186, 70),
}
_PER_SEGMENT = 8  # points drawn between two points of a curve


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """An oval around its first point with the second as radii, a polygon, a blob or a line."""

    form: Literal["oval", "polygon", "blob", "line"]
    colour: str
    points: tuple[Point, ...]
    width: float = 0.0  # of a line


def oval(colour: str, x: float, y: float, across: float, up: float | None = None) -> Shape:
    """Return an ellipse with these radii, or a disc."""
    radii = (across, across if up is None else up)
    return Shape(form="oval", colour=colour, points=((x, y), radii))


def polygon(colour: str, *numbers: float) -> Shape:
    """Return a polygon with straight edges; x and y alternate."""
    return Shape(form="polygon", colour=colour, points=_points(numbers))


def blob(colour: str, *numbers: float) -> Shape:
    """Return an area with a smooth outline through its points."""
    return Shape(form="blob", colour=colour, points=_points(numbers))


def line(colour: str, width: float, *numbers: float) -> Shape:
    """Return a smooth line with round ends."""
    return Shape(form="line", colour=colour, points=_points(numbers), width=width)


def pair(*shapes: Shape) -> tuple[Shape, ...]:
    """Return shapes and their mirror images."""
    return (*shapes, *(mirrored(shape) for shape in shapes))


def mirrored(shape: Shape) -> Shape:
    """Return a shape with left and right exchanged."""
    first, *rest = shape.points
    others = rest if shape.form == "oval" else [(-x, y) for x, y in rest]
    return replace(shape, points=((-first[0], first[1]), *others))


def flat(parts: Iterable["Shape | tuple[Shape, ...]"]) -> tuple[Shape, ...]:
    """Return shapes and pairs of shapes as one sequence."""
    return tuple(
        shape for part in parts for shape in (part if isinstance(part, tuple) else (part,))
    )


def blend(colour: Colour, other: Colour, share: float) -> Colour:
    """Return a colour with that share of another mixed in."""
    mixed = [round(a + (b - a) * share) for a, b in zip(colour, other, strict=True)]
    return mixed[0], mixed[1], mixed[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pen:
    """Where and how large a thing is drawn, in pixels, and in which colours."""

    at: Point  # where it stands
    height: float
    main: Colour
    shade: Colour = (0, 0, 0)  # of the light; mixed into every colour
    shaded: float = 0.0
    faces_left: bool = False

    def draw(self, image: Image.Image, shapes: Sequence[Shape]) -> None:
        """Draw shapes, the first one lowest."""
        draw = ImageDraw.Draw(image)
        for shape in shapes:
            self._draw(draw, mirrored(shape) if self.faces_left else shape)

    def _draw(self, draw: ImageDraw.ImageDraw, shape: Shape) -> None:
        fill = self._colour(shape.colour)
        if shape.form == "oval":
            (x, y), (across, up) = self._place(shape.points[0]), shape.points[1]
            across, up = across * self.height, up * self.height
            draw.ellipse((x - across, y - up, x + across, y + up), fill=fill)
        elif shape.form == "line":
            points = [self._place(point) for point in _curve(shape.points, closed=False)]
            radius = max(1.0, shape.width * self.height / 2)
            draw.line(points, fill=fill, width=round(2 * radius), joint="curve")
            for x, y in (points[0], points[-1]):
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
        else:
            outline = shape.points
            smooth = _curve(outline, closed=True) if shape.form == "blob" else outline
            draw.polygon([self._place(point) for point in smooth], fill=fill)

    def _place(self, point: Point) -> Point:
        return self.at[0] + point[0] * self.height, self.at[1] - point[1] * self.height

    def _colour(self, name: str) -> Colour:
        roles = {
            "main": self.main,
            "light": blend(self.main, (255, 255, 255), 0.55),
            "dark": blend(self.main, (0, 0, 0), 0.35),
        }
        return blend(roles.get(name) or COLOURS[name], self.shade, self.shaded)


def _points(numbers: Sequence[float]) -> tuple[Point, ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _curve(points: Sequence[Point], *, closed: bool) -> list[Point]:
    """Return points of a Catmull-Rom curve through all of the given points."""
    ring = [points[-1], *points, points[0], points[1]]
    ends = [points[0], *points, points[-1]]
    through = ring if closed else ends
    spans = zip(through, through[1:], through[2:], through[3:], strict=False)
    steps = [step / _PER_SEGMENT for step in range(_PER_SEGMENT)]
    curve = [_between(*span, at) for span in spans for at in steps]
    return curve if closed else [*curve, points[-1]]


def _between(before: Point, start: Point, end: Point, after: Point, at: float) -> Point:
    def axis(a: float, b: float, c: float, d: float) -> float:
        slope, bend = c - a, 2 * a - 5 * b + 4 * c - d
        return b + at * (slope + at * (bend + at * (3 * (b - c) + d - a))) / 2

    x, y = (axis(before[i], start[i], end[i], after[i]) for i in (0, 1))
    return x, y
