"""What kind of result a request has, and the words its person typed; pure."""

from queueing.core.requests import (
    Chat,
    Embed,
    Generation,
    Request,
    SpeechToText,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)


def gives_files(request: Request) -> bool:
    """Return whether the result of a request is files, not a text."""
    return isinstance(request, Generation | TextToSpeech)


def is_seen(request: Request) -> bool:
    """Return whether the result of a request is looked at: images or a video."""
    return isinstance(request, TextToImage | TextToVideo)


def is_drawn(request: Request) -> bool:
    """Return whether the result of a request is images."""
    return isinstance(request, TextToImage)


def needs_files(request: Request) -> bool:
    """Return whether a request certainly means something else without the files it came with.

    A video or an image without a strength may have begun from an image or from words alone.
    """
    match request:
        case Chat(messages=turns):
            return any(turn.images or (turn.sounds and turn.heard is None) for turn in turns)
        case TextToImage(upscale=upscale, edit=edit, strength=strength):
            return upscale or edit or strength is not None
        case _:
            return isinstance(request, SpeechToText)


def typed(request: Request) -> str:
    """Return what a person typed for a request, "" for one without words."""
    match request:
        case Generation(original=original, prompt=prompt):
            return original or prompt
        case TextToSpeech(text=text):
            return text
        case Chat(messages=messages):
            return messages[-1].text
        case SpeechToText() | Embed():
            return ""
