"""Images in every mode of every format that is taken, through every door.

Each file of `images/` is a ramp from black on the left to white on the right. Each file of `masks/`
marks its upper left corner and leaves the lower right one.
"""

import asyncio
import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from backends.media.images import as_jpeg, in_eight_bits, open_image
from bot.platforms.web.thumbnails import smaller
from bot.requests.images import checked, fitted, mask_of
from queueing.core.requests import File

HERE = Path(__file__).parent
RAMPS = sorted((HERE / "images").iterdir())
MASKS = sorted((HERE / "masks").iterdir())


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def kept_by_mask(file: File) -> Image.Image:
    """Return what a mask of that image leaves, as brightness: white parts of the mask change."""
    return opened(asyncio.run(mask_of(file, file)).data).getchannel("A").point(lambda v: 255 - v)


DOORS: dict[str, Callable[[File], Image.Image]] = {
    "image server": open_image,
    "vision": lambda file: opened(as_jpeg(open_image(file))),
    "mask": kept_by_mask,
    "thumbnail": lambda file: opened(smaller(file.data, 64)),
    "smaller result": lambda file: in_eight_bits(opened(fits(file).data)),
}


def fits(file: File) -> File:
    found = asyncio.run(fitted(file, 100_000))
    assert found is not None
    return found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("ramp", RAMPS, ids=lambda file: file.name)
def test_a_ramp_stays_a_ramp(ramp: Path, door: str) -> None:
    """A depth map or a scan would become plain white, and people would blame the model."""
    given = File(name=ramp.name, mime="", data=ramp.read_bytes())
    shown = DOORS[door](asyncio.run(checked(given.data))).convert("L")
    middle = shown.height // 2
    places = [(at * (shown.width - 1) // 4, middle) for at in range(5)]
    values: list[Any] = [shown.getpixel(place) for place in places]
    assert values[0] < 30, values
    assert values[-1] > 225, values
    assert all(one <= other + 8 for one, other in pairwise(values)), values


@pytest.mark.parametrize("mask", MASKS, ids=lambda file: file.name)
def test_a_mask_marks_what_its_person_painted(mask: Path) -> None:
    """The rest of the image would change instead."""
    image = File(name="i.png", mime="image/png", data=mask.read_bytes())
    alpha = opened(asyncio.run(mask_of(image, image)).data).getchannel("A")
    assert (alpha.getpixel((1, 1)), alpha.getpixel((alpha.width - 2, alpha.height - 2))) == (0, 255)
