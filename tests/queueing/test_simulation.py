"""The world run forward: what follows by itself is done as the planner would do it."""

import random
from collections.abc import Mapping

import pytest

from queueing.core.jobs import Job
from queueing.core.world import BackendView, Reservation, Rules, World
from queueing.planning.estimates import Usual
from queueing.planning.simulation import Simulation
from tests.queueing.worlds import GB, NOW, copy, host, jobs, line, model, world

NAMES = ("b0", "b1", "b2")


class Asking(Simulation):
    """A simulation that asks the planner about a copy with a slot to spare, and about an empty line."""

    def _works_on(self, _now: float, _model: str, _backend: str) -> bool:
        return False

    def _begins(
        self, _now: float, _model: str, _lane: str, _kept: Mapping[str, Reservation]
    ) -> bool:
        return False


def ten_seconds(_job: Job, _backend: str) -> Usual:
    return Usual(samples=9, median_s=10.0, mean_s=10.0, spread_s=1.0)


def drawn(rng: random.Random) -> World:
    """Return six models with slots on three cards, some busy, some expected."""
    left = dict.fromkeys(NAMES, 2)
    serial = {name: rng.random() < 0.3 for name in NAMES}
    models, copies = [], []
    for number in range(6):
        name, parallel = f"m{number}", rng.choice([1, 1, 2, 4])
        ages = sorted(
            (rng.uniform(0, 60) for _ in range(rng.choice([0, 0, 1, 3, 6]))), reverse=True
        )
        waiting = (line(jobs(name, *ages)),) if ages else ()
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


def run(simulation: Simulation) -> tuple[Mapping[tuple[str, str], list[tuple[float, str]]], int]:
    """Return the starts of each line, as far as is looked, and how many decisions that took."""
    decisions = 0
    while not simulation.over:
        simulation.step()
        decisions += 1
    return {
        key: [(round(start.at, 3), start.backend) for start in line.starts]
        for key, line in simulation.lines.items()
    }, decisions


@pytest.mark.parametrize("seed", range(12))
def test_what_is_plain_needs_no_decision(seed: int) -> None:
    """Forecasts would save decisions and promise something else than the planner will do."""
    snapshot = drawn(random.Random(seed))
    starts, decisions = run(Simulation(snapshot, ten_seconds, most_starts=150))
    all_starts, all_decisions = run(Asking(snapshot, ten_seconds, most_starts=150))
    for key, others in all_starts.items():
        both = min(len(starts[key]), len(others))
        assert starts[key][:both] == others[:both]
    assert decisions < all_decisions


def test_those_who_came_during_a_load_begin_with_it() -> None:
    """They would wait in the forecast until something else happens, on a copy with free slots."""
    waiting = jobs("flux", 0)
    snapshot = world(
        model("flux", line(waiting), parallel=4, load_s=100.0, rate_per_s=0.05),
        rules=Rules(replicate=False),
    )
    starts, _ = run(Simulation(snapshot, ten_seconds, most_starts=10))
    assert [round(at - NOW) for at, _ in starts["flux", "normal"][:3]] == [100, 100, 100]
