"""GPU meter: how much of its card each running job takes.

A card shared by several running jobs is split among them: while n run, each takes 1/n of a second a
second. Memory only; what a job took is stored with its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from queueing.core.ports import Clock


@dataclass(slots=True)
class _Card:
    """`share_s` is what a job that ran all the time would have taken by the moment `at`."""

    at: float
    share_s: float = 0.0
    running: int = 0

    def advance(self, now: float) -> float:
        if self.running and now > self.at:
            self.share_s += (now - self.at) / self.running
        self.at = now
        return self.share_s


@dataclass(slots=True)
class _Metered:
    """A job on its cards: what it took before `since_s`, its cards' share when it went on."""

    cards: tuple[_Card, ...]
    taken_s: float
    since_s: float | None = None  # None while it takes nothing

    def go_on(self, now: float) -> None:
        if self.since_s is None:
            self.since_s = self.share_s(now)
            for card in self.cards:
                card.running += 1

    def rest(self, now: float) -> None:
        if self.since_s is not None:
            self.taken_s += self.share_s(now) - self.since_s
            for card in self.cards:
                card.running -= 1
            self.since_s = None

    def share_s(self, now: float) -> float:
        return sum([card.advance(now) for card in self.cards])


class GpuMeter:
    """Keeps the jobs on each host's card; a model that spans several takes its share of each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cards: dict[str, _Card] = {}
        self._jobs: dict[int, _Metered] = {}

    def begin(self, job_id: int, hosts: Sequence[str], *, taken_s: float = 0.0) -> None:
        """Note that an attempt begins on hosts' cards; an earlier one of the job is not counted.

        `taken_s` is what this very attempt took before.
        """
        self.forget(job_id)
        now = self._clock.now()
        cards = [self._cards.setdefault(host, _Card(now)) for host in hosts]
        self._jobs[job_id] = metered = _Metered(tuple(cards), taken_s)
        metered.go_on(now)

    def go_on(self, job_id: int) -> None:
        """Note that a job that rested takes its share again. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.go_on(self._clock.now())

    def rest(self, job_id: int) -> None:
        """Note that a job takes nothing: it has ended there, or not begun yet. Idempotent."""
        if (metered := self._jobs.get(job_id)) is not None:
            metered.rest(self._clock.now())

    def forget(self, job_id: int) -> None:
        """Drop what a job took. Idempotent."""
        self.rest(job_id)
        self._jobs.pop(job_id, None)

    def taken_s(self, job_id: int) -> float:
        """Return the seconds of a card that a job's present attempt has taken so far."""
        metered = self._jobs.get(job_id)
        if metered is None:
            return 0.0
        if metered.since_s is None:
            return metered.taken_s
        return metered.taken_s + metered.share_s(self._clock.now()) - metered.since_s
