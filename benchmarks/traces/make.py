"""Makes the traces beside it, the same ones every time: `python -m benchmarks.traces.make`.

`--dir DIR --variants N` makes N others of each kind elsewhere, and of further kinds whose cards,
models and load are drawn by lot, to see what is luck. Each trace is one situation people are in:
cards shared by several models, bursts, a model everybody wants beside ones hardly anybody does,
more work than the cards can do.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))  # run as a plain script, too

from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel

HERE = Path(__file__).resolve().parent
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
    models = [
        model(
            f"m{i}",
            "b1",
            "b2",
            vram_mb=rng.choice([6, 8, 12]) * GB,
            load_s=rng.randint(15, 50),
            service_s=rng.randint(4, 18),
        )
        for i in range(5)
    ]
    jobs = [job for m in models for job in requests(rng, m, 0.9 / 5 / m.service_s, 2400)]
    return Trace(hosts=(host(1), host(2)), models=tuple(models), jobs=in_order(jobs))


def bursty(rng: random.Random) -> Trace:
    """Three cards, eight models of Zipf popularity, asked for in bursts of up to nine."""
    cards, load = 3, 0.6
    on = tuple(f"b{i}" for i in range(1, cards + 1))
    models = [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice([6, 8, 12]) * GB,
            load_s=rng.randint(15, 60),
            service_s=rng.randint(4, 20),
        )
        for i in range(8)
    ]
    weights = [1 / rank for rank in range(1, 9)]
    usual_s = sum(w * m.service_s for w, m in zip(weights, models, strict=True)) / sum(weights)
    jobs = []
    for first_at in arrivals(rng, load * cards / usual_s / 5, 3000):
        asked, at, user = rng.choices(models, weights)[0], first_at, f"u{rng.randint(1, 30)}"
        for _ in range(rng.randint(1, 9)):
            jobs.append(
                TraceJob(at=round(at, 3), model=asked.name, service_s=takes(rng, asked), user=user)
            )
            at += rng.expovariate(1 / 3)
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
    models = [
        model(
            f"m{i}",
            "b1",
            "b2",
            vram_mb=rng.choice([6, 8, 12]) * GB,
            load_s=rng.randint(15, 60),
            service_s=rng.randint(4, 20),
        )
        for i in range(6)
    ]
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
    "lanes-and-cancels": lanes_and_cancels,
}


# ---------------------------------------------------------------- kinds drawn by lot


def drawn_models(rng: random.Random, count: int, on: Sequence[str]) -> list[TraceModel]:
    """Return models of any size and speed."""
    return [
        model(
            f"m{i}",
            *on,
            vram_mb=rng.choice([4, 6, 8, 10, 12, 14, 18]) * GB,
            load_s=rng.randint(8, 90),
            service_s=rng.randint(2, 30),
            parallel=rng.choice([1, 1, 1, 2, 4]),
        )
        for i in range(count)
    ]


def bursts(
    rng: random.Random, models: Sequence[TraceModel], weights: Sequence[float], burst_per_s: float,
    until_s: float,
) -> list[TraceJob]:  # fmt: skip
    """Return bursts of one to fifteen requests for models of the given popularity."""
    jobs = []
    for first_at in arrivals(rng, burst_per_s, until_s):
        asked, at, user = rng.choices(models, weights)[0], first_at, f"u{rng.randint(1, 30)}"
        for _ in range(rng.randint(1, 15)):
            jobs.append(
                TraceJob(at=round(at, 3), model=asked.name, service_s=takes(rng, asked), user=user)
            )
            at += rng.expovariate(1 / 4)
    return jobs


def work_s(asked: TraceModel) -> float:
    """Return how long a whole card is kept by one job, where slots and memory are shared."""
    return asked.service_s / asked.parallel * max(0.5, asked.vram_mb / (0.8 * CARD_MB))


def many_hosts(rng: random.Random) -> Trace:
    """Three to eight cards, ten to twenty models in bursts; each model on some of the cards."""
    cards = rng.randint(3, 8)
    names = [f"b{i}" for i in range(1, cards + 1)]
    models = [
        m.model_copy(update={"backends": tuple(sorted(rng.sample(names, rng.randint(2, cards))))})
        for m in drawn_models(rng, rng.randint(10, 20), names)
    ]
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    usual_s = sum(w * work_s(m) for w, m in zip(weights, models, strict=True)) / sum(weights)
    per_s = rng.uniform(0.4, 0.8) * cards / usual_s / 8
    jobs = in_order(bursts(rng, models, weights, per_s, 1800))[:1500]
    return Trace(hosts=tuple(host(i) for i in range(1, cards + 1)), models=tuple(models), jobs=jobs)


def bursty_drawn(rng: random.Random) -> Trace:
    """Two to four cards, six to ten models of Zipf popularity in bursts."""
    cards = rng.randint(2, 4)
    models = drawn_models(rng, rng.randint(6, 10), [f"b{i}" for i in range(1, cards + 1)])
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    usual_s = sum(w * work_s(m) for w, m in zip(weights, models, strict=True)) / sum(weights)
    jobs = bursts(rng, models, weights, rng.uniform(0.4, 0.8) * cards / usual_s / 8, 3000)
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs)[:1500])


def overload_drawn(rng: random.Random) -> Trace:
    """One and a half to three times what one to three cards can do, for twenty minutes."""
    cards = rng.randint(1, 3)
    models = drawn_models(rng, rng.randint(4, 8), [f"b{i}" for i in range(1, cards + 1)])
    share = rng.uniform(1.5, 3.0) * cards / len(models)
    jobs = [job for m in models for job in requests(rng, m, share / work_s(m), 1200)]
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs)[:1200])


def hot_and_cold_drawn(rng: random.Random) -> Trace:
    """One or two cards 80 to 110 % busy with a hot model, and two to five cold ones beside it."""
    cards = rng.randint(1, 2)
    on = tuple(f"b{i}" for i in range(1, cards + 1))
    hot = model("hot", *on, load_s=rng.randint(15, 60), service_s=rng.randint(3, 15))
    cold = [
        model(f"cold-{i}", *on, load_s=rng.randint(10, 60), service_s=rng.randint(5, 30))
        for i in range(rng.randint(2, 5))
    ]
    jobs = requests(rng, hot, rng.uniform(0.8, 1.1) * cards / (hot.service_s * 1.025), 3600)
    for each in cold:
        jobs += requests(rng, each, 1 / rng.uniform(300, 1500), 3600)
    return Trace.model_validate(
        {
            "hosts": tuple(host(i) for i in range(1, cards + 1)),
            "models": (hot, *cold),
            "resident": [{"backend": "b1", "model": "hot"}],
            "jobs": in_order(jobs),
        }
    )


def serial_cards(rng: random.Random) -> Trace:
    """One to three ComfyUI cards that do one thing at a time, three to six picture models."""
    cards = rng.randint(1, 3)
    names = [f"b{i}" for i in range(1, cards + 1)]
    models = [
        m.model_copy(update={"parallel": 1}) for m in drawn_models(rng, rng.randint(3, 6), names)
    ]
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    usual_s = sum(w * m.service_s for w, m in zip(weights, models, strict=True)) / sum(weights)
    jobs = bursts(rng, models, weights, rng.uniform(0.4, 0.7) * cards / usual_s / 8, 3600)
    return Trace.model_validate(
        {
            "hosts": tuple(host(i, serial=True) for i in range(1, cards + 1)),
            "models": models,
            "resident": [{"backend": "b1", "model": "m0"}],
            "jobs": in_order(jobs)[:1000],
        }
    )


def shared_cards(rng: random.Random) -> Trace:
    """One or two cards, each under a serial picture server and a text server with slots."""
    cards = rng.randint(1, 2)
    comfy = [f"comfy-{i}" for i in range(1, cards + 1)]
    texts = [f"texts-{i}" for i in range(1, cards + 1)]
    models = [
        m.model_copy(update={"name": f"p{i}", "parallel": 1})
        for i, m in enumerate(drawn_models(rng, rng.randint(2, 3), comfy))
    ]
    models += [
        m.model_copy(update={"name": f"t{i}"})
        for i, m in enumerate(drawn_models(rng, rng.randint(1, 3), texts))
    ]
    hosts = [
        TraceHost(
            name=f"h{i}",
            vram_mb=CARD_MB,
            backends=(TraceBackend(name=one, serial=True), TraceBackend(name=other)),
        )
        for i, (one, other) in enumerate(zip(comfy, texts, strict=True), 1)
    ]
    share = rng.uniform(0.3, 0.6) * cards / len(models)
    jobs = [job for m in models for job in requests(rng, m, share / work_s(m), 3000)]
    return Trace.model_validate(
        {
            "hosts": hosts,
            "models": models,
            "resident": [{"backend": texts[0], "model": "t0"}],
            "jobs": in_order(jobs)[:1500],
        }
    )


DRAWN = {
    "many-hosts": many_hosts,
    "bursty-drawn": bursty_drawn,
    "overload-drawn": overload_drawn,
    "hot-and-cold-drawn": hot_and_cold_drawn,
    "serial-cards": serial_cards,
    "shared-cards": shared_cards,
}


def as_text(trace: Trace) -> str:
    """Return a trace as JSON, one line for each host, model and job."""

    def rows(records: Sequence[object]) -> str:
        return ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)

    dumped = trace.model_dump(mode="json", exclude_defaults=True)
    parts = (f'"{key}":[\n{rows(dumped[key])}\n]' for key in dumped)
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dir", type=Path, default=HERE)
    parser.add_argument("--variants", type=int, default=0)
    options = parser.parse_args()
    if not options.variants:
        for name, make in TRACES.items():
            _write(options.dir, name, make(random.Random(name)))
        return
    for name, make in (TRACES | DRAWN).items():
        for number in range(1, options.variants + 1):
            variant = f"{name}-{number}"
            _write(options.dir, variant, make(random.Random(variant)))


def _write(folder: Path, name: str, trace: Trace) -> None:
    (folder / f"{name}.json").write_text(as_text(trace), encoding="utf-8")


if __name__ == "__main__":
    main()
