"""The buttons under a job's message at each point of its life; pure.

Every button carries its job's id and nothing else, so it works on every old message.
"""

from dataclasses import dataclass

from bot.chat.api.content import Button
from bot.chat.api.origin import Origin
from bot.chat.texts import word
from queueing.core.catalog import Catalog
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, Embed, TextToImage

Rows = tuple[tuple[Button, ...], ...]

_NUMBERED = 4  # pictures with buttons of their own: the capacity of a row on every platform


@dataclass(frozen=True, kw_only=True, slots=True)
class Abilities:
    """What can be done with a result: a picture is varied by its own model, all else by any."""

    vary: bool = False
    upscale: bool = False
    film: bool = False
    edit: bool = False
    speak: bool = False


def abilities_of(job: Job, catalog: Catalog) -> Abilities:
    """Return what can be done with the pictures or words of a job now."""
    spec = catalog.find(job.model)
    return Abilities(
        vary=spec is not None and Capability.IMAGE_TO_IMAGE in spec.capabilities,
        upscale=bool(catalog.able(Capability.UPSCALE)),
        film=bool(catalog.able(Capability.IMAGE_TO_VIDEO)),
        edit=bool(catalog.able(Capability.IMAGE_EDIT)),
        speak=bool(catalog.able(Capability.TEXT_TO_SPEECH)),
    )


def while_open(job: Job, language: str, *, writing: bool = False) -> Rows:
    """Return the button that ends a job; an answer that is being written is stopped by it."""
    label = word(language, "button.stop" if writing else "button.cancel")
    return ((Button(command="cancel", job_id=job.id, label=label, danger=True),),)


def after_end(job: Job, language: str) -> Rows:
    """Return the buttons of a job without a result: it failed or was cancelled."""
    if isinstance(job.request, Embed):
        return ()
    return ((_button("again", job, language, "button.retry"), _edit(job, language)),)


def of_result(job: Job, language: str, abilities: Abilities, *, pictures: int) -> Rows:
    """Return the buttons of a result; each of several pictures has its own to vary and enlarge."""
    if isinstance(job.request, Chat):
        rows = (_always(job, language, "button.regenerate"),)
        return (
            (*rows, (_button("new-topic", job, language),)) if _went_on(job.request, job) else rows
        )
    if isinstance(job.request, Embed):
        return ()
    if not isinstance(job.request, TextToImage):
        return (
            (_button("again", job, language, "button.again"), _button("delete", job, language)),
        )
    if job.request.upscale:
        return ((*_original(job.request, language), _button("delete", job, language)),)
    rows = (_always(job, language, "button.again"),)
    numbers = range(1, min(pictures, _NUMBERED) + 1)
    if pictures == 1:
        return (*rows, *_filled(_of_one(job, language, abilities)))
    vary = tuple(_numbered("vary", job, language, number) for number in numbers)
    upscale = tuple(_numbered("upscale", job, language, number) for number in numbers)
    return (
        *rows,
        *(_filled(vary) if abilities.vary else ()),
        *(_filled(upscale) if abilities.upscale else ()),
    )


def _went_on(request: Chat, job: Job) -> bool:
    """Return whether an answer belongs to a conversation that continues without replies."""
    several = sum(turn.role == "user" for turn in request.messages) > 1
    return several and not Origin.model_validate_json(job.reply_to).group


def _of_one(job: Job, language: str, abilities: Abilities) -> tuple[Button, ...]:
    vary = ("vary", "vary-subtle") if abilities.vary else ()
    upscale = ("upscale",) if abilities.upscale else ()
    return tuple(_button(command, job, language) for command in (*vary, *upscale))


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


_LABELS = {
    "edit": "button.edit",
    "vary": "button.vary",
    "vary-subtle": "button.vary_subtle",
    "upscale": "button.upscale",
    "delete": "button.delete",
    "new-topic": "button.new_topic",
}
