"""Fills a folder with a day of a community that ends now, for a look at the operator's page.

    python -m benchmarks.day FOLDER [--jobs N] [--seed N]
    python3 tasks.py usher run -c FOLDER/config.yaml

The day is one of `benchmarks.soak`: the whole bot in virtual time, with restarts, kills, outages and
jobs that fail. The bot that is run afterwards has stand-in servers under the same names, and its
page, `usher top` and `/status` show that day as their own.
"""

import argparse
import json
import logging
import random
import sys
import time
from pathlib import Path

from tests.fakes.clock import VirtualClock
from tests.simulation.loop import run
from tests.simulation.soak import DAY_S, Report, Soak, config_text

JOBS = 4000
AFTER_S = 1200.0  # for the last jobs to end: the database holds nothing of the future


def main() -> int:
    """Simulate the day and write the configuration beside it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    logging.disable(logging.CRITICAL)
    options.folder.mkdir(parents=True)
    clock = VirtualClock(time.time() - DAY_S - AFTER_S)

    async def day() -> Report:
        soak = Soak(options.folder, days=1, seed=options.seed, jobs_a_day=options.jobs, clock=clock)
        return await soak.run()

    print(run(day()).as_json())
    settings = json.loads(config_text()) | {
        "chats": {"web": {"port": options.port}},
        "api": {"port": 0, "open": True},
        "admins": ["web:local"],
    }
    file = options.folder / "config.yaml"
    file.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    print(f"python3 tasks.py usher run -c {file}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
