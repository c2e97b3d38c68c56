"""The servers of a trace: they load and run in virtual time and write down what they did."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.trace import LoadOutcome, Trace, TraceModel
from queueing.core.catalog import ModelSpec
from queueing.core.errors import NotLoaded, Unavailable
from queueing.core.ports import Fetch, Recorded, Report, ServerInfo, at_once
from queueing.core.requests import Capability, Output, TextToImage, Work


@dataclass
class Run:
    """One attempt at a job, as its server saw it."""

    backend: str
    ready_s: float
    started_s: float
    ends_s: float  # unless it is cancelled before
    finished_s: float | None = None


@dataclass
class Card:
    """The memory of one host, and who left since its last load began."""

    several: bool  # more than one backend: names alone would be ambiguous
    slows: float = 0.0  # by how much of its time each other job there slows one that begins
    running: int = 0
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    peak_mb: int = 0
    left: list[str] = field(default_factory=list)

    def take(self, backend: str, model: str, vram_mb: int) -> tuple[str, ...]:
        """Count a copy; return who left to make its room."""
        self.held[backend, model] = vram_mb
        self.peak_mb = max(self.peak_mb, sum(self.held.values()))
        left, self.left = tuple(self.left), []
        return left

    def unlist(self, gone: Sequence[str]) -> None:
        """Forget who left: a load on another card of the machine has named them."""
        self.left = [name for name in self.left if name not in gone]

    def give(self, backend: str, model: str) -> None:
        """Count a copy no longer."""
        if self.held.pop((backend, model), None) is not None:
            self.left.append(f"{backend}:{model}" if self.several else model)


class Ledger:
    """What all servers of a trace wrote down, on one time axis."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.models = {model.name: model for model in trace.models}
        self.cards = {
            host.name: Card(several=len(host.backends) > 1, slows=host.slows)
            for host in trace.hosts
        }
        self.runs: dict[int, Run] = {}
        self.loads: list[LoadOutcome] = []
        self.ready_since: dict[str, dict[str, float]] = {}  # by model and backend
        self._unbroken: dict[str, float] = {}  # since when some copy of a model is in memory

    def cards_of(self, model: TraceModel, backend: str) -> list[Card]:
        """Return the cards a copy lies on."""
        return [self.cards[host] for host in self.trace.shares(model, backend)]

    def took(self, model: TraceModel, backend: str) -> tuple[str, ...]:
        """Count a copy on all its cards; return who left to make its room."""
        shares = self.trace.shares(model, backend)
        lists = [self.cards[host].take(backend, model.name, mb) for host, mb in shares.items()]
        left = tuple(dict.fromkeys(name for names in lists for name in names))
        for card in self.cards.values():
            card.unlist(left)
        return left

    def gave(self, model: str, backend: str) -> None:
        """Count a copy no longer."""
        for card in self.cards.values():
            card.give(backend, model)

    def arrived(self, model: str, backend: str, now: float) -> None:
        """Note that a copy is ready."""
        copies = self.ready_since.setdefault(model, {})
        if not copies:
            self._unbroken[model] = now
        copies[backend] = now

    def left(self, model: str, backend: str) -> None:
        """Note that a copy is no longer ready."""
        self.ready_since.get(model, {}).pop(backend, None)

    def in_memory_since(self, model: str) -> float:
        """Return since when the model has been in memory somewhere without a break."""
        return self._unbroken[model]


class TraceServer:
    """A `Backend` that does exactly what the trace says and nothing else."""

    capabilities = frozenset(Capability)
    unloads_together = False
    can_unload = True
    max_models: int | None = None  # as many as fit: traces speak of memory only

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self.up = True
        self._ledger = ledger
        self._memory: set[str] = set()

    def hold(self, model: TraceModel) -> None:
        """Have a model in memory from the start."""
        self._memory.add(model.name)
        self._ledger.took(model, self.name)
        self._ledger.arrived(model.name, self.name, 0.0)

    def forget(self) -> None:
        """Lose what is in memory, as in a restart."""
        for model in tuple(self._memory):
            self._lose(model)

    def _lose(self, model: str) -> None:
        self._memory.discard(model)
        self._ledger.left(model, self.name)
        self._ledger.gave(model, self.name)

    def _answer(self) -> None:
        if not self.up:
            raise Unavailable(f"{self.name} does not answer")

    def check(self, model: ModelSpec) -> None:
        """Accept every model."""

    def options(self, _model: ModelSpec) -> frozenset[str] | None:
        """Take every option."""
        return None

    async def held_besides(self, _models: Sequence[ModelSpec]) -> Mapping[str, int]:
        """Return nothing: no one else uses it."""
        return {}

    async def loras(self, _model: ModelSpec) -> tuple[str, ...]:
        """Offer none."""
        return ()

    def weightless(self, _model: ModelSpec) -> bool:
        """Let every model take memory."""
        return False

    def own_name(self, model: ModelSpec) -> str:
        """Return the name."""
        return model.name

    async def probe(self) -> ServerInfo:
        """Answer at once, unless it is down. Raises `Unavailable`."""
        self._answer()
        return ServerInfo(description="trace")

    async def verify(self, model: ModelSpec) -> None:
        """Accept every model."""

    async def discover(self, _known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Offer nothing beyond the trace."""
        return ()

    async def run(
        self, model: ModelSpec, work: Work, _report: Report, recorded: Recorded = at_once
    ) -> Fetch:
        """Take as long as the trace says, or until cancelled; nothing is left to fetch."""
        await recorded()
        self._answer()
        if model.name not in self._memory:
            raise NotLoaded(f"{model.name} is not loaded on {self.name}")
        index = index_of(work.request)
        job = self._ledger.trace.jobs[index]
        now = asyncio.get_running_loop().time()
        since = max(job.at, self._ledger.in_memory_since(model.name))
        cards = self._ledger.cards_of(self._ledger.models[model.name], self.name)
        takes_s = job.service_s * (1 + max(card.slows * card.running for card in cards))
        run = Run(backend=self.name, ready_s=since, started_s=now, ends_s=now + takes_s)
        self._ledger.runs[index] = run
        for card in cards:
            card.running += 1
        try:
            run.finished_s = await _until(run.ends_s)
        except asyncio.CancelledError:
            run.finished_s = asyncio.get_running_loop().time()
            raise
        finally:
            for card in cards:
                card.running -= 1
        return _nothing

    async def resume(self, _model: ModelSpec, _work: Work, _report: Report) -> Fetch | None:
        """Know nothing of earlier attempts."""
        return None

    async def load(self, model: ModelSpec) -> None:
        """Take as long as the trace says."""
        self._answer()
        if model.name in self._memory:
            return
        spec = self._ledger.models[model.name]
        now = asyncio.get_running_loop().time()
        evicted = self._ledger.took(spec, self.name)
        # Written down as it begins: one that the trace's end cuts short took its memory as well.
        self._ledger.loads.append(
            LoadOutcome(
                backend=self.name,
                model=model.name,
                started_s=now,
                finished_s=now + spec.load_s,
                evicted=evicted,
            )
        )
        finished_s = await _until(now + spec.load_s)
        self._memory.add(model.name)
        self._ledger.arrived(model.name, self.name, finished_s)

    async def unload(self, model: ModelSpec) -> None:
        """Take no time."""
        self._answer()
        self._lose(model.name)

    async def loaded(self, _models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Tell what is in memory."""
        self._answer()
        return frozenset(self._memory)

    def leave(self) -> bool:
        """Keep nothing for a next start."""
        return False

    async def gone(self) -> None:
        """Never return: it stays."""
        await asyncio.get_running_loop().create_future()

    async def aclose(self) -> None:
        """Have nothing to close."""


def index_of(request: object) -> int:
    """Return which job of the trace a request stands for: its prompt is the number."""
    if not isinstance(request, TextToImage):
        raise TypeError(f"not a request of a trace: {request!r}")
    return int(request.prompt)


async def _until(moment: float) -> float:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    timer = loop.call_at(moment, done.set_result, None)
    try:
        await done
    finally:
        timer.cancel()
    return moment


async def _nothing() -> Output:
    return Output(text="done")
