"""Models: what can be asked for, and what a model's servers have."""

from typing import Protocol

from queueing.core.catalog import Offer


class ModelReader(Protocol):
    """Answers what can be asked for."""

    @property
    def offer(self) -> Offer:
        """What can be asked for now, from memory: a copy that is replaced when it changes."""

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs the first server of a model has that can be reached.

        Raises `UnknownModel`, and `Unavailable` when none can be.
        """

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now for the sake of a job of `beside`.

        It is in memory, or fits without evicting anything and without making anybody wait for its
        load longer than `within_s`. False for an unknown name.
        """
