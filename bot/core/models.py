"""Models: what can be requested, and what a model's servers have."""

from typing import Protocol

from queueing.core.catalog import Offer


class ModelReader(Protocol):
    """Answers what can be requested, and what the servers of a model have."""

    @property
    def offer(self) -> Offer:
        """What can be requested now, from memory: a copy that is replaced when it changes."""

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs of a model's first server that can be reached.

        Raises `UnknownModel`, and `BackendError` when none can be.
        """

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now on behalf of a job of `beside`.

        It can if it is in memory, or fits without evicting anything and without delaying another
        load by more than `within_s`. False for an unknown name.
        """
