"""Compares what people read with what `/queue` says that second and with what really happens.

`python -m benchmarks.truth [--json] [--seed N | --seeds N-M,...] [--minutes M] [--crowd X]` lets a crowd
use the whole bot in virtual time: six models that compete for GPUs, three lanes, images and loads that
fail, a server that goes away; private chats, the page, and groups so busy that their limits matter.
"""

import argparse
import asyncio
import json
import logging
from collections.abc import Sequence
from functools import partial
from random import Random

from benchmarks.truth.claims import Truth
from benchmarks.truth.crowd import NO_LIMITS, Crowd, Server, installation_of, mishaps
from benchmarks.truth.promises import pooled, seeds_of
from benchmarks.truth.watch import LOOK_S, Watch
from bot.platforms.discord.platform import Discord
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job
from tests.fakes.chat import FakeChat
from tests.simulation import loop as virtual
from tests.simulation.bot_installation import bot

WARM_UP_S = 60.0


async def measure(seed: int, minutes: float, size: float = 1.0) -> tuple[dict[str, object], Watch]:
    """Let the crowd live for so many minutes and return the figures."""
    random = Random(seed)
    installation, crowd = installation_of(random), Crowd(random, size)
    servers = {name: s for name, s in installation.servers.items() if isinstance(s, Server)}
    watcher = FakeChat(
        "watcher", limits=Discord.limits
    )  # its answers count against nobody's limits
    async with bot(installation, *crowd.chats, watcher, limits=NO_LIMITS) as running:
        watch = Watch(running, watcher, Truth(servers))
        accepted: asyncio.Queue[Job] = asyncio.Queue()

        def on_event(event: Event) -> None:
            if isinstance(event, JobChanged) and event.event is None:
                accepted.put_nowait(event.job)

        running.queue.events.subscribe(on_event)
        for chat in crowd.chats:
            chat.on_show = partial(watch.show, chat)
        await crowd.settle(running)
        async with asyncio.TaskGroup() as tasks:
            life = [
                tasks.create_task(crowd.live(running)),
                tasks.create_task(mishaps(installation, random)),
                tasks.create_task(_promises(accepted, watch)),
            ]
            await asyncio.sleep(WARM_UP_S)
            ends_at = asyncio.get_running_loop().time() + minutes * 60.0
            while asyncio.get_running_loop().time() < ends_at:
                await asyncio.sleep(LOOK_S)
                await watch.look()
            for task in life:
                task.cancel()
        start = running.clock.now() - asyncio.get_running_loop().time()
        figures = watch.figures(start)
    figures["answers_429"] = sum(chat.refused for chat in crowd.chats)
    return figures, watch


async def _promises(accepted: "asyncio.Queue[Job]", watch: Watch) -> None:
    while True:
        await watch.accepted(await accepted.get())


def _run(seed: int, options: argparse.Namespace) -> dict[str, object]:
    figures, watch = virtual.run(measure(seed, options.minutes, options.crowd))
    if options.cases:
        for name in ("differs", "passed", "untrue"):
            for case in getattr(watch, name).cases:
                print(seed, name, case)
    return figures | {"seed": seed}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.truth", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=seeds_of, metavar="N-M,...", help="several, pooled")
    parser.add_argument("--minutes", type=float, default=20.0, help="of virtual time")
    parser.add_argument("--crowd", type=float, default=1.0, help="how many times the 92 people")
    parser.add_argument("--cases", action="store_true", help="print what did not agree")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.CRITICAL)
    runs = [_run(seed, options) for seed in options.seeds or [options.seed]]
    figures = pooled(runs) if options.seeds else runs[0]
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<24}{value!s:>40}")


if __name__ == "__main__":
    main()
