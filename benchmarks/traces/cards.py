"""Kinds of traces in which a machine has several cards and some of its servers span them."""

import random

from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceModel
from benchmarks.traces.pieces import CARD_MB, GB, bursts, in_order, model, requests


def _machine(*served: tuple[TraceBackend, ...], vram_mb: int = CARD_MB) -> tuple[TraceHost, ...]:
    """Return the cards of one machine, each with the servers that use it."""
    return tuple(
        TraceHost(name=f"box/{card}", machine="box", vram_mb=vram_mb, backends=backends)
        for card, backends in enumerate(served)
    )


def two_cards(rng: random.Random) -> Trace:
    """Text models over both cards, pictures on the second alone, and small texts on the first."""
    wide = TraceBackend(name="llama")
    small, pictures = TraceBackend(name="small"), TraceBackend(name="comfy", serial=True)
    models = (
        model("large", "llama", vram_mb=26 * GB, load_s=60, service_s=12, parallel=2),
        model("middle", "llama", vram_mb=14 * GB, load_s=35, service_s=8, parallel=4),
        model("tiny", "small", vram_mb=5 * GB, load_s=10, service_s=4, parallel=4),
        model("flux", "comfy", vram_mb=12 * GB, load_s=30, service_s=15),
        model("sdxl", "comfy", vram_mb=7 * GB, load_s=15, service_s=8),
    )
    per_s = (0.012, 0.03, 0.05, 0.012, 0.02)
    jobs = [
        job
        for each, rate in zip(models, per_s, strict=True)
        for job in requests(rng, each, rate, 3600)
    ]
    return Trace(
        hosts=_machine((small, wide), (pictures, wide)), models=models, jobs=in_order(jobs)
    )


def cards_drawn(rng: random.Random) -> Trace:
    """Two or three cards, a server over all of them and one or two on each, models drawn by lot."""
    cards = rng.randint(2, 3)
    wide = TraceBackend(name="wide", serial=rng.random() < 0.3)
    own = [
        [
            TraceBackend(name=f"s{card}-{number}", serial=rng.random() < 0.5)
            for number in range(rng.randint(1, 2))
        ]
        for card in range(cards)
    ]
    models = [_drawn(rng, f"w{i}", "wide", cards=cards) for i in range(rng.randint(1, 3))]
    for each in (server for here in own for server in here):
        models += [
            _drawn(rng, f"{each.name}-m{i}", each.name, cards=1) for i in range(rng.randint(1, 3))
        ]
    load = rng.uniform(0.25, 0.6)
    weights = [rng.choice([1, 1, 2, 5]) for _ in models]
    usual_s = sum(w * m.service_s / m.parallel for w, m in zip(weights, models, strict=True))
    per_s = load * cards / (usual_s / sum(weights)) / 3
    jobs = bursts(rng, models, weights, per_s, 3000, most=5, pause_s=6)
    hosts = _machine(*[(*here, wide) for here in own])
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs)[:1200])


def _drawn(rng: random.Random, name: str, server: str, *, cards: int) -> TraceModel:
    drawn = model(
        name,
        server,
        vram_mb=rng.choice([4, 6, 8, 10, 12, 14]) * cards * GB,
        load_s=rng.randint(8, 60),
        service_s=rng.randint(3, 25),
        parallel=rng.choice([1, 1, 2, 4]),
    )
    if cards == 1 or rng.random() < 0.6:
        return drawn
    split = tuple(float(rng.randint(4, 6)) for _ in range(cards))
    return drawn.model_copy(update={"split": split})


CARDS = {"two-cards": two_cards, "cards-drawn": cards_drawn}
