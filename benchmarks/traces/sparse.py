"""Kinds of traces in which people ask now and then: minutes apart by day, an hour apart by night."""

import random
from collections.abc import Sequence

from benchmarks.trace import Trace, TraceJob, TraceModel
from benchmarks.traces.pieces import GB, host, in_order, model, requests, takes

HOUR_S = 3600.0
DAYS = 1


def _models(rng: random.Random, count: int, cards: int) -> list[TraceModel]:
    """Return models of which one or two fit on a card together."""
    on = [f"b{i}" for i in range(1, cards + 1)]
    return [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice([8, 10, 12, 16]) * GB,
            load_s=rng.randint(15, 90),
            service_s=rng.randint(5, 40),
        )
        for i in range(count)
    ]


def _asked(
    rng: random.Random, asked: TraceModel, per_hour: float, hours: tuple[float, float]
) -> list[TraceJob]:
    """Return independent requests between two hours of the trace."""
    begin, end = (hour * HOUR_S for hour in hours)
    return [
        job.model_copy(update={"at": round(job.at + begin, 3)})
        for job in requests(rng, asked, per_hour / HOUR_S, end - begin)
    ]


def _trace(models: Sequence[TraceModel], jobs: list[TraceJob], cards: int) -> Trace:
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs))


def sparse_zipf(rng: random.Random) -> Trace:
    """One card, three to five models of Zipf popularity, six to twenty requests an hour by day."""
    models, jobs = _models(rng, rng.randint(3, 5), 1), []
    per_hour = rng.uniform(6, 20)
    whole = sum(1 / rank for rank in range(1, len(models) + 1))
    for day in range(DAYS):
        for rank, asked in enumerate(models, 1):
            share = per_hour / rank / whole
            jobs += _asked(rng, asked, share, (24 * day + 8, 24 * day + 23))
            jobs += _asked(rng, asked, share / 10, (24 * day, 24 * day + 8))
    return _trace(models, jobs, 1)


def sparse_turns(rng: random.Random) -> Trace:
    """One card; people ask a text model, then a picture model, then the text model again."""
    models, jobs = _models(rng, 3, 1), []
    for day in range(DAYS):
        at = (24 * day + 9) * HOUR_S
        while at < (24 * day + 22) * HOUR_S:
            for asked in (models[0], models[1], models[0], models[2]):
                jobs.append(
                    TraceJob(at=round(at, 3), model=asked.name, service_s=takes(rng, asked))
                )
                at += rng.uniform(120, 600)
            at += rng.expovariate(1 / 1800)
    return _trace(models, jobs, 1)


def sparse_days(rng: random.Random) -> Trace:
    """One or two cards; half of the models are asked for in the morning, the others in the evening."""
    cards = rng.randint(1, 2)
    models, jobs = _models(rng, 2 + 2 * cards, cards), []
    for day in range(DAYS):
        for index, asked in enumerate(models):
            first = 24 * day + (8 if index % 2 else 16)
            jobs += _asked(rng, asked, rng.uniform(2, 8), (first, first + 7))
    return _trace(models, jobs, cards)


def sparse_sessions(rng: random.Random) -> Trace:
    """One or two cards; a person comes, asks one model five to fifteen times, and goes."""
    cards = rng.randint(1, 2)
    models, jobs = _models(rng, 2 + 2 * cards, cards), []
    at = 0.0
    while at < DAYS * 24 * HOUR_S:
        asked = rng.choice(models)
        for _ in range(rng.randint(5, 15)):
            jobs.append(TraceJob(at=round(at, 3), model=asked.name, service_s=takes(rng, asked)))
            at += asked.service_s + rng.expovariate(1 / 60)
        at += rng.expovariate(1 / 2400)
    return _trace(models, jobs, cards)


SPARSE = {
    "sparse-zipf": sparse_zipf,
    "sparse-turns": sparse_turns,
    "sparse-days": sparse_days,
    "sparse-sessions": sparse_sessions,
}
