"""Kinds of traces in which two servers share each card and several models share each server."""

import random
from collections.abc import Sequence

from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel
from benchmarks.traces.pieces import CARD_MB, GB, bursts, in_order, model, requests

SERIAL, SLOTS = True, False


def _hosts(cards: int, first: str, second: str, *, serial: tuple[bool, bool]) -> list[TraceHost]:
    """Return cards of 24 GB, each under two servers."""
    return [
        TraceHost(
            name=f"h{i}",
            vram_mb=CARD_MB,
            backends=(
                TraceBackend(name=f"{first}-{i}", serial=serial[0]),
                TraceBackend(name=f"{second}-{i}", serial=serial[1]),
            ),
        )
        for i in range(1, cards + 1)
    ]


def _models(
    rng: random.Random, kind: str, count: int, on: Sequence[str], *, slots: Sequence[int] = (1,)
) -> list[TraceModel]:
    """Return models of one server: small ones that fit beside others, and large ones."""
    return [
        model(
            f"{kind}{i}",
            *on,
            vram_mb=rng.choice([4, 5, 6, 8, 10, 12, 14]) * GB,
            load_s=rng.randint(8, 60),
            service_s=rng.randint(2, 30),
            parallel=rng.choice(slots),
        )
        for i in range(count)
    ]


def _names(kind: str, cards: int) -> list[str]:
    return [f"{kind}-{i}" for i in range(1, cards + 1)]


def _trace(hosts: list[TraceHost], models: list[TraceModel], jobs: list[TraceJob]) -> Trace:
    return Trace(hosts=tuple(hosts), models=tuple(models), jobs=in_order(jobs)[:1200])


def _hot_and_bursts(
    rng: random.Random, groups: Sequence[list[TraceModel]], cards: int, load: tuple[float, float]
) -> list[TraceJob]:
    """Return steady requests for the first model of each server, and bursts for all of them."""
    jobs: list[TraceJob] = []
    for models in groups:
        share = rng.uniform(*load)
        hot = models[0]
        steady = rng.uniform(0.3, 0.7)
        jobs += requests(rng, hot, steady * share * cards * hot.parallel / hot.service_s, 3000)
        weights = [1 / rank for rank in range(1, len(models) + 1)]
        usual_s = sum(w * m.service_s / m.parallel for w, m in zip(weights, models, strict=True))
        per_s = (1 - steady) * share * cards / (usual_s / sum(weights)) / 5
        jobs += bursts(rng, models, weights, per_s, 3000, most=9, pause_s=4)
    return jobs


def shared_serial(rng: random.Random) -> Trace:
    """Two or three cards, each under two serial picture servers with models of their own."""
    cards = rng.randint(2, 3)
    groups = [
        _models(rng, kind, rng.randint(2, 4), _names(name, cards))
        for kind, name in (("a", "comfy"), ("b", "forge"))
    ]
    jobs = _hot_and_bursts(rng, groups, cards, (0.25, 0.5))
    hosts = _hosts(cards, "comfy", "forge", serial=(SERIAL, SERIAL))
    return _trace(hosts, [m for group in groups for m in group], jobs)


def shared_mixed(rng: random.Random) -> Trace:
    """Two or three cards, each under a serial picture server and a text server with slots."""
    cards = rng.randint(2, 3)
    pictures = _models(rng, "p", rng.randint(2, 4), _names("comfy", cards))
    texts = _models(rng, "t", rng.randint(1, 3), _names("texts", cards), slots=(1, 2, 4))
    jobs = _hot_and_bursts(rng, (pictures, texts), cards, (0.25, 0.5))
    hosts = _hosts(cards, "comfy", "texts", serial=(SERIAL, SLOTS))
    return _trace(hosts, [*pictures, *texts], jobs)


def shared_either(rng: random.Random) -> Trace:
    """Two cards, each under two serial servers, every model on both of them."""
    cards = 2
    on = [name for i in range(1, cards + 1) for name in (f"comfy-{i}", f"forge-{i}")]
    models = _models(rng, "m", rng.randint(4, 7), on)
    jobs = _hot_and_bursts(rng, (models,), cards, (0.4, 0.8))
    hosts = _hosts(cards, "comfy", "forge", serial=(SERIAL, SERIAL))
    return _trace(hosts, models, jobs)


def shared_unequal(rng: random.Random) -> Trace:
    """Two serial servers on one card and one on another, under small models that fit together."""
    models = [
        m.model_copy(update={"vram_mb": rng.choice([3, 4, 5, 6]) * GB, "parallel": 1})
        for m in _models(rng, "m", rng.randint(4, 8), ["comfy-1", "forge-1", "comfy-2"])
    ]
    jobs = _hot_and_bursts(rng, (models,), 2, (0.4, 0.8))
    hosts = _hosts(1, "comfy", "forge", serial=(SERIAL, SERIAL))
    alone = TraceBackend(name="comfy-2", serial=SERIAL)
    hosts.append(TraceHost(name="h2", vram_mb=CARD_MB, backends=(alone,)))
    return _trace(hosts, models, jobs)


def second_copies(rng: random.Random, slows: float = 0.3) -> Trace:
    """One card under two or three serial servers, small models on all of them, two copies of each.

    Two jobs at once take 30 % longer there, each of them.
    """
    servers = [TraceBackend(name=f"comfy-{i}", serial=SERIAL) for i in range(1, rng.randint(3, 4))]
    models = [
        m.model_copy(
            update={"vram_mb": rng.choice([4, 5, 6, 7, 8, 9]) * GB, "parallel": 1, "copies": 2}
        )
        for m in _models(rng, "m", rng.randint(1, 4), [each.name for each in servers])
    ]
    jobs = _hot_and_bursts(rng, (models,), 1, (0.5, 1.1))
    card = TraceHost(name="h1", vram_mb=CARD_MB, slows=slows, backends=tuple(servers))
    return _trace([card], models, jobs)


def second_copies_bound(rng: random.Random) -> Trace:
    """One card as in `second_copies`, on which two jobs at once take twice as long, each of them."""
    return second_copies(rng, slows=1.0)


SHARED = {
    "shared-serial": shared_serial,
    "shared-mixed": shared_mixed,
    "shared-either": shared_either,
    "shared-unequal": shared_unequal,
    "second-copies": second_copies,
    "second-copies-bound": second_copies_bound,
}
