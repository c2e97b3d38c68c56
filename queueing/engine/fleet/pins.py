"""Which models an admin keeps in memory, and where."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

Place = tuple[str, str]
"""A model and a backend."""


class Pins:
    """Keeps the places that are pinned; `moved` is called with the backend of each change."""

    def __init__(self, copies: Mapping[Place, object], moved: Callable[[str], None]) -> None:
        self._pinned: set[Place] = set()
        self._dropped: set[Place] = set()  # those whose server has unloaded the model
        self._copies = copies
        self._moved = moved

    def __contains__(self, place: object) -> bool:
        """Return whether a model is pinned to a backend."""
        return place in self._pinned

    def __iter__(self) -> Iterator[Place]:
        """Yield what is pinned."""
        return iter(self._pinned)

    def retain(self, places: AbstractSet[Place]) -> None:
        """Forget all others."""
        self._pinned &= places

    def dropped(self, place: Place) -> None:
        """Note that a server has unloaded a model by itself: it returns with the next job."""
        self._dropped.add(place)

    def came(self, place: Place) -> None:
        """Note that a model is there, or on its way."""
        self._dropped.discard(place)

    def add(self, model: str, backend: str) -> None:
        """Keep a model loaded there, and load it if it is not."""
        self._pinned.add((model, backend))
        self._dropped.discard((model, backend))
        self._moved(backend)

    def discard(self, model: str, backend: str) -> None:
        """Allow a model to be evicted again when its memory is needed. Idempotent."""
        self._pinned.discard((model, backend))
        self._moved(backend)

    def unmet(self) -> list[tuple[str, str]]:
        """Return the pins (model, backend) without a copy, in order."""
        return sorted(self._pinned - self._copies.keys()) if self._pinned else []

    def wanted(self) -> list[tuple[str, str]]:
        """Return those of them whose model is to be loaded without a job: no server dropped it."""
        return [pin for pin in self.unmet() if pin not in self._dropped]
