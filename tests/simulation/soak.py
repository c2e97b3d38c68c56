"""A month of a community in virtual time: the whole bot, its people, restarts and outages.

The fakes forget their records every hour, so that the memory measured is the program's.
"""

import asyncio
import gc
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import linear_regression

from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config import loader as configuration
from bot.core.content import Content
from bot.core.errors import ChatError, ChatUnavailable
from bot.core.platform import CommandHandler, MessageRef
from bot.texts.catalogue import plain
from queueing.core.errors import OutOfMemory, StoreError, Unavailable
from queueing.core.ports import Clock
from queueing.core.requests import Work
from queueing.core.specs import BackendSpec
from tests.fakes.chat import FakeChat, Message
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer, Fate

DAY_S = 86_400.0
HOUR_S = 3600.0
PEOPLE = 300
JOBS_A_DAY = 760
FAULTY = 0.01  # of attempts
CANCELLED = 0.03
MOST_PATIENT_S = 900.0  # between two tries of a person whom nothing answers
WARM_UP_DAYS = 8  # until retention deletes as much as comes
TEXTS = {"llama", "qwen", "mistral"}
MODELS = {  # name: (hosts, GB, seconds, how often it is asked for)
    "flux": ("attic cellar", 17, 22.0, 30),
    "sdxl": ("attic cellar", 9, 9.0, 22),
    "pony": ("cellar", 9, 9.0, 10),
    "llama": ("hall", 7, 12.0, 20),
    "qwen": ("hall cellar", 9, 14.0, 10),
    "mistral": ("hall", 14, 18.0, 4),
    "schnell": ("attic", 16, 4.0, 3),
    "dreams": ("attic", 7, 9.0, 1),
    "wan": ("attic", 18, 60.0, 3),
    "kokoro": ("hall", 2, 3.0, 6),
}
ABLE = {"wan": ("text-to-video", "video"), "kokoro": ("text-to-speech", "speak")}
HOSTS = {"attic": 24, "cellar": 24, "hall": 16}


def config_text() -> str:
    """Return the configuration of the community, as an operator would write it."""
    hosts = {
        host: {"vram": f"{size}GB", "margin": 1, "backends": {host: {"kind": "demo"}}}
        for host, size in HOSTS.items()
    }
    models = {
        name: {
            "backends": backends.split(),
            "capabilities": [_able(name)[0]],
            "vram": f"{size}GB",
            "service_s": service_s,
            "load_s": 25,
        }
        for name, (backends, size, service_s, _) in MODELS.items()
    }
    return json.dumps({"hosts": hosts, "models": models, "retention": {"days": 7}})


def _able(model: str) -> tuple[str, str]:
    """Return what a model can do, and the command that asks for it."""
    return ABLE.get(model) or (
        ("text-to-text", "ask") if model in TEXTS else ("text-to-image", "image")
    )


class SoakChat(FakeChat):
    """A chat that knows which request each message answers, and forgets what has long ended.

    `waiting` are the requests without an end, `shown` those for which a message was ever sent.
    While it is `dead`, the program that uses it was killed: nothing arrives.
    """

    def __init__(self) -> None:
        super().__init__("fake")
        self.handler: CommandHandler | None = None
        self.dead = False
        self.waiting: dict[int, str] = {}  # the person's chat by request
        self.shown: set[int] = set()
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []
        self._request_of: dict[str, int] = {}

    async def run(self, handler: CommandHandler) -> None:
        self.handler = handler
        try:
            await asyncio.Event().wait()
        finally:
            self.handler = None

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        self._maybe_fail(chat, content)
        ref = MessageRef(platform=self.name, chat=chat, message=str(next(self._numbers)))
        if content.mention is None and reply_to is not None and reply_to.message.startswith("r"):
            self._request_of[ref.message] = int(reply_to.message[1:])
            self.messages[ref.message] = Message(chat=chat)
            self._show(ref.message, content)
        return ref

    async def ask(self, request: int, text: str) -> None:
        """Send a request to the bot, if it runs; the same request may be sent again."""
        chat = chat_of(request)
        if self.handler is None or self.dead:
            return
        mine = MessageRef(platform=self.name, chat=chat, message=f"r{request}")

        async def respond(content: Content, private: bool) -> MessageRef | None:
            if private:
                self.ends["told why not"] += 1
                return None
            return await self.send(chat, content, reply_to=mine)

        call = self.call(
            text,
            chat=chat,
            user=person_of(request),
            user_name=f"person {request % PEOPLE}",
            key=f"fake:{request}",
            request=mine,
            respond=respond,
        )
        await self.handler.call(call)

    async def cancel(self, request: int) -> None:
        """Press the button Cancel of a request's message, where there is one."""
        numbers = [number for number, of in self._request_of.items() if of == request]
        for number in numbers:
            content = self.messages[number].contents[-1]
            pressed = [b for row in content.buttons for b in row if b.command == "cancel"]
            if pressed and self.handler is not None and not self.dead:
                options = {"id": str(pressed[0].job_id)}
                user, chat = person_of(request), chat_of(request)
                call = self.call("/cancel", user=user, chat=chat, button=True, options=options)
                await self.handler.call(call)

    def forget(self) -> None:
        """Drop messages whose request has ended, except the newest: an edit may be repeated."""
        ended = [n for n, request in self._request_of.items() if request not in self.waiting]
        for number in ended[:-200]:
            del self.messages[number], self._request_of[number]
        self.private.clear()
        self.asked.clear()

    def _show(self, number: str, content: Content) -> None:
        self.messages[number].contents[:] = [content]
        request = self._request_of[number]
        self.shown.add(request)
        kind = _end(content)
        if kind is None:
            return
        self.shown.discard(request)
        if self.waiting.pop(request, None) is not None:
            self.ends[kind] += 1
        if kind == "result" and f"request {request}." not in plain(content.body):
            self.faults.append(f"{request} was answered by {plain(content.body)!r}")
        if self.messages[number].chat != chat_of(request):
            self.faults.append(f"{request} was answered in another chat")

    def _maybe_fail(self, chat: str, content: Content) -> None:
        if self.dead:
            raise ChatUnavailable("the program is dead")
        super()._maybe_fail(chat, content)


def _end(content: Content) -> str | None:
    """Return how a request ended as its message shows it, or None while it has not."""
    text = plain(content.body)
    if content.files or "result of" in text:
        return "result"
    if text.startswith("❌"):
        return "failed"
    return "cancelled" if text.startswith(("Cancelled", "Stopped")) else None


def chat_of(request: int) -> str:
    """Return the chat a request is made in: a person's own, or one of ten groups."""
    return f"g{request % 10}" if request % 7 == 0 else str(request % PEOPLE)


def person_of(request: int) -> str:
    """Return who makes a request."""
    return f"fake:{request % PEOPLE}"


@dataclass(kw_only=True)
class Report:
    """What a soak showed."""

    days: float
    jobs: int = 0
    lost: int = 0
    rss_mb: list[float] = field(default_factory=list)  # one a day
    blocks: list[int] = field(default_factory=list)  # of memory that Python has given out
    db_mb: list[float] = field(default_factory=list)
    tasks_leaked: int = 0
    handles_leaked: int = 0
    restarts: int = 0
    kills: int = 0
    outages: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        """Return the figures."""
        return json.dumps(
            {
                "days": self.days,
                "jobs": self.jobs,
                "rss_mb_start": round(self.rss_mb[0], 1),
                "rss_mb_end": round(self.rss_mb[-1], 1),
                "rss_mb_per_day": round(slope(self.rss_mb[WARM_UP_DAYS:]), 3),
                "blocks_per_day": round(slope(self.blocks[WARM_UP_DAYS:])),
                "db_mb_end": round(self.db_mb[-1], 1),
                "db_mb_most": round(max(self.db_mb), 1),
                "tasks_leaked": self.tasks_leaked,
                "handles_leaked": self.handles_leaked,
                "lost": self.lost,
                "restarts": self.restarts,
                "kills": self.kills,
                "outages": self.outages,
                "ends": self.ends,
                "faults": len(self.faults),
            }
        )


class Soak:
    """Several days of a community."""

    def __init__(
        self,
        folder: Path,
        *,
        days: float,
        seed: int,
        jobs_a_day: float = JOBS_A_DAY,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or VirtualClock()
        self._database = folder / "usher.sqlite"
        self._random = Random(seed)
        self._config = configuration.parse(config_text(), {})
        self._gpus = {
            name: FakeGpu(total_mb=gb * 1024, budget_mb=gb * 1024) for name, gb in HOSTS.items()
        }
        self._servers = {name: self._server(name) for name in HOSTS}
        self._chat = SoakChat()
        self._jobs_a_day = jobs_a_day
        self._report = Report(days=days)
        self._over = asyncio.Event()

    async def run(self) -> Report:
        """Run it in virtual time and return what it showed."""
        tasks, handles = len(asyncio.all_tasks()), _handles()
        living = asyncio.create_task(self._runs())
        async with asyncio.TaskGroup() as outside:
            measuring = outside.create_task(self._measure())
            troubling = outside.create_task(self._trouble())
            await self._people()
            troubling.cancel()
            self._heal()
            await self._quiet()
            measuring.cancel()
        self._over.set()
        await living
        report = self._report
        report.tasks_leaked = len(asyncio.all_tasks()) - tasks
        report.handles_leaked = _handles() - handles
        report.lost = len(self._chat.waiting)
        report.ends = dict(self._chat.ends)
        report.faults += self._chat.faults
        for gpu in self._gpus.values():
            report.faults += gpu.violations
        for server in self._servers.values():
            report.faults += server.violations
        return report

    def _often(self, days: float) -> float:
        """Return the mean seconds between two events of a kind; a short soak has some, too."""
        return min(days, self._report.days / 4) * DAY_S

    # ------------------------------------------------------------ the program

    async def _runs(self) -> None:
        """Live, stop in order or be killed, and live again, every few days."""
        while not self._over.is_set():
            backends: list[FakeBackend] = []

            def connect(spec: BackendSpec, made: list[FakeBackend] = backends) -> FakeBackend:
                made.append(FakeBackend(self._servers[spec.name]))
                return made[-1]

            app = App(
                BotSetup(
                    self._config,
                    database_url=f"sqlite:///{self._database}",
                    clock=self._clock,
                    make_platforms=lambda _: (self._chat,),
                    make_backend=connect,
                    inline=True,
                )
            )
            await self._run(app, backends)
            await asyncio.sleep(self._random.choice([2.0, 30.0, 600.0]))

    async def _run(self, app: App, backends: Sequence[FakeBackend]) -> None:
        self._chat.dead = False
        with suppress(StoreError, ExceptionGroup):  # a killed one complains that all is closed
            async with app.running() as parts, asyncio.TaskGroup() as group:
                queue = group.create_task(parts.queue.run())
                ends_after_s = self._random.expovariate(1 / self._often(2.5))
                with suppress(TimeoutError):
                    async with asyncio.timeout(ends_after_s):
                        await self._over.wait()
                if not self._over.is_set() and self._random.random() < 0.5:
                    self._report.kills += 1
                    await self._kill(parts, backends)
                else:
                    self._report.restarts += 1
                queue.cancel()

    async def _kill(self, parts: BotParts, backends: Sequence[FakeBackend]) -> None:
        """Cut the program off from everything, so that nothing it still tries has an effect."""
        self._chat.dead = True
        for backend in backends:
            backend.dead = True
        await parts.store.aclose()

    # ------------------------------------------------------------ people

    async def _people(self) -> None:
        """Make requests, more in the evening than at night."""
        loop, end_s = asyncio.get_running_loop(), self._report.days * DAY_S
        round_s = min(end_s, DAY_S)  # even a soak of hours has a night and an evening
        names = list(MODELS)
        weights = [MODELS[name][3] for name in names]
        async with asyncio.TaskGroup() as group:
            while loop.time() < end_s:
                daytime = 1 + 0.8 * math.sin(2 * math.pi * (loop.time() / round_s - 0.5))
                await asyncio.sleep(self._random.expovariate(daytime * self._jobs_a_day / DAY_S))
                self._report.jobs += 1
                (model,) = self._random.choices(names, weights)
                group.create_task(self._person(self._report.jobs, model))

    async def _person(self, request: int, model: str) -> None:
        """Ask until a message shows that the request was accepted; some change their mind."""
        chat = self._chat
        chat.waiting[request] = chat_of(request)
        command = _able(model)[1]
        cancels = self._random.random() < CANCELLED
        pause_s = 3.0 if cancels else 90.0
        while request in chat.waiting and request not in chat.shown:
            await chat.ask(request, f"/{command} {model} request {request}.")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MOST_PATIENT_S)
        if cancels:
            await chat.cancel(request)

    async def _quiet(self) -> None:
        """Give everything a day to end, however long it was away before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DAY_S):
                while self._chat.waiting:  # noqa: ASYNC110  virtual time: polling costs nothing
                    await asyncio.sleep(60.0)

    # ------------------------------------------------------------ trouble

    def _server(self, name: str) -> FakeServer:
        server = FakeServer(name, self._gpus[name], load_s=25.0, unload_s=1.0)
        server.fates = self._fate
        return server

    def _fate(self, work: Work) -> Fate:
        service_s = self._random.uniform(0.7, 1.5) * 12.0
        if self._random.random() >= FAULTY:
            return Fate(service_s=service_s)
        return self._random.choice(
            [
                Fate(service_s=service_s, error=OutOfMemory("out of memory")),
                Fate(service_s=service_s, error=Unavailable("connection reset")),
                Fate(service_s=service_s, crash=True),
                Fate(hang=True),
            ]
        )

    async def _trouble(self) -> None:
        """Let a server or the chat be away for a while, every day or so."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._often(1.0)))
            self._report.outages += 1
            longest_s = min(2 * HOUR_S, self._often(1.0) / 2)
            away_s = self._random.choice([60.0, 900.0, longest_s])
            if self._random.random() < 0.7:
                self._random.choice(list(self._servers.values())).die(restart_s=away_s)
                continue
            self._chat.fail_when = lambda _chat: ChatUnavailable("the chat is away")
            await asyncio.sleep(away_s)
            self._heal()

    def _heal(self) -> None:
        def fine(_chat: str) -> ChatError | None:
            return None

        self._chat.fail_when = fine

    # ------------------------------------------------------------ measuring

    async def _measure(self) -> None:
        """Measure memory and database once a day; make the fakes forget every hour."""
        while True:
            gc.collect()
            self._report.rss_mb.append(rss_mb())
            self._report.blocks.append(sys.getallocatedblocks())
            self._report.db_mb.append(_size_mb(self._database))
            for _ in range(24):
                await asyncio.sleep(HOUR_S)
                self._forget()

    def _forget(self) -> None:
        self._chat.forget()
        for server in self._servers.values():
            for seen in (server.loads, server.unloads, server.starts, server.cancelled):
                del seen[:]
            server.finished.clear()
            ended = [key for key, attempt in server.attempts.items() if not attempt.running]
            for key in ended[:-50]:
                del server.attempts[key]


def slope(values: Sequence[float]) -> float:
    """Return how much values grow from one to the next, by least squares."""
    if len(values) < 2:
        return 0.0
    return linear_regression(range(len(values)), values).slope


def rss_mb() -> float:
    """Return the memory that this process uses now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _handles() -> int:
    gc.collect()  # or those of earlier tests would seem to be closed by this one
    return len(list(Path("/proc/self/fd").iterdir()))


def _size_mb(database: Path) -> float:
    parts = (database, database.with_name(f"{database.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists()) / 1e6
