"""Replays a trace through the real scheduler, loader, job runner and SQLite store in virtual time.

`python -m benchmarks.schedule --trace FILE --out FILE [--rules NAME]` writes what happened: the same
trace gives the same file, except for `decision_us_mean` and `forecast_ms_per_job`. `without-R4`,
`without-R5` and `without-double` (second copies on one host) switch one rule off, `plain` R4 and R5;
`serial` runs one job at a time. `--summary` prints the figures of several traces instead, by default
of all shipped ones, under `serial`, `plain` and `full` or the named rules, with the processor time of
each replay. `benchmarks/schedule/trace.py` describes both formats. A shipped trace is named as if it
were a file, such as `benchmarks/traces/bursty.json`; `benchmarks/traces/make.py` makes it.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.schedule.replay import RULES, replay
from benchmarks.schedule.trace import BadTrace, JobOutcome, Outcome, Trace, TraceJob, read
from benchmarks.traces.kinds import SHIPPED
from benchmarks.traces.make import named, shipped

COMPARED = ("serial", "plain", "full")
WRONG = 2  # the exit status
COLUMNS = {  # of the table: title, width, digits
    "mean_wait_s": ("mean", 8, 1),
    "worst_wait_s": ("worst", 8, 0),
    "makespan_s": ("span", 8, 0),
    "loads": ("loads", 7, 0),
    "estimates_kept": ("kept", 6, 2),
    "covered": ("cover", 6, 2),
    "width_over_wait": ("width", 6, 2),
    "decision_us_mean": ("us", 6, 0),
    "forecast_ms_per_job": ("fc ms", 7, 2),
    "processor_s": ("cpu s", 8, 1),
}


def summary(trace: Trace, outcome: Outcome) -> dict[str, float]:
    """Return the figures by which schedulers are compared."""
    done = [job for job in outcome.jobs if job.finished_s is not None]
    waits = [job.started_s - trace.jobs[job.index].at for job in done if job.started_s is not None]
    completed = [job for job in done if job.state == "completed"]
    kept = [is_kept(trace.jobs[job.index], job) for job in completed]
    covered = [is_covered(job) for job in completed]
    widths = [width_over_wait(trace.jobs[job.index], job) for job in completed if job.range_s]
    return {
        "mean_wait_s": sum(waits) / max(1, len(waits)),
        "worst_wait_s": max(waits, default=0.0),
        "makespan_s": max((job.finished_s or 0.0 for job in done), default=0.0),
        "loads": float(len(outcome.loads)),
        "estimates_kept": sum(kept) / max(1, len(kept)),
        "covered": sum(covered) / max(1, len(covered)),
        "width_over_wait": median(widths) if widths else 0.0,
        "decision_us_mean": outcome.decision_us_mean,
        "forecast_ms_per_job": outcome.forecast_ms_per_job,
    }


def is_kept(asked: TraceJob, job: JobOutcome) -> bool:
    """Return whether the estimate was right within 20 % of the wait for the result, or 5 s."""
    if job.estimate_s is None or job.finished_s is None:
        return False
    return abs(job.estimate_s - job.finished_s) <= max(5.0, 0.2 * (job.finished_s - asked.at))


def is_covered(job: JobOutcome) -> bool:
    """Return whether a job finished within the range told at its acceptance."""
    if job.range_s is None or job.finished_s is None:
        return False
    earliest_s, latest_s = job.range_s
    return earliest_s <= job.finished_s <= latest_s


def width_over_wait(asked: TraceJob, job: JobOutcome) -> float:
    """Return how wide that range was, as a multiple of the wait for the result."""
    earliest_s, latest_s = job.range_s or (0.0, 0.0)
    return (latest_s - earliest_s) / max(1.0, (job.finished_s or 0.0) - asked.at)


def _print_summaries(paths: Sequence[Path], rules: Sequence[str]) -> None:
    """Print the figures of every trace under all rules, then their geometric means."""
    print(f"{'trace':<20}{'rules':<11}", *(f"{t:>{w}}" for t, w, _ in COLUMNS.values()), sep="")
    totals: dict[str, list[dict[str, float]]] = {name: [] for name in rules}
    for path in paths:
        trace = _read(path)
        for name, rows in totals.items():
            began = time.process_time()
            outcome = replay(trace, name)
            spent = {"processor_s": time.process_time() - began}
            rows.append(summary(trace, outcome) | spent)
            _print_row(path.stem, name, rows[-1])
    for name, rows in totals.items():
        means = {key: geometric_mean(max(row[key], 1e-3) for row in rows) for key in COLUMNS}
        _print_row("geometric mean", name, means)


def _print_row(name: str, rules: str, row: dict[str, float]) -> None:
    cells = [f"{row[key]:{width}.{digits}f}" for key, (_, width, digits) in COLUMNS.items()]
    print(f"{name:<20}{rules:<11}", *cells, sep="", flush=True)


def _read(path: Path) -> Trace:
    return shipped(path.stem) if path.stem in SHIPPED and not path.exists() else read(path)


def _expanded(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths; a pattern such as `benchmarks/traces/*.json` stands for shipped traces."""
    for path in paths or [Path("*")]:
        yield from [path] if path.exists() else named(path) or [path]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.schedule", description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rules", choices=sorted(RULES))
    parser.add_argument("--summary", type=Path, nargs="*", metavar="TRACE")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    try:
        if options.summary is not None:
            rules = COMPARED if options.rules is None else (options.rules,)
            _print_summaries(list(_expanded(options.summary)), rules)
            return 0
        if options.trace is None or options.out is None:
            parser.error("--trace and --out are needed")
        trace = _read(options.trace)
    except BadTrace as error:
        print(error, file=sys.stderr)
        return WRONG
    if not options.out.parent.is_dir():
        parser.error(f"the folder {options.out.parent} does not exist")
    outcome = replay(trace, options.rules or "full")
    options.out.write_text(outcome.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
