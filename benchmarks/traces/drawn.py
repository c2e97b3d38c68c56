"""Further kinds of traces, whose cards, models and load are drawn by lot, to see what is luck."""

import random
from collections.abc import Sequence

from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel
from benchmarks.traces.pieces import CARD_MB, GB, bursts, host, in_order, model, requests, takes


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
    jobs = in_order(bursts(rng, models, weights, per_s, 1800, most=15, pause_s=4))[:1500]
    return Trace(hosts=tuple(host(i) for i in range(1, cards + 1)), models=tuple(models), jobs=jobs)


def crowd(rng: random.Random, jobs: int) -> Trace:
    """Fifty models of Zipf popularity on eight cards, asked for at three times what those can do."""
    names = [f"b{i}" for i in range(1, 9)]
    models = drawn_models(rng, 50, names)
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    usual_s = sum(w * work_s(m) for w, m in zip(weights, models, strict=True)) / sum(weights)
    until_s = jobs * usual_s / (3 * len(names))
    asked = [(rng.uniform(0, until_s), rng.choices(models, weights)[0]) for _ in range(jobs)]
    return Trace(
        hosts=tuple(host(i) for i in range(1, 9)),
        models=tuple(models),
        jobs=in_order(
            [
                TraceJob(
                    at=round(at, 3),
                    model=m.name,
                    service_s=takes(rng, m),
                    user=f"u{rng.randint(1, 50)}",
                )
                for at, m in asked
            ]
        ),
    )


def bursty_drawn(rng: random.Random) -> Trace:
    """Two to four cards, six to ten models of Zipf popularity in bursts."""
    cards = rng.randint(2, 4)
    models = drawn_models(rng, rng.randint(6, 10), [f"b{i}" for i in range(1, cards + 1)])
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    usual_s = sum(w * work_s(m) for w, m in zip(weights, models, strict=True)) / sum(weights)
    jobs = bursts(
        rng, models, weights, rng.uniform(0.4, 0.8) * cards / usual_s / 8, 3000, most=15, pause_s=4
    )
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs)[:1500])


def bursty_cancels(rng: random.Random) -> Trace:
    """Bursts on two to four cards; three in ten cancel within two minutes, waiting or running."""
    trace = bursty_drawn(rng)
    jobs = tuple(
        job.model_copy(update={"cancel_at": round(job.at + rng.uniform(1, 120), 3)})
        if rng.random() < 0.3
        else job
        for job in trace.jobs
    )
    return trace.model_copy(update={"jobs": jobs})


def overload_drawn(rng: random.Random) -> Trace:
    """One and a half to three times what one to three cards can do, for twenty minutes."""
    cards = rng.randint(1, 3)
    models = drawn_models(rng, rng.randint(4, 8), [f"b{i}" for i in range(1, cards + 1)])
    share = rng.uniform(1.5, 3.0) * cards / len(models)
    jobs = [job for m in models for job in requests(rng, m, share / work_s(m), 1200)]
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs)[:1200])


def overload_long(rng: random.Random) -> Trace:
    """One and a quarter to two and a half times what one or two cards can do, for up to two hours."""
    cards = rng.randint(1, 2)
    models = [
        m.model_copy(update={"service_s": float(rng.randint(20, 60)), "parallel": 1})
        for m in drawn_models(rng, rng.randint(4, 8), [f"b{i}" for i in range(1, cards + 1)])
    ]
    share, until_s = rng.uniform(1.25, 2.5) * cards / len(models), rng.uniform(3600, 7200)
    jobs = [job for m in models for job in requests(rng, m, share / work_s(m), until_s)]
    hosts = tuple(host(i) for i in range(1, cards + 1))
    return Trace(hosts=hosts, models=tuple(models), jobs=in_order(jobs))


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
    jobs = bursts(
        rng, models, weights, rng.uniform(0.4, 0.7) * cards / usual_s / 8, 3600, most=15, pause_s=4
    )
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


def in_lanes(rng: random.Random, trace: Trace) -> Trace:
    """Return a trace whose people stand in three lanes, each person in one of them."""
    users = sorted({job.user for job in trace.jobs})
    lane_of = {user: rng.choices(("vip", "normal", "relaxed"), (1, 4, 2))[0] for user in users}
    jobs = tuple(job.model_copy(update={"lane": lane_of[job.user]}) for job in trace.jobs)
    return trace.model_copy(update={"jobs": jobs})


def bursty_lanes(rng: random.Random) -> Trace:
    """Bursts on two to four cards, from people in three lanes."""
    return in_lanes(rng, bursty_drawn(rng))


def hot_lanes(rng: random.Random) -> Trace:
    """One model 80 to 110 % busy beside cold ones, asked for by people in three lanes."""
    return in_lanes(rng, hot_and_cold_drawn(rng))


def shared_lanes(rng: random.Random) -> Trace:
    """Picture and text servers on shared cards, people in three lanes."""
    return in_lanes(rng, shared_cards(rng))


DRAWN = {
    "many-hosts": many_hosts,
    "bursty-drawn": bursty_drawn,
    "overload-drawn": overload_drawn,
    "overload-long": overload_long,
    "hot-and-cold-drawn": hot_and_cold_drawn,
    "serial-cards": serial_cards,
    "shared-cards": shared_cards,
    "bursty-cancels": bursty_cancels,
    "bursty-lanes": bursty_lanes,
    "hot-lanes": hot_lanes,
    "shared-lanes": shared_lanes,
}
