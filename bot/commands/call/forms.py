"""The form with the old values of a request, by its kind; pure."""

from collections.abc import Collection, Mapping

from bot.commands.call.jobs import shown_request
from bot.core.content import FormField
from bot.requests.kinds import typed
from bot.texts.catalogue import decimal, word
from queueing.core.jobs import Job
from queueing.core.requests import (
    AnyRequest,
    Chat,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

FORM_TEXT_MOST = 4_000  # the limit of a field in Discord's forms
_LONG = frozenset({"prompt", "lyrics"})
Sides = tuple[int | None, int | None]

_TITLES: Mapping[type[AnyRequest], str] = {
    Chat: "form.edit_question",
    TextToImage: "form.edit_image",
    TextToVideo: "form.edit_video",
    TextToAudio: "form.edit_music",
    TextToSpeech: "form.edit_speech",
}
_COMMANDS: Mapping[type[AnyRequest], str] = {
    Chat: "ask",
    TextToImage: "image",
    TextToVideo: "video",
    TextToAudio: "music",
    TextToSpeech: "speak",
}
_LABELS: Mapping[type[AnyRequest], str] = {
    Chat: "form.question",
    TextToImage: "form.prompt",
    TextToVideo: "form.video_scene",
    TextToAudio: "form.played",
    TextToSpeech: "form.spoken",
}
EDIT_FIELDS: Mapping[type[AnyRequest], tuple[str, ...]] = {
    TextToImage: ("negative", "size", "steps", "seed"),
    TextToVideo: ("seconds", "negative", "size", "seed"),
    TextToAudio: ("lyrics", "seconds", "steps", "seed"),
    TextToSpeech: ("voice", "speed"),
}
"""Four at most beside the text, because a form has five fields."""


def title(request: AnyRequest) -> str:
    """Return the key of a form's title."""
    return _TITLES[type(request)]


def command(request: AnyRequest) -> str:
    """Return the command that makes such a request."""
    return _COMMANDS[type(request)]


def fields(
    job: Job, language: str, takes: Collection[str] | None, drawn: tuple[int, int] | None
) -> tuple[FormField, ...]:
    """Return a field for the text and each option the model takes, with the old values.

    `takes` are the request's fields that the model honours, None for all; `drawn` is the size of
    the image if the request named none.
    """
    request = shown_request(job)
    named = EDIT_FIELDS.get(type(request), ())
    shown = [name for name in named if takes is None or _field(name) in takes]
    return (
        _line("prompt", _LABELS[type(request)], typed(request), language, required=True),
        *(_line(n, f"form.{n}", _value(request, n, drawn, language), language) for n in shown),
    )


def _line(name: str, label: str, value: str, language: str, *, required: bool = False) -> FormField:
    return FormField(
        name=name,
        label=word(language, label),
        value=value,
        long=name in _LONG,
        required=required,
    )


def _field(name: str) -> str:
    return "width" if name == "size" else name


def _value(request: AnyRequest, name: str, drawn: tuple[int, int] | None, language: str) -> str:
    """Return an option as people type it, "" where the model's own is in force."""
    if name == "size":
        sides: Sides = drawn or (getattr(request, "width", None), getattr(request, "height", None))
        return f"{sides[0]}x{sides[1]}" if all(sides) else ""
    value = getattr(request, name)
    if value is None:
        return ""
    return decimal(language, value) if isinstance(value, float) else str(value)
