"""A second, independent reading of the scheduling rules: a plain simulator to measure against.

`python -m benchmarks.reference --trace FILE --out FILE [--rules plain|full]` writes the same format
as `benchmarks.schedule`, without estimates. It was written from the rules alone and shares no code
with `queueing`; it is as simple as it could be made, not fast and not robust.
"""

import argparse
import heapq
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.reference_world import Cards, Copy, Line, Reservation, Waiting
from benchmarks.trace import JobOutcome, LoadOutcome, Outcome, Trace
from benchmarks.trace_file import read, told

KAPPA = 4.0
GRACE_S = 120.0
ENDS, READY, ARRIVES, CANCELS, LOOKS = range(5)  # the order of what happens in one moment


class Reference:
    """One trace on its way through the rules."""

    def __init__(self, trace: Trace, *, full: bool = True) -> None:
        self.trace = trace
        self.full = full
        self.now = 0.0
        self.cards = Cards(trace)
        self.events: list[tuple[float, int, int, object]] = []
        self.numbers = 0
        self.jobs: dict[int, JobOutcome] = {}
        self.running: dict[int, Copy] = {}  # by job
        self.loads: list[LoadOutcome] = []
        self.decisions = 0
        for index, job in enumerate(trace.jobs):
            self._at(job.at, ARRIVES, Waiting(index, job), index)
            if job.cancel_at is not None:
                self._at(max(job.at, job.cancel_at), CANCELS, index, index)

    def _at(self, moment: float, kind: int, what: object, number: int | None = None) -> None:
        self.numbers += 1
        order = number if number is not None else len(self.trace.jobs) + self.numbers
        heapq.heappush(self.events, (moment, kind, order, what))

    def run(self) -> Outcome:
        """Let everything happen, deciding again after all that happens in one moment."""
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, kind, _, what = heapq.heappop(self.events)
                self._happen(kind, what)
            self.decide()
        return Outcome(
            jobs=tuple(self.jobs[index] for index in range(len(self.trace.jobs))),
            loads=tuple(sorted(self.loads, key=lambda load: (load.started_s, load.backend))),
            peak_vram_mb=self.cards.peak_mb,
            decisions=self.decisions,
            decision_us_mean=0.0,
        )

    def _happen(self, kind: int, what: object) -> None:
        match kind, what:
            case int(), Waiting() if kind == ARRIVES:
                self.cards.lines[what.asked.model].arrived(what)
            case int(), int() if kind == CANCELS:
                self._cancel(what)
            case int(), Copy() if kind == READY:
                what.loading = False
            case int(), int() if kind == ENDS and what in self.running:
                copy = self.running.pop(what)
                copy.running -= 1
                self.cards.lines[copy.model].served(self.trace.jobs[what].service_s)

    def _cancel(self, index: int) -> None:
        asked = self.trace.jobs[index]
        if index in self.running:
            self.running.pop(index).running -= 1
            stopped = {"finished_s": self.now, "state": "cancelled"}
            self.jobs[index] = self.jobs[index].model_copy(update=stopped)
            return
        lane = self.cards.lines[asked.model].lanes.get(asked.lane, ())
        for job in [job for job in lane if job.index == index]:
            self.cards.lines[asked.model].lanes[asked.lane].remove(job)
            self.jobs[index] = JobOutcome(
                index=index, model=asked.model, backend=None, ready_s=None, started_s=None,
                finished_s=None, estimate_s=None, state="cancelled",
            )  # fmt: skip

    # ------------------------------------------------------------ the rules

    def decide(self) -> None:
        """Apply the rules in their order until nothing more happens now."""
        self.decisions += 1
        while self._dispatch():
            pass
        self._keep_reservations()
        self._place()
        if self.full:
            self._reserve()
            self._keep_reservations()
            self._replicate()

    def _by_age(self) -> list[tuple[Waiting, Line]]:
        heads = [(head, line) for line in self.cards.lines.values() if (head := line.oldest())]
        return sorted(heads, key=lambda pair: (pair[0].asked.at, pair[0].index))

    def _dispatch(self) -> bool:
        """R1: start heads on ready, free copies that no gate closes."""
        started = False
        for _, line in self._by_age():
            free = [copy for copy in self.cards.of(line.spec.name) if self.cards.has_slot(copy)]
            free.sort(key=lambda c: (c.host in self.cards.reserved, self.cards.running_on(c.host)))
            for copy in free:
                job = line.pick(self._admits_until(copy))
                if job is not None:
                    self._start(job, copy)
                    started = True
                    break
        return started

    def _admits_until(self, copy: Copy) -> float:
        kept = self.cards.reserved.get(copy.host)
        return math.inf if kept is None else kept.admits_until(copy, self.now)

    def _wanted(self) -> list[tuple[Waiting, Line]]:
        """R2: models that wait and have no copy; the long overdue first, then by age."""
        wanted = [pair for pair in self._by_age() if not self.cards.of(pair[1].spec.name)]
        return sorted(wanted, key=lambda pair: not self._past_half(*pair))

    def _past_half(self, head: Waiting, line: Line) -> bool:
        since = max(head.asked.at, line.left_at)
        return self.now >= since + (self._due(head, line) - since) / 2

    @staticmethod
    def _due(head: Waiting, line: Line) -> float:
        return max(head.asked.at, line.left_at) + GRACE_S + 2 * line.spec.load_s

    def _room(self, line: Line, backend: str) -> tuple[float, list[Copy]] | None:
        """Return the cheapest eviction that makes room on a backend now, None without one."""
        host = self.cards.host_of[backend]
        busy = not self.cards.loader_free(host) or not self.cards.backend_idle(backend)
        if busy or host in self.cards.reserved:
            return None
        may_go = [c for c in self.cards.on(host) if self._idle(c)]
        out = self.cards.cheapest(host, line.spec.vram_mb, may_go, self.now)
        return None if out is None else (sum(self.cards.cost(c, self.now) for c in out), out)

    def _idle(self, copy: Copy) -> bool:
        return not copy.loading and not copy.running and not self.cards.lines[copy.model]

    def _place(self) -> None:
        """R3: load wanted models where it costs least."""
        for _, line in self._wanted():
            rooms = [
                (*room, backend)
                for backend in line.spec.backends
                if (room := self._room(line, backend)) is not None
            ]
            if rooms:
                _, out, backend = min(rooms, key=lambda room: (room[0], len(room[1])))
                self._load(line, backend, out)

    # ------------------------------------------------------------ R4

    def _reserve(self) -> None:
        """R4: keep a host for each overdue model, oldest first."""
        wanted = sorted(self._wanted(), key=lambda pair: self._due(*pair))
        for head, line in wanted:
            due = self._due(head, line)
            has_one = any(kept.model == line.spec.name for kept in self.cards.reserved.values())
            if self.now < due:
                self._at(due, LOOKS, None)
            elif not has_one:
                self._reserve_for(line, due)

    def _reserve_for(self, line: Line, due: float) -> None:
        best: tuple[float, Reservation] | None = None
        for backend in line.spec.backends:
            host = self.cards.host_of[backend]
            victims = self._victims(line, backend)
            if host in self.cards.reserved or victims is None:
                continue
            kept = self._reservation(line, backend, victims, due)
            leaves_at = max((self._leaves_at(v, kept) for v in victims), default=self.now)
            if best is None or leaves_at < best[0]:
                best = (leaves_at, kept)
        if best is not None:
            kept = best[1]
            self.cards.reserved[self.cards.host_of[kept.backend]] = kept
            for moment in (*kept.arrived_by.values(), *kept.closed_at.values()):
                self._at(math.nextafter(max(moment, self.now), math.inf), LOOKS, None)

    def _victims(self, line: Line, backend: str) -> list[Copy] | None:
        host = self.cards.host_of[backend]
        copies = self.cards.on(host)
        victims = self.cards.cheapest(host, line.spec.vram_mb, copies, self.now)
        if victims is None or backend not in self.cards.serial:
            return victims
        return victims + [c for c in copies if c.backend == backend and c not in victims]

    def _reservation(
        self, line: Line, backend: str, victims: list[Copy], due: float
    ) -> Reservation:
        both_s = {v: line.spec.load_s + self.cards.lines[v.model].spec.load_s for v in victims}
        arrived_by = {v: max(due, v.ready_at + KAPPA * both_s[v]) for v in victims}
        closed_at = {v: arrived_by[v] + 4 * both_s[v] for v in victims}
        return Reservation(line.spec.name, backend, victims, arrived_by, closed_at)

    def _leaves_at(self, victim: Copy, kept: Reservation) -> float:
        line = self.cards.lines[victim.model]
        limit = kept.admits_until(victim, self.now)
        ahead = sum(job.asked.at <= limit for lane in line.lanes.values() for job in lane)
        turns = math.ceil((ahead + victim.running) / line.spec.parallel)
        return max(self.now, victim.ready_at) + turns * line.service_s

    def _keep_reservations(self) -> None:
        """Load for a reservation once its victims have finished; drop those without a need."""
        for host, kept in list(self.cards.reserved.items()):
            line = self.cards.lines[kept.model]
            if not line or self.cards.of(kept.model):
                del self.cards.reserved[host]
                continue
            here = [victim for victim in kept.victims if victim in self.cards.copies]
            done = not any(v.loading or v.running or self._admissible(v) for v in here)
            ready = self.cards.loader_free(host) and self.cards.backend_idle(kept.backend)
            if done and ready:
                out = self.cards.cheapest(host, line.spec.vram_mb, here, self.now)
                del self.cards.reserved[host]
                if out is not None:
                    self._load(line, kept.backend, out)

    def _admissible(self, victim: Copy) -> bool:
        limit = self._admits_until(victim)
        lanes = self.cards.lines[victim.model].lanes.values()
        return any(lane and lane[0].asked.at <= limit for lane in lanes)

    # ------------------------------------------------------------ R5

    def _replicate(self) -> None:
        """R5: load a further copy where it saves more waiting than it costs."""
        for _, line in self._by_age():
            copies = self.cards.of(line.spec.name)
            gain = self._gain(line, len(copies) * line.spec.parallel) if copies else 0.0
            if gain <= 0:
                continue
            hosts = {copy.host for copy in copies}
            choices = []
            for backend in line.spec.backends:
                room = self._room(line, backend)
                if room is not None and self.cards.host_of[backend] not in hosts:
                    choices.append((self._loss(line, room[1], backend), room[1], backend))
            if choices:
                loss, out, backend = min(choices, key=lambda choice: choice[0])
                if gain > 3 * loss:
                    self._load(line, backend, out)

    def _gain(self, line: Line, k: int) -> float:
        s, load_s = line.service_s, line.spec.load_s
        left = len(line) - k * load_s / s + line.rate_per_s(self.now) * load_s
        return left * left * s / (2 * k * (k + 1)) if left > 0 else 0.0

    def _loss(self, line: Line, out: list[Copy], backend: str) -> float:
        """Return the reload waits of what goes, and what waits for the loader meanwhile."""
        load_s, host = line.spec.load_s, self.cards.host_of[backend]
        copies = len(self.cards.of(line.spec.name)) * line.spec.parallel + 1
        useful_s = load_s + len(line) * line.service_s / copies
        reloads = 0.0
        for copy in out:
            gone = self.cards.lines[copy.model]
            asked = 1 - math.exp(-gone.rate_per_s(self.now) * useful_s)
            others = len(self.cards.of(copy.model)) > 1
            reloads += asked * gone.spec.load_s * (0.25 if others else 1.0)
        cold = [
            other
            for other in self.cards.lines.values()
            if not self.cards.of(other.spec.name)
            and any(self.cards.host_of[b] == host for b in other.spec.backends)
        ]
        return reloads + sum(o.rate_per_s(self.now) for o in cold) * load_s * load_s / 2

    # ------------------------------------------------------------ doing

    def _start(self, job: Waiting, copy: Copy) -> None:
        copy.running += 1
        ends_at = self.now + job.asked.service_s
        self.running[job.index] = copy
        self._at(ends_at, ENDS, job.index)
        self.jobs[job.index] = JobOutcome(
            index=job.index, model=copy.model, backend=copy.backend,
            ready_s=max(job.asked.at, copy.ready_at), started_s=self.now, finished_s=ends_at,
            estimate_s=None, state="completed",
        )  # fmt: skip

    def _load(self, line: Line, backend: str, out: list[Copy]) -> None:
        host = self.cards.host_of[backend]
        several = len(self.cards.hosts[host].backends) > 1
        for copy in out:
            self.cards.copies.remove(copy)
            self.cards.lines[copy.model].left_at = self.now
        ready_at = self.now + line.spec.load_s
        copy = Copy(line.spec.name, backend, host, ready_at, loading=True)
        self.cards.copies.append(copy)
        used_mb = self.cards.used_mb(host)
        self.cards.peak_mb[host] = max(self.cards.peak_mb[host], used_mb)
        self._at(ready_at, READY, copy)
        self.loads.append(
            LoadOutcome(
                backend=backend, model=line.spec.name, started_s=self.now, finished_s=ready_at,
                evicted=tuple(f"{c.backend}:{c.model}" if several else c.model for c in out),
            )
        )  # fmt: skip


def refer(trace: Trace, rules: str = "full") -> Outcome:
    """Replay a trace through the reference."""
    return Reference(trace, full=rules == "full").run()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rules", choices=["full", "plain"], default="full")
    options = parser.parse_args(arguments)
    trace = read(options.trace)
    outcome = refer(trace, options.rules)
    options.out.write_text(outcome.model_dump_json(indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(told(main))
