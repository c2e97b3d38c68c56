"""The form with a request's old values, for each kind of request. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bot.commands.call.jobs import shown_request
from bot.core.content import FormField
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


@dataclass(frozen=True, kw_only=True, slots=True)
class FormKind:
    """The form for one kind of request, and the command that makes such requests.

    `title` and `label` (of the text field) are text keys. `options` are at most four, because a
    form has five fields.
    """

    command: str
    title: str
    label: str
    options: tuple[str, ...] = ()


FORMS: Mapping[type[AnyRequest], FormKind] = {
    Chat: FormKind(command="ask", title="form.edit_question", label="form.question"),
    TextToImage: FormKind(
        command="image",
        title="form.edit_image",
        label="form.prompt",
        options=("negative", "size", "steps", "seed"),
    ),
    TextToVideo: FormKind(
        command="video",
        title="form.edit_video",
        label="form.video_scene",
        options=("seconds", "negative", "size", "seed"),
    ),
    TextToAudio: FormKind(
        command="music",
        title="form.edit_music",
        label="form.played",
        options=("lyrics", "seconds", "steps", "seed"),
    ),
    TextToSpeech: FormKind(
        command="speak",
        title="form.edit_speech",
        label="form.spoken",
        options=("voice", "speed"),
    ),
}


def fields(
    job: Job, language: str, takes: Collection[str] | None, drawn: tuple[int, int] | None
) -> tuple[FormField, ...]:
    """Return a field for the text and for each option the model takes, with the old values.

    `takes` are the request fields the model honours, None for all. `drawn` is the size of the image
    if the request named none.
    """
    request = shown_request(job)
    form = FORMS[type(request)]
    shown = [name for name in form.options if takes is None or _field(name) in takes]
    return (
        _line("prompt", form.label, request.words, language, required=True),
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
    """Return an option as people type it; "" if the model's default applies."""
    if name == "size":
        sides: Sides = drawn or (getattr(request, "width", None), getattr(request, "height", None))
        return f"{sides[0]}x{sides[1]}" if all(sides) else ""
    value = getattr(request, name)
    if value is None:
        return ""
    return decimal(language, value) if isinstance(value, float) else str(value)
