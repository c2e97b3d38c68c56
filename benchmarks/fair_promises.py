"""What promises in fair order could know: today's forecast beside one that is told who will come.

`python -m benchmarks.fair_promises [--seeds 1] [--first 1] [--families NAME...]` replays traces in fair
order and prints, for each kind, which share of the promises is kept: by arrival; in fair order by a
forecast that counts no one who has yet to come (`none`), by today's (`today`), and by one that is told
whose later requests will go first, and how long those will take (`told`). The order of the jobs is the
same in all but the first. `worse` is the share of jobs before which later requests of others went.
"""

import logging
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.families import asked
from benchmarks.schedule import replay
from benchmarks.summary import is_kept
from benchmarks.trace import JobOutcome, Outcome, Trace
from benchmarks.traces.make import KINDS
from queueing.core.jobs import Job
from queueing.engine.fair_lines import FairLines

COLUMNS = ("arrival", "none", "today", "told", "worse")


def _no_newcomers(_lines: FairLines, _job: Job) -> None:
    return None


def figures(given: tuple[str, int]) -> Mapping[str, float]:
    """Return the shares of one trace."""
    kind, seed = given
    trace = KINDS[kind](random.Random(f"{kind}-{seed}"))
    by_arrival, today = replay(trace, "full"), replay(trace, "fair")
    with patch.object(FairLines, "newcomers", _no_newcomers):
        none = replay(trace, "fair")
    passed_s = _passed_s(trace, none)
    told = none.model_copy(
        update={"jobs": tuple(_told(job, passed_s.get(job.index, 0.0)) for job in none.jobs)}
    )
    return {
        "arrival": _kept(trace, by_arrival),
        "none": _kept(trace, none),
        "today": _kept(trace, today),
        "told": _kept(trace, told),
        "worse": sum(seconds > 0 for seconds in passed_s.values()) / max(1, len(passed_s)),
    }


def _kept(trace: Trace, outcome: Outcome) -> float:
    done = [job for job in outcome.jobs if job.state == "completed"]
    return fmean(is_kept(trace.jobs[job.index], job) for job in done)


def _passed_s(trace: Trace, outcome: Outcome) -> Mapping[int, float]:
    """Return by how much later requests of its line, which went first, delayed each job.

    As many as run at once in its line delay it together.
    """
    ran = [job for job in outcome.jobs if job.started_s is not None]
    by_line: dict[tuple[str, str], list[JobOutcome]] = {}
    for job in ran:
        by_line.setdefault((job.model, trace.jobs[job.index].lane), []).append(job)
    slots = {model.name: model.parallel for model in trace.models}
    found = {}
    for (model, _), jobs in by_line.items():
        for job in jobs:
            at, began = trace.jobs[job.index].at, job.started_s or 0.0
            before = [
                (other.finished_s or 0.0) - (other.started_s or 0.0)
                for other in jobs
                if trace.jobs[other.index].at > at and (other.started_s or 0.0) < began
            ]
            copies = len({each.backend for each in jobs if (each.started_s or 0.0) < began}) or 1
            found[job.index] = sum(before) / (slots[model] * copies)
    return found


def _told(job: JobOutcome, seconds: float) -> JobOutcome:
    if job.estimate_s is None:
        return job
    return job.model_copy(update={"estimate_s": job.estimate_s + seconds})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    given = asked(__doc__, KINDS, arguments, seeds=1)
    logging.basicConfig(level=logging.ERROR)
    print(f"{'promises kept':<20}{'n':>4}" + "".join(f"{each:>9}" for each in COLUMNS))
    for kind, runs in given.by_kind(figures):
        cells = "".join(f"{fmean(run[each] for run in runs):9.2f}" for each in COLUMNS)
        print(f"{kind:<20}{len(runs):>4}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
