"""The buttons under a job's message and the facts about its result, for each kind of request.

Pure.

Every button carries its job's id and nothing else, so it works on every old message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.core.content import Body, Button
from bot.core.origin import Origin
from bot.texts.catalogue import join, say, word
from queueing.core.catalog import Catalog
from queueing.core.jobs import Job
from queueing.core.requests import (
    AnyRequest,
    Capability,
    Chat,
    Embed,
    Generation,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

Rows = tuple[tuple[Button, ...], ...]

_NUMBERED = 4  # images with their own buttons: the width of a row on every platform


@dataclass(frozen=True, kw_only=True, slots=True)
class Abilities:
    """The actions a result offers.

    Only its own model varies an image; any model does the rest.
    """

    vary: bool = False
    upscale: bool = False
    video: bool = False
    edit: bool = False
    speak: bool = False
    copy: bool = False


def abilities_of(model: str, catalog: Catalog) -> Abilities:
    """Return what can be done now with the images or text that a model made."""
    spec = catalog.find(model)
    return Abilities(
        vary=spec is not None and Capability.IMAGE_TO_IMAGE in spec.capabilities,
        upscale=bool(catalog.able(Capability.UPSCALE)),
        video=bool(catalog.able(Capability.IMAGE_TO_VIDEO)),
        edit=bool(catalog.able(Capability.IMAGE_EDIT)),
        speak=bool(catalog.able(Capability.TEXT_TO_SPEECH)),
    )


def while_open(job: Job, language: str, *, writing: bool = False) -> Rows:
    """Return the button that ends a job. For an answer being written, the button stops it."""
    label = word(language, "button.stop" if writing else "button.cancel")
    return ((Button(command="cancel", job_id=job.id, label=label, danger=True),),)


def after_end(job: Job, language: str) -> Rows:
    """Return the buttons of a job without a result: it failed or was cancelled."""
    if isinstance(job.request, Embed):
        return ()
    retry = _button("again", job, language, "button.retry")
    edit = () if isinstance(job.request, SpeechToText) else (_edit(job, language),)
    return ((retry, *edit),)


def of_result(
    job: Job, language: str, abilities: Abilities, *, images: int, gallery: bool = False
) -> Rows:
    """Return the buttons of a result.

    If there are several images, each has its own buttons: a column of them, or in a `gallery` a row.
    """
    rows = _of_kind(job, language, abilities, images, gallery=gallery)
    if not (rows and abilities.copy):
        return rows
    return ((*rows[0], _button("copy", job, language)), *rows[1:])


def _of_kind(job: Job, language: str, abilities: Abilities, images: int, *, gallery: bool) -> Rows:
    match job.request:
        case Embed():
            return ()
        case Chat():
            speak = (_button("speak", job, language),) if abilities.speak else ()
            fresh = (_button("new-topic", job, language),) if _went_on(job.request, job) else ()
            return (_always(job, language, "button.regenerate"), *_filled((*speak, *fresh)))
        case SpeechToText():
            again = _button("again", job, language, "button.again")
            return ((again, _button("delete", job, language)),)
        case TextToImage(upscale=enlarged):
            first = _always(job, language, "button.again")
            if enlarged:
                first = (*_original(job.request, language), _button("delete", job, language))
                abilities = replace(abilities, vary=False, upscale=False)
            if gallery and images > 1:
                return (first, *_by_image(job, language, abilities, images))
            changed = _changes(job, language, abilities, images)
            return (first, *changed, *_onward(job, language, abilities, images))
        case _:
            return (_always(job, language, "button.again"),)


def _went_on(request: Chat, job: Job) -> bool:
    """Return whether an answer belongs to a conversation that continues without replies."""
    several = sum(turn.role == "user" for turn in request.messages) > 1
    return several and not Origin.model_validate_json(job.reply_to).group


def _changes(job: Job, language: str, abilities: Abilities, images: int) -> Rows:
    """Return the buttons that make another version: a row, or one button per image."""
    vary = ("vary", "vary-subtle") if abilities.vary else ()
    upscale = ("upscale",) if abilities.upscale else ()
    if images == 1:
        return _filled(tuple(_button(each, job, language) for each in (*vary, *upscale)))
    return _numbered_rows((*vary[:1], *upscale), job, language, images)


def _onward(job: Job, language: str, abilities: Abilities, images: int) -> Rows:
    """Return the buttons that make something new of images: a video or an edited image."""
    can = {"video": abilities.video, "edit-image": abilities.edit}
    commands = tuple(command for command, able in can.items() if able)
    if images > 1:
        return _numbered_rows(commands, job, language, images)
    return _filled(tuple(_button(each, job, language) for each in commands))


def _by_image(job: Job, language: str, abilities: Abilities, images: int) -> Rows:
    """Return a row of buttons for each image, the most wanted first."""
    can = {
        "vary": abilities.vary,
        "upscale": abilities.upscale,
        "video": abilities.video,
        "edit-image": abilities.edit,
        "vary-subtle": abilities.vary,
    }
    rows = (
        tuple(_worded(command, job, language, number) for command, able in can.items() if able)
        for number in range(1, images + 1)
    )
    return tuple(filter(None, rows))


def _numbered_rows(commands: Sequence[str], job: Job, language: str, images: int) -> Rows:
    numbers = range(1, min(images, _NUMBERED) + 1)
    return tuple(
        tuple(_numbered(command, job, language, number) for number in numbers)
        for command in commands
        if images
    )


def _filled(row: tuple[Button, ...]) -> Rows:
    return (row,) if row else ()


def _always(job: Job, language: str, again: str) -> tuple[Button, ...]:
    return (
        _button("again", job, language, again),
        _edit(job, language),
        _button("delete", job, language),
    )


def _original(request: TextToImage, language: str) -> tuple[Button, ...]:
    if request.source is None:
        return ()
    return (Button(command="show", job_id=request.source, label=word(language, "button.original")),)


def _edit(job: Job, language: str) -> Button:
    return _button("edit", job, language)


def _button(command: str, job: Job, language: str, key: str = "") -> Button:
    return Button(command=command, job_id=job.id, label=word(language, key or _LABELS[command]))


def _numbered(command: str, job: Job, language: str, number: int) -> Button:
    sign, _, words = word(language, _LABELS[command]).partition(" ")
    label, hint = f"{sign} {number}", f"{words} {number}"
    return Button(command=command, job_id=job.id, label=label, number=number, hint=hint)


def _worded(command: str, job: Job, language: str, number: int) -> Button:
    """Return an image's button with its full words, unlike those of the other images."""
    label = f"{word(language, _LABELS[command])} {number}"
    return Button(command=command, job_id=job.id, label=label, number=number)


_LABELS = {
    "edit": "button.edit",
    "vary": "button.vary",
    "vary-subtle": "button.vary_subtle",
    "upscale": "button.upscale",
    "delete": "button.delete",
    "copy": "button.copy",
    "new-topic": "button.new_topic",
    "video": "button.video",
    "edit-image": "button.edit_image",
    "speak": "button.speak",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """The dimensions of a result's first file: its pixels, and its seconds if it plays."""

    size: tuple[int, int] | None = None
    seconds: float = 0.0


UNKNOWN = Measures()

_AT_WORK: Mapping[type[AnyRequest], str] = {
    TextToImage: "status.drawing",
    TextToVideo: "status.animating",
    TextToAudio: "status.composing",
    TextToSpeech: "status.speaking",
    SpeechToText: "status.transcribing",
    Chat: "status.writing",
    Embed: "status.embedding",
}
_READY: Mapping[type[AnyRequest], str] = {
    TextToImage: "ping.image",
    TextToVideo: "ping.video",
    TextToAudio: "ping.sound",
    TextToSpeech: "ping.speech",
    SpeechToText: "ping.transcript",
    Chat: "ping.chat",
    Embed: "ping.chat",
}


def at_work(request: Request) -> str:
    """Return the key of the text shown while a model works on a request."""
    match request:
        case TextToImage(upscale=True):
            return "status.upscaling"
        case TextToImage(edit=True):
            return "status.editing"
    return _AT_WORK[type(request)]


def ready(request: Request) -> str:
    """Return the key of the ping after a long wait."""
    return _READY[type(request)]


def no_words(request: Request) -> str:
    """Return the key of the text for a request without words in a list."""
    return "history.no_words" if isinstance(request, SpeechToText) else "history.no_prompt"


def facts(job: Job, language: str, took: str, measures: Measures, *, seeded: bool) -> Body:
    """Return the line of facts under a result: origin, model, form, seed, time.

    `seeded` is whether the model takes a seed; one that had no effect is not shown.
    """
    request = job.request
    choices = _choices(request, language, seeded=seeded)
    parts = [job.model, *_form(request, language, measures), *choices, took]
    if isinstance(request, TextToImage) and request.upscale and measures.size:
        size = _pixels(measures.size)
        parts = [job.model, word(language, "fact.upscaled", size=size), took]
    return join((*_came_from(request, language), " · ".join(parts)))


def _came_from(request: Request, language: str) -> Body:
    source = getattr(request, "source", None)
    if source is None:
        return ()
    varied = isinstance(request, TextToImage) and not (request.upscale or request.edit)
    return say(language, "result.variation_of" if varied else "result.from", job=source)


def _form(request: Request, language: str, measures: Measures) -> Sequence[str]:
    """Return the length and size of a result, as far as they are known."""
    plays = length(measures.seconds)
    pixels = _pixels(measures.size) if measures.size else ""
    fps = request.fps if isinstance(request, TextToVideo) else None
    rate = word(language, "fact.fps", fps=fps) if fps else ""
    return [each for each in (plays, pixels, rate) if each]


def _choices(request: Request, language: str, *, seeded: bool) -> Sequence[str]:
    """Return the settings that reproduce the result."""
    match request:
        case Generation(seed=seed) if seeded:
            return [word(language, "fact.seed", seed=seed)]
        case TextToSpeech(voice=str(voice)):
            return [word(language, "fact.voice", voice=voice)]
        case _:
            return []


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"


def length(seconds: float) -> str:
    """Return a playing time as players show it, such as "1:05"; "" if unknown."""
    if seconds <= 0:
        return ""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    return f"{minutes}:{rest:02d}"
