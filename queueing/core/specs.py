"""Which requests are so far above what their model is made for that they alone ask for too much; pure."""

from collections.abc import Mapping

from queueing.core.requests import Request, TextToImage, TextToVideo

FAR = 2  # times what is usual
_USUAL_SIDES: Mapping[type, tuple[float, float]] = {
    TextToImage: (1024, 1024),
    TextToVideo: (832, 480),
}
"""Width and height where nothing tells what a model draws with."""


def is_far_above(request: Request, usual: Mapping[str, float]) -> bool:
    """Return whether a lack of memory is put down to a request, by the pixels it makes at once.

    `usual` are the numbers its model works with where a request names none, as far as known.
    """
    if isinstance(request, TextToVideo):  # none is too long where the usual length is unknown
        usual = {"seconds": request.seconds or 1, **usual}
    return work(request, usual) > FAR * usual_pixels(request, usual)


def usual_pixels(request: Request, usual: Mapping[str, float]) -> float:
    """Return the pixels that a model draws where a request names no sides; 0 if it draws nothing."""
    width, height = _USUAL_SIDES.get(type(request), (0, 0))
    return usual.get("width", width) * usual.get("height", height)


def pixels(request: TextToImage | TextToVideo, usual: Mapping[str, float]) -> float:
    """Return the pixels of one picture or frame that a request asks for."""
    width, height = _USUAL_SIDES[type(request)]
    return (request.width or usual.get("width", width)) * (
        request.height or usual.get("height", height)
    )


def work(request: Request, usual: Mapping[str, float]) -> float:
    """Return the pixels that a request makes at once: of a video, those of one frame.

    They grow with its length, in units of the usual one or of a second. 0 if it draws nothing.
    """
    match request:
        case TextToImage():
            return pixels(request, usual) * request.count
        case TextToVideo():
            seconds = usual.get("seconds", 1)
            return pixels(request, usual) * (request.seconds or seconds) / seconds
        case _:
            return 0.0
