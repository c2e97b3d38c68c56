"""What traces are made of: cards, models, arrivals and requests; all chance comes from `rng`."""

import random
from collections.abc import Iterator, Sequence

from benchmarks.trace import TraceBackend, TraceHost, TraceJob, TraceModel

GB = 1000
CARD_MB = 24 * GB  # of which the margin leaves 19.2 GB to models


def host(number: int, *backends: str, serial: bool = False) -> TraceHost:
    """Return a host with a card of 24 GB."""
    names = backends or (f"b{number}",)
    return TraceHost(
        name=f"h{number}",
        vram_mb=CARD_MB,
        backends=tuple(TraceBackend(name=name, serial=serial) for name in names),
    )


def model(
    name: str,
    *on: str,
    vram_mb: int = 12 * GB,
    load_s: float = 30.0,
    service_s: float = 10.0,
    parallel: int = 1,
) -> TraceModel:
    """Return a model."""
    return TraceModel(
        name=name,
        vram_mb=vram_mb,
        load_s=load_s,
        service_s=service_s,
        parallel=parallel,
        backends=on or ("b1",),
    )


def takes(rng: random.Random, asked: TraceModel) -> float:
    """Return how long a job really takes: the prior, give or take a third."""
    return round(asked.service_s * rng.uniform(0.7, 1.35), 3)


def arrivals(rng: random.Random, per_s: float, until_s: float) -> Iterator[float]:
    """Yield the moments of independent arrivals."""
    at = rng.expovariate(per_s)
    while at < until_s:
        yield round(at, 3)
        at += rng.expovariate(per_s)


def in_order(jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs as they arrive."""
    return tuple(sorted(jobs, key=lambda job: job.at))


def requests(rng: random.Random, asked: TraceModel, per_s: float, until_s: float) -> list[TraceJob]:
    """Return independent requests for one model."""
    return [
        TraceJob(
            at=at, model=asked.name, service_s=takes(rng, asked), user=f"u{rng.randint(1, 20)}"
        )
        for at in arrivals(rng, per_s, until_s)
    ]


def bursts(
    rng: random.Random,
    models: Sequence[TraceModel],
    weights: Sequence[float],
    per_s: float,
    until_s: float,
    *,
    most: int,
    pause_s: float,
) -> list[TraceJob]:
    """Return bursts of up to `most` requests, about `pause_s` apart, for models of that popularity."""
    jobs = []
    for first_at in arrivals(rng, per_s, until_s):
        asked, at, user = rng.choices(models, weights)[0], first_at, f"u{rng.randint(1, 30)}"
        for _ in range(rng.randint(1, most)):
            jobs.append(
                TraceJob(at=round(at, 3), model=asked.name, service_s=takes(rng, asked), user=user)
            )
            at += rng.expovariate(1 / pause_s)
    return jobs
