"""The servers of a trace: they load and run in virtual time and record what they did."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.schedule.trace import LoadOutcome, Trace, TraceModel
from queueing.core.errors import NotLoaded
from queueing.core.ports import Fetch, Report
from queueing.core.requests import Output, TextToImage, Work
from queueing.core.snapshot import Rules
from queueing.core.specs import ModelSpec
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.simulation.installation import Installation


@dataclass
class Run:
    """One attempt at a job, as its server saw it."""

    backend: str
    ready_s: float
    started_s: float
    ends_s: float  # unless it is cancelled before
    finished_s: float | None = None


@dataclass
class Gpu:
    """The memory of one host, and the models that left since its last load began."""

    several: bool  # more than one backend: names alone would be ambiguous
    slows: float
    running: int = 0
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    peak_mb: int = 0
    left: list[str] = field(default_factory=list)

    def take(self, backend: str, model: str, vram_mb: int) -> tuple[str, ...]:
        """Add a copy; return the models that left to make room."""
        self.held[backend, model] = vram_mb
        self.peak_mb = max(self.peak_mb, sum(self.held.values()))
        left, self.left = tuple(self.left), []
        return left

    def give(self, backend: str, model: str) -> None:
        """Remove a copy."""
        if self.held.pop((backend, model), None) is not None:
            self.left.append(f"{backend}:{model}" if self.several else model)


class Ledger:
    """What all servers of a trace recorded, on one time axis."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.models = {model.name: model for model in trace.models}
        self.gpus = {
            host.name: Gpu(several=len(host.backends) > 1, slows=host.slows) for host in trace.hosts
        }
        self.runs: dict[int, Run] = {}
        self.loads: list[LoadOutcome] = []
        self._ready: dict[str, set[str]] = {}  # backends by model
        self.ready_since: dict[str, float] = {}  # without a break on all of them, by model

    def gpus_of(self, model: str, backend: str) -> list[Gpu]:
        """Return the GPUs that a copy uses."""
        return [self.gpus[host] for host in self.trace.shares(self.models[model], backend)]

    def took(self, model: TraceModel, backend: str) -> tuple[str, ...]:
        """Add a copy on all its GPUs; return the models that left to make room."""
        shares = self.trace.shares(model, backend)
        lists = [self.gpus[host].take(backend, model.name, mb) for host, mb in shares.items()]
        left = tuple(dict.fromkeys(name for names in lists for name in names))
        for gpu in self.gpus.values():  # a model that spanned several is named once
            gpu.left = [name for name in gpu.left if name not in left]
        return left

    def arrived(self, model: str, backend: str, now: float) -> None:
        """Record that a copy is ready."""
        ready = self._ready.setdefault(model, set())
        if not ready:
            self.ready_since[model] = now
        ready.add(backend)

    def left(self, model: str, backend: str) -> None:
        """Record that a copy has left."""
        self._ready.get(model, set()).discard(backend)
        for gpu in self.gpus.values():
            gpu.give(backend, model)


class TraceServer(FakeBackend):
    """A `Backend` that does exactly what the trace says and nothing else."""

    max_models: int | None = None  # as many as fit

    def __init__(self, name: str, ledger: Ledger) -> None:
        super().__init__(FakeServer(name, FakeGpu(total_mb=0, budget_mb=0)))
        self.server.remembers = False
        self.name = name
        self._ledger = ledger
        self._memory: set[str] = set()

    def hold(self, model: TraceModel) -> None:
        """Have a model in memory from the start."""
        self._memory.add(model.name)
        self._ledger.took(model, self.name)
        self._ledger.arrived(model.name, self.name, 0.0)

    async def run(self, model: ModelSpec, work: Work, _report: Report) -> Fetch:
        """Take as long as the trace says, or until cancelled."""
        if model.name not in self._memory:
            raise NotLoaded(f"{model.name} is not loaded on {self.name}")
        index = index_of(work.request)
        job = self._ledger.trace.jobs[index]
        now = asyncio.get_running_loop().time()
        since = max(job.at, self._ledger.ready_since[model.name])
        gpus = self._ledger.gpus_of(model.name, self.name)
        takes_s = job.service_s * (1 + max(gpu.slows * gpu.running for gpu in gpus))
        run = Run(backend=self.name, ready_s=since, started_s=now, ends_s=now + takes_s)
        self._ledger.runs[index] = run
        for gpu in gpus:
            gpu.running += 1
        try:
            await sleep_until(run.ends_s)
            run.finished_s = run.ends_s
        except asyncio.CancelledError:
            run.finished_s = asyncio.get_running_loop().time()
            raise
        finally:
            for gpu in gpus:
                gpu.running -= 1
        return _nothing

    async def load(self, model: ModelSpec) -> None:
        """Take as long as the trace says."""
        if model.name in self._memory:
            return
        spec = self._ledger.models[model.name]
        now = asyncio.get_running_loop().time()
        ends_s = now + spec.load_s
        evicted = self._ledger.took(spec, self.name)
        # Recorded as it begins: a load that the trace's end cuts short has taken its memory, too.
        times = {"started_s": now, "finished_s": ends_s}
        self._ledger.loads.append(
            LoadOutcome(backend=self.name, model=model.name, evicted=evicted, **times)
        )
        await sleep_until(ends_s)
        self._memory.add(model.name)
        self._ledger.arrived(model.name, self.name, ends_s)

    async def unload(self, model: ModelSpec) -> None:
        """Take no time."""
        self._memory.discard(model.name)
        self._ledger.left(model.name, self.name)

    async def loaded(self, _models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return the models in memory."""
        return frozenset(self._memory)


class TraceInstallation(Installation):
    """The hosts, servers and models of a trace."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        catalog, clock = ledger.trace.catalog(), VirtualClock(0.0)
        super().__init__(catalog=catalog, gpus={}, servers={}, rules=rules, clock=clock)
        self._ledger = ledger

    def connect(self) -> dict[str, FakeBackend]:
        """Return the servers, with what they hold from the start."""
        trace = self._ledger.trace
        servers = {name: TraceServer(name, self._ledger) for name in trace.hosts_of()}
        for resident in trace.resident:
            servers[resident.backend].hold(self._ledger.models[resident.model])
        return {**servers}


def index_of(request: object) -> int:
    """Return the index of the job that a request stands for, which is its prompt."""
    if not isinstance(request, TextToImage):
        raise TypeError(f"not a request of a trace: {request!r}")
    return int(request.prompt)


async def sleep_until(moment: float) -> None:
    """Sleep until the virtual loop's time is exactly that moment."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    timer = loop.call_at(moment, reached.set_result, None)
    try:
        await reached
    finally:
        timer.cancel()


async def _nothing() -> Output:
    return Output(text="done")
