"""What a fair order brings: every kind of trace in fair order and by arrival, side by side.

`python -m benchmarks.fair [--seeds 10] [--first 1] [--families NAME...]` prints, for each kind of
traces, geometric means over so many of them: the mean and worst wait in fair order over those by
arrival; where flooders are, also the worst wait of everyone else; the longest that a job starts
later than by arrival; the processor time of a decision; and the shares of promises kept by arrival and
in fair order. Ends with status 1 where that worst wait
is not halved, where a job of such a trace waits longer than by arrival and the bound, or where the
mean wait is more than 2 % worse.
"""

import logging
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean as mean_of
from statistics import geometric_mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.families import asked
from benchmarks.schedule import RULES, replay
from benchmarks.summary import summary
from benchmarks.trace import Outcome, Trace
from benchmarks.traces.flooders import FLOODED, FLOODER
from benchmarks.traces.make import KINDS

ALLOWED, HALF = 1.02, 0.5
BOUND_S = RULES["fair"].overtaken_s
HEADINGS = ("n", "mean", "worst", "light", "by arr.", "fair", "later", "us", "k.arr.", "k.fair")

Figures = Mapping[str, float]


def figures(given: tuple[str, int]) -> Figures:
    """Return the figures of one trace, in fair order and by arrival."""
    kind, seed = given
    trace = KINDS[kind](random.Random(f"{kind}-{seed}"))
    fair, fifo = (replay(trace, rules) for rules in ("fair", "full"))
    after, before = summary(trace, fair), summary(trace, fifo)
    return {
        "mean": _over(after["mean_wait_s"], before["mean_wait_s"]),
        "worst": _over(after["worst_wait_s"], before["worst_wait_s"]),
        "light_fifo": _worst_light(trace, fifo),
        "light_fair": _worst_light(trace, fair),
        "later": max(after - before for after, before in _starts(fair, fifo)),
        "us": after["decision_us_mean"] / before["decision_us_mean"],
        "kept_fifo": before["estimates_kept"],
        "kept_fair": after["estimates_kept"],
    }


def _over(fair_s: float, fifo_s: float) -> float:
    return max(fair_s, 1.0) / max(fifo_s, 1.0)  # a wait below a second is no wait


def _worst_light(trace: Trace, outcome: Outcome) -> float:
    """Return the worst wait of those who do not flood."""
    return max(
        (
            job.started_s - trace.jobs[job.index].at
            for job in outcome.jobs
            if job.started_s is not None and not trace.jobs[job.index].user.startswith(FLOODER)
        ),
        default=0.0,
    )


def _starts(fair: Outcome, fifo: Outcome) -> list[tuple[float, float]]:
    pairs = zip(fair.jobs, fifo.jobs, strict=True)
    return [
        (one.started_s, other.started_s)
        for one, other in pairs
        if one.started_s is not None and other.started_s is not None
    ] or [(0.0, 0.0)]


def _print_row(kind: str, runs: Sequence[Figures]) -> bool:
    """Print the figures of one kind of traces; tell whether the order fails there."""
    mean = geometric_mean(run["mean"] for run in runs)
    light = geometric_mean(_over(run["light_fair"], run["light_fifo"]) for run in runs)
    later = max(run["later"] for run in runs)
    print(
        f"{kind:<20}{len(runs):>8}{mean:8.3f}{geometric_mean(run['worst'] for run in runs):8.3f}"
        f"{light:8.3f}{max(run['light_fifo'] for run in runs):8.0f}"
        f"{max(run['light_fair'] for run in runs):8.0f}{later:8.0f}"
        f"{geometric_mean(run['us'] for run in runs):8.2f}"
        f"{mean_of(run['kept_fifo'] for run in runs):8.2f}"
        f"{mean_of(run['kept_fair'] for run in runs):8.2f}",
        flush=True,
    )
    if mean > ALLOWED:
        return True
    return kind in FLOODED and (light > HALF or later > BOUND_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1 where the order does not keep what it promises."""
    given = asked(__doc__, KINDS, arguments, seeds=10)
    logging.basicConfig(level=logging.WARNING)
    print(f"{'fair over arrival':<20}" + "".join(f"{each:>8}" for each in HEADINGS))
    failed = [kind for kind, runs in given.by_kind(figures) if _print_row(kind, runs)]
    if failed:
        print(f"not as promised: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
