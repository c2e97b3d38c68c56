"""Creates the demo's images: scenes of what the prompt names, composed by the seed.

Blocking Pillow work without any model; the same prompt, seed and size give the same image.
"""

import random
from dataclasses import replace
from textwrap import shorten, wrap

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont, ImageOps

from backends.demo.backdrop import Backdrop
from backends.demo.scene import Item, scene
from backends.demo.shapes import COLOURS, Pen
from backends.demo.things import HAT

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
