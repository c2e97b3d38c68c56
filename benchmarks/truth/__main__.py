"""Compares what people read with what `/queue` says that moment and with what really happens.

`python -m benchmarks.truth [--json] [--seed N | --seeds N-M,...] [--minutes M] [--crowd X] [--world W]`
lets a crowd use the whole bot in virtual time: models that compete for GPUs, three lanes, images and
loads that fail, a server that goes away; private chats, the page, and groups so busy that their
limits matter. Every message is read twice a second. `--world first-runs` measures only the first
estimates of models that never ran.
"""

import argparse
import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from statistics import fmean

from benchmarks.figures import show
from benchmarks.truth.claims import Truth
from benchmarks.truth.crowd import (
    NO_LIMITS,
    WORLDS,
    Crowd,
    Server,
    World,
    installation_of,
    mishaps,
)
from benchmarks.truth.first_runs import first_runs
from benchmarks.truth.promises import Run, figures, seeds_of
from benchmarks.truth.watch import LOOK_S, Watch
from tests.simulation import loop as virtual
from tests.simulation.bot_installation import bot

WARM_UP_S = 60.0
FIRST_RUNS = "first-runs"


async def measure(seed: int, minutes: float, size: float, world: World) -> tuple[Run, Watch]:
    """Let the crowd live for this many minutes and return what was seen."""
    random = Random(seed)
    installation = installation_of(random, world)
    crowd = Crowd(random, world.models, size)
    servers = {name: s for name, s in installation.servers.items() if isinstance(s, Server)}
    run = Run(seed=seed)
    async with bot(installation, *crowd.chats, limits=NO_LIMITS) as running:
        watch = Watch(running, Truth(servers), run)
        running.queue.promises.follow()
        running.queue.events.subscribe(watch.on_event)
        for chat in crowd.chats:
            chat.on_show = partial(watch.show, chat)
        await crowd.settle(running)
        async with asyncio.TaskGroup() as tasks:
            life = [
                tasks.create_task(crowd.live(running)),
                tasks.create_task(mishaps(installation, random, world.away_every_s)),
            ]
            await asyncio.sleep(WARM_UP_S)
            ends_at = asyncio.get_running_loop().time() + minutes * 60.0
            while asyncio.get_running_loop().time() < ends_at:
                await asyncio.sleep(LOOK_S)
                await watch.look()
            for task in life:
                task.cancel()
        watch.close(running.clock.now() - asyncio.get_running_loop().time())
    run.counts["answers_429"] = sum(chat.refused for chat in crowd.chats)
    return run, watch


def _crowds(seeds: Sequence[int], options: argparse.Namespace) -> Mapping[str, object]:
    runs = []
    for seed in seeds:
        world = WORLDS[options.world]
        run, watch = virtual.run(measure(seed, options.minutes, options.crowd, world))
        runs.append(run)
        if options.cases:
            _print_cases(seed, watch)
    return figures(runs)


def _print_cases(seed: int, watch: Watch) -> None:
    for name in ("differs", "passed", "untrue"):
        for case in getattr(watch, name).cases:
            print(seed, name, case)
    for age in sorted(watch.misread.all, key=lambda each: each.seen_at - each.since):
        print(seed, age)


def _first_runs(seeds: Sequence[int], options: argparse.Namespace) -> Mapping[str, object]:
    runs = first_runs(seeds)
    if options.cases:
        print(*runs, sep="\n")
    return {
        "first_run_coverage": round(fmean(run.kept for run in runs), 3),
        "first_runs": len(runs),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.truth", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=seeds_of, metavar="N-M,...", help="several, pooled")
    parser.add_argument("--minutes", type=float, default=20.0, help="of virtual time")
    parser.add_argument("--crowd", type=float, default=1.0, help="how many times the 92 people")
    parser.add_argument("--world", choices=(*WORLDS, FIRST_RUNS), default="usual")
    parser.add_argument("--cases", action="store_true", help="print what was not true")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.CRITICAL)
    seeds = options.seeds or [options.seed]
    found = {} if options.world == FIRST_RUNS else _crowds(seeds, options)
    found = {**found, **_first_runs(seeds, options)}
    show(found, as_json=options.json)


if __name__ == "__main__":
    main()
