"""What kind of result a request has; pure."""

from queueing.core.requests import Generation, Request, TextToImage, TextToSpeech, TextToVideo


def gives_files(request: Request) -> bool:
    """Return whether the result of a request is files, not a text."""
    return isinstance(request, Generation | TextToSpeech)


def is_seen(request: Request) -> bool:
    """Return whether the result of a request is looked at: pictures or a film."""
    return isinstance(request, TextToImage | TextToVideo)


def is_drawn(request: Request) -> bool:
    """Return whether the result of a request is pictures."""
    return isinstance(request, TextToImage)
