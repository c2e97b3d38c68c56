"""Departures: which copies may leave their memory now, and which others leave with them.

Asks what is there and unloads nothing itself.
"""

from collections.abc import Callable, Mapping, Sequence

from queueing.core.ports import Backend
from queueing.core.snapshot import Copy, Residency


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
