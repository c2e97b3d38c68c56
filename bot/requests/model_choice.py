"""Chooses the model of a request that names none. Pure."""

from collections.abc import Mapping, Sequence

from bot.core.live_settings import Defaults
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.people import Person
from bot.requests.options import Style
from queueing.core.catalog import Catalog
from queueing.core.jobs import Job
from queueing.core.requests import Capability

_USUAL_FOR: Mapping[Capability, tuple[str, ...]] = {
    Capability.TEXT_TO_IMAGE: ("image",),
    Capability.IMAGE_TO_IMAGE: ("image",),
    Capability.IMAGE_EDIT: ("edit", "image"),
    Capability.TEXT_TO_VIDEO: ("video",),
    Capability.IMAGE_TO_VIDEO: ("video",),
    Capability.TEXT_TO_AUDIO: ("music",),
    Capability.TEXT_TO_SPEECH: ("speak",),
    Capability.SPEECH_TO_TEXT: ("transcribe",),
    Capability.TEXT_TO_TEXT: ("ask",),
    Capability.VISION: ("ask",),
}
"""The commands whose default models come first.

Other capabilities use the first suitable model.
"""
_NONE_ABLE: Mapping[Capability, RefusalKind] = {
    Capability.VISION: RefusalKind.NONE_SEES,
    Capability.IMAGE_EDIT: RefusalKind.NONE_EDITS,
    Capability.TEXT_TO_VIDEO: RefusalKind.NONE_MAKES_VIDEOS,
    Capability.IMAGE_TO_VIDEO: RefusalKind.NONE_MAKES_VIDEOS_OF_IMAGES,
    Capability.TEXT_TO_AUDIO: RefusalKind.NONE_MAKES_MUSIC,
    Capability.TEXT_TO_SPEECH: RefusalKind.NONE_SPEAKS,
    Capability.SPEECH_TO_TEXT: RefusalKind.NONE_HEARS,
}


def usual_model(
    catalog: Catalog, defaults: Sequence[Defaults], person: Person, capability: Capability
) -> str:
    """Return the person's default model, that of the first `defaults`, or the first suitable one.

    Raises `Declined` if no model is able.
    """
    able = catalog.able(capability)
    if not able:
        raise Declined(Refusal(_NONE_ABLE.get(capability, RefusalKind.NO_MODEL)))
    usual = [
        name
        for command in _USUAL_FOR.get(capability, ())
        for name in (
            getattr(person, f"{command}_model"),
            *(getattr(each, command) for each in defaults),
        )
    ]
    specs = (catalog.find(name) for name in usual if name)
    return next((spec.name for spec in specs if spec is not None and spec.name in able), able[0])


def model_of_style(catalog: Catalog, style: Style, capability: Capability) -> str | None:
    """Return the style's own model, if it has the capability."""
    spec = catalog.find(style.model) if style.model else None
    return spec.name if spec is not None and capability in spec.capabilities else None


def model_of_conversation(
    catalog: Catalog, person: Person, earlier: Job | None, able: Capability, *, replies: bool
) -> str | None:
    """Return the model that continues a conversation; None if another is to be chosen.

    Without a reply to the earlier answer, a default model chosen since then comes first.
    """
    if earlier is None or (spec := catalog.find(earlier.model)) is None:
        return None
    chosen_since = earlier.queued_at <= (person.ask_model_at or 0.0)
    goes_on = spec.name in catalog.able(able) and (replies or not chosen_since)
    return spec.name if goes_on else None
