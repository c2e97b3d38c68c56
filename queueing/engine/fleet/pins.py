"""Pins: the models that admins keep in memory, and where."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

Place = tuple[str, str]
"""A model and a backend."""


class Pins:
    """Tracks pins. Calls `moved` with the backend of each change."""

    def __init__(self, copies: Mapping[Place, object], moved: Callable[[str], None]) -> None:
        self._pinned: set[Place] = set()
        self._dropped: set[Place] = set()  # pins whose server unloaded the model
        self._copies = copies
        self._moved = moved

    def __contains__(self, place: object) -> bool:
        """Return whether a model is pinned to a backend."""
        return place in self._pinned

    def __iter__(self) -> Iterator[Place]:
        """Yield all pins."""
        return iter(self._pinned)

    def retain(self, places: AbstractSet[Place]) -> None:
        """Remove all pins but these."""
        self._pinned &= places

    def dropped(self, place: Place) -> None:
        """Record that a server unloaded a model by itself. It returns with its next job."""
        self._dropped.add(place)

    def came(self, place: Place) -> None:
        """Record that a pinned model is loaded or being loaded."""
        self._dropped.discard(place)

    def add(self, model: str, backend: str) -> None:
        """Pin a model to a backend. The scheduler loads it if needed."""
        self._pinned.add((model, backend))
        self._dropped.discard((model, backend))
        self._moved(backend)

    def discard(self, model: str, backend: str) -> None:
        """Allow a model to be evicted again. Idempotent."""
        self._pinned.discard((model, backend))
        self._moved(backend)

    def unmet(self) -> list[tuple[str, str]]:
        """Return the pins without a copy as (model, backend), sorted."""
        return sorted(self._pinned - self._copies.keys()) if self._pinned else []

    def wanted(self) -> list[tuple[str, str]]:
        """Return the unmet pins to load without a job: those that no server has dropped."""
        return [pin for pin in self.unmet() if pin not in self._dropped]
