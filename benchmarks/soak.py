"""Lets a community use the bot for a month of virtual time and measures what it leaves behind.

    python -m benchmarks.soak --days 30 --json

Ten models that make images, texts, videos and speech, three hosts, 300 people, restarts, kills and
outages. The exit status is 1 when a request was lost or something leaked; standard error says what.
"""

import argparse
import json
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import show
from tests.simulation.loop import run
from tests.simulation.soak import Report, Soak

IN_MEMORY = Path("/dev/shm")  # flushing costs real time, and no power fails here


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak and print its figures."""
    parser = argparse.ArgumentParser("benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    logging.disable(logging.CRITICAL)
    where = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:

        async def soak() -> Report:
            return await Soak(Path(folder), days=options.days, seed=options.seed).run()

        report = run(soak())
    for fault in report.faults[:20]:
        print(fault, file=sys.stderr)
    show(json.loads(report.as_json()), as_json=options.json)
    bad = report.lost or report.tasks_leaked or report.handles_leaked or report.faults
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
