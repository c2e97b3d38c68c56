"""The defaults of a template: those in its placeholders, and the operator's values. Pure."""

import json
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from backends.comfyui.workflow.graph import Graph, placeholders_in
from backends.comfyui.workflow.media import Medium
from backends.comfyui.workflow.words import NO_DEFAULT, WORDS, Asked
from queueing.core.errors import BadModel
from queueing.core.requests import (
    Generation,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

_REQUESTS: Mapping[Medium, tuple[type[Asked], ...]] = {
    Medium.PICTURE: (TextToImage, TextToVideo, TextToAudio, TextToSpeech),
    Medium.FILM: (TextToVideo, TextToImage, TextToAudio, TextToSpeech),
    Medium.SOUND: (TextToAudio, TextToSpeech, TextToVideo, TextToImage),
}
"""The requests whose fields the defaults of a graph are, the likeliest first."""

_FRAMES_MOST = 10_000


def defaults_in(nodes: Graph, name: str) -> dict[str, JsonValue]:
    """Return the defaults written in the placeholders themselves."""
    defaults: dict[str, JsonValue] = {}
    for key, node in nodes.items():
        for found in placeholders_in(node.inputs):
            word, text = found[1], found[2]
            if text is None:
                continue
            if defaults.setdefault(word, text) != text:
                raise BadModel(f"{name}: node {key}: {{{{{word}}}}} has two different defaults")
    return {word: text if word in WORDS else _scalar(str(text)) for word, text in defaults.items()}


def check_values(values: Mapping[str, JsonValue], name: str) -> None:
    """Raise `BadModel` for a value that is none, or belongs to requests alone."""
    for word, value in values.items():
        if word in NO_DEFAULT:
            raise BadModel(f"{name}: {word} comes with each request and takes no default")
        if not isinstance(value, str | int | float) or "{{" in str(value):
            raise BadModel(f"{name}: values.{word} must be a text or a number")


def validated(
    name: str, medium: Medium, defaults: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """Return the defaults with the types and bounds that requests have."""
    return {word: _valid(name, medium, word, value) for word, value in defaults.items()}


def _scalar(text: str) -> JsonValue:
    """Read a number or boolean as such, and everything else as text."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def _valid(name: str, medium: Medium, word: str, value: JsonValue) -> JsonValue:
    if word == "lora":
        return value
    if word == "frames":
        return _frames(name, value)
    asked = next(kind for kind in _REQUESTS[medium] if word in kind.model_fields)
    words = {"prompt": ""} if issubclass(asked, Generation) else {"text": "-"}
    try:
        request = asked.model_validate({**words, word: value})
    except ValidationError as error:
        raise BadModel(f"{name}: default of {{{{{word}}}}}: {error.errors()[0]['msg']}") from None
    found: JsonValue = request.model_dump()[word]
    return found


def _frames(name: str, value: JsonValue) -> int:
    try:
        frames = int(str(value))
    except ValueError:
        frames = 0
    if not 1 <= frames <= _FRAMES_MOST:
        raise BadModel(f"{name}: default of {{{{frames}}}}: it is no number of frames")
    return frames
