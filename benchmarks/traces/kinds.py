"""The kinds of shipped traces: each is one situation that people are in."""

from random import Random

from benchmarks.schedule.trace import Trace, TraceBackend, TraceHost, TraceJob
from benchmarks.traces.pieces import (
    CARD_MB,
    GB,
    arrivals,
    bursts,
    drawn,
    host,
    hosts,
    model,
    request,
    requests,
    takes,
    trace,
    usual_s,
    work_s,
    zipf,
)


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
    models, weights = drawn(rng, 8, "b1", "b2", "b3"), zipf(8)
    per_s = 0.6 * 3 / usual_s(weights, [m.service_s for m in models]) / 5
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
    shared = TraceHost(name="h1", vram_mb=CARD_MB, backends=servers)
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
    models = [
        model(
            f"m{i}",
            "b1",
            "b2",
            vram_mb=(6, 8, 12, 14)[i] * GB,
            load_s=20.0 + 8 * i,
            service_s=5.0 + 4 * i,
            parallel=(4, 2, 1, 1)[i],
        )
        for i in range(4)
    ]
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
        TraceHost(name=f"box/{i}", machine="box", vram_mb=CARD_MB, backends=(own, wide))
        for i, own in enumerate(alone)
    ]
    rates = (0.012, 0.03, 0.05, 0.012, 0.02)
    jobs = [
        j for m, per_s in zip(models, rates, strict=True) for j in requests(rng, m, per_s, 3600)
    ]
    return trace(gpus, models, jobs)


def crowd(rng: Random, jobs: int) -> Trace:
    """Fifty models of Zipf popularity on eight GPUs, asked for at three times what those can do."""
    models = drawn(
        rng,
        50,
        *(f"b{i}" for i in range(1, 9)),
        sizes_gb=(4, 6, 8, 10, 12, 14, 18),
        load_s=(8, 90),
        service_s=(2, 30),
        slots=(1, 1, 1, 2, 4),
    )
    weights = zipf(50)
    until_s = jobs * usual_s(weights, [work_s(m) for m in models]) / (3 * 8)
    asked = [(rng.uniform(0, until_s), rng.choices(models, weights)[0]) for _ in range(jobs)]
    made = [request(rng, m, round(at, 3), people=50) for at, m in asked]
    return trace(hosts(8), models, made)


_KINDS = (
    *(two_queues, two_hosts, bursty, alternating, hot_and_cold, overload),
    *(shared_card, crowded_cards, lanes_and_cancels, two_cards),
)
SHIPPED = {kind.__name__.replace("_", "-"): kind for kind in _KINDS}
