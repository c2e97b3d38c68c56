"""How many bytes of files each person sent within the last hour, so that no one fills the disk.

In memory: a restart begins with an empty hour.
"""

from collections import defaultdict, deque

from bot.people.users import HOUR_S
from queueing.core.ports import Clock

_MB = 1024 * 1024


class Received:
    """Counts what people send; `most_mb` an hour each, None for no limit."""

    def __init__(self, most_mb: int | None, clock: Clock) -> None:
        self._most = None if most_mb is None else most_mb * _MB
        self._clock = clock
        self._sent: defaultdict[str, deque[tuple[float, int]]] = defaultdict(deque)

    def fits_at(self, user: str, size: int) -> float | None:
        """Return when that many more bytes of a person fit in, None for now.

        More than fit into an empty hour are accepted then: other limits are for single files.
        """
        if self._most is None or not size:
            return None
        left, free_at = sum(each for _, each in self._of(user)), None
        for at, each in self._of(user):
            if left + size <= self._most:
                break
            left, free_at = left - each, at + HOUR_S
        return free_at

    def note(self, user: str, size: int) -> None:
        """Count bytes that were stored."""
        if size and self._most is not None:
            self._of(user).append((self._clock.now(), size))

    def take_back(self, user: str, size: int) -> None:
        """Stop counting bytes: they were not stored after all."""
        sent = self._of(user)
        last = next((at for at, each in reversed(sent) if each == size), None)
        if last is not None:
            sent.remove((last, size))

    def _of(self, user: str) -> deque[tuple[float, int]]:
        sent = self._sent[user]
        while sent and sent[0][0] <= self._clock.now() - HOUR_S:
            sent.popleft()
        return sent
