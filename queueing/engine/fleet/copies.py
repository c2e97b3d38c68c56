"""Which models an admin keeps in memory, and which copies may leave it now; unloads nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from queueing.core.ports import Backend
from queueing.core.snapshot import Copy, Residency

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


class Departures:
    """Answers about the copies there are; `draining` are those that leave once they run nothing.

    One of these that is still being loaded leaves once it is.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        copies: Callable[[], Sequence[Copy]],
        copies_on: Callable[[str], Sequence[Copy]],
    ) -> None:
        self.draining: set[tuple[str, str]] = set()
        self._backends = backends
        self._copies = copies
        self._copies_on = copies_on

    def idle(self, host: str, *, pinned: bool = False) -> tuple[Copy, ...]:
        """Return the ready copies of a host that run nothing and may be unloaded.

        Copies that an admin keeps loaded are included only with `pinned`.
        """
        return tuple(
            copy
            for copy in self._copies_on(host)
            if copy.residency is Residency.READY
            and self.may_leave(copy)
            and (pinned or not any(other.pinned for other in self.leaving_with(copy)))
            and self._backends[copy.backend].can_unload
        )

    def leaving_with(self, copy: Copy) -> tuple[Copy, ...]:
        """Return the copies one unload frees: this one, or all of a server that frees everything."""
        if not self._backends[copy.backend].unloads_together:
            return (copy,)
        return tuple(
            other
            for other in self._copies()
            if other.backend == copy.backend
            and (other.model == copy.model or other.residency is not Residency.LOADING)
            and (other.vram_mb or other.model == copy.model)
        )

    def may_leave(self, copy: Copy) -> bool:
        """Return whether unloading this copy would disturb neither a job nor a load."""
        if not self._backends[copy.backend].unloads_together:
            return not copy.running
        return not any(
            other.running or (other.residency is Residency.LOADING and other.model != copy.model)
            for other in self._copies()
            if other.backend == copy.backend
        )

    def take_drained(self) -> tuple[Copy, ...]:
        """Return the drained copies that can be unloaded now, each once."""
        drained = tuple(
            copy
            for copy in self._copies()
            if (copy.model, copy.backend) in self.draining
            and copy.residency is not Residency.LOADING
            and self.may_leave(copy)
        )
        self.draining -= {(copy.model, copy.backend) for copy in drained}
        return drained
