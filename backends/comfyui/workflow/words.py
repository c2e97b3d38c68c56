"""The placeholders that requests fill, and which requests a template can serve. Pure."""

from collections.abc import Mapping, Sequence

from queueing.core.requests import (
    File,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

Asked = TextToImage | TextToVideo | TextToAudio | TextToSpeech
"""The requests that a graph can serve."""

# What a request can fill, and what people call it. Any other placeholder is the operator's own.
WORDS: Mapping[str, str] = {
    "prompt": "prompt",
    "negative": "negative prompt",
    "width": "width",
    "height": "height",
    "steps": "number of steps",
    "half_steps": "half the number of steps",
    "seed": "seed",
    "count": "number of pictures",
    "guidance": "guidance",
    "strength": "strength",
    "lora": "LoRA",
    "picture": "picture to start from",
    "picture2": "second picture",
    "picture3": "third picture",
    "picture4": "fourth picture",
    "mask": "mask",
    "last_picture": "last picture",
    "audio": "sound",
    "seconds": "length",
    "frames": "number of frames",
    "fps": "frames per second",
    "lyrics": "lyrics",
    "voice": "voice",
}
PICTURES = ("picture", "picture2", "picture3", "picture4")
FILES = frozenset({*PICTURES, "mask", "last_picture", "audio"})
"""The placeholders that become a file's name on the server."""

NEEDS_DEFAULT = ("width", "height", "steps", "guidance", "strength", "seconds", "fps", "voice")
NO_DEFAULT = ("prompt", "seed", "count", "half_steps", *sorted(FILES))

FOLLOWS: Mapping[str, str] = {"frames": "seconds", "half_steps": "steps"}
"""Placeholders whose value is derived from a field of the request."""


def places(request: Asked, files: Sequence[File]) -> dict[str, File]:
    """Return the placeholder that each of a request's files fills.

    A file beyond the places there are gets the name of none, such as "picture5".
    """
    sounds = [file for file in files if file.mime.startswith("audio/")]
    pictures = [file for file in files if file not in sounds]
    found = {"audio" if n == 1 else f"audio{n}": file for n, file in enumerate(sounds, start=1)}
    if isinstance(request, TextToImage) and request.mask and len(pictures) > 1:
        found["mask"] = pictures.pop()
    second = "last_picture" if isinstance(request, TextToVideo) else "picture2"
    for number, file in enumerate(pictures, start=1):
        found[{1: "picture", 2: second}.get(number, f"picture{number}")] = file
    return found
