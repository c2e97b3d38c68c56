"""The page's live overview: which models are in use, and whether they are in memory. Pure."""

from collections.abc import Sequence
from typing import Literal

from bot.platforms.web.protocol import ModelLine
from queueing.core.snapshot import Residency
from queueing.core.status import ModelStatus


def overview(models: Sequence[ModelStatus]) -> tuple[ModelLine, ...]:
    """Return a line for each model that waits, runs or has a copy somewhere."""
    return tuple(
        ModelLine(
            model=model.name,
            waiting=model.waiting,
            running=model.running,
            memory=_memory_word(model),
        )
        for model in models
        if model.waiting or model.running or model.copies
    )


def _memory_word(model: ModelStatus) -> Literal["absent", "loading", "ready"]:
    places = {copy.residency for copy in model.copies}
    if Residency.READY in places:
        return "ready"
    return "loading" if Residency.LOADING in places else "absent"
