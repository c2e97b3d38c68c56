"""Which model a request goes to when it names none; pure."""

from dataclasses import dataclass

from bot.people.users import Person
from bot.requests.refusals import Declined, NoModel
from bot.requests.styles import Style
from queueing.core.catalog import Catalog
from queueing.core.jobs import Job
from queueing.core.requests import Capability

_PICTURES = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """The usual model for each capability, by name; None takes the first able one."""

    image: str | None = None
    ask: str | None = None


def usual_model(
    catalog: Catalog, defaults: Defaults, person: Person, capability: Capability
) -> str:
    """Return the person's own usual model, the general one, or the first that is able.

    Raises `Declined` when none is.
    """
    able = catalog.able(capability)
    if not able:
        raise Declined(NoModel(capability=capability))
    is_picture = capability in _PICTURES
    own = person.image_model if is_picture else person.ask_model
    usual = defaults.image if is_picture else defaults.ask
    return next((str(name) for name in (own, usual) if name in able), able[0])


def model_of_style(catalog: Catalog, style: Style, capability: Capability) -> str | None:
    """Return the style's own model, if it has the capability."""
    spec = catalog.find(style.model) if style.model else None
    return spec.name if spec is not None and capability in spec.capabilities else None


def model_of_conversation(
    catalog: Catalog, person: Person, earlier: Job | None, able: Capability, *, replies: bool
) -> str | None:
    """Return the model that continues a conversation, None if another is to be chosen.

    Without a reply to the earlier answer, a usual model chosen since then comes first.
    """
    if earlier is None or (spec := catalog.find(earlier.model)) is None:
        return None
    chosen_since = earlier.queued_at <= (person.ask_model_at or 0.0)
    goes_on = spec.name in catalog.able(able) and (replies or not chosen_since)
    return spec.name if goes_on else None
