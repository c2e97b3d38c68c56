"""Checks a run of a trace against everything promised, from the trace and the output alone.

`python benchmarks/check_run.py --trace TRACE --run OUTPUT [--kept 0.8]` prints the figures and every
broken promise, and ends with status 1 where there is one. It knows nothing of how the run was
made, so it judges any scheduler that writes this format.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.check_timeline import Timeline
from benchmarks.summary import summary
from benchmarks.trace import JobOutcome, Outcome, Trace
from benchmarks.trace_file import read, told

TOLERANCE_S = 1e-6
ROUNDING = 1e-9


@dataclass
class Verdict:
    """The figures of a run and the promises it broke."""

    figures: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


def check(trace: Trace, run: Outcome) -> Verdict:
    """Return the figures of a run and every promise it broke."""
    verdict = Verdict()
    verdict.broken += _each_job(trace, run)
    verdict.broken += _fifo(trace, run)
    verdict.broken += _loads(trace, run)
    timeline = Timeline(trace, run)
    timeline.walk()
    verdict.broken += timeline.broken
    verdict.figures = figures(trace, run)
    verdict.figures |= {"held_s": timeline.held_s, "starved": float(len(timeline.starved))}
    if timeline.held_s > TOLERANCE_S:
        verdict.broken.append(f"runnable heads were held for {timeline.held_s:.3f} s")
    verdict.broken += timeline.starved
    return verdict


def figures(trace: Trace, run: Outcome) -> dict[str, float]:
    """Return waits, makespan over its lower bound, and the share of kept promises."""
    found = summary(trace, run)
    shortest_s = max(1e-9, shortest_makespan_s(trace, run))
    return found | {"makespan_over_bound": found["makespan_s"] / shortest_s}


def shortest_makespan_s(trace: Trace, run: Outcome) -> float:
    """Return a moment before which no scheduler could have finished the same jobs.

    The latest of: the last job's own end; the cards all jobs need over the cards there are; each
    model's work over its slots; the work of models of which no two fit on any card, over the cards;
    the work that only serial backends can do, over those.
    """
    models = {model.name: model for model in trace.models}
    work_s: defaultdict[str, float] = defaultdict(float)
    first_at: dict[str, float] = {}
    ends = [0.0]
    for job in run.jobs:
        asked = trace.jobs[job.index]
        if job.finished_s is not None and job.started_s is not None:
            took_s = job.finished_s - job.started_s  # less than asked for where it was cancelled
            ends.append(asked.at + took_s)
            work_s[job.model] += took_s
            first_at[job.model] = min(asked.at, first_at.get(job.model, asked.at))
    began_at = min(first_at.values(), default=0.0)
    for name, seconds in work_s.items():
        slots = len(models[name].backends) * models[name].parallel
        ends.append(first_at[name] + seconds / slots)
    cards_s = {name: seconds / models[name].parallel for name, seconds in work_s.items()}
    ends += [began_at + _packed_s(trace, cards_s, pieces) for pieces in (None, 1, 2, 3, 4)]
    ends.append(began_at + _one_a_card_s(trace, cards_s))
    serial = {b.name for host in trace.hosts for b in host.backends if b.serial}
    one_by_one = [name for name in work_s if set(models[name].backends) <= serial]
    servers = {backend for name in one_by_one for backend in models[name].backends}
    ends.append(began_at + sum(work_s[name] for name in one_by_one) / max(1, len(servers)))
    return max(ends)


def _packed_s(trace: Trace, cards_s: Mapping[str, float], pieces: int | None) -> float:
    """Return how long all cards are kept by copies that must be in memory for so many seconds.

    A copy counts as its share of a card, or as what that share is worth when shares are rounded
    down to so many pieces (a dual feasible function of bin packing): two models of 60 % each take
    two cards although they are only 1.2 of them.
    """
    models = {model.name: model for model in trace.models}
    budget_mb = {host.name: host.vram_mb * host.margin for host in trace.hosts}
    taken = 0.0
    for name, seconds in cards_s.items():
        places = [trace.shares(models[name], backend) for backend in models[name].backends]
        taken += seconds * min(
            sum(_worth(mb / budget_mb[host], pieces) for host, mb in place.items())
            for place in places
        )
    return taken / len(trace.hosts)


def _one_a_card_s(trace: Trace, cards_s: Mapping[str, float]) -> float:
    """Return how long all cards are kept by models of which each card holds at most one at a time.

    Tried with each model as the largest of them: then those after it that fit beside none so far.
    """
    largest_mb = max(host.vram_mb * host.margin for host in trace.hosts)
    sizes_mb = {
        model.name: min(mb for name in model.backends for mb in trace.shares(model, name).values())
        for model in trace.models
    }
    names = sorted(cards_s, key=lambda name: -sizes_mb[name])
    longest_s = 0.0
    for first in range(len(names)):
        alone: list[str] = []
        for name in names[first:]:
            if all(sizes_mb[name] + sizes_mb[other] > largest_mb for other in alone):
                alone.append(name)
        longest_s = max(longest_s, sum(cards_s[name] for name in alone))
    return longest_s / len(trace.hosts)


def _worth(share: float, pieces: int | None) -> float:
    if pieces is None or abs((pieces + 1) * share - round((pieces + 1) * share)) < ROUNDING:
        return share
    return floor((pieces + 1) * share) / pieces


# ---------------------------------------------------------------- one thing at a time


def _each_job(trace: Trace, run: Outcome) -> Iterator[str]:
    if [job.index for job in run.jobs] != list(range(len(trace.jobs))):
        yield "the jobs are not those of the trace, in its order"
        return
    for asked, job in zip(trace.jobs, run.jobs, strict=True):
        name = f"job {job.index} of {job.model}"
        if job.started_s is None or job.ready_s is None or job.finished_s is None:
            if job.state != "cancelled" or asked.cancel_at is None:
                yield f"{name} never ran and was not cancelled"
            continue
        if asked.cancel_at is not None and job.started_s > asked.cancel_at:
            yield f"{name} started after it was cancelled"
        ends_s = job.started_s + asked.service_s
        cancelled = asked.cancel_at is not None and asked.cancel_at < ends_s - TOLERANCE_S
        if job.state != ("cancelled" if cancelled else "completed"):
            yield f"{name} ran but is {job.state}"
        if not asked.at <= job.ready_s <= job.started_s:
            yield f"{name}: asked, ready and started are out of order"
        over_s = asked.cancel_at if cancelled and asked.cancel_at is not None else ends_s
        if abs(job.finished_s - over_s) > TOLERANCE_S:
            yield f"{name} did not take its time"


def _fifo(trace: Trace, run: Outcome) -> Iterator[str]:
    """Compare neighbours of each line: model and lane."""
    newest: dict[tuple[str, str], JobOutcome] = {}
    for index, asked in sorted(enumerate(trace.jobs), key=lambda item: (item[1].at, item[0])):
        job = run.jobs[index]
        if job.started_s is None:
            continue
        before = newest.get((asked.model, asked.lane))
        if before is not None and (before.started_s or 0.0) > job.started_s:
            yield f"job {index} of {asked.model} started before job {before.index}"
        else:
            newest[asked.model, asked.lane] = job


def _loads(trace: Trace, run: Outcome) -> Iterator[str]:
    models = {model.name: model for model in trace.models}
    for load in run.loads:
        if abs(load.finished_s - load.started_s - models[load.model].load_s) > TOLERANCE_S:
            yield f"a load of {load.model} at {load.started_s} did not take its time"
        if load.backend not in models[load.model].backends:
            yield f"{load.model} was loaded on {load.backend}, which cannot serve it"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--kept", type=float, default=0.0, help="least share of kept estimates")
    options = parser.parse_args(arguments)
    trace = read(options.trace)
    run = Outcome.model_validate_json(options.run.read_text(encoding="utf-8"))
    verdict = check(trace, run)
    if verdict.figures["estimates_kept"] < options.kept:
        verdict.broken.append(f"only {verdict.figures['estimates_kept']:.0%} of estimates kept")
    for name, value in verdict.figures.items():
        print(f"{name:<22}{value:12.3f}")
    for line in verdict.broken:
        print("BROKEN", line)
    return 1 if verdict.broken else 0


if __name__ == "__main__":
    sys.exit(told(main))
