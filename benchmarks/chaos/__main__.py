r"""Kills and stops the program again and again while many people use it; counts what they lose.

    python -m benchmarks.chaos --kills 500 --json

The real program runs as a separate process with a Telegram, a Discord, pages of its web chat, programs
that use its HTTP API, two ComfyUI and an LM Studio over loopback sockets; the servers are killed now and
then, too. With real servers in their place, and without the programs:

    python -m benchmarks.chaos --kills 30 --comfyui venv/bin/python ComfyUI \
        --llama-server build/bin/llama-server models/slow.gguf

Several processes on one PostgreSQL, which this starts; killed, stopped, frozen, cut off:

    python -m benchmarks.chaos --cluster 3 --kills 300 --waiting 10000 --json

How fast several undisturbed processes are together, next to one (`benchmarks/chaos/speed.py`):

    python -m benchmarks.chaos --cluster 3 --speed --json

A machine whose network cable is pulled, in network namespaces (as root, with the command ip):

    python -m benchmarks.chaos --namespaces --kills 5 --json

The exit status is 1 when a promise was broken; standard error names each.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figures import show
from tests.chaos.real import RealInstallation
from tests.chaos.trial import Trial

if TYPE_CHECKING:
    from tests.chaos.cluster.trial import ClusterTrial


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a trial and print its figures."""
    options = _options(arguments)
    if options.speed:
        return _measure_speed(options)
    print(f"seed {options.seed}", file=sys.stderr)
    logging.disable(logging.ERROR)  # the fakes report every connection that was cut
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.namespaces:
            return _pull_cables(folder, options.kills)
        verdict = asyncio.run(_trial(options, folder).run())
    for line in (*verdict.breaches, *getattr(verdict, "circumstances", ())):
        print(line, file=sys.stderr)
    show(json.loads(verdict.as_json()), as_json=options.json)
    return 1 if verdict.breaches else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.chaos", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--kills", type=int, default=25)
    add("--stops", type=int, help="orderly stops among the kills (default: as many)")
    add("--seed", type=int, default=random.randrange(2**32))
    add("--json", action="store_true")
    add("--keep", type=Path, help="a folder for the database and the log")
    real = partial(add, nargs=2, type=Path)
    comfyui = "a real ComfyUI: the Python that runs it, and the folder of its main.py"
    real("--comfyui", metavar=("PYTHON", "FOLDER"), help=comfyui)
    llama = "a real llama.cpp: its llama-server, and a GGUF file"
    real("--llama-server", metavar=("FILE", "MODEL"), help=llama)
    add("--cluster", type=int, metavar="PROCESSES", help="so many processes on one PostgreSQL")
    add("--waiting", type=int, default=500, help="of a cluster: jobs in line beforehand")
    add("--leases-alone", action="store_true", help="of a cluster: no advisory locks or notices")
    add("--speed", action="store_true", help="of a cluster: measure its speed instead")
    add("--database", metavar="postgresql://…", help="with --speed: use this server")
    add("--quick", action="store_true", help="with --speed: a small run of some seconds")
    add("--namespaces", action="store_true", help="pull a cable so often, between two processes")
    options = parser.parse_args(arguments)
    if (options.comfyui is None) != (options.llama_server is None):
        parser.error("--comfyui and --llama-server go together")
    if options.speed and options.cluster is None:
        parser.error("--speed is of a --cluster")
    return options


def _measure_speed(options: argparse.Namespace) -> int:
    from benchmarks.chaos import speed  # noqa: PLC0415  needs psycopg

    found = speed.measure(options.database, options.cluster, quick=options.quick)
    show(found, as_json=options.json)
    return 0


def _pull_cables(folder: Path, cuts: int) -> int:
    from tests.chaos.cluster import partition  # noqa: PLC0415  needs psycopg

    try:
        took_s = partition.pull(folder, cuts)
    except partition.NotAllowedHere as error:
        print(error, file=sys.stderr)
        return 1
    figures = {
        "cuts": cuts,
        "failover_cable_s_p50": round(median(took_s), 2),
        "failover_cable_s_max": round(max(took_s), 2),
    }
    print(json.dumps(figures))
    return 0


def _trial(options: argparse.Namespace, folder: Path) -> "Trial | ClusterTrial":
    if options.cluster:
        from tests.chaos.cluster.trial import ClusterTrial  # noqa: PLC0415  needs psycopg

        return ClusterTrial(
            folder,
            processes=options.cluster,
            kills=options.kills,
            seed=options.seed,
            waiting=options.waiting,
            quick=not options.leases_alone,
        )
    kills, stops, real = options.kills, options.stops, None
    if options.comfyui:
        real = RealInstallation(*options.comfyui, *options.llama_server)
    stops = kills if stops is None else stops
    return Trial(folder, kills=kills, stops=stops, seed=options.seed, installation=real)


if __name__ == "__main__":
    sys.exit(main())
