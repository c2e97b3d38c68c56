"""Deep lines: warns in the log when many jobs wait for a model, once for each time it happens."""

import logging
from collections.abc import Callable

from queueing.core.reasons import sentence
from queueing.core.snapshot import Plan, World

log = logging.getLogger(__name__)

CALM_SHARE = 0.5  # of the bound; below it, the next warning may come


class DeepLines:
    """Looks at the lines that something has happened in; 0 as `bound` warns of none."""

    def __init__(self, bound: Callable[[], int]) -> None:
        self._bound = bound
        self._touched: set[str] | None = None  # None until the first look, which is at all
        self._deep: set[str] = set()

    def touch(self, model: str) -> None:
        """Note that something has happened in the line of a model."""
        if self._touched is not None:
            self._touched.add(model)

    def look(self, world: World, plan: Plan) -> None:
        """Warn of lines that have become deep."""
        models = world.models.keys() if self._touched is None else self._touched
        bound = self._bound()
        for model in sorted(models):
            view = world.models.get(model)
            waiting = sum(lane.count for lane in view.waiting) if view else 0
            if model in self._deep:
                if waiting < bound * CALM_SHARE or not bound:
                    self._deep.discard(model)
            elif bound and waiting >= bound:
                self._deep.add(model)
                reason = plan.reasons.get(model)
                why = f": {sentence(reason, now=world.now)}" if reason is not None else ""
                log.warning("%d jobs wait for %s%s", waiting, model, why)
        self._touched = set()
