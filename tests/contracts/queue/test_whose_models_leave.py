"""Whose models a failure removes from a GPU, on every server that can unload: nobody else's."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from queueing.core.catalog import Catalog
from queueing.core.errors import BackendError
from queueing.core.events import JobChanged
from queueing.core.jobs import JobState, NewJob
from queueing.core.ports import Backend
from queueing.core.requests import Capability, Request, TextToImage
from queueing.core.specs import ModelSpec
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.contracts.backend.backend_harness import Harness
from tests.contracts.backend.test_backend import HARNESSES
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.security.hostile_server import ASKED, Asked, HostileServer, hostile_server
from tests.simulation.installation import NO_LIMITS, host, image_model

FAULTS = ("error", "refusal", "error in a whole answer", "told error")
HUGE = TextToImage(prompt="a wall", width=8192, height=8192)


class Faulty:
    """A backend whose runs, or loads, are answered by a hostile server."""

    def __init__(self, backend: Backend, server: HostileServer) -> None:
        self._backend = backend
        self._server = server
        self.in_run = ""
        self.in_load = ""
        self.failed_loads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def run(self, *given: Any) -> Any:
        with self._answered(self.in_run):
            return await self._backend.run(*given)

    async def load(self, model: ModelSpec) -> None:
        with self._answered(self.in_load):
            try:
                await self._backend.load(model)
            except BackendError:
                self.failed_loads += 1
                raise

    @contextmanager
    def _answered(self, fault: str) -> Iterator[None]:
        self._server.answer = fault
        before = ASKED.set(Asked(after=0) if fault else None)
        try:
            yield
        finally:
            ASKED.reset(before)


class Room:
    """A queue with two servers on one GPU: the one in question, and another with an idle model."""

    def __init__(self, harness: Harness, hostile: HostileServer) -> None:
        self.harness = harness
        self.own = Faulty(harness.backend, hostile)
        self.other = FakeServer(
            "other", FakeGpu(total_mb=24000, budget_mb=24000), load_s=0.0, service_s=0.0
        )
        self.other.fetch_s = 0.0
        self.spec = replace(
            harness.model, backends=("own",), vram_mb=8000, max_attempts=1, parallel=1
        )
        self.queue: JobQueue | None = None
        self._asked = 0
        self._ends = defaultdict[int, asyncio.Future[JobState]](asyncio.Future)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        catalog = Catalog([self.spec, image_model("idle", "other")], [host("gpu", "own", "other")])
        store = JobStore(await open_database("sqlite://", inline=True))
        backends: dict[str, Any] = {"own": self.own, "other": FakeBackend(self.other)}
        self.queue = JobQueue(
            store=store, catalog=catalog, backends=backends, clock=VirtualClock(), runner="test"
        )
        self.queue.events.subscribe(self._heard)
        task = asyncio.create_task(self.queue.run())
        try:
            await self.asks("idle", TextToImage(prompt="a"))
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await store.aclose()

    def _heard(self, event: object) -> None:
        if isinstance(event, JobChanged) and event.job.state.final:
            self._ends[event.job.id].set_result(event.job.state)

    async def asks(self, model: str, request: Request) -> JobState:
        """Have a request done; return how it ended."""
        assert self.queue is not None
        self._asked += 1
        files = self.harness.files if model != "idle" and request != HUGE else ()
        new = NewJob(model=model, request=request, files=files, owner="o", key=f"k{self._asked}")
        job = await self.queue.submitter.submit(new, limits=NO_LIMITS)
        async with asyncio.timeout(60):
            return await self._ends[job.id]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    with hostile_server(monkeypatch) as server:
        yield server


@pytest.mark.parametrize("name", [n for n in HARNESSES if not n.startswith("comfyui-")])
async def test_a_failure_costs_nobody_else_a_model(name: str, hostile: HostileServer) -> None:
    """One request with the right words would empty the GPU for everybody."""
    async with HARNESSES[name].opens() as harness:
        asked = Asked(after=100)
        before = ASKED.set(asked)
        await harness.backend.probe()
        ASKED.reset(before)
        if harness.backend.can_unload and asked.count:  # the demo asks no server
            room = Room(harness, hostile)
            async with room.opened():
                await costs_nothing(room, "comfyui" not in name)


@pytest.mark.parametrize("name", [n for n in HARNESSES if not n.startswith(("comfyui-", "demo"))])
async def test_a_failed_load_costs_nobody_else_a_model_unless_the_gpu_is_named(
    name: str, hostile: HostileServer
) -> None:
    """A server whose failed load quotes a person would empty the GPU for everybody.

    Its own sentence about the GPU's memory is believed: the model may be larger than configured.
    """
    async with HARNESSES[name].opens() as harness:
        if not harness.backend.can_unload:
            return
        for fault, leaves in (("error", False), ("no main memory", False), ("no memory", True)):
            await harness.backend.unload(harness.model)
            room = Room(harness, hostile)
            room.own.in_load = fault
            async with room.opened():
                await room.asks(room.spec.name, room.harness.quick)
                tries = room.own.failed_loads
                assert tries in ((1, 2) if leaves else (1,)), "otherwise this test proves nothing"
                assert bool(room.other.unloads) is (tries == 2), fault


async def costs_nothing(room: Room, says_so: bool) -> None:
    """Have requests fail without an unload; if it `says_so`, a lack of memory does unload."""
    for fault in FAULTS:
        room.own.in_run = fault
        assert await room.asks(room.spec.name, room.harness.quick) is JobState.FAILED
        assert not room.other.unloads, fault
    room.own.in_run = "no memory"
    if Capability.TEXT_TO_IMAGE in room.spec.capabilities:
        assert await room.asks(room.spec.name, HUGE) is JobState.FAILED
        assert not room.other.unloads, "of a huge request"
    if says_so:
        assert await room.asks(room.spec.name, room.harness.quick) is JobState.FAILED
        assert room.other.unloads, "otherwise this test proves nothing"
