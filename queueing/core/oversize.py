"""Which requests are so far above what their model is made for that they alone ask for too much; pure."""

from collections.abc import Mapping

from queueing.core.requests import Request, TextToImage, TextToVideo

FAR = 2  # times what is usual
USUAL_SIDES: Mapping[type, tuple[float, float]] = {
    TextToImage: (1024, 1024),
    TextToVideo: (832, 480),
}
"""Width and height where nothing tells what a model draws with."""


def is_far_above(request: Request, usual: Mapping[str, float]) -> bool:
    """Return whether a lack of memory is put down to a request, by the pixels it makes at once.

    `usual` are the numbers its model works with where a request names none, as far as known.
    """
    if not isinstance(request, TextToImage | TextToVideo):
        return False
    width, height = USUAL_SIDES[type(request)]
    width, height = usual.get("width", width), usual.get("height", height)
    pixels = (request.width or width) * (request.height or height)
    if isinstance(request, TextToImage):
        return pixels * request.count > FAR * width * height
    seconds = usual.get("seconds", request.seconds or 1)
    return pixels * (request.seconds or seconds) > FAR * width * height * seconds
