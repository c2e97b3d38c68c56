"""Creates the demo's images: abstract, from the prompt and the seed only.

Blocking Pillow work without any model; the same prompt, seed and size give the same image.
"""

import colorsys
import math
import random
from textwrap import shorten, wrap

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont, ImageOps

HONEST_LINE = "demo - no model was used"
CANVAS = 1536  # longest side in pixels; Pillow does not antialias, so the result is scaled down
PREVIEW = 256

Colour = tuple[int, int, int]


class Painting:
    """An image in progress: call `paint` for each step, then `finish` once.

    `base` is an image to start from, and `strength` (0 to 1) is how much of it is painted over. A
    `mask` limits painting to its white area.
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
    ) -> None:
        self.prompt = prompt
        self.size = size
        self._random = random.Random(f"{prompt}|{seed}")  # noqa: S311 - art, not security
        scale = CANVAS / max(size)
        self._canvas_size = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        self._palette = _palette(self._random)
        self._veil = strength if base else 1.0
        self._canvas = self._ground(base)
        self._mask = None if mask is None else ImageOps.fit(mask, self._canvas_size)

    def paint(self, step: int, steps: int) -> None:
        """Paint step `step` of `steps`: broad soft discs first, ribbons later, fine dots last."""
        layer = Image.new("RGBA", self._canvas_size)
        done = step / steps
        if done < 0.35:
            self._discs(layer)
            # Premultiplied, because the blur would mix in the black of transparent pixels.
            layer = layer.convert("RGBa").filter(ImageFilter.BoxBlur(CANVAS // 40)).convert("RGBA")
        elif done < 0.85:
            self._ribbon(layer)
        else:
            self._dots(layer)
        if self._mask is not None:
            layer.putalpha(ImageChops.multiply(layer.getchannel("A"), self._mask))
        self._canvas.alpha_composite(layer)

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

    def _ground(self, base: Image.Image | None) -> Image.Image:
        if base:
            return ImageOps.fit(base, self._canvas_size).convert("RGBA")
        angle = Image.linear_gradient("L").rotate(self._random.choice((0, 90, 180, 270)))
        light, dark = self._palette[0], _shade(self._palette[1], 0.35)
        return ImageOps.colorize(angle.resize(self._canvas_size), dark, light).convert("RGBA")

    def _discs(self, layer: Image.Image) -> None:
        draw = ImageDraw.Draw(layer)
        for _ in range(3):
            x, y = self._point()
            radius = self._random.uniform(0.06, 0.28) * CANVAS
            box = (x - radius, y - radius, x + radius, y + radius)
            draw.ellipse(box, fill=self._ink(0.35))

    def _ribbon(self, layer: Image.Image) -> None:
        draw = ImageDraw.Draw(layer)
        x, y = self._point()
        heading, bend = self._random.uniform(0, math.tau), self._random.uniform(-0.05, 0.05)
        wave, width = self._random.uniform(0.02, 0.09), self._random.uniform(0.006, 0.04) * CANVAS
        for _ in range(3):
            ink = self._ink(0.55)
            offset = self._random.uniform(-3, 3) * width
            start = (x + offset, y - offset)
            self._stroke(draw, start, heading=heading, curve=(bend, wave), width=width, ink=ink)

    @staticmethod
    def _stroke(
        draw: ImageDraw.ImageDraw,
        start: tuple[float, float],
        *,
        heading: float,
        curve: tuple[float, float],
        width: float,
        ink: tuple[int, int, int, int],
    ) -> None:
        x, y = start
        bend, wave = curve
        for i in range(360):
            heading += (bend + wave * math.sin(i / 36)) / 4
            x += math.cos(heading) * CANVAS / 320
            y += math.sin(heading) * CANVAS / 320
            radius = width * math.sin(math.pi * (i + 1) / 361)  # thin at both ends
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)

    def _dots(self, layer: Image.Image) -> None:
        draw = ImageDraw.Draw(layer)
        for _ in range(40):
            x, y = self._point()
            radius = self._random.uniform(0.001, 0.006) * CANVAS
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=self._ink(0.9))

    def _point(self) -> tuple[float, float]:
        width, height = self._canvas_size
        return self._random.uniform(0, width), self._random.uniform(0, height)

    def _ink(self, opacity: float) -> tuple[int, int, int, int]:
        red, green, blue = self._random.choice(self._palette)
        return red, green, blue, round(255 * opacity * self._veil)


def _palette(source: random.Random) -> list[Colour]:
    """Return five neighbouring hues and their complement, which harmonise."""
    hue = source.random()
    hues = [hue + step * 0.045 for step in range(5)] + [hue + 0.5]
    shades = [(source.uniform(0.45, 0.85), source.uniform(0.7, 1.0)) for _ in hues]
    return [
        _rgb(colorsys.hsv_to_rgb(hue % 1, saturation, value))
        for hue, (saturation, value) in zip(hues, shades, strict=True)
    ]


def _rgb(colour: tuple[float, float, float]) -> Colour:
    red, green, blue = colour
    return round(255 * red), round(255 * green), round(255 * blue)


def _shade(colour: Colour, factor: float) -> Colour:
    red, green, blue = colour
    return round(red * factor), round(green * factor), round(blue * factor)


def caption(image: Image.Image, prompt: str, *, on_top: bool = False) -> None:
    """Write the prompt and the disclaimer on a dark band at the bottom or top."""
    width, height = image.size
    text_px = max(9, min(height // 26, width // 26))
    font = ImageFont.load_default(text_px)
    per_queue = max(8, int(width / (text_px * 0.6)) - 2)
    lines = wrap(shorten(_printable(prompt), 3 * per_queue, placeholder="..."), per_queue)[:3]
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
