"""A still picture for a small square: films and sounds get a play sign and their length."""

import asyncio
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont, ImageOps

from backends.media import films
from backends.media.metadata.kinds import SENT, is_picture
from queueing.core.requests import File

SIDE = 320  # pixels; it is shown smaller
_PIXELS_MOST = 40_000_000
_NIGHT = (32, 34, 40)


async def still(name: str, mime: str, data: bytes) -> bytes:
    """Return a picture of one frame: a picture itself, a film's first one, or a bare sign."""
    if is_picture(mime):
        return await asyncio.to_thread(_of_picture, data)
    try:
        film = await films.looked_at(File(name=name, mime=mime, data=data))
    except films.FilmError:  # no library for it, or it cannot be read: it may still play
        return await asyncio.to_thread(_signed, b"", 0.0)
    return await asyncio.to_thread(_signed, film.still, film.looks.seconds)


def length(seconds: float) -> str:
    """Return how long something plays as players show it, such as "1:05"; "" where unknown."""
    if seconds <= 0:
        return ""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    return f"{minutes}:{rest:02d}"


def _of_picture(data: bytes) -> bytes:
    """Return a picture as it is, or the first frame of an animated one with a play sign."""
    try:
        with Image.open(BytesIO(data), formats=(*SENT, "GIF")) as opened:
            if getattr(opened, "n_frames", 1) == 1 and opened.format != "GIF":
                return data
            if opened.width * opened.height > _PIXELS_MOST:
                return _signed(b"", 0.0)
            first = BytesIO()
            opened.convert("RGB").save(first, "PNG")
    except Exception:  # noqa: BLE001  # readers raise anything for broken bytes, and only a small square is lost
        return data
    return _signed(first.getvalue(), 0.0)


def _signed(still_: bytes, seconds: float) -> bytes:
    """Return a square with a film's picture, if there is one, and a play sign."""
    square = Image.new("RGB", (SIDE, SIDE), _NIGHT)
    if still_:
        with Image.open(BytesIO(still_), formats=("PNG", "JPEG")) as opened:
            square = ImageOps.fit(opened.convert("RGB"), (SIDE, SIDE))
    draw = ImageDraw.Draw(square, "RGBA")
    middle = SIDE // 2
    draw.ellipse((middle - 60, middle - 60, middle + 60, middle + 60), fill=(0, 0, 0, 150))
    draw.polygon(
        ((middle - 20, middle - 34), (middle - 20, middle + 34), (middle + 38, middle)),
        fill="white",
    )
    if told := length(seconds):
        font = ImageFont.load_default(size=56)
        box = draw.textbbox((SIDE - 12, SIDE - 12), told, font=font, anchor="rb")
        draw.rectangle((box[0] - 8, box[1] - 8, SIDE, SIDE), fill=(0, 0, 0, 170))
        draw.text((SIDE - 12, SIDE - 12), told, font=font, fill="white", anchor="rb")
    out = BytesIO()
    square.save(out, "PNG")
    return out.getvalue()
