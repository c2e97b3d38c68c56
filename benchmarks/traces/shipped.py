"""The traces of this folder: each is one situation that people are in."""

import random

from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel
from benchmarks.traces.pieces import (
    CARD_MB,
    GB,
    arrivals,
    bursts,
    host,
    in_order,
    model,
    requests,
    takes,
)


def various(
    rng: random.Random,
    count: int,
    *on: str,
    slowest_load_s: int = 60,
    slowest_service_s: int = 20,
) -> list[TraceModel]:
    """Return models of three sizes and of any speed up to the slowest."""
    return [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice([6, 8, 12]) * GB,
            load_s=rng.randint(15, slowest_load_s),
            service_s=rng.randint(4, slowest_service_s),
        )
        for i in range(count)
    ]


def two_queues(rng: random.Random) -> Trace:
    """One card, two warm models that fit together, a cold one that needs the room of one."""
    warm = [
        model("warm-1", vram_mb=8 * GB, service_s=1.0),
        model("warm-2", vram_mb=8 * GB, service_s=4.0),
    ]
    cold = model("cold", vram_mb=10 * GB, load_s=90.0, service_s=12.0)
    jobs = requests(rng, warm[0], 0.15, 1800) + requests(rng, warm[1], 0.05, 1800)
    jobs += requests(rng, cold, 1 / 300, 1800)
    residents = [{"backend": "b1", "model": m.name} for m in warm]
    return Trace.model_validate(
        {
            "hosts": (host(1),),
            "models": (*warm, cold),
            "resident": residents,
            "jobs": in_order(jobs),
        }
    )


def two_hosts(rng: random.Random) -> Trace:
    """Two cards, five models, moderate load."""
    models = various(rng, 5, "b1", "b2", slowest_load_s=50, slowest_service_s=18)
    jobs = [job for m in models for job in requests(rng, m, 0.9 / 5 / m.service_s, 2400)]
    return Trace(hosts=(host(1), host(2)), models=tuple(models), jobs=in_order(jobs))


def bursty(rng: random.Random) -> Trace:
    """Three cards, eight models of Zipf popularity, asked for in bursts of up to nine."""
    cards, load = 3, 0.6
    on = tuple(f"b{i}" for i in range(1, cards + 1))
    models = various(rng, 8, *on)
    weights = [1 / rank for rank in range(1, 9)]
    usual_s = sum(w * m.service_s for w, m in zip(weights, models, strict=True)) / sum(weights)
    per_s = load * cards / usual_s / 5
    jobs = bursts(rng, models, weights, per_s, 3000, most=9, pause_s=3)
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs))


def alternating(rng: random.Random) -> Trace:
    """Two models asked for in turns on a card that fits one."""
    models = (model("a", load_s=25.0, service_s=7.0), model("b", load_s=35.0, service_s=9.0))
    jobs = [
        TraceJob(at=at, model=models[i % 2].name, service_s=takes(rng, models[i % 2]))
        for i, at in enumerate(arrivals(rng, 1 / 18, 2700))
    ]
    return Trace(hosts=(host(1),), models=models, jobs=tuple(jobs))


def hot_and_cold(rng: random.Random) -> Trace:
    """One model that alone is 105 % of the card, beside three asked for now and then."""
    hot = model("hot", service_s=8.0)
    cold = [model(f"cold-{i}", load_s=20.0 + 8 * i) for i in range(1, 4)]
    jobs = requests(rng, hot, 1.05 / 8.2, 3600)
    for each in cold:
        jobs += requests(rng, each, 1 / 900, 3600)
    return Trace.model_validate(
        {
            "hosts": (host(1),),
            "models": (hot, *cold),
            "resident": [{"backend": "b1", "model": "hot"}],
            "jobs": in_order(jobs),
        }
    )


def overload(rng: random.Random) -> Trace:
    """Twice what two cards can do, for twenty minutes, over six models."""
    models = various(rng, 6, "b1", "b2")
    jobs = [job for m in models for job in requests(rng, m, 2 * 2 / 6 / m.service_s, 1200)]
    return Trace(hosts=(host(1), host(2)), models=tuple(models), jobs=in_order(jobs))


def shared_card(rng: random.Random) -> Trace:
    """Pictures and texts from two servers on one card: the first serial, the second with slots."""
    pictures = [
        model("flux", "comfy", vram_mb=14 * GB, load_s=45.0, service_s=20.0),
        model("sdxl", "comfy", vram_mb=8 * GB, load_s=15.0, service_s=6.0),
    ]
    texts = model("llama", "texts", vram_mb=9 * GB, load_s=12.0, service_s=5.0, parallel=4)
    shared = TraceHost(
        name="h1",
        vram_mb=CARD_MB,
        backends=(TraceBackend(name="comfy", serial=True), TraceBackend(name="texts")),
    )
    jobs = requests(rng, pictures[0], 1 / 90, 2700) + requests(rng, pictures[1], 1 / 40, 2700)
    jobs += requests(rng, texts, 1 / 15, 2700)
    return Trace(hosts=(shared,), models=(*pictures, texts), jobs=in_order(jobs))


def crowded_cards(rng: random.Random) -> Trace:
    """Two cards, each under two serial servers: quick pictures in bursts, slow ones beside them.

    A further copy shortens the line of a burst, but leaves the slow model no room on either card.
    """
    comfy, forge = ("comfy-1", "comfy-2"), ("forge-1", "forge-2")
    slow = [
        model("flux", *comfy, vram_mb=10 * GB, load_s=11.0, service_s=28.0),
        model("film", *comfy, load_s=45.0, service_s=23.0),
    ]
    quick = [
        model("sdxl", *forge, vram_mb=14 * GB, load_s=26.0, service_s=3.0),
        model("lines", *forge, vram_mb=6 * GB, load_s=8.0, service_s=2.0),
    ]
    jobs = requests(rng, slow[0], 1 / 45, 3000) + requests(rng, quick[0], 1 / 8, 3000)
    jobs += bursts(rng, slow, (3, 1), 1 / 500, 3000, most=9, pause_s=4)
    jobs += bursts(rng, quick, (2, 1), 1 / 60, 3000, most=9, pause_s=4)
    hosts = (host(1, "comfy-1", "forge-1", serial=True), host(2, "comfy-2", "forge-2", serial=True))
    return Trace(hosts=hosts, models=(*slow, *quick), jobs=in_order(jobs))


def lanes_and_cancels(rng: random.Random) -> Trace:
    """Two cards with slots for several at once; people of three ranks, some lose patience."""
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
    return Trace(hosts=(host(1), host(2)), models=tuple(models), jobs=in_order(jobs))


TRACES = {
    "two-queues": two_queues,
    "two-hosts": two_hosts,
    "bursty": bursty,
    "alternating": alternating,
    "hot-and-cold": hot_and_cold,
    "overload": overload,
    "shared-card": shared_card,
    "crowded-cards": crowded_cards,
    "lanes-and-cancels": lanes_and_cancels,
}
