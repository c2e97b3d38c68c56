"""What a rule brings: every kind of trace with it and without it, side by side.

`python -m benchmarks.rules [--without R5] [--seeds 10] [--first 1] [--families NAME...]` prints, for
each kind of traces, geometric means over so many of them: mean and worst wait, mean time to
the end of a job and loads under all rules over those without that rule, and waits over `plain`. Ends with status 1 where a mean wait is more than 2 %
worse with the rule than without it, or, where two servers share a card, than under `plain`.
"""

import argparse
import logging
import os
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean, mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.schedule import replay
from benchmarks.summary import summary
from benchmarks.traces.make import KINDS
from benchmarks.traces.shared import SHARED

ALLOWED = 1.02
HEADINGS = ("n", "mean", "worst", "ends", "loads", "/plain", "worst", "wait s")

Figures = Mapping[str, float]


def figures(given: tuple[str, int], *, without: str) -> dict[str, Figures]:
    """Return the figures of one trace by the rules it was replayed under."""
    kind, seed = given
    trace = KINDS[kind](random.Random(f"{kind}-{seed}"))
    return {
        rules: summary(trace, replay(trace, rules, promises=False))
        for rules in ("full", f"without-{without}", "plain")
    }


def over(runs: Sequence[Mapping[str, Figures]], rules: str, figure: str) -> float:
    """Return a figure under all rules over that under those: below 1.0 all rules are better."""
    # A wait below a second is no wait: a ratio of two such would say nothing.
    return geometric_mean(
        max(run["full"][figure], 1.0) / max(run[rules][figure], 1.0) for run in runs
    )


def _print_row(kind: str, runs: Sequence[Mapping[str, Figures]], without: str) -> bool:
    """Print the figures of one kind of traces; tell whether the rule costs too much there."""
    rules = f"without-{without}"
    with_it, beside_plain = over(runs, rules, "mean_wait_s"), over(runs, "plain", "mean_wait_s")
    print(
        f"{kind:<20}{len(runs):>8}{with_it:8.3f}{over(runs, rules, 'worst_wait_s'):8.3f}"
        f"{over(runs, rules, 'mean_end_s'):8.3f}{over(runs, rules, 'loads'):8.2f}"
        f"{beside_plain:8.3f}{over(runs, 'plain', 'worst_wait_s'):8.3f}"
        f"{mean(run['full']['mean_wait_s'] for run in runs):8.1f}",
        flush=True,
    )
    return with_it > ALLOWED or (kind in SHARED and beside_plain > ALLOWED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1 where the rule makes waits longer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--without", choices=("R4", "R5", "double"), default="R5")
    parser.add_argument("--seeds", type=int, default=10, help="traces of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--families", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    print(f"{'over without ' + options.without:<20}" + "".join(f"{each:>8}" for each in HEADINGS))
    seeds = range(options.first, options.first + options.seeds)
    worse = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        replayed = pool.map(
            partial(figures, without=options.without), product(options.families, seeds)
        )
        for kind in options.families:
            runs = [next(replayed) for _ in seeds]
            if _print_row(kind, runs, options.without):
                worse.append(kind)
    if worse:
        print(f"more than 2 % worse with {options.without}: {', '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
