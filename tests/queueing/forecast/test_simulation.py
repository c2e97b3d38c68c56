"""The world simulated into the future, with decisions as the planner would make them."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from queueing.core.jobs import LANES, Job
from queueing.core.quiet_hours import QuietSpan
from queueing.core.snapshot import BackendView, Rules, Snapshot
from queueing.forecast.durations import DurationEstimate
from queueing.forecast.simulated_queue import Started
from queueing.forecast.simulation import Simulation
from queueing.planning.hosts import LEAD_S, rests
from queueing.planning.planner import plan, spent
from queueing.planning.states import CopyState
from tests.queueing.planning.several_servers import on_shared_gpus
from tests.queueing.planning.worlds import GB, NOW, copy, host, jobs, model, queue, world
from tests.samples import seeds

NAMES = ("b0", "b1", "b2")


class Asking(Simulation):
    """A simulation that asks the planner about every job that ends."""

    def _continue_queue(self, _now: float, _copy: CopyState) -> bool:
        return False


class Checked(Simulation):
    """A simulation that compares each decision with the planner's in a world from its state."""

    decisions = 0

    def _decide(self) -> None:
        expected = plan(self.snapshot)
        super()._decide()
        state = self._state
        self.decisions += 1
        assert sorted(map(repr, state.starts)) == sorted(map(repr, expected.starts))
        assert state.loads == [*expected.loads]
        assert state.evictions == [*expected.evictions]
        assert state.look_at == expected.look_at
        left = [host.reservation for host in state.hosts.values() if host.reservation]
        assert left == [*expected.reservations]
        assert spent(state) == expected.lane_spent


def ten_seconds(_job: Job, _backend: str) -> DurationEstimate:
    return DurationEstimate(samples=9, median_s=10.0, mean_s=10.0, spread_s=1.0)


def drawn(rng: random.Random) -> Snapshot:
    """Draw six models with slots on three GPUs, some busy, some expected."""
    left = dict.fromkeys(NAMES, 2)
    serial = {name: rng.random() < 0.3 for name in NAMES}
    models, copies = [], []
    for number in range(6):
        name, parallel = f"m{number}", rng.choice([1, 1, 2, 4])
        ages = sorted(
            (rng.uniform(0, 60) for _ in range(rng.choice([0, 0, 1, 3, 6]))), reverse=True
        )
        waiting = (queue(jobs(name, *ages)),) if ages else ()
        rate = rng.choice([0.0, 0.01, 0.05])
        models.append(model(name, *waiting, on=NAMES, parallel=parallel, rate_per_s=rate))
        backend = rng.choice(NAMES)
        if rng.random() < 0.5 and left[backend]:
            left[backend] -= 1
            running = 0 if serial[backend] else rng.randint(0, parallel)
            ends_at = tuple(NOW + rng.uniform(1, 10) for _ in range(running))
            copies.append(copy(name, backend, running=running, ends_at=ends_at))
    return world(
        *models,
        copies=tuple(copies),
        hosts=tuple(host(f"h{name}", 24 * GB) for name in NAMES),
        backends=tuple(
            BackendView(name=name, host=f"h{name}", serial=serial[name]) for name in NAMES
        ),
        rules=Rules(replicate=False),  # how many wait for a further copy is looked at more rarely
    )


def in_lanes(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Return a world with people in three lanes, some in conversations that servers remember."""
    models = {}
    for name, view in snapshot.models.items():
        by_lane = {
            lane: jobs(name, *sorted((rng.uniform(0, 1500) for _ in range(3)), reverse=True))
            for lane in rng.sample(LANES, rng.randint(0, 3))
        }
        remembered = rng.choice([None, *NAMES])
        waiting = tuple(
            queue(
                tuple(replace(job, lane=lane, remembered_by=remembered) for job in heads),
                more=rng.choice([0, 0, 7, 40]),
                next_start_at=rng.choice([None, None, NOW + 20.0]),
            )
            for lane, heads in by_lane.items()
        )
        models[name] = replace(
            view,
            waiting=waiting,
            vram_mb=rng.choice([5, 9, 14]) * GB,
            left_at=NOW - rng.uniform(0, 500),
            load_after=rng.choice([0.0, 0.0, NOW + 15.0]),
            wanted_by_admin=rng.choice([(), (), (), ("b1",)]),
        )
    return replace(snapshot, models=models, rules=Rules())


def given_back(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Return a world whose owner wants the GPUs at times, and whose idle models leave."""
    hosts = {}
    for name, view in snapshot.hosts.items():
        begins_at = NOW + rng.uniform(-100, 300)
        quiet = QuietSpan(begins_at, begins_at + rng.uniform(60, 900))
        given = rng.random() < 0.7
        yields_since = NOW - 60 if rng.random() < 0.1 else None
        hosts[name] = replace(
            view, quiet=(quiet,) if given else (), longest_open_s=80000.0, yields_since=yields_since
        )
    copies = tuple(
        replace(copy, idle_since=NOW - rng.uniform(0, 500), idle_unload_s=300.0)
        for copy in snapshot.copies
    )
    return replace(snapshot, hosts=hosts, copies=copies)


def run(simulation: Simulation) -> tuple[Mapping[tuple[str, str], list[tuple[float, str]]], int]:
    """Return the starts of each queue, as far as simulated, and the number of decisions."""
    decisions = 0
    while not simulation.over:
        simulation.step()
        decisions += 1
    return {
        key: [(round(start.at, 3), start.backend) for start in queue.starts]
        for key, queue in simulation.queues.items()
    }, decisions


@seeds(range(24), quick=3)
def test_gpus_that_are_given_back_are_foreseen(seeds: range) -> None:
    """A forecast would promise what the planner does not do, or begin a job in quiet hours."""
    for seed in seeds:
        print(f"seed {seed}")
        rng = random.Random(seed)
        snapshot = given_back(rng, in_lanes(rng, drawn(rng)))
        simulation = Checked(snapshot, ten_seconds, most_starts=300)
        run(simulation)
        assert simulation.decisions > 0
        for found in simulation.queues.values():
            for start in found.starts:
                check_open(snapshot, start)
        saved_decisions(snapshot, Asking)


def check_open(snapshot: Snapshot, start: Started) -> None:
    """Check that a job begins neither in quiet hours nor so shortly before that it reaches them."""
    view = snapshot.hosts[snapshot.backends[start.backend].host]
    assert not rests(view, start.at)
    assert all(not q.begins_at - 10 - LEAD_S < start.at < q.begins_at for q in view.quiet)


@seeds(range(12), quick=2)
def test_what_is_plain_needs_no_decision(seeds: range) -> None:
    """Forecasts would save decisions and promise something else than the planner will do."""
    saved = 0
    for seed in seeds:
        print(f"seed {seed}")
        saved += saved_decisions(drawn(random.Random(seed)), Asking)
    assert saved > 0


def saved_decisions(snapshot: Snapshot, asking: type[Simulation]) -> int:
    """Return how many fewer decisions a simulation takes for the same starts, on any server."""
    starts, decisions = run(Simulation(snapshot, ten_seconds, most_starts=150))
    all_starts, all_decisions = run(asking(snapshot, ten_seconds, most_starts=150))
    for key, others in all_starts.items():
        both = min(len(starts[key]), len(others))
        assert [at for at, _ in starts[key][:both]] == [at for at, _ in others[:both]]
    return all_decisions - decisions


@seeds(range(30), quick=3)
@pytest.mark.parametrize("shared", [False, True])
def test_every_decision_is_the_one_the_planner_makes(shared: bool, seeds: range) -> None:
    """Forecasts would continue from a state in which something was forgotten, and be wrong."""
    for seed in seeds:
        print(f"seed {seed}")
        rng = random.Random(seed)
        snapshot = in_lanes(rng, drawn(rng))
        if shared:
            snapshot = on_shared_gpus(rng, snapshot, serial=rng.random() < 0.5)
        simulation = Checked(snapshot, ten_seconds, most_starts=400)
        for _ in range(120):
            if not simulation.over:
                simulation.step()
        assert simulation.decisions > 5


def test_a_model_that_has_left_waits_for_its_return_from_then_on() -> None:
    """Two models that take turns would be expected to unload each other at once."""
    snapshot = world(
        model("flux", queue(jobs("flux", 900, 800, 700))),
        model("sdxl", queue(jobs("sdxl", 850), more=60)),
        copies=(copy("sdxl"),),
    )
    simulation = Checked(snapshot, ten_seconds, most_starts=100)
    left_at = {}
    while not simulation.over:
        before, waiting = simulation.snapshot, {c.model for c in simulation.snapshot.copies}
        simulation.step()
        for name in waiting - {c.model for c in simulation.snapshot.copies}:
            left_at[name] = before.now
    assert {name: simulation.snapshot.models[name].left_at for name in left_at} == left_at
    assert left_at.keys() == {"flux", "sdxl"}
