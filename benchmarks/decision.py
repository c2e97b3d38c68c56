"""How long one decision takes: `python -m benchmarks.decision [--json]`.

Worlds of 50 models and 8 hosts with 100,000 waiting jobs, in every state a fleet goes through:
cards full, half empty, loading, reserved; heads old and young. CPU time of `plan()`, reasons
included. Keys of the JSON: `models`, `hosts`, `waiting`, `decisions`, `decision_us_mean`,
`decision_us_p99`.
"""

import argparse
import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from queueing.core.jobs import stand_in
from queueing.core.world import (
    BackendView,
    Copy,
    HostView,
    ModelView,
    Residency,
    Waiting,
    World,
)
from queueing.planning import plan

MODELS = 50
HOSTS = 8
WAITING = 100_000
CARD_MB = 19_200
NOW = 100_000.0
HEADS = 8


def model(rng: random.Random, name: str) -> ModelView:
    """Return a model with its share of the waiting jobs, some of them for a long time."""
    oldest_s = rng.choice([20.0, 150.0, 900.0])
    ages = sorted((rng.uniform(0, oldest_s) for _ in range(HEADS)), reverse=True)
    heads = tuple(stand_in(i, name, NOW - age) for i, age in enumerate(ages))
    line = Waiting(
        lane="normal", count=WAITING // MODELS, heads=heads, oldest_at=heads[0].queued_at
    )
    return ModelView(
        name=name,
        vram_mb=rng.choice([4_000, 6_000, 8_000, 12_000]),
        backends=tuple(f"b{i}" for i in range(HOSTS)),
        parallel=rng.choice([1, 1, 4]),
        load_s={"": rng.uniform(10, 60)},
        service_s={"": rng.uniform(2, 20)},
        rate_per_s=rng.expovariate(20),
        waiting=(line,),
    )


def copies(rng: random.Random, models: dict[str, ModelView], host: int) -> list[Copy]:
    """Return what is in the memory of a host: as much as fits, mostly busy."""
    held: list[Copy] = []
    for name in rng.sample(sorted(models), 6):
        vram_mb = models[name].vram_mb
        if sum(copy.vram_mb for copy in held) + vram_mb > CARD_MB * rng.choice([0.5, 1.0]):
            continue
        coming = rng.random() < 0.15 and not any(c.residency is Residency.LOADING for c in held)
        held.append(
            Copy(
                model=name,
                backend=f"b{host}",
                residency=Residency.LOADING if coming else Residency.READY,
                ready_at=NOW + 9 if coming else NOW - rng.uniform(0, 600),
                vram_mb=vram_mb,
                running=0 if coming else rng.randint(0, models[name].parallel),
            )
        )
    return held


def snapshot(rng: random.Random) -> World:
    """Return one world; reservations are those a decision on it would make."""
    models = {f"m{i}": model(rng, f"m{i}") for i in range(MODELS)}
    held = tuple(copy for host in range(HOSTS) for copy in copies(rng, models, host))
    world = World(
        now=NOW,
        models=models,
        hosts={
            f"h{i}": HostView(name=f"h{i}", usable_mb=CARD_MB, budget_mb=CARD_MB)
            for i in range(HOSTS)
        },
        backends={
            f"b{i}": BackendView(
                name=f"b{i}",
                host=f"h{i}",
                busy=sum(copy.running for copy in held if copy.backend == f"b{i}"),
            )
            for i in range(HOSTS)
        },
        copies=held,
    )
    return replace(world, reservations=plan(world).reservations)


def measure(amount: int) -> dict[str, float]:
    """Decide on that many worlds and return the figures."""
    rng = random.Random(1)
    spent_us = []
    for _ in range(amount):
        world = snapshot(rng)
        began = time.process_time_ns()
        plan(world)
        spent_us.append((time.process_time_ns() - began) / 1000)
    spent_us.sort()
    return {
        "models": MODELS,
        "hosts": HOSTS,
        "waiting": WAITING,
        "decisions": amount,
        "decision_us_mean": round(sum(spent_us) / amount, 1),
        "decision_us_p99": round(spent_us[int(amount * 0.99)], 1),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--decisions", type=int, default=1000)
    options = parser.parse_args()
    figures = measure(options.decisions)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<18}{figure:>12,}")


if __name__ == "__main__":
    main()
