"""The shipped traces: each is one situation that people are in; all chance comes from `rng`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from benchmarks.schedule.trace import Resident, Trace, TraceBackend, TraceHost, TraceJob, TraceModel

GB = 1000
GPU_MB = 24 * GB  # of which the margin leaves 19.2 GB to models


def host(number: int, *backends: str, serial: bool = False) -> TraceHost:
    """Return a host with a GPU of 24 GB."""
    names = backends or (f"b{number}",)
    servers = tuple(TraceBackend(name=name, serial=serial) for name in names)
    return TraceHost(name=f"h{number}", vram_mb=GPU_MB, backends=servers)


def hosts(count: int) -> list[TraceHost]:
    """Return this many hosts, each with one server."""
    return [host(number) for number in range(1, count + 1)]


def model(name: str, *on: str, **fields: Any) -> TraceModel:
    """Return a model."""
    usual: dict[str, Any] = {"vram_mb": 12 * GB, "load_s": 30.0, "service_s": 10.0}
    return TraceModel(name=name, backends=on or ("b1",), **usual | fields)


def drawn(
    rng: Random,
    count: int,
    *on: str,
    load_s: tuple[int, int] = (15, 60),
    service_s: tuple[int, int] = (4, 20),
) -> list[TraceModel]:
    """Return models whose size and speed are drawn by lot."""
    return [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice((6, 8, 12)) * GB,
            load_s=rng.randint(*load_s),
            service_s=rng.randint(*service_s),
        )
        for i in range(count)
    ]


def takes(rng: Random, asked: TraceModel) -> float:
    """Return a job's real duration: the prior, plus or minus a third."""
    return round(asked.service_s * rng.uniform(0.7, 1.35), 3)


def arrivals(rng: Random, per_s: float, until_s: float) -> Iterator[float]:
    """Yield the moments of independent arrivals."""
    at = rng.expovariate(per_s)
    while at < until_s:
        yield round(at, 3)
        at += rng.expovariate(per_s)


def requests(rng: Random, asked: TraceModel, per_s: float, until_s: float) -> list[TraceJob]:
    """Return independent requests for one model."""
    jobs = []
    for at in arrivals(rng, per_s, until_s):
        service_s, user = takes(rng, asked), f"u{rng.randint(1, 20)}"
        jobs.append(TraceJob(at=at, model=asked.name, service_s=service_s, user=user))
    return jobs


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
            service_s = takes(rng, asked)
            jobs.append(TraceJob(at=round(at, 3), model=asked.name, service_s=service_s, user=user))
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


def two_queues(rng: Random) -> Trace:
    """One GPU, two warm models that fit together, a cold one that needs the room of one."""
    warm = [
        model("warm-1", vram_mb=8 * GB, service_s=1.0),
        model("warm-2", vram_mb=8 * GB, service_s=4.0),
    ]
    cold = model("cold", vram_mb=10 * GB, load_s=90.0, service_s=12.0)
    jobs = requests(rng, warm[0], 0.15, 1800) + requests(rng, warm[1], 0.05, 1800)
    jobs += requests(rng, cold, 1 / 300, 1800)
    return trace(hosts(1), [*warm, cold], jobs, resident=["warm-1", "warm-2"])


def two_hosts(rng: Random) -> Trace:
    """Two GPUs, five models, moderate load."""
    models = drawn(rng, 5, "b1", "b2", load_s=(15, 50), service_s=(4, 18))
    jobs = [job for m in models for job in requests(rng, m, 0.9 / 5 / m.service_s, 2400)]
    return trace(hosts(2), models, jobs)


def bursty(rng: Random) -> Trace:
    """Three GPUs, eight models of Zipf popularity, asked for in bursts of up to nine."""
    models, weights = drawn(rng, 8, "b1", "b2", "b3"), [1 / rank for rank in range(1, 9)]
    work_s = sum(w * m.service_s for w, m in zip(weights, models, strict=True))
    per_s = 0.6 * 3 / (work_s / sum(weights)) / 5
    return trace(hosts(3), models, bursts(rng, models, weights, per_s, 3000, most=9, pause_s=3))


def alternating(rng: Random) -> Trace:
    """Two models, asked for in turns, on a GPU that fits one."""
    models = [model("a", load_s=25.0, service_s=7.0), model("b", load_s=35.0, service_s=9.0)]
    jobs = [
        TraceJob(at=at, model=models[i % 2].name, service_s=takes(rng, models[i % 2]))
        for i, at in enumerate(arrivals(rng, 1 / 18, 2700))
    ]
    return trace(hosts(1), models, jobs)


def hot_and_cold(rng: Random) -> Trace:
    """One model that alone takes 105 % of the GPU's time, and three rarely asked for."""
    hot = model("hot", service_s=8.0)
    cold = [model(f"cold-{i}", load_s=20.0 + 8 * i) for i in range(1, 4)]
    jobs = requests(rng, hot, 1.05 / 8.2, 3600)
    for each in cold:
        jobs += requests(rng, each, 1 / 900, 3600)
    return trace(hosts(1), [hot, *cold], jobs, resident=["hot"])


def overload(rng: Random) -> Trace:
    """Twice what two GPUs can do, for twenty minutes, over six models."""
    models = drawn(rng, 6, "b1", "b2")
    jobs = [job for m in models for job in requests(rng, m, 2 * 2 / 6 / m.service_s, 1200)]
    return trace(hosts(2), models, jobs)


def shared_card(rng: Random) -> Trace:
    """Images and texts from two servers on one GPU: the first serial, the second with slots."""
    models = [
        model("flux", "comfy", vram_mb=14 * GB, load_s=45.0, service_s=20.0),
        model("sdxl", "comfy", vram_mb=8 * GB, load_s=15.0, service_s=6.0),
        model("llama", "texts", vram_mb=9 * GB, load_s=12.0, service_s=5.0, parallel=4),
    ]
    servers = (TraceBackend(name="comfy", serial=True), TraceBackend(name="texts"))
    shared = TraceHost(name="h1", vram_mb=GPU_MB, backends=servers)
    every_s = (90, 40, 15)
    jobs = [j for m, s in zip(models, every_s, strict=True) for j in requests(rng, m, 1 / s, 2700)]
    return trace([shared], models, jobs)


def crowded_cards(rng: Random) -> Trace:
    """Two GPUs, each with two serial servers: fast images in bursts, and slow ones.

    A further copy shortens the queue of a burst, but leaves the slow model no room on either GPU.
    """
    comfy, forge = ("comfy-1", "comfy-2"), ("forge-1", "forge-2")
    slow = [
        model("flux", *comfy, vram_mb=10 * GB, load_s=11.0, service_s=28.0),
        model("film", *comfy, load_s=45.0, service_s=23.0),
    ]
    fast = [
        model("sdxl", *forge, vram_mb=14 * GB, load_s=26.0, service_s=3.0),
        model("lines", *forge, vram_mb=6 * GB, load_s=8.0, service_s=2.0),
    ]
    jobs = requests(rng, slow[0], 1 / 45, 3000) + requests(rng, fast[0], 1 / 8, 3000)
    jobs += bursts(rng, slow, (3, 1), 1 / 500, 3000, most=9, pause_s=4)
    jobs += bursts(rng, fast, (2, 1), 1 / 60, 3000, most=9, pause_s=4)
    both = [host(i, f"comfy-{i}", f"forge-{i}", serial=True) for i in (1, 2)]
    return trace(both, [*slow, *fast], jobs)


def lanes_and_cancels(rng: Random) -> Trace:
    """Two GPUs with several slots; people in three lanes, some of whom lose patience."""
    models = []
    for i, (gb, slots) in enumerate(((6, 4), (8, 2), (12, 1), (14, 1))):
        times = {"load_s": 20.0 + 8 * i, "service_s": 5.0 + 4 * i}
        models.append(model(f"m{i}", "b1", "b2", vram_mb=gb * GB, parallel=slots, **times))
    jobs = []
    for asked in models:
        for job in requests(rng, asked, 0.45 * asked.parallel / asked.service_s, 1800):
            lane = rng.choices(("vip", "normal", "relaxed"), (1, 4, 2))[0]
            leaves = round(job.at + rng.uniform(5, 240), 3) if rng.random() < 0.12 else None
            jobs.append(job.model_copy(update={"lane": lane, "cancel_at": leaves}))
    return trace(hosts(2), models, jobs)


def two_cards(rng: Random) -> Trace:
    """One machine: text models over both GPUs, images on the second alone, small texts on the first."""
    models = [
        model("large", "llama", vram_mb=26 * GB, load_s=60, service_s=12, parallel=2),
        model("middle", "llama", vram_mb=14 * GB, load_s=35, service_s=8, parallel=4),
        model("tiny", "small", vram_mb=5 * GB, load_s=10, service_s=4, parallel=4),
        model("flux", "comfy", load_s=30, service_s=15),
        model("sdxl", "comfy", vram_mb=7 * GB, load_s=15, service_s=8),
    ]
    wide = TraceBackend(name="llama")
    alone = (TraceBackend(name="small"), TraceBackend(name="comfy", serial=True))
    gpus = [
        TraceHost(name=f"box/{i}", machine="box", vram_mb=GPU_MB, backends=(own, wide))
        for i, own in enumerate(alone)
    ]
    rates = (0.012, 0.03, 0.05, 0.012, 0.02)
    jobs = [
        j for m, per_s in zip(models, rates, strict=True) for j in requests(rng, m, per_s, 3600)
    ]
    return trace(gpus, models, jobs)


_KINDS = (
    *(two_queues, two_hosts, bursty, alternating, hot_and_cold, overload),
    *(shared_card, crowded_cards, lanes_and_cancels, two_cards),
)
SHIPPED = {kind.__name__.replace("_", "-"): kind for kind in _KINDS}
