"""A random world with random people, faults and kills, all from one seed; and what must be true."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from queueing.core.catalog import Catalog
from queueing.core.errors import (
    BackendError,
    NotAccepting,
    NotLoaded,
    OutOfMemory,
    Refused,
    Rejected,
    StoreError,
    Unavailable,
)
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, JobState, NewJob
from queueing.core.ports import GpuLook
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.requests import Work
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec, Timeouts
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.clock import START
from tests.fakes.servers.backend import FakeServer, Fate
from tests.simulation.installation import NO_LIMITS, Installation, image_model

TIMEOUTS = Timeouts(load_s=60, first_s=60, idle_s=60, total_s=300)
QUIET_WITHIN_S = 6 * 3600.0
EVERY_DAY = frozenset(range(7))
GAME_EVERY_S, GAME_S = 1200.0, 300.0
NOTICED_S = 20.0  # two looks, and what may be under way between them
ENDS = {JobEvent.COMPLETE, JobEvent.FAIL, JobEvent.CANCEL}


class Killed(BaseException):
    """The process is dead; nothing catches this on purpose."""


class CrashPointStore:
    """A store that dies at its n-th call, before or after that call took effect."""

    def __init__(self, store: JobStore, dies_at: int | None, *, after: bool, died: Any) -> None:
        self._store = store
        self._dies_at = dies_at
        self._after = after
        self._died = died
        self.dead = False
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not inspect.iscoroutinefunction(value):
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            self.calls += 1
            if self.calls != self._dies_at:
                return await value(*args, **kwargs)
            with suppress(Exception):
                if self._after:
                    await value(*args, **kwargs)
            self.dead = True
            self._died()
            raise Killed

        return call


@dataclass
class Witness:
    """Sees every event and records what a queue must never do."""

    jobs: dict[int, Job] = field(default_factory=dict)
    ends: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    kept_free: "KeptFree | None" = None

    def on_event(self, event: Event) -> None:
        if not isinstance(event, JobChanged):
            return
        if event.event is JobEvent.START:
            self._check_order(event.job)
            if self.kept_free is not None:
                self.faults += self.kept_free.broken_by(event.job)
        if event.event in ENDS:
            self.ends[event.job.id] += 1
        self.jobs[event.job.id] = event.job

    def _check_order(self, started: Job) -> None:
        for other in self.jobs.values():
            if (
                other.state is JobState.PENDING
                and (other.model, other.lane) == (started.model, started.lane)
                and other.seq is not None
                and started.seq is not None
                and other.seq < started.seq
                and other.not_before < (started.started_at or 0.0)
                and other.queued_at < (started.started_at or 0.0)
            ):
                self.faults.append(f"job {started.id} passed job {other.id}")


@dataclass
class KeptFree:
    """Hosts with random quiet hours in the first two hours, and perhaps a game on the first GPU."""

    random: Random
    installation: Installation

    def __post_init__(self) -> None:
        self.first = next(iter(self.installation.catalog.hosts))
        known = self.installation.catalog
        hosts = [self._kept_free(host) for host in known.hosts.values()]
        self.installation.catalog = Catalog(known.models.values(), hosts)
        self.installation.gpus_watch = self

    def _kept_free(self, host: HostSpec) -> HostSpec:
        begins_min = self.random.randint(1, 20)
        window = (EVERY_DAY, begins_min, begins_min + self.random.randint(5, 40))
        return replace(
            host,
            quiet=QuietHours((WeeklyWindow(*window),), "UTC"),
            idle_unload_s=self.random.choice([20.0, 120.0, 600.0]),
            yields_above_mb=1000 if host.name == self.first else None,
        )

    async def use(self, _host: HostSpec, _loaded: frozenset[str]) -> GpuLook:
        played_s = asyncio.get_running_loop().time() % GAME_EVERY_S
        return GpuLook(others_mb=6000 if played_s < GAME_S else 300)

    def broken_by(self, started: Job) -> list[str]:
        """Return the rule a start breaks: it must be neither in quiet hours nor beside a game."""
        assert started.backend is not None
        assert started.started_at is not None
        host = self.installation.catalog.host_of[started.backend]
        quiet = self.installation.catalog.hosts[host].quiet
        assert quiet is not None
        at, faults = started.started_at, []
        if any(span.begins_at <= at for span in quiet.coming(at)):
            faults.append(f"job {started.id} began in the quiet hours of {host}")
        played_s = (at - START) % GAME_EVERY_S
        if host == self.first and NOTICED_S < played_s < GAME_S and at > START + GAME_EVERY_S:
            faults.append(f"job {started.id} began beside a game on {host}")
        return faults


def random_installation(random: Random, url: str) -> Installation:
    """Return one to three hosts with one or two servers each, and models that do not all fit."""
    hosts = []
    for number in range(random.randint(1, 3)):
        backends = tuple(
            BackendSpec(
                name=f"server-{number}-{index}",
                kind="fake",
                serial=random.random() < 0.4,
                parallel=random.choice([1, 2, 64]),
            )
            for index in range(random.randint(1, 2))
        )
        hosts.append(HostSpec(name=f"host-{number}", vram_mb=24000, margin=0.9, backends=backends))
    names = [backend.name for host in hosts for backend in host.backends]
    models = [_random_model(random, f"model-{n}", names) for n in range(random.randint(2, 6))]
    installation = Installation.of(models, hosts, url=url, unloads_together=random.random() < 0.2)
    for spec in installation.catalog.backends.values():
        server = installation.servers[spec.name]
        server.load_s = random.choice([1.0, 10.0, 30.0])
        server.unload_s = random.choice([0.0, 2.0])
        server.tells_loaded = random.random() < 0.8
        server.slots = 1 if spec.serial else spec.parallel
    return installation


def _random_model(random: Random, name: str, backends: Sequence[str]) -> ModelSpec:
    able = random.sample(backends, random.randint(1, len(backends)))
    return image_model(
        name,
        *able,
        vram_mb=random.choice([2000, 6000, 12000, 20000]),
        parallel=random.choice([1, 1, 4]),
        service_s=random.choice([2.0, 5.0, 20.0]),
        timeouts=TIMEOUTS,
    )


def misfortune(random: Random, server: FakeServer, how_often: float) -> None:
    """Give a server random fates for attempts and loads."""

    def attempt(_work: Work) -> Fate:
        service_s = random.choice([1.0, 4.0, 15.0])
        if random.random() >= how_often:
            return Fate(service_s=service_s)
        name = server.name
        return random.choice(
            [
                Fate(service_s=service_s, error=Unavailable(f"{name}: broken pipe")),
                Fate(service_s=service_s, error=OutOfMemory(f"{name}: out of memory")),
                Fate(service_s=service_s, error=Rejected("no such sampler")),
                Fate(service_s=service_s, error=NotLoaded("it left")),
                Fate(service_s=service_s, error=BackendError("garbage")),
                Fate(service_s=service_s, error=RuntimeError("a bug")),
                Fate(hang=True),
                Fate(service_s=service_s, crash=True),
            ]
        )

    def load() -> Exception | None:
        if random.random() >= how_often:
            return None
        return random.choice(
            [OutOfMemory("out of memory"), Unavailable("reset"), TimeoutError(), ValueError("bug")]
        )

    server.fates = attempt
    server.load_fates = load


@dataclass
class Chaos:
    """One run: people submit and cancel, servers fail, the process is killed and comes back.

    With `kept_free`, hosts have quiet hours and games. With `acts`, admins pause, drain, clear,
    move and preload at random as well; in the end they resume and unload everything.
    """

    seed: int
    folder: Path
    kills: int = 3
    jobs: int = 40
    how_often: float = 0.1
    disasters: int = 6
    acts: int = 0
    kept_free: bool = False

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.installation = random_installation(
            self.random, f"sqlite:///{self.folder / 'usher.db'}"
        )
        self.witness = Witness()
        if self.kept_free:
            self.witness.kept_free = KeptFree(Random(self.seed), self.installation)
        self.accepted: dict[str, int] = {}  # job ids by key
        self.calls = 0
        self.queue: JobQueue | None = None

    async def run(self) -> None:
        for server in self.installation.servers.values():
            misfortune(self.random, server, self.how_often)
        async with asyncio.TaskGroup() as outside:
            outside.create_task(self._people())
            outside.create_task(self._disasters())
            outside.create_task(self._admins())
            await self._runs()

    # ------------------------------------------------------------ the process and its deaths

    async def _runs(self) -> None:
        """Live and die, by a kill or in order; the last run continues until everything is quiet."""
        for _ in range(self.kills):
            if self.random.random() < 0.7:
                quiet = await self._run(dies_at=self.random.randint(1, 250))
            else:
                quiet = await self._run(stops_after_s=self.random.uniform(1, 120))
            if quiet:
                return
            await asyncio.sleep(self.random.choice([0.1, 5.0, 60.0]))
        assert await self._run()

    async def _run(self, *, dies_at: int | None = None, stops_after_s: float | None = None) -> bool:
        """Run a queue until it dies, is stopped, or everything has ended; return whether it has."""
        loop = asyncio.get_running_loop()
        real = JobStore(await open_database(self.installation.url, inline=True))
        backends = self.installation.connect()
        over: asyncio.Future[bool] = loop.create_future()

        def died() -> None:
            for backend in backends.values():
                backend.dead = True
            over.set_result(False)

        def stop() -> None:
            if not over.done():
                over.set_result(False)

        store = CrashPointStore(real, dies_at, after=self.random.random() < 0.5, died=died)
        # What a killed queue did last may never have been told.
        self.witness.jobs = {job.id: job for job in await real.open_jobs()}
        self.queue = self.installation.build(store, backends)
        self.queue.events.subscribe(self.witness.on_event)
        task = asyncio.create_task(self.queue.run())
        watch = asyncio.create_task(self._quiet(real, over))
        if stops_after_s is not None:
            loop.call_later(stops_after_s, stop)
        quiet = await over
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)
        self.queue = None
        self.calls += store.calls
        if quiet:
            await self._check(real)
        await real.aclose()
        return quiet

    async def _quiet(self, store: JobStore, over: asyncio.Future[bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_WITHIN_S):
                # Checking every few seconds costs nothing in virtual time.
                while len(self.accepted) < self.jobs or await store.open_jobs():  # noqa: ASYNC110
                    await asyncio.sleep(5.0)
            if not over.done():
                over.set_result(True)
        if not over.done():
            over.set_exception(AssertionError(f"jobs never end: {await store.open_jobs()}"))

    # ------------------------------------------------------------ people and disasters

    async def _people(self) -> None:
        models = list(self.installation.catalog.models)
        for number in range(self.jobs):
            await asyncio.sleep(self.random.choice([0.0, 0.1, 3.0, 20.0]))
            new = self.installation.new(
                self.random.choice(models),
                f"prompt {number}",
                owner=f"web:{self.random.randint(1, 4)}",
                lane=self.random.choice(["normal", "normal", "vip", "relaxed"]),
            )
            job_id = await self._submit(new)
            self.accepted[new.key] = job_id
            if self.random.random() < 0.1:
                await asyncio.sleep(self.random.choice([0.0, 2.0, 30.0]))
                await self._cancel(job_id)

    async def _submit(self, new: NewJob) -> int:
        """Ask until it is accepted, as a chat platform delivers an update again."""
        while True:
            with suppress(Killed, NotAccepting):
                if self.queue is not None:
                    return (await self.queue.submitter.submit(new, limits=NO_LIMITS)).id
            await asyncio.sleep(1.0)

    async def _cancel(self, job_id: int) -> None:
        with suppress(Killed):
            if self.queue is not None:
                await self.queue.submitter.cancel(job_id)

    async def _disasters(self) -> None:
        servers = list(self.installation.servers.values())
        for _ in range(self.disasters):
            await asyncio.sleep(self.random.uniform(5, 60))
            server = self.random.choice(servers)
            match self.random.randint(0, 3):
                case 0:
                    server.die(self.random.choice([1.0, 20.0, 90.0]))
                case 1:
                    server.wedged = True
                    asyncio.get_running_loop().call_later(400.0, server.die)
                case 2:
                    server.gpu.other_mb = self.random.choice([0, 6000, 14000])
                case _:
                    for model in server.memory - {attempt.model for attempt in server.running}:
                        server.evict(model)
        for gpu in self.installation.gpus.values():
            gpu.other_mb = 0

    async def _admins(self) -> None:
        random = Random(self.seed + 1)  # of their own: other runs stay what they were
        for _ in range(self.acts):
            await asyncio.sleep(random.uniform(1, 40))
            await self._by_admin(random)
        # What stays pinned forever keeps others waiting forever, and rightly so.
        for last in (_unload_all, lambda queue: queue.admin.resume()):
            for _ in range(1000):
                if not self.acts or await self._asked(last):
                    break
                await asyncio.sleep(1.0)

    async def _by_admin(self, random: Random) -> None:
        model = random.choice(list(self.installation.catalog.models))
        host = random.choice(list(self.installation.catalog.hosts))
        job_id = random.randint(1, self.jobs)
        acts: list[Callable[[JobQueue], Awaitable[object]]] = [
            lambda queue: queue.admin.pause(model=model),
            lambda queue: queue.admin.pause(host=host),
            lambda queue: queue.admin.resume(model=model),
            lambda queue: queue.admin.resume(host=host),
            lambda queue: queue.admin.resume(),
            lambda queue: queue.admin.drain(host),
            lambda queue: queue.admin.move_first(job_id),
            lambda queue: queue.admin.move_first(job_id),
            lambda queue: queue.preloads.preload(model, None),
            lambda queue: queue.preloads.unload(model, None),
        ]
        if random.random() < 0.1:
            acts = [lambda queue: queue.admin.clear(model), lambda queue: queue.admin.pause()]
        await self._asked(random.choice(acts))

    async def _asked(self, act: Callable[[JobQueue], Awaitable[object]]) -> bool:
        """Have an act carried out, for a minute at most; return whether it was."""
        if self.queue is None:
            return False
        with suppress(Killed, Refused, BackendError, StoreError, TimeoutError):
            async with asyncio.timeout(60):
                await act(self.queue)
            return True
        return False

    # ------------------------------------------------------------ what must hold

    async def _check(self, store: JobStore) -> None:
        assert not self.installation.violations, self.installation.violations
        assert not self.witness.faults, self.witness.faults
        assert len(set(self.accepted.values())) == self.jobs
        for key, job_id in self.accepted.items():
            job = await store.get(job_id)
            assert job is not None, f"job {job_id} is lost"
            assert job.state.final, f"job {job_id} never ended"
            assert self.witness.ends[job_id] <= 1, f"job {job_id} ended twice"
            found = await store.find(key)
            assert found is not None
            assert found.id == job_id
            await self._check_result(store, job)
        assert self.calls < 1000 * (self.jobs + 10), "the queue went round in circles"

    async def _check_result(self, store: JobStore, job: Job) -> None:
        output = await store.output(job)
        if job.state is JobState.COMPLETED:
            assert output is not None
            prompt = getattr(job.request, "prompt", "")
            assert output.text == f"result of {prompt}"
        else:
            assert output is None
        assert (job.error is not None) == (job.state is JobState.FAILED)


async def _unload_all(queue: JobQueue) -> None:
    for model in queue.models.offer.catalog.models:
        await queue.preloads.unload(model, None)
