"""What traces consist of: hosts, models, arrivals and requests; all chance comes from `rng`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from benchmarks.schedule.trace import Resident, Trace, TraceBackend, TraceHost, TraceJob, TraceModel

GB = 1000
CARD_MB = 24 * GB  # of which the margin leaves 19.2 GB to models


def host(number: int, *backends: str, serial: bool = False) -> TraceHost:
    """Return a host with a GPU of 24 GB."""
    names = backends or (f"b{number}",)
    servers = tuple(TraceBackend(name=name, serial=serial) for name in names)
    return TraceHost(name=f"h{number}", vram_mb=CARD_MB, backends=servers)


def hosts(count: int) -> list[TraceHost]:
    """Return so many hosts, each with one server."""
    return [host(number) for number in range(1, count + 1)]


def model(name: str, *on: str, **fields: Any) -> TraceModel:
    """Return a model."""
    usual: dict[str, Any] = {"vram_mb": 12 * GB, "load_s": 30.0, "service_s": 10.0}
    return TraceModel(name=name, backends=on or ("b1",), **usual | fields)


def drawn(
    rng: Random,
    count: int,
    *on: str,
    sizes_gb: Sequence[int] = (6, 8, 12),
    load_s: tuple[int, int] = (15, 60),
    service_s: tuple[int, int] = (4, 20),
    slots: Sequence[int] = (),
) -> list[TraceModel]:
    """Return models whose size and speed are drawn by lot."""
    return [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice(sizes_gb) * GB,
            load_s=rng.randint(*load_s),
            service_s=rng.randint(*service_s),
            parallel=rng.choice(slots) if slots else 1,
        )
        for i in range(count)
    ]


def work_s(asked: TraceModel) -> float:
    """Return how long one job occupies a whole GPU, where slots and memory are shared."""
    return asked.service_s / asked.parallel * max(0.5, asked.vram_mb / (0.8 * CARD_MB))


def zipf(count: int) -> list[float]:
    """Return the popularity of so many models, the most popular first."""
    return [1 / rank for rank in range(1, count + 1)]


def usual_s(weights: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the mean of times by popularity."""
    return sum(w * s for w, s in zip(weights, seconds, strict=True)) / sum(weights)


def takes(rng: Random, asked: TraceModel) -> float:
    """Return a job's real duration: the prior, plus or minus a third."""
    return round(asked.service_s * rng.uniform(0.7, 1.35), 3)


def request(rng: Random, asked: TraceModel, at: float, people: int) -> TraceJob:
    """Return a request of one of so many people."""
    service_s, user = takes(rng, asked), f"u{rng.randint(1, people)}"
    return TraceJob(at=at, model=asked.name, service_s=service_s, user=user)


def arrivals(rng: Random, per_s: float, until_s: float) -> Iterator[float]:
    """Yield the moments of independent arrivals."""
    at = rng.expovariate(per_s)
    while at < until_s:
        yield round(at, 3)
        at += rng.expovariate(per_s)


def requests(rng: Random, asked: TraceModel, per_s: float, until_s: float) -> list[TraceJob]:
    """Return independent requests for one model."""
    return [request(rng, asked, at, people=20) for at in arrivals(rng, per_s, until_s)]


def bursts(
    rng: Random,
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


def trace(
    on: Sequence[TraceHost],
    models: Sequence[TraceModel],
    jobs: Sequence[TraceJob],
    resident: Sequence[str] = (),
) -> Trace:
    """Return a trace with its jobs in order; residents are on the first server."""
    held = tuple(Resident(backend="b1", model=name) for name in resident)
    in_order = tuple(sorted(jobs, key=lambda job: job.at))
    return Trace(hosts=tuple(on), models=tuple(models), resident=held, jobs=in_order)
