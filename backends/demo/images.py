"""Stand-ins for image and video models: they create, edit and enlarge step by step."""

import asyncio
import io
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from PIL import Image, ImageOps

from backends.demo.pace import Beat, Pace
from backends.demo.painting import CANVAS, Painting, caption
from backends.media import videos
from backends.media.helper.pixels import as_jpeg, as_png
from backends.media.images import open_image, transparent_parts
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.ports import Fetch
from queueing.core.requests import File, Output, Progress, TextToImage, TextToVideo, Work

SIDE = 768  # pixels, if neither the request nor its image sets a size
USUAL_PIXELS = 1024 * 1024  # time scales with an image's pixels relative to this
STEPS = 20
PREVIEWS = 8  # per image
UPSCALE, UPSCALE_STEPS = 2, 4


async def draw(request: TextToImage, work: Work, pace: Pace) -> Fetch:
    """Draw images, or edit those of the request."""
    base, mask = await asyncio.to_thread(_given, request, work.files)
    steps, size = request.steps or STEPS, _size(request, base)
    step_s = pace.step_s(STEPS) * (_share(size) if request.width else 1.0)
    total = steps * request.count
    paintings: list[Painting] = []
    beat = Beat(step_s)
    for number in range(request.count):
        paintings.append(await asyncio.to_thread(_painting, request, number, base, mask))
        for step in range(1, steps + 1):
            await beat.step()
            preview = await asyncio.to_thread(painted, paintings[-1], step, steps)
            done = number * steps + step
            pace.report(Progress(fraction=done / total, step=(done, total), preview=preview))
    return partial(_images, work.key, paintings)


async def enlarge(work: Work, pace: Pace) -> Fetch:
    """Enlarge the image of a request."""
    if not work.files:
        raise Rejected("nothing to enlarge", problem=problem(ProblemKind.NOTHING_TO_ENLARGE))
    beat = Beat(pace.step_s(UPSCALE_STEPS))
    for step in range(1, UPSCALE_STEPS + 1):
        await beat.step()
        pace.report(Progress(fraction=step / UPSCALE_STEPS, step=(step, UPSCALE_STEPS)))
    return partial(_enlarged, work.key, work.files[0])


def painted(painting: Painting, step: int, steps: int) -> File | None:
    """Paint a step; return a preview after some of them."""
    painting.paint(step - 1, steps)
    if step % max(1, steps // PREVIEWS):
        return None
    data = as_jpeg(painting.preview(step, steps), quality=80)
    return File(name="preview.jpg", mime="image/jpeg", data=data)


def starting_image(file: File) -> Image.Image:
    """Return the image to start from, scaled down to the canvas if it is larger."""
    image = open_image(file)
    image.thumbnail((CANVAS, CANVAS))
    return image


def _given(
    request: TextToImage, files: Sequence[File]
) -> tuple[Image.Image | None, Image.Image | None]:
    """Return the image to start from (several are placed side by side), and the mask to paint."""
    if not request.edit:
        return (starting_image(files[0]) if files else None), None
    shown = files[:-1] if request.mask else files
    images = [starting_image(file) for file in shown]
    if not images:
        raise Rejected("nothing to edit", problem=problem(ProblemKind.NEEDS_START))
    if not request.mask:
        return _side_by_side(images), None
    masks = [Image.new("L", image.size) for image in images]
    masks[0] = _transparent(files[-1]).resize(images[0].size)
    return _side_by_side(images), _side_by_side(masks)


def _transparent(file: File) -> Image.Image:
    """Return a mask's transparent area, or its white area if it has none, as white on black."""
    painted = transparent_parts(file)
    return open_image(file).convert("L") if painted is None else painted


def _side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    if len(images) == 1:
        return images[0]
    height = min(image.height for image in images)
    scaled = [
        image.resize((max(1, image.width * height // image.height), height)) for image in images
    ]
    sheet = Image.new(scaled[0].mode, (sum(each.width for each in scaled), height))
    x = 0
    for each in scaled:
        sheet.paste(each, (x, 0))
        x += each.width
    sheet.thumbnail((CANVAS, CANVAS))
    return sheet


def _painting(
    request: TextToImage, number: int, base: Image.Image | None, mask: Image.Image | None
) -> Painting:
    return Painting(
        request.prompt,
        request.seed + number,
        _size(request, base),
        base=base,
        mask=mask,
        strength=0.6 if request.strength is None else request.strength,
    )


def _size(request: TextToImage, base: Image.Image | None) -> tuple[int, int]:
    """Return the size: as requested, or with the aspect ratio of the image to start from."""
    width, height = (SIDE, SIDE) if base is None else base.size
    shrink = SIDE / max(width, height)
    return (
        request.width or max(64, round(width * shrink)),
        request.height or max(64, round(height * shrink)),
    )


def _share(size: tuple[int, int]) -> float:
    """Return how long an image of that size takes relative to a usual one."""
    return size[0] * size[1] / USUAL_PIXELS


async def _images(key: str, paintings: Sequence[Painting]) -> Output:
    """Finish and encode the paintings, like the download from a real server."""
    files: list[File] = []
    for number, painting in enumerate(paintings, start=1):
        data = await asyncio.to_thread(_finished, painting)
        files.append(File(name=f"demo-{key[:8]}-{number}.png", mime="image/png", data=data))
    return Output(files=tuple(files))


def _finished(painting: Painting) -> bytes:
    return as_png(painting.finish())


async def _enlarged(key: str, file: File) -> Output:
    data = await asyncio.to_thread(_twice, file)
    return Output(files=(File(name=f"demo-{key[:8]}.png", mime="image/png", data=data),))


def _twice(file: File) -> bytes:
    image = open_image(file)
    size = image.width * UPSCALE, image.height * UPSCALE
    return as_png(image.resize(size, Image.Resampling.LANCZOS))


USUAL_SIZE = (832, 480)
USUAL_S, USUAL_FPS = 5.0, 16.0
SIDE_MOST = 1280
PIXELS_MOST = 32_000_000  # of all frames together; limits their number
FITS = 20_000_000  # bytes of a video
_ROOM = 1.25  # the painting is larger than the frame, so the view can move across it
_log = logging.getLogger(__name__)


async def video(request: TextToVideo, work: Work, pace: Pace) -> Fetch:
    """Paint the video's scene step by step. Its frames are drawn when the result is fetched."""
    first_and_last = work.files[:2]
    images = [await asyncio.to_thread(starting_image, file) for file in first_and_last]
    size, steps = video_size(request, images), request.steps or STEPS
    beat = Beat(pace.step_s(STEPS) * _video_share(request))
    painting = await asyncio.to_thread(_scene, request, size, images)
    for step in range(1, steps + 1):
        await beat.step()
        preview = await asyncio.to_thread(painted, painting, step, steps)
        pace.report(Progress(fraction=step / steps, step=(step, steps), preview=preview))
    return partial(_encoded, work.key, request, painting, images[1:])


def video_size(request: TextToVideo, images: Sequence[Image.Image]) -> tuple[int, int]:
    """Return the frame size in pixels: even, and limited for the demo."""
    width, height = request.width, request.height
    if width is None or height is None:
        width, height = images[0].size if images else USUAL_SIZE
        shrink = min(1.0, USUAL_SIZE[0] / max(width, height))
    else:
        shrink = min(1.0, SIDE_MOST / max(width, height))
    return _even(width * shrink), _even(height * shrink)


def shown_ms(request: TextToVideo, size: tuple[int, int]) -> list[int]:
    """Return the duration of each frame in milliseconds. They add up to the whole video."""
    seconds, fps = request.seconds or USUAL_S, min(request.fps or USUAL_FPS, 25.0)
    count = max(2, min(round(seconds * fps), PIXELS_MOST // (size[0] * size[1])))
    ends = [round(1000 * seconds * number / count) for number in range(count + 1)]
    return [after - before for before, after in pairwise(ends)]


def frame(scene: Painting, view: Image.Image, at: float, last: Image.Image | None) -> Image.Image:
    """Return the labelled frame at a position from 0 to 1: its hero hops through the view."""
    width, height = round(view.width / _ROOM), round(view.height / _ROOM)
    x = round(at * (view.width - width))
    y = round((0.5 - 0.5 * math.cos(math.tau * at)) * (view.height - height))
    shown = view.crop((x, y, x + width, y + height))
    if last is not None:
        shown = Image.blend(shown, last, at)
    if scene.hero is not None:
        hop = 0.12 * abs(math.sin(3 * math.pi * at))
        scene.draw(shown, replace(scene.hero, x=0.12 + 0.76 * at, y=scene.hero.y - hop))
    caption(shown, scene.prompt, on_top=True)  # players cover the bottom
    return shown


def _even(side: float) -> int:
    return max(64, round(side / 2) * 2)


def _video_share(request: TextToVideo) -> float:
    """Return how long a video of that many pixels takes relative to a usual one."""
    usual = USUAL_SIZE[0] * USUAL_SIZE[1]
    pixels = (request.width or USUAL_SIZE[0]) * (request.height or USUAL_SIZE[1]) / usual
    frames = (request.seconds or USUAL_S) * (request.fps or USUAL_FPS)
    return pixels * frames / (USUAL_S * USUAL_FPS)


def _scene(request: TextToVideo, size: tuple[int, int], images: Sequence[Image.Image]) -> Painting:
    roomy = (round(size[0] * _ROOM), round(size[1] * _ROOM))
    base = images[0] if images else None
    return Painting(request.prompt, request.seed, roomy, base=base, strength=0.4, moving=True)


async def _encoded(
    key: str, request: TextToVideo, painting: Painting, last: Sequence[Image.Image]
) -> Output:
    """Draw and encode the frames, like the download from a real server."""
    data = await asyncio.to_thread(_animated, request, painting, last)
    moving = File(name=f"demo-{key[:8]}.webp", mime="image/webp", data=data)
    try:
        return Output(files=(await videos.fitted(moving, FITS),))
    except videos.NoVideos:
        return Output(files=(moving,))
    except videos.VideoError as error:
        _log.warning("the demo's video stays a WebP: %s", error)
        return Output(files=(moving,))


def _animated(request: TextToVideo, painting: Painting, last: Sequence[Image.Image]) -> bytes:
    view = painting.unlabelled()
    size = round(view.width / _ROOM), round(view.height / _ROOM)
    lengths = shown_ms(request, size)
    end = ImageOps.fit(last[0], size) if last else None
    moments = [number / (len(lengths) - 1) for number in range(len(lengths))]
    frames = [frame(painting, view, at, end) for at in moments]
    out = io.BytesIO()
    frames[0].save(
        out,
        "WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=lengths,
        loop=0,
        quality=85,
        method=0,
    )
    return out.getvalue()
