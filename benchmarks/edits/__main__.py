"""Counts the edits that keep every status message true, in chats that enforce their limits.

`python -m benchmarks.edits [--json] [--seed N] [--minutes M]` runs the real dispatcher, queue, store and
presenter in virtual time: six models, 500 jobs kept waiting, one ends every two seconds, models in
turn. 180 people ask in private chats; 20 people in four groups send 5 % of the jobs; half of all
are on Telegram, half on Discord. `edits_naive` is one edit for every change of any position.
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Sequence
from random import Random

from benchmarks.edits.places import Places
from benchmarks.figures import show
from bot.people.access import PersonLimits
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobEvent
from queueing.core.ports import Report
from queueing.core.requests import Progress, Work
from tests.fakes.servers.backend import Attempt, FakeGpu, FakeServer, Fate
from tests.fakes.strict_chats import Person, StrictChat, StrictDiscord, StrictTelegram
from tests.simulation import loop as virtual
from tests.simulation.bot_installation import Bot, bot
from tests.simulation.installation import Installation, host, image_model

MODELS = tuple(f"model-{number}" for number in range(6))
WAITING = 500
EVERY_S = 2.0
PRIVATE_PEOPLE, GROUPS, GROUP_PEOPLE, GROUP_SHARE = 180, 4, 20, 0.05
FILL_S = 100.0  # the first jobs arrive over that time
SETTLE_S = 60.0  # between the last of them and the counting; again at the end, for the last results
STEPS = 24
NO_LIMITS = PersonLimits(open_per_person=WAITING, queued_per_person=WAITING)


class Studio(FakeServer):
    """Serves one model: a job ends at each beat, and reports its steps until then."""

    def __init__(self, name: str, gpu: FakeGpu, first_beat_s: float) -> None:
        super().__init__(name, gpu, load_s=1.0)
        self._first_beat_s = first_beat_s
        self._beat_s = EVERY_S * len(MODELS)
        self.fates = self._until_the_next_beat
        self.progress_every_s = self._beat_s / STEPS

    def _until_the_next_beat(self, _work: Work) -> Fate:
        now = asyncio.get_running_loop().time()
        return Fate(service_s=self._beat_s - (now - self._first_beat_s) % self._beat_s)

    def drip(self, attempt: Attempt, report: Report, step: int = 0) -> None:
        """Report each step while an attempt runs."""
        if attempt.running and self.progress_every_s is not None:
            report(Progress(step=(step, STEPS)))
            loop = asyncio.get_running_loop()
            loop.call_later(self.progress_every_s, self.drip, attempt, report, step + 1)


class Community:
    """The people: they fill the queues, and a person asks again for each job that ends."""

    def __init__(self, telegram: StrictChat, discord: StrictChat, random: Random) -> None:
        chats = (telegram, discord)
        self._random = random
        self._private = [
            Person(chats[n % 2], f"p{n}", f"{chats[n % 2].name}:{n}") for n in range(PRIVATE_PEOPLE)
        ]
        self._grouped = [
            Person(chats[n % 2], f"g{n % GROUPS}", f"{chats[n % 2].name}:{1000 + n}")
            for n in range(GROUP_PEOPLE)
        ]

    async def ask(self, running: Bot, model: str) -> None:
        """Let a person ask for an image."""
        grouped = self._random.random() < GROUP_SHARE
        person = self._random.choice(self._grouped if grouped else self._private)
        await running.dispatcher.call(person.call(f"/image {model} a cat"))

    async def fill(self, running: Bot) -> None:
        """Fill every queue; one job of each starts at once."""
        total = WAITING + len(MODELS)
        for number in range(total):
            await self.ask(running, MODELS[number % len(MODELS)])
            await asyncio.sleep(FILL_S / total)

    async def go_on(self, running: Bot, ended: "asyncio.Queue[str]") -> None:
        """Ask again for every job that ended, until cancelled."""
        while True:
            await self.ask(running, await ended.get())


def _installation() -> Installation:
    models = [image_model(name, f"on-{name}", service_s=EVERY_S * len(MODELS)) for name in MODELS]
    installation = Installation.of(models, [host(f"gpu-{name}", f"on-{name}") for name in MODELS])
    for number, (name, server) in enumerate(list(installation.servers.items())):
        installation.servers[name] = Studio(name, server.gpu, EVERY_S * number)
    return installation


async def _measure(seed: int, minutes: float) -> dict[str, float]:
    random = Random(seed)
    chats = StrictTelegram(random), StrictDiscord(random)
    community = Community(*chats, random)
    async with bot(_installation(), *chats, limits=NO_LIMITS) as running:
        places = Places()
        ended: asyncio.Queue[str] = asyncio.Queue()

        def on_event(event: Event) -> None:
            places.on_event(event)
            if isinstance(event, JobChanged) and event.event is JobEvent.COMPLETE:
                ended.put_nowait(event.job.model)

        running.queue.events.subscribe(on_event)
        for chat in chats:
            chat.on_show = places.show
        going_on = asyncio.create_task(community.go_on(running, ended))
        await community.fill(running)
        await asyncio.sleep(SETTLE_S)
        began_s, before = time.process_time(), sum(chat.edits for chat in chats)
        places.counting = True
        await asyncio.sleep(minutes * 60.0)
        edits = sum(chat.edits for chat in chats) - before
        cpu_s = time.process_time() - began_s
        figures = places.end()
        going_on.cancel()
    return {
        "answers_429": sum(chat.refused for chat in chats),
        **figures,
        "edits_sent": edits,
        "edits_share": round(edits / figures["edits_naive"], 4),
        "seed": seed,
        "cpu_s": round(cpu_s, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.edits", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="of virtual time")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    show(virtual.run(_measure(options.seed, options.minutes)), as_json=options.json)


if __name__ == "__main__":
    main()
