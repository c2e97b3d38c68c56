"""The worlds of the trial of truth: their crowd, GPUs and mishaps, in virtual time."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from bot.people.access import PersonLimits
from queueing.core.errors import OutOfMemory
from queueing.core.requests import Work
from queueing.core.snapshot import Rules
from tests.fakes.servers.backend import Attempt, FakeGpu, FakeServer, Fate, prompt_of
from tests.fakes.strict_chats import Person, StrictChat, StrictDiscord, StrictPage, StrictTelegram
from tests.simulation.bot_installation import ADMIN, Bot
from tests.simulation.installation import Installation, host, image_model

HOSTS = {"gpu-1": ("studio", 24000), "gpu-2": ("workshop", 16000), "gpu-3": ("attic", 16000)}
Times = tuple[str, int, float, float, int]
MODELS: Mapping[str, Times] = {  # backends, MB, seconds of a load, of an image, how often asked for
    "flux": ("studio", 17000, 10.0, 8.0, 5),
    "qwen": ("studio", 12000, 8.0, 6.0, 3),
    "sdxl": ("workshop studio", 8000, 6.0, 5.0, 5),
    "llama": ("workshop", 12000, 7.0, 5.0, 3),
    "hero": ("attic", 12000, 8.0, 6.0, 2),
    "sd3": ("attic", 14000, 9.0, 7.0, 2),
}
ROOMS = {"g2": "quiet", "g1": "busy"}  # of groups; all others are private chats
LANES = ("vip", "relaxed", "normal", "normal", "normal")  # of people, in turn
NO_LIMITS = PersonLimits(open_per_person=50, queued_per_person=50)

_WANDERS = 0.15  # of the times of loads and images
_FAULTY = 0.01  # of images; twice as many loads
_THINKING_S = 700.0  # between two requests of a person
_RUSH_EVERY_S, _RUSH = 480.0, 10  # people who want the same model within seconds
_AWAY_S = 45.0


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Conditions to judge: what people ask for, in which order, and how often a server goes away."""

    models: Mapping[str, Times] = field(default_factory=lambda: MODELS)
    rules: Rules | None = None
    away_every_s: float = 600.0


WORLDS = {
    "usual": World(),
    "one-model": World(models={"sdxl": ("workshop studio", 12000, 6.0, 8.0, 1)}),
    "many-models": World(
        models={f"{name}-{n}": times for n in range(4) for name, times in MODELS.items()}
    ),
    "fair": World(rules=Rules(order="fair")),
    "outages": World(away_every_s=150.0),
}


class Server(FakeServer):
    """Takes about the usual time for everything, sometimes fails, and records when things ended."""

    def __init__(
        self, name: str, gpu: FakeGpu, random: Random, models: Mapping[str, Times] = MODELS
    ) -> None:
        super().__init__(name, gpu)
        self._random = random
        self._models = models
        self.fates = lambda _work: Fate(error=self._fault(_FAULTY))
        self.load_fates = lambda: self._fault(2 * _FAULTY)
        self.progress_every_s = 1.0
        self.done_at: dict[str, float] = {}  # by prompt, in the loop's time
        self.upsets: list[tuple[float, str]] = []  # failures, and of which model ("": of all)

    def begin_load(self, model: str, vram_mb: int) -> "asyncio.Future[None]":
        """Load a model in about its usual time."""
        self.load_s = self._models[model][2] * self._wander()
        load = super().begin_load(model, vram_mb)
        load.add_done_callback(partial(self._note_upset, model))
        return load

    def accept(self, model: str, work: Work) -> Attempt:
        """Draw in about the model's usual time."""
        self.service_s = self._models[model][3] * self._wander()
        attempt = super().accept(model, work)
        attempt.done.add_done_callback(partial(self._note_end, prompt_of(work)))
        attempt.done.add_done_callback(partial(self._note_upset, model))
        return attempt

    def die(self, restart_s: float | None = None) -> None:
        """Lose everything now, and record it."""
        self.upsets.append((asyncio.get_running_loop().time(), ""))
        super().die(restart_s)

    def draws(self, prompt: str) -> bool:
        """Return whether it works at that request now."""
        return any(prompt_of(attempt.work) == prompt for attempt in self.running)

    def _note_end(self, prompt: str, done: "asyncio.Future[None]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.done_at[prompt] = asyncio.get_running_loop().time()

    def _note_upset(self, model: str, done: "asyncio.Future[None]") -> None:
        if not done.cancelled() and done.exception() is not None:
            self.upsets.append((asyncio.get_running_loop().time(), model))

    def _wander(self) -> float:
        return math.exp(self._random.gauss(0.0, _WANDERS))

    def _fault(self, probability: float) -> Exception | None:
        return OutOfMemory("no") if self._random.random() < probability else None


def installation_of(random: Random, world: World) -> Installation:
    """Return three GPUs, each too small for all of its models at once."""
    models = [
        image_model(name, *backends.split(), vram_mb=mb, load_s=load_s, service_s=s, parallel=1)
        for name, (backends, mb, load_s, s, _) in world.models.items()
    ]
    installation = Installation.of(
        models, [host(name, b, vram_mb=mb) for name, (b, mb) in HOSTS.items()], rules=world.rules
    )
    for name, server in list(installation.servers.items()):
        installation.servers[name] = Server(name, server.gpu, Random(random.random()), world.models)
    return installation


class Crowd:
    """Private chats, the page, a quiet group, and one too busy for its limits to show every change.

    `size` is the number of people as a multiple of the usual 92.
    """

    def __init__(self, random: Random, models: Mapping[str, Times], size: float = 1.0) -> None:
        telegram, discord, page = StrictTelegram(random), StrictDiscord(random), StrictPage(random)
        self.chats: tuple[StrictChat, ...] = (telegram, discord, page)
        self.people = [
            *(Person(telegram, f"p{n}", f"telegram:{n}") for n in range(round(16 * size))),
            *(Person(discord, f"p{n}", f"discord:{n}") for n in range(round(16 * size))),
            *(Person(page, f"w{n}", f"web:{n}") for n in range(round(10 * size))),
            *(Person(telegram, "g1", f"telegram:{1000 + n}") for n in range(round(40 * size))),
            *(Person(telegram, "g2", f"telegram:{2000 + n}") for n in range(round(10 * size))),
        ]
        self._random = random
        self._models = models
        self._asked = 0

    async def settle(self, running: Bot) -> None:
        """Put people into their lanes, from a chat whose budget no one needs."""
        admin = Person(self.chats[-1], "admin", ADMIN)
        for number, person in enumerate(self.people):
            lane = LANES[number % len(LANES)]
            await running.dispatcher.call(admin.call(f"/limit {person.user} --lane {lane}"))

    async def live(self, running: Bot) -> None:
        """Let everyone ask for images until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for person in self.people:
                tasks.create_task(self._think_and_ask(running, person))
            tasks.create_task(self._rush(running))

    async def _think_and_ask(self, running: Bot, person: Person) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / _THINKING_S))
            await self._ask(running, person, self._model())

    async def _rush(self, running: Bot) -> None:
        """Now and then, let several people want the same model at once."""
        while True:
            await asyncio.sleep(_RUSH_EVERY_S * self._random.uniform(0.5, 1.5))
            model = self._model()
            for person in self._random.sample(self.people, min(_RUSH, len(self.people))):
                await asyncio.sleep(self._random.uniform(0.0, 2.0))
                await self._ask(running, person, model)

    def _model(self) -> str:
        return self._random.choices(list(self._models), [m[4] for m in self._models.values()])[0]

    async def _ask(self, running: Bot, person: Person, model: str) -> None:
        self._asked += 1
        await running.dispatcher.call(person.call(f"/image {model} wish {self._asked}"))


async def mishaps(installation: Installation, random: Random, every_s: float) -> None:
    """Take a server away and bring it back, again and again, until cancelled."""
    while True:
        await asyncio.sleep(every_s * random.uniform(0.5, 1.5))
        installation.servers[random.choice(["attic", "attic", "workshop"])].die(restart_s=_AWAY_S)
