"""A small discrete-event simulator over `plan()`: traces in, results out; pure, no asyncio.

It checks all promises while it runs (budget, nothing busy unloaded, no head held, FIFO), so that a
property test only has to run it. The real router is replayed by `benchmarks/schedule/replay.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import exp

from queueing.core.jobs import Job, stand_in
from queueing.core.snapshot import (
    BackendView,
    Copy,
    HostView,
    ModelView,
    Plan,
    Reservation,
    Residency,
    Rules,
    Snapshot,
    Waiting,
)
from queueing.core.specs import Shares
from queueing.planning.planner import plan

TAU_S = 900.0
HEADS = 4


@dataclass(kw_only=True)
class Arrival:
    """A job of a trace; `service_s` is the time it really takes."""

    at: float
    model: str
    service_s: float
    lane: str = "normal"
    cancel_at: float | None = None


@dataclass(kw_only=True)
class TraceModel:
    """A model of a trace; `service_s` is only the prior, `shares` are its parts by backend and host."""

    name: str
    vram_mb: int
    load_s: float
    service_s: float
    backends: tuple[str, ...]
    parallel: int = 1
    shares: Mapping[str, Shares] = field(default_factory=dict)


@dataclass(kw_only=True)
class Trace:
    """Hosts, models, what is loaded at the start, and the jobs to come."""

    hosts: tuple[HostView, ...]
    backends: tuple[BackendView, ...]
    models: tuple[TraceModel, ...]
    jobs: tuple[Arrival, ...]
    resident: tuple[tuple[str, str], ...] = ()  # (backend, model)


@dataclass
class Outcome:
    """What became of one job."""

    job: Job
    backend: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    cancelled: bool = False


@dataclass
class _Held:
    model: str
    backend: str
    ready_at: float
    ready: bool
    vram_mb: int
    running: list[float] = field(default_factory=list)


@dataclass
class Result:
    """What happened: one outcome per job, the loads, and every broken promise in words."""

    outcomes: list[Outcome]
    loads: list[tuple[float, str, str, tuple[str, ...]]]  # (started, backend, model, evicted)
    broken: list[str]
    decisions: int
    waits_for_load: list[tuple[str, float, float]]  # (model, since, load started)

    @property
    def waits(self) -> list[float]:
        """How long each job that started had waited, in seconds."""
        return [o.started_at - o.job.queued_at for o in self.outcomes if o.started_at is not None]


class Replay:
    """Runs one trace to its end under the given rules."""

    def __init__(self, trace: Trace, rules: Rules) -> None:
        self.trace = trace
        self.rules = rules
        self.models = {model.name: model for model in trace.models}
        self.backends = {backend.name: backend for backend in trace.backends}
        self.hosts = {host.name: host for host in trace.hosts}
        self.copies: dict[tuple[str, str], _Held] = {}
        self.queues: dict[tuple[str, str], list[int]] = {}
        self.counts: dict[str, tuple[float, float]] = {}
        self.left_at: dict[str, float] = {}
        self.reservations: tuple[Reservation, ...] = ()
        self.spent: Mapping[tuple[str, str], int] = {}
        self.events: list[tuple[float, int, str, tuple[str, str] | int]] = []
        self.order = 0
        self.outcomes = [
            Outcome(stand_in(i, a.model, a.at, lane=a.lane)) for i, a in enumerate(trace.jobs)
        ]
        self.result = Result(self.outcomes, [], [], 0, [])
        for backend, model in trace.resident:
            self.copies[model, backend] = _Held(
                model, backend, 0.0, ready=True, vram_mb=self.models[model].vram_mb
            )
        for index, arrival in enumerate(trace.jobs):
            self._at(arrival.at, "arrive", index)
            if arrival.cancel_at is not None:
                self._at(arrival.cancel_at, "cancel", index)

    def _at(self, moment: float, what: str, data: tuple[str, str] | int) -> None:
        self.order += 1
        heappush(self.events, (moment, self.order, what, data))

    def run(self) -> Result:
        """Process every event; all events of one moment come before its decision."""
        now = 0.0
        while self.events:
            now = self.events[0][0]
            while self.events and self.events[0][0] == now:
                _, _, what, data = heappop(self.events)
                self._happen(now, what, data)
            self._decide(now)
        for outcome in self.outcomes:
            if outcome.finished_at is None and not outcome.cancelled:
                self.result.broken.append(f"job {outcome.job.id} never ended")
        return self.result

    def _happen(self, now: float, what: str, data: tuple[str, str] | int) -> None:
        if isinstance(data, tuple):
            if what == "loaded":
                self.copies[data].ready = True
            return
        outcome = self.outcomes[data]
        queue = self.queues.setdefault((outcome.job.model, outcome.job.lane), [])
        if what == "arrive":
            queue.append(data)
            rate, last = self.counts.get(outcome.job.model, (0.0, now))
            self.counts[outcome.job.model] = rate * exp((last - now) / TAU_S) + 1 / TAU_S, now
        elif what == "cancel" and outcome.started_at is None:
            queue.remove(data)
            outcome.cancelled = True
        elif what == "end" and outcome.backend is not None:
            outcome.finished_at = now
            self.copies[outcome.job.model, outcome.backend].running.remove(now)

    def _decide(self, now: float) -> None:
        answer = Plan()
        for _ in range(1000):
            world = self.world(now)
            answer = plan(world)
            self.result.decisions += 1
            self._carry_out(now, world, answer)
            if not answer.starts and not answer.loads and not answer.evictions:
                break
        else:
            self.result.broken.append(f"no end of decisions at {now}")
        self._check_heads(now)
        if answer.look_at is not None:
            self._at(answer.look_at, "look", ("", ""))

    def world(self, now: float) -> Snapshot:
        """Return what `plan()` sees now."""
        copies = tuple(
            Copy(
                model=held.model,
                backend=held.backend,
                residency=Residency.READY if held.ready else Residency.LOADING,
                ready_at=held.ready_at,
                vram_mb=held.vram_mb,
                running=len(held.running),
                shares=self.models[held.model].shares.get(held.backend, ()),
            )
            for held in self.copies.values()
        )
        busy = dict.fromkeys(self.backends, 0)
        for held in self.copies.values():
            busy[held.backend] += len(held.running)
            if not held.ready and self.backends[held.backend].serial:
                busy[held.backend] += 1
        return Snapshot(
            now=now,
            models={model.name: self._view(model, now) for model in self.models.values()},
            hosts=self.hosts,
            backends={name: replace(view, busy=busy[name]) for name, view in self.backends.items()},
            copies=copies,
            reservations=self.reservations,
            lane_spent=self.spent,
            rules=self.rules,
        )

    def _view(self, model: TraceModel, now: float) -> ModelView:
        rate, last = self.counts.get(model.name, (0.0, now))
        waiting = []
        for lane in ("vip", "normal", "relaxed"):
            queue = self.queues.get((model.name, lane))
            if queue:
                heads = tuple(self.outcomes[index].job for index in queue[:HEADS])
                waiting.append(
                    Waiting(lane=lane, count=len(queue), heads=heads, oldest_at=heads[0].queued_at)
                )
        return ModelView(
            name=model.name,
            vram_mb=model.vram_mb,
            backends=model.backends,
            parallel=model.parallel,
            load_s={"": model.load_s},
            service_s={"": model.service_s},
            rate_per_s=rate * exp((last - now) / TAU_S),
            left_at=self.left_at.get(model.name, 0.0),
            waiting=tuple(waiting),
            shares=model.shares,
        )

    def _on(self, model: str, backend: str) -> dict[str, int]:
        """Return the memory a model takes there, by host."""
        spec = self.models[model]
        shares = spec.shares.get(backend)
        return dict(shares) if shares else {self.backends[backend].host: spec.vram_mb}

    def _carry_out(self, now: float, world: Snapshot, answer: Plan) -> None:
        self.reservations = answer.reservations
        self.spent = answer.lane_spent
        for start in answer.starts:
            self._start(now, start.job, start.backend)
        for load in answer.loads:
            self._load(now, load.model, load.backend, [(e.model, e.backend) for e in load.evict])
        if answer.evictions:
            self.result.broken.append(f"evicted without need at {now}")
        self._check_budget(now)

    def _start(self, now: float, started: Job, backend: str) -> None:
        queue = self.queues[started.model, started.lane]
        held = self.copies.get((started.model, backend))
        if queue.pop(0) != started.id:
            self.result.broken.append(f"job {started.id} passed another at {now}")
        if held is None or not held.ready:
            self.result.broken.append(f"job {started.id} started without its model at {now}")
            return
        outcome = self.outcomes[started.id]
        outcome.backend, outcome.started_at = backend, now
        ends_at = now + self.trace.jobs[started.id].service_s
        held.running.append(ends_at)
        self._at(ends_at, "end", started.id)
        busy = sum(len(c.running) for c in self.copies.values() if c.backend == backend)
        if self.backends[backend].serial and busy > 1:
            self.result.broken.append(f"two things at once on serial {backend} at {now}")
        if len(held.running) > self.models[started.model].parallel:
            self.result.broken.append(f"more than parallel on {backend} at {now}")

    def _load(
        self, now: float, model: str, backend: str, evicted: Sequence[tuple[str, str]]
    ) -> None:
        for key in evicted:
            held = self.copies.pop(key)
            self.left_at[held.model] = now
            if held.running or not held.ready:
                self.result.broken.append(f"busy {key} evicted at {now}")
        if (model, backend) in self.copies:
            self.result.broken.append(f"{model} loaded twice on {backend} at {now}")
        loading = [self._on(c.model, c.backend) for c in self.copies.values() if not c.ready]
        for host in self._on(model, backend):
            if any(host in there for there in loading):
                self.result.broken.append(f"two loads at once on {host} at {now}")
        if self.backends[backend].serial and any(
            c.running for c in self.copies.values() if c.backend == backend
        ):
            self.result.broken.append(f"load on busy serial {backend} at {now}")
        ready_at = now + self.models[model].load_s
        self.copies[model, backend] = _Held(
            model, backend, ready_at, ready=False, vram_mb=self.models[model].vram_mb
        )
        self._note_wait(now, model)
        self._at(ready_at, "loaded", (model, backend))
        names = tuple(name for name, _ in evicted)
        self.result.loads.append((now, backend, model, names))

    def _note_wait(self, now: float, model: str) -> None:
        heads = [
            self.outcomes[queue[0]].job.queued_at
            for (name, _), queue in self.queues.items()
            if name == model and queue
        ]
        if heads and sum(name == model for name, _ in self.copies) == 1:
            since = max(min(heads), self.left_at.get(model, 0.0))
            self.result.waits_for_load.append((model, since, now))

    def _check_budget(self, now: float) -> None:
        for host in self.hosts.values():
            used = sum(self._on(c.model, c.backend).get(host.name, 0) for c in self.copies.values())
            if used > host.usable_mb:
                self.result.broken.append(f"{used} of {host.usable_mb} MB on {host.name} at {now}")

    def _check_heads(self, now: float) -> None:
        """Record heads that could run now and are not behind a reservation of their host."""
        reserved = {host for kept in self.reservations for host in kept.hosts or (kept.host,)}
        for held in self.copies.values():
            view = self.backends[held.backend]
            busy = sum(len(c.running) for c in self.copies.values() if c.backend == held.backend)
            loading = any(not c.ready for c in self.copies.values() if c.backend == held.backend)
            free = (
                held.ready
                and len(held.running) < self.models[held.model].parallel
                and (busy < view.parallel)
                and not (view.serial and (busy or loading))
            )
            waits = any(queue for (model, _), queue in self.queues.items() if model == held.model)
            if free and waits and reserved.isdisjoint(self._on(held.model, held.backend)):
                self.result.broken.append(f"head of {held.model} held at {now}")


def simulate(trace: Trace, rules: Rules | None = None) -> Result:
    """Run a trace to its end."""
    return Replay(trace, rules or Rules()).run()


def mean(values: Iterable[float]) -> float:
    """Return the mean, or 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
