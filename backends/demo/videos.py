"""The stand-in for video models: a slow pan over a painting, with a ball that shows how time passes.

Frames are drawn by Pillow and become an animated WebP, of which the helper process makes H.264 where
the video libraries are installed. Without them the WebP is the result: browsers and Discord play it.
"""

import asyncio
import io
import logging
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from PIL import Image, ImageDraw, ImageOps

from backends.demo.images import painted, starting_image
from backends.demo.pace import Beat, Pace
from backends.demo.painting import Painting, caption
from backends.media import videos
from queueing.core.ports import Fetch
from queueing.core.requests import File, Output, Progress, TextToVideo, Work

USUAL_SIZE = (832, 480)
USUAL_S, USUAL_FPS = 5.0, 16.0
STEPS = 20
SIDE_MOST = 1280
PIXELS_MOST = 32_000_000  # of all frames together; beyond that there are fewer of them
FITS = 20_000_000  # bytes of a video
_ROOM = 1.25  # the painting is larger than the frame, so that the view can travel over it
_log = logging.getLogger(__name__)


async def video(request: TextToVideo, work: Work, pace: Pace) -> Fetch:
    """Paint what the video shows, step by step; the frames are drawn when it is fetched."""
    first_and_last = work.files[:2]
    images = [await asyncio.to_thread(starting_image, file) for file in first_and_last]
    size, steps = video_size(request, images), request.steps or STEPS
    beat = Beat(pace.step_s(STEPS) * _share(request))
    painting = await asyncio.to_thread(_scene, request, size, images)
    for step in range(1, steps + 1):
        await beat.step()
        preview = await asyncio.to_thread(painted, painting, step, steps)
        pace.report(Progress(fraction=step / steps, step=(step, steps), preview=preview))
    return partial(_made, work.key, request, painting, images[1:])


def video_size(request: TextToVideo, images: Sequence[Image.Image]) -> tuple[int, int]:
    """Return the size of the frames in pixels: even, and not too many for a demo."""
    width, height = request.width, request.height
    if width is None or height is None:
        width, height = images[0].size if images else USUAL_SIZE
        shrink = min(1.0, USUAL_SIZE[0] / max(width, height))
    else:
        shrink = min(1.0, SIDE_MOST / max(width, height))
    return _even(width * shrink), _even(height * shrink)


def shown_ms(request: TextToVideo, size: tuple[int, int]) -> list[int]:
    """Return how long each frame is shown, in milliseconds; together they take the whole video."""
    seconds, fps = request.seconds or USUAL_S, min(request.fps or USUAL_FPS, 25.0)
    count = max(2, min(round(seconds * fps), PIXELS_MOST // (size[0] * size[1])))
    ends = [round(1000 * seconds * number / count) for number in range(count + 1)]
    return [after - before for before, after in pairwise(ends)]


def frame(scene: Image.Image, at: float, words: str, last: Image.Image | None) -> Image.Image:
    """Return the frame at a moment from 0 to 1, labelled."""
    width, height = round(scene.width / _ROOM), round(scene.height / _ROOM)
    x = round(at * (scene.width - width))
    y = round((0.5 - 0.5 * math.cos(math.tau * at)) * (scene.height - height))
    shown = scene.crop((x, y, x + width, y + height))
    if last is not None:
        shown = Image.blend(shown, last, at)
    radius = min(width, height) / 14
    ball_x = radius + at * (width - 2 * radius)
    ball_y = height * (0.62 - 0.45 * abs(math.sin(3 * math.pi * at)))
    box = (ball_x - radius, ball_y - radius, ball_x + radius, ball_y + radius)
    ImageDraw.Draw(shown).ellipse(box, fill="white", outline="black", width=2)
    caption(shown, words, on_top=True)  # players cover the foot
    return shown


def _even(side: float) -> int:
    return max(64, round(side / 2) * 2)


def _share(request: TextToVideo) -> float:
    """Return how much longer a video of that many pixels takes than a usual one."""
    usual = USUAL_SIZE[0] * USUAL_SIZE[1]
    pixels = (request.width or USUAL_SIZE[0]) * (request.height or USUAL_SIZE[1]) / usual
    frames = (request.seconds or USUAL_S) * (request.fps or USUAL_FPS)
    return pixels * frames / (USUAL_S * USUAL_FPS)


def _scene(request: TextToVideo, size: tuple[int, int], images: Sequence[Image.Image]) -> Painting:
    roomy = (round(size[0] * _ROOM), round(size[1] * _ROOM))
    base = images[0] if images else None
    return Painting(request.prompt, request.seed, roomy, base=base, strength=0.4)


async def _made(
    key: str, request: TextToVideo, painting: Painting, last: Sequence[Image.Image]
) -> Output:
    """Draw and encode the frames, in place of a real server's download."""
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
    scene = painting.unlabelled()
    size = round(scene.width / _ROOM), round(scene.height / _ROOM)
    lengths = shown_ms(request, size)
    end = ImageOps.fit(last[0], size) if last else None
    moments = [number / (len(lengths) - 1) for number in range(len(lengths))]
    frames = [frame(scene, at, request.prompt, end) for at in moments]
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
