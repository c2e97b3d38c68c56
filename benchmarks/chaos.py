"""Kills the program again and again while many people use it, and counts what they lose.

    python -m benchmarks.chaos --kills 500 --json

The real program runs as its own process with a Telegram, two ComfyUI and an LM Studio over loopback
sockets. Exit status 1 when a promise was broken; the sentences are printed to standard error.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.trial import Trial, Verdict


def main() -> int:
    """Run a trial and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the database and the log")
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    logging.disable(logging.ERROR)  # the fakes' complaints about connections that were cut
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        verdict = asyncio.run(Trial(options.keep, kills=options.kills, seed=options.seed).run())
    else:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(Path(folder), kills=options.kills, seed=options.seed)
            verdict = asyncio.run(trial.run())
    for breach in verdict.breaches:
        print(breach, file=sys.stderr)
    print(verdict.as_json() if options.json else _as_text(verdict))
    return 1 if verdict.breaches else 0


def _as_text(verdict: Verdict) -> str:
    return verdict.as_json().replace(", ", "\n").strip("{}")


if __name__ == "__main__":
    sys.exit(main())
