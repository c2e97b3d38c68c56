"""Walks through a run moment by moment: memory, slots, heads that are held, models that starve."""

import math
from collections import defaultdict
from dataclasses import dataclass

from benchmarks.trace import JobOutcome, LoadOutcome, Outcome, Trace

TOLERANCE_S = 1e-6
KAPPA = 4.0
LEAVES, READY, ARRIVES, LOADS, STARTS = range(5)  # the order within one moment


@dataclass
class _Copy:
    """A copy in memory, as the output tells of it."""

    ready_at: float
    running: int = 0


class Timeline:
    """One run, replayed on paper; `broken`, `held_s` and `starved` tell what was found."""

    def __init__(self, trace: Trace, run: Outcome) -> None:
        self.trace = trace
        self.run = run
        self.models = {model.name: model for model in trace.models}
        self.hosts = {host.name: host for host in trace.hosts}
        self.hosts_of = trace.hosts_of()
        self.serial = {b.name for h in trace.hosts for b in h.backends if b.serial}
        self.copies: dict[tuple[str, str], _Copy] = {}  # by backend and model
        self.waiting: defaultdict[str, dict[int, None]] = defaultdict(dict)
        self.left_at: dict[str, float] = {}
        self.peak_mb = dict.fromkeys(self.hosts, 0)
        self.broken: list[str] = []
        self.starved: list[str] = []
        self.held_s = 0.0
        self._ran_on: dict[int, _Copy] = {}
        for resident in trace.resident:
            self.copies[resident.backend, resident.model] = _Copy(ready_at=0.0)
        for host in self.hosts:
            self._measure(host)

    def walk(self) -> None:
        """Go through the run once."""
        moments = sorted(self._moments(), key=lambda moment: moment[:3])
        for position, (at, kind, _, what) in enumerate(moments):
            self._step(at, kind, what)
            following = moments[position + 1][0] if position + 1 < len(moments) else at
            if following > at:
                self._look_for_held(at, following)
        for host, peak_mb in self.peak_mb.items():
            if peak_mb != self.run.peak_vram_mb.get(host):
                self.broken.append(
                    f"{host} held {peak_mb} MB at most, not {self.run.peak_vram_mb.get(host)}"
                )

    def _moments(self) -> list[tuple[float, int, int, JobOutcome | LoadOutcome]]:
        moments: list[tuple[float, int, int, JobOutcome | LoadOutcome]] = []
        for job in self.run.jobs:
            asked = self.trace.jobs[job.index]
            moments.append((asked.at, ARRIVES, job.index, job))
            if job.started_s is None or job.finished_s is None:
                moments.append((max(asked.at, asked.cancel_at or 0.0), STARTS, job.index, job))
                continue
            moments.append((job.started_s, STARTS, job.index, job))
            moments.append((job.finished_s, LEAVES, job.index, job))
        for number, load in enumerate(self.run.loads):
            moments.append((load.started_s, LOADS, number, load))
            moments.append((load.finished_s, READY, number, load))
        return moments

    def _step(self, at: float, kind: int, what: JobOutcome | LoadOutcome) -> None:
        if isinstance(what, LoadOutcome):
            if kind == LOADS:
                self._begin_load(at, what)
        elif kind == ARRIVES:
            self.waiting[what.model][what.index] = None
        elif kind == LEAVES:
            copy = self._ran_on.pop(what.index, None)
            if copy is not None:
                copy.running -= 1
        else:
            self.waiting[what.model].pop(what.index, None)
            if what.backend is not None:
                self._start(at, what, what.backend)

    # ------------------------------------------------------------ memory and slots

    def _begin_load(self, at: float, load: LoadOutcome) -> None:
        hosts = tuple(self.trace.shares(self.models[load.model], load.backend))
        self._judge_wait(at, load)
        for name in load.evicted:
            self._evict(at, hosts, name)
        if (load.backend, load.model) in self.copies:
            self.broken.append(f"{load.model} was loaded on {load.backend} twice at {at}")
        for host in hosts:
            if any(
                c.ready_at > at for (b, _), c in self.copies.items() if host in self.hosts_of[b]
            ):
                self.broken.append(f"{host} loaded two models at once at {at}")
        if load.backend in self.serial and self._busy(load.backend, at):
            self.broken.append(f"{load.backend} loaded {load.model} while busy at {at}")
        self.copies[load.backend, load.model] = _Copy(ready_at=load.finished_s)
        for host in hosts:
            self._measure(host)
            most_mb = self.hosts[host].vram_mb * self.hosts[host].margin
            if self._used_mb(host) > most_mb + TOLERANCE_S:
                self.broken.append(f"{host} exceeded its budget at {at}")

    def _evict(self, at: float, hosts: tuple[str, ...], name: str) -> None:
        host = hosts[0]
        backends = [b.name for each in hosts for b in self.hosts[each].backends]
        key = next(
            ((b, m) for b, m in self.copies if b in backends and name in (m, f"{b}:{m}")), None
        )
        if key is None:
            self.broken.append(f"{name} left {host} at {at} but was not there")
            return
        copy = self.copies.pop(key)
        if copy.running or copy.ready_at > at:
            self.broken.append(f"{name} was evicted from {host} at {at} while busy")
        self.left_at[key[1]] = at

    def _start(self, at: float, job: JobOutcome, backend: str) -> None:
        copy = self.copies.get((backend, job.model))
        if copy is None or copy.ready_at > at:
            self.broken.append(f"job {job.index} started on {backend} without its model at {at}")
            return
        if backend in self.serial and self._busy(backend, at):
            self.broken.append(f"job {job.index} started on the busy {backend} at {at}")
        if job.finished_s == at:
            return  # it takes no time, so it takes no slot
        copy.running += 1
        self._ran_on[job.index] = copy
        if copy.running > self.models[job.model].parallel:
            self.broken.append(f"{job.model} ran too much at once on {backend} at {at}")

    def _busy(self, backend: str, at: float) -> bool:
        here = [copy for (name, _), copy in self.copies.items() if name == backend]
        return any(copy.running or copy.ready_at > at for copy in here)

    def _used_mb(self, host: str) -> int:
        return sum(
            self.trace.shares(self.models[m], b).get(host, 0)
            for b, m in self.copies
            if host in self.hosts_of[b]
        )

    def _measure(self, host: str) -> None:
        self.peak_mb[host] = max(self.peak_mb[host], self._used_mb(host))

    # ------------------------------------------------------------ held heads

    def _look_for_held(self, at: float, until: float) -> None:
        for model, waiting in self.waiting.items():
            if not waiting:
                continue
            for (backend, name), copy in self.copies.items():
                if name != model or copy.ready_at > at or not self._is_free(backend, at):
                    continue
                if copy.running < self.models[model].parallel:
                    self._judge_held(model, backend, at, until)

    def _is_free(self, backend: str, at: float) -> bool:
        return backend not in self.serial or not self._busy(backend, at)

    def _judge_held(self, model: str, backend: str, at: float, until: float) -> None:
        """Count the time a head that could run is held; a gate excuses it from its own moment on."""
        oldest = min(self.trace.jobs[index].at for index in self.waiting[model])
        open_until = min(
            (
                max(due, oldest_gate) if oldest <= gate else due
                for due, gate, oldest_gate in self._gates(model, backend)
            ),
            default=math.inf,
        )
        self.held_s += max(0.0, min(until, open_until) - max(at, 0.0))

    def _gates(self, model: str, backend: str) -> list[tuple[float, float, float]]:
        """Return for each model that may have reserved the host: due, `g`, and the last moment.

        At the earliest: where more models wait than there are hosts all three are later.
        """
        hosts = set(self.hosts_of[backend])
        gates = []
        for other, waiting in self.waiting.items():
            spec = self.models[other]
            if not waiting or any(name == other for _, name in self.copies):
                continue
            if hosts.isdisjoint(host for name in spec.backends for host in self.hosts_of[name]):
                continue
            due = self._since(other) + 120 + 2 * spec.load_s
            both_s = spec.load_s + self.models[model].load_s
            gate = max(due, self.copies[backend, model].ready_at + KAPPA * both_s)
            gates.append((due, gate, gate + 4 * both_s))
        return gates

    def _since(self, model: str) -> float:
        oldest = min(self.trace.jobs[index].at for index in self.waiting[model])
        return max(oldest, self.left_at.get(model, -math.inf))

    # ------------------------------------------------------------ starvation

    def _judge_wait(self, at: float, load: LoadOutcome) -> None:
        """Compare the wait of a model no one had in memory with the bound of rule 4."""
        if not self.waiting[load.model] or any(name == load.model for _, name in self.copies):
            return
        waited_s, bound_s = at - self._since(load.model), self._bound_s(load.model)
        if waited_s > bound_s + TOLERANCE_S:
            self.starved.append(
                f"{load.model} waited {waited_s:.0f} s for its load at {at:.0f}, bound {bound_s:.0f} s"
            )

    def _bound_s(self, model: str) -> float:
        able = {host for name in self.models[model].backends for host in self.hosts_of[name]}
        rivals = [
            m
            for m in self.models.values()
            if not able.isdisjoint(host for name in m.backends for host in self.hosts_of[name])
        ]
        names = {m.name for m in rivals}
        load_s = max(m.load_s for m in rivals)
        service_s = max((j.service_s for j in self.trace.jobs if j.model in names), default=0.0)
        rounds = math.ceil(len(rivals) / len(able))
        crowding = max(1.0, 3 * (len(self.models) - len(self.hosts)) / len(self.hosts))
        own_s = 120 * crowding + 2 * self.models[model].load_s
        return own_s + rounds * (load_s + (KAPPA + 4) * 2 * load_s + service_s)
