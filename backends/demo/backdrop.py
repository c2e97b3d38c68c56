"""Draws the surroundings of a demo image: sky, hills, ground, stars, waves, grass."""

import math
import random
from collections.abc import Callable
from functools import partial

from PIL import Image, ImageDraw, ImageOps

from backends.demo.scene import HORIZON, Ground, Light, Scene
from backends.demo.shapes import COLOURS, Colour, blend
from backends.demo.things import Place

_SKY: dict[Light, tuple[tuple[Colour, Colour], ...]] = {
    Light.DAY: (((92, 168, 226), (222, 240, 246)), ((120, 190, 214), (248, 240, 214))),
    Light.DUSK: (((72, 62, 128), (250, 166, 108)), ((112, 74, 132), (252, 190, 140))),
    Light.NIGHT: (((10, 14, 40), (46, 58, 104)), ((16, 12, 44), (70, 52, 104))),
    Light.SPACE: (((8, 8, 24), (34, 20, 58)), ((6, 12, 30), (20, 42, 66))),
}
_GROUND: dict[Ground, Colour] = {
    Ground.MEADOW: (112, 168, 84),
    Ground.SEA: (46, 116, 158),
    Ground.SNOW: (232, 240, 248),
    Ground.SAND: (228, 196, 138),
}
_SHADE: dict[Light, tuple[Colour, float]] = {
    Light.DAY: ((255, 244, 214), 0.04),
    Light.DUSK: ((226, 110, 84), 0.2),
    Light.NIGHT: ((22, 26, 66), 0.3),
    Light.SPACE: ((22, 26, 66), 0.12),
}


class Backdrop:
    """The surroundings of one scene, drawn in several strokes."""

    def __init__(self, scene: Scene, size: tuple[int, int], source: random.Random) -> None:
        self._scene = scene
        self._size = self._width, self._height = size
        self._random = source
        self._top, self._low = source.choice(_SKY[scene.light])
        self.shade = _SHADE[scene.light]
        self._strokes = self._all_strokes()

    def sky(self) -> Image.Image:
        """Return the sky, which fills the whole image."""
        gradient = Image.linear_gradient("L").resize((self._width, self._height))
        return ImageOps.colorize(gradient, self._top, self._low).convert("RGBA")

    def paint(self, layer: Image.Image, before: float, until: float) -> None:
        """Draw the strokes that are due between two shares of the work."""
        count = len(self._strokes)
        draw = ImageDraw.Draw(layer)
        for stroke in self._strokes[math.ceil(before * count) : math.ceil(until * count)]:
            stroke(draw)

    def tint(self, steps: int) -> Image.Image:
        """Return a faint layer in the colour asked for, or in that of the sky, one of `steps`."""
        name = self._scene.tint
        layer = self.sky() if name is None else Image.new("RGBA", self._size, COLOURS[name])
        layer.putalpha(max(2, 110 // steps))
        return layer

    def _all_strokes(self) -> list[Callable[[ImageDraw.ImageDraw], None]]:
        dark = self._scene.light in {Light.NIGHT, Light.SPACE}
        strokes: list[Callable[[ImageDraw.ImageDraw], None]] = []
        strokes += [self._stars, self._stars] if dark else [self._wisp] * 3
        if self._scene.ground is not Ground.NONE:
            strokes += [partial(self._hills, back) for back in (2, 1)]
            strokes += [self._floor, *[self._details] * 4]
        else:
            strokes += [self._planet, self._stars]
        return strokes

    def _stars(self, draw: ImageDraw.ImageDraw) -> None:
        for _ in range(70):
            x, y = self._random.random() * self._width, self._random.random() * self._height
            radius = self._random.uniform(0.5, 3.2)
            draw.ellipse(
                (x - radius, y - radius, x + radius, y + radius), fill=(255, 250, 230, 220)
            )

    def _wisp(self, draw: ImageDraw.ImageDraw) -> None:
        x, y = self._random.random() * self._width, self._random.uniform(0.06, 0.36) * self._height
        for _ in range(4):
            across = self._random.uniform(0.05, 0.14) * self._width
            up = across * self._random.uniform(0.12, 0.25)
            draw.ellipse((x - across, y - up, x + across, y + up), fill=(255, 255, 255, 90))
            x += across * self._random.uniform(0.4, 1.1)

    def _planet(self, draw: ImageDraw.ImageDraw) -> None:
        x, y = self._random.uniform(0.1, 0.9) * self._width, 1.35 * self._height
        radius = self._random.uniform(0.5, 0.7) * self._height
        colour = blend(self._low, COLOURS[self._random.choice(("teal", "orange", "purple"))], 0.6)
        draw.ellipse((x - radius * 1.4, y - radius, x + radius * 1.4, y + radius), fill=colour)

    def _hills(self, back: int, draw: ImageDraw.ImageDraw) -> None:
        """Draw a row of hills; the farther back, the paler."""
        if self._scene.ground is Ground.SEA and back == 1:
            return
        phase, waves = self._random.uniform(0, math.tau), self._random.uniform(0.7, 1.8)
        height = self._random.uniform(0.05, 0.11) * self._height * back
        base = (HORIZON + 0.03) * self._height
        points = [
            (
                x,
                base
                - height * (0.55 + 0.45 * math.sin(phase + waves * math.tau * x / self._width)),
            )
            for x in range(0, self._width + 24, 24)
        ]
        colour = blend(self._ground(), self._low, 0.25 + 0.25 * back)
        draw.polygon([(0, self._height), *points, (self._width, self._height)], fill=colour)

    def _floor(self, draw: ImageDraw.ImageDraw) -> None:
        top = HORIZON * self._height
        bands = 24
        for band in range(bands):
            y = top + (self._height - top) * band / bands
            near = blend(self._ground(), (0, 0, 0), 0.25 * band / bands)
            draw.rectangle((0, y, self._width, self._height), fill=near)
        if self._scene.ground is Ground.SEA and self._stands():
            self._shore(draw)

    def _deep(self) -> float:
        """Return the lower end of the ground's details, below which there may be a shore."""
        return 0.12 if self._scene.ground is Ground.SEA and self._stands() else 0.37

    def _stands(self) -> bool:
        """Return whether an item in front needs the shore."""
        return any(item.thing.place is Place.GROUND for item in self._scene.items)

    def _shore(self, draw: ImageDraw.ImageDraw) -> None:
        edge = [
            (x, (0.77 + 0.012 * math.sin(9 * x / self._width)) * self._height)
            for x in range(0, self._width + 24, 24)
        ]
        sand = blend(_GROUND[Ground.SAND], *self.shade)
        draw.polygon([(0, self._height), *edge, (self._width, self._height)], fill=sand)

    def _details(self, draw: ImageDraw.ImageDraw) -> None:
        """Draw waves, blades of grass or grains."""
        light = blend(self._ground(), (255, 255, 255), 0.3)
        dark = blend(self._ground(), (0, 0, 0), 0.25)
        for _ in range(60):
            depth = self._random.random()
            x = self._random.random() * self._width
            y = (HORIZON + 0.03 + self._deep() * depth) * self._height
            size = (0.3 + depth) * self._height * 0.02
            colour = self._random.choice((light, dark))
            if self._scene.ground is Ground.SEA:
                draw.arc(
                    (x - 2 * size, y - size, x + 2 * size, y + size), 20, 160, fill=light, width=4
                )
            elif self._scene.ground is Ground.MEADOW:
                draw.line((x, y, x + size * 0.4, y - 1.4 * size), fill=colour, width=4)
            else:
                draw.ellipse((x - 3, y - 2, x + 3, y + 2), fill=dark)

    def _ground(self) -> Colour:
        shade, shaded = self.shade
        return blend(_GROUND[self._scene.ground], shade, shaded)
