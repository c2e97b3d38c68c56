"""A real queue on a real store with real adapters, for servers that are other processes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from backends.registry import KINDS, connect
from queueing.core.catalog import Catalog
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, NewJob, SubmitLimits
from queueing.core.ports import MemoryProbe, SystemClock
from queueing.core.requests import Capability, Chat, ChatMessage, TextToImage
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore

CHECKPOINT = "sd_xl_base_1.0.safetensors"
NO_LIMITS = SubmitLimits()
PATIENCE_S = 120.0


def backend(kind: str, name: str, url: str) -> BackendSpec:
    made = KINDS[kind]
    return BackendSpec(
        name=name,
        kind=kind,
        url=url,
        serial=made.serial,
        max_models=made.max_models,
        offloads=made.offloads,
        parallel=made.parallel,
    )


def image_model(name: str, *backends: str, vram_mb: int = 12_000, **fields: Any) -> ModelSpec:
    given = {"load_s": 0.5, "service_s": 0.5, "vram_mb": vram_mb} | fields
    return ModelSpec(
        name=name,
        backends=backends,
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        options={"workflow": "sdxl.json", "values": {"checkpoint": CHECKPOINT}},
        **given,
    )


def text_model(name: str, *backends: str, vram_mb: int = 12_000, **fields: Any) -> ModelSpec:
    given = {"load_s": 0.5, "service_s": 0.5, "parallel": 2, "vram_mb": vram_mb} | fields
    return ModelSpec(
        name=name,
        backends=backends,
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        **given,
    )


_numbers = itertools.count(1)


def image(model: str, *, steps: int = 4, words: str = "cat") -> NewJob:
    number = next(_numbers)
    request = TextToImage(prompt=f"{words} {number}", width=64, height=64, steps=steps, seed=number)
    return NewJob(model=model, request=request, owner="test:1", key=f"image {number}")


def text(model: str, *, words: str = "hello") -> NewJob:
    number = next(_numbers)
    request = Chat(messages=(ChatMessage(role="user", text=f"{words} {number}"),))
    return NewJob(model=model, request=request, owner="test:1", key=f"text {number}")


@dataclass
class Ends:
    """Collects the ends of jobs and wakes the tasks that wait for them."""

    by_id: dict[int, Job] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_event(self, event: Event) -> None:
        if isinstance(event, JobChanged):
            if event.job.state.final:
                self.by_id[event.job.id] = event.job
            self.changed.set()

    async def of(self, jobs: Sequence[Job]) -> list[Job]:
        async with asyncio.timeout(PATIENCE_S):
            while not all(job.id in self.by_id for job in jobs):
                self.changed.clear()
                await self.changed.wait()
        return [self.by_id[job.id] for job in jobs]


@dataclass
class Installation:
    """What a test uses while its queue runs."""

    queue: JobQueue
    ends: Ends

    async def submit(self, *new: NewJob) -> list[Job]:
        return [await self.queue.submitter.submit(one, limits=NO_LIMITS) for one in new]

    async def done(self, *new: NewJob) -> list[Job]:
        return await self.ends.of(await self.submit(*new))


@asynccontextmanager
async def installation(
    folder: Path,
    hosts: Sequence[HostSpec],
    models: Sequence[ModelSpec],
    *,
    memory: MemoryProbe | None = None,
) -> AsyncIterator[Installation]:
    """Run a queue until the block ends."""
    catalog = Catalog(models, hosts)
    backends = {name: connect(spec) for name, spec in catalog.backends.items()}
    store = JobStore(await open_database(f"sqlite:///{folder}/usher.sqlite"))
    queue = JobQueue(
        store=store,
        catalog=catalog,
        backends=backends,
        clock=SystemClock(),
        memory=memory,
        runner="test",
        grace_s=1.0,
    )
    ends = Ends()
    queue.events.subscribe(ends.on_event)
    running = asyncio.create_task(queue.run())
    try:
        yield Installation(queue=queue, ends=ends)
    finally:
        running.cancel()
        await asyncio.wait([running])
        for server in backends.values():
            await server.aclose()
        await store.aclose()


async def told(url: str) -> dict[str, Any]:
    """Return what a fake server in another process has seen."""
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        answer: dict[str, Any] = (await client.get(f"{url}/_told")).json()
    return answer


async def set_faults(url: str, **faults: Any) -> None:
    """Set what goes wrong from now on with a fake server in another process."""
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        (await client.post(f"{url}/_faults", json=faults)).raise_for_status()


async def die(url: str) -> None:
    """Have a fake server in another process die at once; `respawning` starts it again."""
    with suppress(httpx.HTTPError):
        await set_faults(url, die=True)


async def until(holds: Callable[[], Any], *, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition, which may be awaitable, holds: other processes cannot signal."""
    async with asyncio.timeout(within_s):
        while True:
            answer = holds()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            await asyncio.sleep(0.05)
