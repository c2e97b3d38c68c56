"""The first ranges that people were shown for the ends of their jobs, and the figures of crowds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from benchmarks.truth.crowd import ROOMS

WANTED = (0.75, 0.92)  # the share of each lane's jobs that end within their first range
MANY = 100  # jobs of a lane in one crowd, from which on its share says something

_Groups = dict[str, list["Promise"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """The first range for a job and when it ended; moments in UNIX seconds.

    `read` is that range as it stands in a message, in whole minutes. `measured` says whether the
    model's times were known.
    """

    lane: str
    at: float
    earliest: float
    latest: float
    ended: float
    read: tuple[float, float] = (0.0, 0.0)
    measured: bool = True

    @property
    def kept(self) -> bool:
        """Whether the job ended within the range."""
        return self.earliest <= self.ended <= self.latest

    @property
    def kept_as_read(self) -> bool:
        """Whether it ended within the whole minutes that were shown."""
        return self.read[0] <= self.ended <= self.read[1]

    def __str__(self) -> str:
        """Return a line for people."""
        told = f"{self.earliest - self.at:.0f}-{self.latest - self.at:.0f} s"
        return f"{self.lane}: told {told}, took {self.ended - self.at:.0f} s"

    @property
    def width(self) -> float:
        """The width of the range as a share of the wait."""
        return (self.latest - self.earliest) / max(1.0, self.ended - self.at)


@dataclass(kw_only=True)
class Run:
    """What one crowd has seen: `reads` counts messages by room, `untrue` also by what and why."""

    seed: int
    counts: dict[str, int] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    reads: Counter[tuple[str, str]] = field(default_factory=Counter)
    untrue: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @property
    def faulty(self) -> bool:
        """Whether anything was wrong that could have been corrected."""
        wrong = ("contradictions", "past_moments", "untrue_reasons")
        return any(self.counts[each] for each in wrong)


def figures(runs: Sequence[Run]) -> dict[str, object]:
    """Return the figures of all crowds together."""
    promises = [promise for run in runs for promise in run.promises]
    lanes, measured = by_lane(promises), [each for each in promises if each.measured]
    reads = sum((run.reads for run in runs), Counter[tuple[str, str]]())
    untrue = sum((run.untrue for run in runs), Counter[tuple[str, str, str]]())
    return {
        "crowds": len(runs),
        **{name: sum(run.counts[name] for run in runs) for name in runs[0].counts},
        "faulty_seeds": [run.seed for run in runs if run.faulty],
        "jobs_by_lane": {lane: len(each) for lane, each in lanes.items()},
        "coverage_by_lane": _each(lanes, lambda own: fmean(each.kept for each in own)),
        "coverage_as_read": _each(lanes, lambda own: fmean(each.kept_as_read for each in own)),
        "ended_before_by_lane": _each(lanes, lambda own: fmean(p.ended < p.earliest for p in own)),
        "lanes_outside": [line for run in runs for line in _outside(run)],
        "width_over_wait_p50": round(median(each.width for each in measured), 3) if measured else 0,
        "width_by_lane": _each(by_lane(measured), lambda own: median(each.width for each in own)),
        "place_true_share": _true_share(reads, untrue, "place"),
        "moment_true_share": _true_share(reads, untrue, "moment"),
        "untrue_share_by_cause": {
            f"{room} {what} {why}": round(number / reads[what, room], 4)
            for (what, room, why), number in untrue.most_common()
        },
    }


def by_lane(promises: Iterable[Promise]) -> _Groups:
    """Return the promises of each lane."""
    found: defaultdict[str, list[Promise]] = defaultdict(list)
    for promise in promises:
        found[promise.lane].append(promise)
    return dict(sorted(found.items()))


def _each(lanes: _Groups, share: Callable[[list[Promise]], float]) -> dict[str, float]:
    return {lane: round(share(own), 3) for lane, own in lanes.items()}


def _outside(run: Run) -> Iterable[str]:
    """Yield each lane of a crowd with enough jobs whose share is not the one wanted."""
    for lane, own in by_lane(run.promises).items():
        share = fmean(each.kept for each in own)
        if len(own) >= MANY and not WANTED[0] <= share <= WANTED[1]:
            yield f"{run.seed}/{lane}: {share:.3f} of {len(own)}"


def _true_share(
    reads: Counter[tuple[str, str]], untrue: Counter[tuple[str, str, str]], what: str
) -> dict[str, float | None]:
    """Return the share of the reads of each kind of room in which a place or moment was true.

    It is None where no message stood while its job waited.
    """
    wrong = Counter[str]()
    for (kind, room, _), number in untrue.items():
        wrong[room] += number if kind == what else 0
    return {
        room: round(1 - wrong[room] / reads[what, room], 4) if reads[what, room] else None
        for room in ("private", *ROOMS.values())
    }


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as `1-12,20`. Raises `ValueError`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds
