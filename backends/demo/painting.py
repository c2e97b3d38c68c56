"""Creates the demo's images: scenes of what the prompt names, composed by the seed.

Blocking Pillow work without any model; the same prompt, seed and size give the same image.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from textwrap import shorten, wrap

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont, ImageOps

from backends.demo.scene import HORIZON, Ground, Item, Light, Scene, scene
from backends.demo.shapes import COLOURS, Colour, Pen, blend
from backends.demo.things import HAT, Place

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


HONEST_LINE = "demo - no model was used"
CANVAS = 1536  # longest side in pixels; Pillow does not antialias, so the result is scaled down
PREVIEW = 256
_BACKDROP_SHARE, _ALL_SHARE = 0.3, 0.85  # of the steps; the things come in between


class Painting:
    """An image in progress: call `paint` for each step, then `finish` once.

    `base` is an image to start from, and `strength` (0 to 1) is how much of it is painted over. A
    `mask` limits painting to its white area. `hero` is an item that is left out, to be moved by
    the caller; it is None unless `moving`.
    """

    def __init__(
        self,
        prompt: str,
        seed: int,
        size: tuple[int, int],
        *,
        base: Image.Image | None = None,
        mask: Image.Image | None = None,
        strength: float = 0.6,
        moving: bool = False,
    ) -> None:
        self.prompt = prompt
        self.size = size
        source = random.Random(f"{prompt}|{seed}")  # noqa: S311 - art, not security
        scale = CANVAS / max(size)
        self._canvas_size = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        shown = scene(prompt, source)
        self._backdrop = Backdrop(shown, self._canvas_size, source)
        self._items = list(shown.items)
        self.hero: Item | None = self._items.pop() if moving and self._items else None
        self._veil = min(1.0, 1.5 * strength) if base else 1.0
        self._over = base is not None
        self._mask = None if mask is None else ImageOps.fit(mask, self._canvas_size)
        self._area = None if self._mask is None else self._mask.getbbox()  # where things fit
        self._canvas = (
            ImageOps.fit(base, self._canvas_size).convert("RGBA") if base else self._backdrop.sky()
        )
        self._done = 0.0

    def paint(self, step: int, steps: int) -> None:
        """Paint step `step` of `steps`: the surroundings first, then the things, the farthest first."""
        before, self._done = self._done, (step + 1) / steps
        layer = self._backdrop.tint(steps) if self._over else Image.new("RGBA", self._canvas_size)
        if not self._over:
            self._backdrop.paint(layer, before / _BACKDROP_SHARE, self._done / _BACKDROP_SHARE)
        for number, item in enumerate(self._items, start=1):
            due = _BACKDROP_SHARE + (_ALL_SHARE - _BACKDROP_SHARE) * number / len(self._items)
            if before < due - 1e-9 <= self._done:
                self.draw(layer, item)
        if self._over:
            layer.putalpha(layer.getchannel("A").point(lambda alpha: round(alpha * self._veil)))
        if self._mask is not None:
            layer.putalpha(ImageChops.multiply(layer.getchannel("A"), self._mask))
        self._canvas.alpha_composite(layer)

    def draw(self, image: Image.Image, item: Item) -> None:
        """Draw an item with its rider, hat and label."""
        pen = self._pen(item, image.size)
        if item.rider is not None and item.thing.seat is not None:
            x, y, size = item.thing.seat
            x = -x if item.faces_left else x
            rider = self._pen(item.rider, image.size)
            at = (pen.at[0] + x * pen.height, pen.at[1] - y * pen.height)
            self._figure(image, item.rider, replace(rider, at=at, height=size * pen.height))
        self._figure(image, item, pen)

    def _figure(self, image: Image.Image, item: Item, pen: Pen) -> None:
        pen.draw(image, item.thing.shapes)
        if item.hat and item.thing.head is not None:
            top = (pen.at[0], pen.at[1] - item.thing.head * pen.height)
            hat = self._pen(Item(thing=HAT, colour=item.hat), image.size)
            replace(hat, at=top, height=0.34 * pen.height).draw(image, HAT.shapes)
        if item.label:
            _write(image, item.label, pen)

    def _pen(self, item: Item, size: tuple[int, int]) -> Pen:
        left, top, right, bottom = self._area or (0, 0, *size)
        width, height = right - left, bottom - top
        shade, shaded = self._backdrop.shade
        return Pen(
            at=(left + item.x * width, top + item.y * height),
            height=item.height * min(height, 1.25 * width),
            main=COLOURS[item.colour],
            shade=shade,
            shaded=0.0 if self._over else shaded,
            faces_left=item.faces_left,
        )

    def preview(self, step: int, steps: int) -> Image.Image:
        """Return a small image of the current state, sharper with every step."""
        small = self._canvas.convert("RGB")
        small.thumbnail((PREVIEW, PREVIEW))
        return small.filter(ImageFilter.GaussianBlur(10 * (1 - step / steps)))

    def finish(self) -> Image.Image:
        """Return the image at full size, with the prompt and the disclaimer below it."""
        image = self.unlabelled()
        caption(image, self.prompt)
        return image

    def unlabelled(self) -> Image.Image:
        """Return the image at full size, to be labelled by the caller."""
        return self._canvas.convert("RGB").resize(self.size, Image.Resampling.LANCZOS)


def _write(image: Image.Image, label: str, pen: Pen) -> None:
    """Write a word on a sign that `pen` has drawn."""
    x, y = pen.at[0], pen.at[1] - 0.68 * pen.height
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(max(8, round(min(0.3, 1.7 / len(label)) * pen.height)))
    left, top, right, bottom = draw.textbbox((0, 0), label, font=font)
    draw.text((x - (left + right) / 2, y - (top + bottom) / 2), label, font=font, fill=(60, 40, 30))


def caption(image: Image.Image, prompt: str, *, on_top: bool = False) -> None:
    """Write the prompt and the disclaimer on a dark band at the bottom or top."""
    width, height = image.size
    text_px = max(9, min(height // 26, width // 26))
    font = ImageFont.load_default(text_px)
    per_line = max(8, int(width / (text_px * 0.6)) - 2)
    lines = wrap(shorten(_printable(prompt), 3 * per_line, placeholder="..."), per_line)[:3]
    lines.append(HONEST_LINE)
    band = round(text_px * 1.35 * len(lines) + text_px * 0.6)
    foot = Image.new("RGB", (width, min(band, height)), (14, 16, 22))
    top = 0 if on_top else max(0, height - band)
    under = image.crop((0, top, width, top + foot.height))
    image.paste(Image.blend(under, foot, 0.72), (0, top))
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        fill = (255, 255, 255) if line is not lines[-1] else (190, 196, 208)
        at = (text_px * 0.6, (0 if on_top else height - band) + text_px * (0.3 + 1.35 * number))
        draw.text(at, line, font=font, fill=fill)


def _printable(prompt: str) -> str:
    """Remove what the built-in font cannot draw: control characters and line breaks."""
    return " ".join("".join(c if c.isprintable() else " " for c in prompt[:1000]).split())
