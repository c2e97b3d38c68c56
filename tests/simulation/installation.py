"""Builds a queue with fake servers and a real SQLite store for tests in virtual time."""

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from queueing.core.catalog import Catalog, Offers
from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, NewJob, SubmitLimits
from queueing.core.ports import Clock, GpuWatch, HostControl, MemoryProbe
from queueing.core.requests import Capability, TextToImage
from queueing.core.snapshot import Rules
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer

NO_LIMITS = SubmitLimits()


def image_model(name: str, *backends: str, vram_mb: int | None = 8000, **fields: Any) -> ModelSpec:
    given: dict[str, Any] = {"load_s": 10.0, "service_s": 5.0} | fields
    return ModelSpec(
        name=name,
        backends=backends or ("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        vram_mb=vram_mb,
        **given,
    )


def host(
    name: str, *backends: str, vram_mb: int = 24000, margin: float = 1.0, serial: bool = False
) -> HostSpec:
    specs = tuple(BackendSpec(name=b, kind="fake", serial=serial) for b in backends)
    return HostSpec(name=name, vram_mb=vram_mb, backends=specs, margin=margin)


@dataclass
class Installation:
    """Hosts, servers and models outside a queue; queues come and go on the same database."""

    catalog: Catalog
    gpus: dict[str, FakeGpu]
    servers: dict[str, FakeServer]
    url: str = "sqlite://"
    rules: Rules | None = None
    memory: MemoryProbe | None = None
    gpus_watch: GpuWatch | None = None
    machines: HostControl | None = None
    clock: Clock = field(default_factory=VirtualClock)
    grace_s: float = 8.0
    long_queue: int = 50
    offers: Offers = lambda _catalog, _model: True
    held: bool = True
    events: list[Event] = field(default_factory=list)
    keys: int = 0
    unloads_together: bool = False
    keepers: frozenset[str] = frozenset()  # servers that cannot unload a model on request

    @classmethod
    def of(
        cls, models: Iterable[ModelSpec], hosts: Iterable[HostSpec], **fields: Any
    ) -> "Installation":
        catalog = Catalog(models, hosts)
        gpus = {
            h.name: FakeGpu(total_mb=h.vram_mb, budget_mb=h.usable_mb)
            for h in catalog.hosts.values()
        }
        servers = {b: FakeServer(b, gpus[h]) for b, h in catalog.host_of.items()}
        return cls(catalog=catalog, gpus=gpus, servers=servers, **fields)

    @property
    def violations(self) -> list[str]:
        """What a queue did that it must never do."""
        gpus = [v for gpu in self.gpus.values() for v in gpu.violations]
        return gpus + [v for server in self.servers.values() for v in server.violations]

    def new(self, model: str, prompt: str, **fields: Any) -> NewJob:
        self.keys += 1
        given = {"owner": "web:1", "key": f"k{self.keys}", "reply_to": "web"} | fields
        return NewJob(model=model, request=TextToImage(prompt=prompt), **given)

    async def ask(self, queue: JobQueue, model: str, prompt: str, **fields: Any) -> Job:
        """Have a job accepted, whatever its owner has asked for before."""
        return await queue.submitter.submit(self.new(model, prompt, **fields), limits=NO_LIMITS)

    @asynccontextmanager
    async def queue(self, store: Any = None) -> AsyncIterator[JobQueue]:
        """Run a queue until the block ends; then stop it in order and close its store.

        Without a store it opens its own on the installation's database.
        """
        if store is None:
            store = JobStore(await open_database(self.url, inline=True))
        queue = self.build(store, self.connect())
        task = asyncio.create_task(queue.run())
        try:
            yield queue
        finally:
            task.cancel()
            await asyncio.wait([task])
            await store.aclose()
            if not task.cancelled():
                task.result()

    def connect(self) -> dict[str, FakeBackend]:
        """Return the adapters of a new process, one for each server."""
        return {
            name: FakeBackend(
                server, unloads_together=self.unloads_together, can_unload=name not in self.keepers
            )
            for name, server in self.servers.items()
        }

    def build(self, store: Any, backends: Mapping[str, FakeBackend]) -> JobQueue:
        queue = JobQueue(
            store=store,
            catalog=self.catalog,
            backends=backends,
            clock=self.clock,
            rules=self.rules,
            memory=self.memory,
            gpus=self.gpus_watch,
            machines=self.machines,
            runner="test",
            grace_s=self.grace_s,
            long_queue=lambda: self.long_queue,
            offers=self.offers,
            held=lambda: self.held,
        )
        queue.events.subscribe(self.events.append)
        return queue

    def history(self, job_id: int) -> list[JobEvent | None]:
        """Return what happened to a job, in order."""
        return [e.event for e in self.events if isinstance(e, JobChanged) and e.job.id == job_id]


def one_gpu(*models: ModelSpec, url: str = "sqlite://") -> Installation:
    """Return one server, `comfy`, on a GPU of 24 GB."""
    return Installation.of(models, [host("gpu", "comfy")], url=url)


def flux_or_sdxl() -> Installation:
    """Return a GPU that holds either flux or sdxl."""
    return one_gpu(image_model("flux", vram_mb=16000), image_model("sdxl", vram_mb=16000))


async def ended(queue: JobQueue, job: Job, *, within_s: float = 3600.0) -> Job:
    """Wait in virtual time until a job has ended and return it."""
    looks = Looks(0.25)
    changed = asyncio.Event()

    def told(event: object) -> None:
        if isinstance(event, JobChanged) and event.job.id == job.id:
            changed.set()

    queue.events.subscribe(told)
    async with asyncio.timeout(within_s):
        while True:
            current = await queue.jobs.get(job.id)
            assert current is not None
            if current.state.final:
                return current
            await changed.wait()
            changed.clear()
            await looks.next()


async def until(condition: Any, *, within_s: float = 3600.0) -> None:
    """Wait in virtual time until a condition holds."""
    looks = Looks(0.05)
    async with asyncio.timeout(within_s):
        while not condition():
            await looks.next()


class Looks:
    """The moments at which a test checks again: after hours, as rarely as its timeout allows."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._began = self._last = asyncio.get_running_loop().time()

    async def next(self) -> None:
        """Wait for the next of the moments."""
        now = asyncio.get_running_loop().time()
        while self._last <= now:
            self._last += max(self._after_s, (self._last - self._began) / 1000)
        await asyncio.sleep(self._last - now)


class FlakyStore:
    """A real store that fails the calls named in `failing`, as a full or broken disk would."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.failing: set[str] = set()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not inspect.iscoroutinefunction(value):
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            event = args[1] if name == "apply" else None
            if name in self.failing or (isinstance(event, JobEvent) and event in self.failing):
                raise StoreError("the disk is full")
            return await value(*args, **kwargs)

        return call
