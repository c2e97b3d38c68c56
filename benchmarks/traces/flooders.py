"""Kinds of traces in which a few people ask for very much, beside many who ask for little."""

import random

from benchmarks.trace import Trace, TraceJob, TraceModel
from benchmarks.traces.pieces import arrivals, host, in_order, model, takes

UNTIL_S = 7200.0
FLOODER = "flooder"  # the beginning of their names


def _light(rng: random.Random, asked: TraceModel, share: float) -> list[TraceJob]:
    """Return the requests of twelve people, which keep a copy busy for that share of the time."""
    per_s = share * asked.parallel / asked.service_s
    return [
        TraceJob(
            at=at, model=asked.name, service_s=takes(rng, asked), user=f"light{rng.randint(1, 12)}"
        )
        for at in arrivals(rng, per_s, UNTIL_S)
    ]


def _flood(rng: random.Random, asked: TraceModel, name: str, share: float) -> list[TraceJob]:
    """Return floods of one person: twenty minutes of work at once, again and again."""
    many = max(4, round(1200 * asked.parallel / asked.service_s))
    jobs = []
    for first_at in arrivals(rng, share / 1200, UNTIL_S):
        jobs += [
            TraceJob(
                at=round(first_at + number * rng.uniform(0.1, 2.0), 3),
                model=asked.name,
                service_s=takes(rng, asked),
                user=f"{FLOODER}-{name}",
            )
            for number in range(many)
        ]
    return jobs


def flooder(rng: random.Random) -> Trace:
    """One card and one model; one person floods it while twelve others ask now and then."""
    asked = model("flux", service_s=rng.uniform(5, 30))
    jobs = _light(rng, asked, 0.35) + _flood(rng, asked, "1", 0.4)
    return Trace(hosts=(host(1),), models=(asked,), jobs=in_order(jobs))


def several_flooders(rng: random.Random) -> Trace:
    """One card and one model; three people flood it."""
    asked = model("flux", service_s=rng.uniform(5, 30))
    jobs = _light(rng, asked, 0.3)
    for number in range(3):
        jobs += _flood(rng, asked, str(number), 0.15)
    return Trace(hosts=(host(1),), models=(asked,), jobs=in_order(jobs))


def flooded_slots(rng: random.Random) -> Trace:
    """One card and a text model that runs four at once, flooded by one person."""
    asked = model("llama", service_s=rng.uniform(5, 30), parallel=4)
    jobs = _light(rng, asked, 0.35) + _flood(rng, asked, "1", 0.4)
    return Trace(hosts=(host(1),), models=(asked,), jobs=in_order(jobs))


def flooded_card(rng: random.Random) -> Trace:
    """Two models that do not fit together on the card; one of them is flooded."""
    first = model("flux", service_s=rng.uniform(5, 20))
    other = model("sdxl", service_s=rng.uniform(5, 20))
    jobs = _light(rng, first, 0.2) + _light(rng, other, 0.15) + _flood(rng, first, "1", 0.3)
    return Trace(hosts=(host(1),), models=(first, other), jobs=in_order(jobs))


FLOODED = {
    "flooder": flooder,
    "several-flooders": several_flooders,
    "flooded-slots": flooded_slots,
    "flooded-card": flooded_card,
}
