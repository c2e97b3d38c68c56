"""What it costs to give cards back: idle models that leave, and quiet hours, on traces in virtual time.

`python -m benchmarks.given_back idle TRACE...` replays each trace with models that never leave, with
copies that leave after a time, and with those that stay longer if they will be missed soon, and prints
loads, waits, how many left and how many of those were loaded again within the time of a load.

`python -m benchmarks.given_back quiet TRACE...` replays each with a third of its time as quiet hours, and
prints which promises were kept: those given in them (`strictly`: the quiet hours do not count as a part of
the wait), those that reach over them, and the others. It fails where a job begins in quiet hours, or
fewer than four of five promises are kept.

`python -m benchmarks.given_back game TRACE... [--seed N]` replays each while other programs take its cards
for a while, drawn by lot for each card, and prints the `stays`, how many were told no moment because all
their cards were taken (`untold`), and which promises were kept: those between which and the start of the
job another program came, or went from another card (`unforeseen`: no one could know), those given while
other cards were taken (`during`), those told as a card came back to people who had waited for it (`back`),
those given later (`after`), and the others. It fails where fewer than four of five are kept of any kind but
the first.

`python -m benchmarks.given_back sleep TRACE... [--after 60] [--seed N]` replays each on machines that are
put to sleep after so many seconds without work, and prints how often they were, and which promises were
kept: those for which a machine had to wake, the others, and those of machines that never sleep. It fails
where fewer than four of five of the first are kept.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from unittest.mock import patch

from benchmarks.given_back_games import compare_games
from benchmarks.given_back_sleep import compare_sleep
from benchmarks.given_back_world import GivenBack
from benchmarks.summary import summary
from benchmarks.trace import JobOutcome, Outcome, Trace
from benchmarks.trace_file import read, told
from queueing.core.quiet_hours import Quiet, QuietHours, WeeklyWindow
from queueing.planning import idle

AFTER_S = (60.0, 300.0, 1800.0)
EVERY_DAY = frozenset(range(7))
MINUTE_S = 60.0
ENOUGH = 0.8  # of the promises of all traces together
KINDS = ("in", "strictly", "across", "other")


# ---------------------------------------------------------------- idle models


def missed(run: GivenBack, outcome: Outcome) -> int:
    """Return how many copies were loaded again within the time of a load after they had left."""
    load_s = {model.name: model.load_s for model in run.trace.models}
    return sum(
        any(
            load.model == left.model and left.at <= load.started_s <= left.at + load_s[left.model]
            for load in outcome.loads
        )
        for left in run.left
    )


@contextmanager
def _without_staying() -> Iterator[None]:
    with patch.object(idle, "LONGEST", 1.0):
        yield


def compare_idle(traces: Iterable[Path]) -> None:
    """Print a row for each trace and time after which idle models leave."""
    print(f"{'trace':<20}{'after':>8}{'loads':>7}{'mean':>9}{'worst':>8}{'left':>6}{'missed':>8}")
    for path in traces:
        trace = read(path)
        _row(path.stem, "never", idle_run(trace, inf))
        for after_s in AFTER_S:
            _row("", f"{after_s:.0f} s", idle_run(trace, after_s))
            with _without_staying():
                _row("", "plain", idle_run(trace, after_s))


def idle_run(trace: Trace, after_s: float) -> GivenBack:
    """Return a replay in which copies leave after that time without a job."""
    return GivenBack(trace, lambda host: replace(host, idle_unload_s=after_s), promises=False)


def _row(name: str, after: str, run: GivenBack) -> None:
    outcome = run.played()
    row = summary(run.trace, outcome)
    print(
        f"{name:<20}{after:>8}{row['loads']:7.0f}{row['mean_wait_s']:9.1f}{row['worst_wait_s']:8.0f}"
        f"{len(run.left):6}{missed(run, outcome):8}",
        flush=True,
    )


# ---------------------------------------------------------------- quiet hours


def _hours(trace: Trace) -> QuietHours:
    """Return the second third of the time in which a trace's requests come, in whole minutes."""
    last_min = int(max(job.at for job in trace.jobs) / MINUTE_S)
    begins_min = max(1, last_min // 3)
    return QuietHours((WeeklyWindow(EVERY_DAY, begins_min, max(2, 2 * last_min // 3)),), "UTC")


def _kind(at: float, job: JobOutcome, begins_at: float, ends_at: float) -> str:
    if begins_at <= at < ends_at:
        return "in"
    crosses = at < begins_at and job.finished_s is not None and job.finished_s >= ends_at
    return "across" if crosses else "other"


def _kept(at: float, job: JobOutcome, quiet: Quiet | None = None) -> bool:
    """Whether a promise was right within 5 s or 20 % of the wait, or of the wait without quiet hours."""
    if job.estimate_s is None or job.finished_s is None:
        return False
    wait_s = job.finished_s - at
    if quiet is not None:
        wait_s -= max(0.0, min(job.finished_s, quiet.ends_at) - max(at, quiet.begins_at))
    return abs(job.estimate_s - job.finished_s) <= max(5.0, 0.2 * wait_s)


@dataclass(frozen=True, slots=True)
class QuietRun:
    """What a replay with quiet hours came to: promises by kind, and by how much jobs ran over."""

    found: dict[str, list[bool]]
    over_s: float
    begun: int  # jobs that began in the quiet hours


def _quiet_run(trace: Trace) -> QuietRun:
    hours = _hours(trace)
    outcome = GivenBack(trace, lambda host: replace(host, quiet=hours)).played()
    (quiet, *_) = hours.coming(0.0)
    run = QuietRun({kind: [] for kind in KINDS}, 0.0, 0)
    over_s, begun = 0.0, 0
    for job in outcome.jobs:
        if job.started_s is None or job.finished_s is None or job.state != "completed":
            continue
        at = trace.jobs[job.index].at
        kind = _kind(at, job, quiet.begins_at, quiet.ends_at)
        run.found[kind].append(_kept(at, job))
        if kind == "in":
            run.found["strictly"].append(_kept(at, job, quiet))
        begun += quiet.begins_at <= job.started_s < quiet.ends_at
        if job.started_s < quiet.begins_at:
            over_s = max(over_s, job.finished_s - quiet.begins_at)
    return replace(run, over_s=over_s, begun=begun)


def compare_quiet(traces: Iterable[Path]) -> bool:
    """Print how many promises were kept; return whether enough were, and no job began in the quiet."""
    print(f"{'trace':<20}{''.join(f'{kind:>12}' for kind in KINDS)}{'over by s':>11}{'begun':>7}")
    sums: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    begun = 0
    for path in traces:
        run = _quiet_run(read(path))
        for kind, each in run.found.items():
            sums[kind] += each
        begun += run.begun
        print(f"{path.stem:<20}{_cells(run.found)}{run.over_s:11.0f}{run.begun:7}", flush=True)
    print(f"{'all':<20}{_cells(sums)}")
    enough = (sum(sums[kind]) >= ENOUGH * len(sums[kind]) for kind in KINDS if kind != "strictly")
    return not begun and all(enough)


def _cells(found: dict[str, list[bool]]) -> str:
    return "".join(f"{sum(each):>6}/{len(each):<5}" for each in found.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["idle", "quiet", "game", "sleep"])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn by lot")
    parser.add_argument("--after", type=float, default=60.0, help="idle seconds before sleep")
    given = parser.parse_args(arguments)
    traces = ((path.stem, read(path)) for path in given.traces)
    if given.what == "game":
        return 0 if compare_games(traces, given.seed, ENOUGH) else 1
    if given.what == "sleep":
        return 0 if compare_sleep(traces, given.after, given.seed, ENOUGH) else 1
    if given.what == "quiet":
        return 0 if compare_quiet(given.traces) else 1
    compare_idle(given.traces)
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
