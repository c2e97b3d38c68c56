"""Plans and encodes videos and audio that play everywhere and fit. Only for the helper process."""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from PIL import Image

from backends.common.file_types import MOVING, MOVING_TYPES
from backends.media.helper.containers import (
    Unreadable,
    images_of,
    length_of,
    made,
    opened,
    require_size,
    streams_of,
)
from backends.media.helper.pixels import in_eight_bits, on_white
from backends.media.helper.protocol import Answer, Order

_FILLED = 0.92  # of the bytes; the rest is for the container and overshoot
_SOUND_SHARE = 0.25  # of the bits, in a video
_VIDEO_SOUND = (128_000, 96_000, 64_000, 48_000, 32_000)  # bits per second
_SOUND = (256_000, 192_000, 160_000, 128_000, 96_000, 64_000, 48_000, 32_000, 24_000)
_BITS_PER_PIXEL = 0.05  # below this, a smaller image looks better
_NOISY = 4.0  # bits per pixel of a video that no encoder can shrink
_PLENTY = 0.5  # bits per pixel at which a fast preset is as good as a slow one
_SIDE_LEAST = 64
_SIDE_MOST = 1920
_BITS_LEAST = 8_000


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoPlan:
    """How to encode a video: its size in pixels, and the bits per second for images and audio.

    `sound` is None for a silent video, or if no bits are left for audio. `noisy` marks a video that
    takes long to encode and has enough bits for a fast preset.
    """

    width: int
    height: int
    image: int
    sound: int | None
    noisy: bool = False


def video_plan(
    *,
    limit: int,
    seconds: float,
    size: tuple[int, int],
    fps: float,
    has_sound: bool,
    share: float,
    weight: int = 0,
) -> VideoPlan | None:
    """Plan how to fit a video of `weight` bytes into `share` of `limit` bytes; None if impossible.

    The image size is reduced before the bits per pixel.
    """
    room = limit * 8 * _FILLED * share / max(seconds, 0.1)
    sound = _first_below(_VIDEO_SOUND, room * _SOUND_SHARE) if has_sound else None
    image = int(room - (sound or 0))
    if image < _BITS_LEAST:
        return None
    pixels = image / (_BITS_PER_PIXEL * max(fps, 1.0))
    width, height = size
    scale = min(1.0, math.sqrt(pixels / (width * height)), _SIDE_MOST / max(size))
    if round(min(size) * scale) < min(_SIDE_LEAST, *size):
        scale = min(_SIDE_LEAST / min(size), 1.0)
    each_s = width * height * max(fps, 1.0)
    return VideoPlan(
        width=_even(width * scale),
        height=_even(height * scale),
        image=image,
        sound=sound,
        noisy=weight * 8 / max(seconds, 0.1) > _NOISY * each_s
        and image > _PLENTY * each_s * scale**2,
    )


def sound_rate(*, limit: int, seconds: float, share: float) -> int | None:
    """Return bits per second that fit audio into `share` of `limit` bytes, or None."""
    return _first_below(_SOUND, limit * 8 * _FILLED * share / max(seconds, 0.1))


def _first_below(rates: tuple[int, ...], most: float) -> int | None:
    return next((rate for rate in rates if rate <= most), None)


def _even(side: float) -> int:
    """Round to an even length, as H.264 requires."""
    return max(2, round(side / 2) * 2)


_TRIES = (
    1.0,
    0.75,
    0.5,
)  # shares of the limit, tried in order if a video turns out too large
_THREADS = 2
_CAREFUL = {"preset": "veryfast"}
_QUICK = {"preset": "ultrafast", "x264-params": "no-deblock=0:deblock=0,0:aq-mode=1"}
_FPS = 25.0
_RATES_OF_MP3 = frozenset({16_000, 22_050, 24_000, 32_000, 44_100, 48_000})
_FRAMES_MOST = 3000
_TICKS = 1000  # per second, for frames with durations
_TICK = Fraction(1, _TICKS)
_FRAMES: Any = av.VideoFrame  # its constructor is not typed


def fitted(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Encode a file so that it plays everywhere and fits."""
    made_ = fit(data, order.mime, order.limit)
    if made_ is None:
        return Answer(error="cannot be made to fit"), b""
    return Answer(mime=made_[1]), made_[0]


def fit(data: bytes, mime: str, limit: int) -> tuple[bytes, str] | None:
    """Return a file of at most `limit` bytes and its media type; None if that is impossible."""
    for share in _TRIES:
        made_ = (
            _moving(data, limit, share) if mime in MOVING_TYPES else _once(data, mime, limit, share)
        )
        if made_ is None or len(made_[0]) <= limit:
            return made_
    return None


def _once(data: bytes, mime: str, limit: int, share: float) -> tuple[bytes, str] | None:
    with opened(data, mime) as source:
        streams = streams_of(source)
        sounds = [stream for stream in streams if stream.type == "audio"]
        seconds = length_of(data, mime)
        if len(sounds) < len(streams):
            return _video(source, images_of(source), sounds[:1], (limit, share, seconds, len(data)))
        if sounds:
            return _sound(source, sounds[0], (limit, share, seconds))
    raise Unreadable("neither video nor audio")


# ---------------------------------------------------------------- videos


def _video(
    source: Any, image: Any, sounds: list[Any], room: tuple[int, float, float, int]
) -> tuple[bytes, str] | None:
    limit, share, seconds, weight = room
    turned = _turned(image, source)
    size = (image.codec_context.width, image.codec_context.height)
    fps = float(image.average_rate or _FPS)
    plan = video_plan(
        limit=limit,
        seconds=seconds,
        size=size[::-1] if turned in {"clock", "cclock"} else size,
        fps=fps,
        has_sound=bool(sounds),
        share=share,
        weight=weight,
    )
    if plan is None:
        return None
    out = io.BytesIO()
    with made(out, "video/mp4") as target:
        seen = _image_stream(target, plan, image.average_rate or round(_FPS))
        seen.codec_context.time_base = image.time_base
        heard = _sound_stream(target, "aac", plan.sound, sounds[0]) if plan.sound else None
        graph = _Graph(image, plan, turned)
        resampler = _resampler(heard) if heard is not None else None
        for packet in source.demux([image, *(sounds if heard is not None else ())]):
            for frame in packet.decode():
                if isinstance(frame, av.VideoFrame):
                    for shown in graph.through(frame):
                        target.mux(seen.encode(shown))
                elif resampler is not None and heard is not None:
                    _mux_sound(target, heard, resampler.resample(frame))
        for shown in graph.through(None):
            target.mux(seen.encode(shown))
        target.mux(seen.encode(None))
        if resampler is not None and heard is not None:
            _mux_sound(target, heard, resampler.resample(None))
            target.mux(heard.encode(None))
    return out.getvalue(), "video/mp4"


def _image_stream(target: Any, plan: VideoPlan, rate: Any) -> Any:
    stream = target.add_stream("libx264", rate=rate)
    stream.width, stream.height, stream.pix_fmt = plan.width, plan.height, "yuv420p"
    stream.codec_context.thread_count = _THREADS
    most = str(plan.image)
    quickly = _QUICK if plan.noisy else _CAREFUL
    stream.options = {**quickly, "crf": "21", "maxrate": most, "bufsize": most}
    return stream


class _Graph:
    """Rotates and scales frames, and converts them to the pixel format that all players know."""

    def __init__(self, stream: Any, plan: VideoPlan, turned: str) -> None:
        graph = av.filter.Graph()
        steps = [graph.add_buffer(template=stream)]
        if turned == "half":
            steps += [graph.add("hflip"), graph.add("vflip")]
        elif turned:
            steps.append(graph.add("transpose", f"dir={turned}"))
        steps.append(graph.add("scale", f"{plan.width}:{plan.height}"))
        steps.append(graph.add("format", "pix_fmts=yuv420p"))
        steps.append(graph.add("buffersink"))
        graph.link_nodes(*steps).configure()
        self._graph = graph

    def through(self, frame: Any) -> Iterator[Any]:
        """Yield the frames that are ready after one more frame; None marks the end."""
        if frame is not None:
            require_size(frame.width, frame.height)  # it may change within the video
        self._graph.push(frame)
        while True:
            try:
                shown = self._graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            shown.pict_type = av.video.frame.PictureType.NONE
            yield shown


def _turned(image: Any, source: Any) -> str:
    """Return the rotation that puts the first frame upright; "" if it is upright."""
    for frame in source.decode(image):
        source.seek(0)
        turns = {90: "cclock", -270: "cclock", -90: "clock", 270: "clock"}
        return "half" if abs(frame.rotation) == 180 else turns.get(frame.rotation, "")
    raise Unreadable("no frame")


# ---------------------------------------------------------------- sounds


def _sound(source: Any, sound: Any, room: tuple[int, float, float]) -> tuple[bytes, str] | None:
    limit, share, seconds = room
    rate = sound_rate(limit=limit, seconds=seconds, share=share)
    if rate is None:
        return None
    out = io.BytesIO()
    with made(out, "audio/mpeg") as target:
        heard = _sound_stream(target, "libmp3lame", rate, sound)
        resampler = _resampler(heard)
        for frame in source.decode(sound):
            _mux_sound(target, heard, resampler.resample(frame))
        _mux_sound(target, heard, resampler.resample(None))
        target.mux(heard.encode(None))
    return out.getvalue(), "audio/mpeg"


def _sound_stream(target: Any, codec: str, bits: int, like: Any) -> Any:
    rate = like.codec_context.sample_rate
    stream = target.add_stream(codec, rate=rate if rate in _RATES_OF_MP3 else 48_000)
    stream.codec_context.layout = "mono" if like.codec_context.channels == 1 else "stereo"
    stream.codec_context.bit_rate = bits
    return stream


def _resampler(heard: Any) -> Any:
    context = heard.codec_context
    return av.AudioResampler(format="fltp", layout=context.layout, rate=context.sample_rate)


def _mux_sound(target: Any, heard: Any, frames: Any) -> None:
    for frame in frames:
        target.mux(heard.encode(frame))


# ---------------------------------------------------------------- images that move


def _moving(data: bytes, limit: int, share: float) -> tuple[bytes, str] | None:
    """Convert an animation, read by Pillow, to a video."""
    with Image.open(io.BytesIO(data), formats=MOVING) as image:
        require_size(*image.size)
        frames = min(getattr(image, "n_frames", 1), _FRAMES_MOST)
        shown = [_shown_ms(image, number) for number in range(frames)]
        seconds = sum(shown) / _TICKS
        plan = video_plan(
            limit=limit,
            seconds=seconds,
            size=image.size,
            fps=frames / max(seconds, 0.1),
            has_sound=False,
            share=share,
        )
        return None if plan is None else (_encoded(image, plan, shown), "video/mp4")


def _encoded(image: Image.Image, plan: VideoPlan, shown: list[int]) -> bytes:
    out, at = io.BytesIO(), 0
    with made(out, "video/mp4") as target:
        stream = _image_stream(target, plan, max(1, round(len(shown) * _TICKS / sum(shown))))
        stream.codec_context.time_base = _TICK
        for number, length in enumerate(shown):
            image.seek(number)
            flat = on_white(in_eight_bits(image)).resize((plan.width, plan.height))
            frame = _FRAMES.from_image(flat)
            frame.pts, frame.duration, frame.time_base = at, length, _TICK
            at += length
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    return out.getvalue()


def _shown_ms(image: Image.Image, number: int) -> int:
    image.seek(number)
    image.load()  # WebP and AVIF only then have a frame's duration
    return max(20, round(float(image.info.get("duration") or 100)))
