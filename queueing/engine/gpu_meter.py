"""GPU meter: how much of its card each running job takes.

A card shared by several running jobs is split among them: while n run, each takes 1/n of a second a
second. Memory only; what a job took is stored with its end.
"""

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
    """A job on a card: what it took before `since_s`, its card's share when it went on."""

    card: _Card
    taken_s: float
    since_s: float | None = None  # None while it takes nothing

    def go_on(self, now: float) -> None:
        if self.since_s is None:
            self.since_s = self.card.advance(now)
            self.card.running += 1

    def rest(self, now: float) -> None:
        if self.since_s is not None:
            self.taken_s += self.card.advance(now) - self.since_s
            self.card.running -= 1
            self.since_s = None


class GpuMeter:
    """Keeps the jobs on each host's card."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cards: dict[str, _Card] = {}
        self._jobs: dict[int, _Metered] = {}

    def begin(self, job_id: int, host: str, *, taken_s: float = 0.0) -> None:
        """Note that an attempt begins on a host's card; an earlier one of the job is not counted.

        `taken_s` is what this very attempt took before.
        """
        self.forget(job_id)
        card = self._cards.setdefault(host, _Card(self._clock.now()))
        self._jobs[job_id] = metered = _Metered(card, taken_s)
        metered.go_on(self._clock.now())

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
        return metered.taken_s + metered.card.advance(self._clock.now()) - metered.since_s
