"""What a replay comes to: the figures by which schedulers are compared, printed as a table."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.trace import JobOutcome, Outcome, Trace, TraceJob
from benchmarks.trace_file import read


def summary(trace: Trace, outcome: Outcome) -> dict[str, float]:
    """Return the figures by which schedulers are compared."""
    done = [job for job in outcome.jobs if job.finished_s is not None]
    jobs = trace.jobs
    waits = [job.started_s - jobs[job.index].at for job in done if job.started_s is not None]
    ends = [job.finished_s - jobs[job.index].at for job in done if job.finished_s is not None]
    completed = [job for job in done if job.state == "completed"]
    kept = [is_kept(jobs[job.index], job) for job in completed]
    by_lane: defaultdict[str, list[bool]] = defaultdict(list)
    for job, right in zip(completed, kept, strict=True):
        by_lane[jobs[job.index].lane].append(right)
    return {
        "mean_wait_s": sum(waits) / max(1, len(waits)),
        "mean_end_s": sum(ends) / max(1, len(ends)),
        "worst_wait_s": max(waits, default=0.0),
        "makespan_s": max((job.finished_s or 0.0 for job in done), default=0.0),
        "loads": float(len(outcome.loads)),
        "estimates_kept": sum(kept) / max(1, len(kept)),
        **{f"kept_{lane}": sum(each) / len(each) for lane, each in sorted(by_lane.items())},
        "decision_us_mean": outcome.decision_us_mean,
        "forecast_ms_per_job": outcome.forecast_ms_per_job,
    }


def is_kept(asked: TraceJob, job: JobOutcome) -> bool:
    """Return whether the promise was right within 20 % of the wait for the result, or 5 s."""
    if job.estimate_s is None or job.finished_s is None:
        return False
    return abs(job.estimate_s - job.finished_s) <= max(5.0, 0.2 * (job.finished_s - asked.at))


FIGURES = [
    "mean_wait_s",
    "worst_wait_s",
    "makespan_s",
    "loads",
    "estimates_kept",
    "decision_us_mean",
    "forecast_ms_per_job",
    "processor_s",
]


def print_summaries(
    paths: Sequence[Path], rules: Iterable[str], replay: Callable[[Trace, str], Outcome]
) -> None:
    """Print the figures of every trace under all rules, then their geometric means."""
    print(
        f"{'trace':<20}{'rules':<11}{'mean':>8}{'worst':>8}{'span':>8}{'loads':>7}{'kept':>6}{'us':>6}"
        f"{'fc ms':>7}{'cpu s':>8}"
    )
    totals: dict[str, list[dict[str, float]]] = {name: [] for name in rules}
    for path in paths:
        trace = read(path)
        for name, rows in totals.items():
            began = time.process_time()
            outcome = replay(trace, name)
            spent = {"processor_s": time.process_time() - began}
            rows.append(summary(trace, outcome) | spent)
            _print_row(path.stem, name, rows[-1])
    for name, rows in totals.items():
        means = {key: geometric_mean(max(row[key], 1e-3) for row in rows) for key in FIGURES}
        _print_row("geometric mean", name, means)


def _print_row(name: str, rules: str, row: dict[str, float]) -> None:
    mean, worst, span, loads, kept, decision_us, forecast_ms, cpu_s = (row[key] for key in FIGURES)
    print(
        f"{name:<20}{rules:<11}{mean:8.1f}{worst:8.0f}{span:8.0f}{loads:7.0f}{kept:6.2f}"
        f"{decision_us:6.0f}{forecast_ms:7.2f}{cpu_s:8.1f}",
        flush=True,
    )
