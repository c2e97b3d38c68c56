"""Compares our scheduler with the reference on many traces, and checks every run of both.

`python -m benchmarks.referee [--estimates] TRACE...` prints geometric means for each family of
traces (`bursty-1.json` and `bursty-2.json` are one family): waits of Usher and of `plain` over those
of the reference, makespan over its lower bound, estimates kept, and every broken promise.
"""

import argparse
import logging
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.check_run import Verdict, check
from benchmarks.reference import refer
from benchmarks.schedule import replay
from benchmarks.trace import Trace
from benchmarks.trace_file import read, told

WAITS = ("mean_wait_s", "worst_wait_s")


def judge(trace: Trace, *, estimates: bool) -> Mapping[str, Verdict]:
    """Return the checked runs of one trace by who made them."""
    return {
        "reference": check(trace, refer(trace)),
        "plain": check(trace, replay(trace, "plain", promises=False)),
        "ours": check(trace, replay(trace, "full", promises=estimates)),
    }


def ratios(runs: Mapping[str, Verdict]) -> dict[str, float]:
    """Return what one trace shows: 1.0 is as good as the reference, less is better."""
    ours, plain, reference = (runs[who].figures for who in ("ours", "plain", "reference"))
    found = {}
    for wait in WAITS:
        # A wait below a second is no wait: a ratio of two such would say nothing.
        found[f"ours {wait}"] = max(ours[wait], 1.0) / max(reference[wait], 1.0)
        found[f"plain {wait}"] = max(plain[wait], 1.0) / max(reference[wait], 1.0)
    found["gain over plain"] = max(ours["mean_wait_s"], 1.0) / max(plain["mean_wait_s"], 1.0)
    return found


LANES = ("vip", "normal", "relaxed")
HEADINGS = (
    "family",
    "n",
    "mean",
    "worst",
    "pl.mean",
    "pl.worst",
    "over pl.",
    "span",
    "kept",
    *LANES,
)


def _print_row(name: str, results: Sequence[Mapping[str, Verdict]]) -> None:
    shares = [ratios(runs) for runs in results]
    means = {key: geometric_mean(share[key] for share in shares) for key in shares[0]}
    span = max(runs["ours"].figures["makespan_over_bound"] for runs in results)
    kept = mean(runs["ours"].figures["estimates_kept"] for runs in results)
    print(
        f"{name:<20}{len(results):>9}"
        f"{means['ours mean_wait_s']:9.3f}{means['ours worst_wait_s']:9.3f}"
        f"{means['plain mean_wait_s']:9.2f}{means['plain worst_wait_s']:9.2f}"
        f"{means['gain over plain']:9.2f}{span:9.2f}{kept:9.2f}"
        + "".join(_kept(results, lane) for lane in LANES),
        flush=True,
    )


def _kept(results: Sequence[Mapping[str, Verdict]], lane: str) -> str:
    """Return a column: the share of a lane's promises that were kept, where anyone stood in it."""
    shares = [runs["ours"].figures.get(f"kept_{lane}") for runs in results]
    seen = [share for share in shares if share is not None]
    return f"{mean(seen):9.2f}" if seen else f"{'':9}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="+", metavar="TRACE")
    parser.add_argument("--estimates", action="store_true", help="measure them, too: slower")
    parser.add_argument("--each", action="store_true", help="a row for each trace")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    families: defaultdict[str, list[Path]] = defaultdict(list)
    for path in options.traces:
        families[path.stem.rstrip("0123456789").rstrip("-")].append(path)
    print(f"{HEADINGS[0]:<20}" + "".join(f"{heading:>9}" for heading in HEADINGS[1:]))
    broken = 0
    for family, paths in families.items():
        results = []
        for path in paths:
            trace = read(path)
            results.append(judge(trace, estimates=options.estimates))
            if options.each:
                _print_row(path.stem, results[-1:])
            broken += _print_broken(path.stem, results[-1])
        _print_row(family, results)
    return 1 if broken else 0


def _print_broken(name: str, runs: Mapping[str, Verdict]) -> int:
    lines = [f"{name}: {who} {line}" for who in ("ours", "reference") for line in runs[who].broken]
    for line in lines:
        print("BROKEN", line)
    return len(lines)


if __name__ == "__main__":
    sys.exit(told(main))
