"""The answer to a request for a model with a long line: how long it takes, and what is free now."""

from collections.abc import Sequence

from bot.chat.api.content import Body
from bot.chat.texts import say
from queueing.core.catalog import Catalog
from queueing.core.standings import ModelStatus
from queueing.core.world import Residency

BUSY_AFTER_S = 600.0
_NAMED = 3


def busy_line(
    model: str,
    wait_s: float,
    models: Sequence[ModelStatus],
    catalog: Catalog,
    language: str,
) -> Body:
    """Return a line to put before the message of a new job that will wait that long.

    Empty if no other model is free: the message shows the expected end anyway.
    """
    free = _free_instead(model, models, catalog)
    if not free:
        return ()
    names = ", ".join(free[:_NAMED])
    return (
        *say(language, "status.busy", model=model, minutes=round(wait_s / 60), names=names),
        "\n",
    )


def _free_instead(model: str, models: Sequence[ModelStatus], catalog: Catalog) -> list[str]:
    """Return the models that stand idle in memory and can do everything this one can."""
    spec = catalog.find(model)
    if spec is None:
        return []
    return [
        other.name
        for other in models
        if other.name != spec.name
        and not (other.waiting or other.running or other.paused or other.reason)
        and any(copy.residency is Residency.READY for copy in other.copies)
        and catalog.models[other.name].capabilities >= spec.capabilities
    ]
