"""Traces replayed through the real router, loader, processor and store keep the promises."""

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks.predictive import ForeseenReplay
from benchmarks.schedule import RULES, main, replay
from benchmarks.summary import summary
from benchmarks.trace import Outcome, Trace, TraceJob
from benchmarks.traces.drawn import hot_lanes
from benchmarks.traces.flooders import FLOODER, flooder
from benchmarks.traces.pieces import host as one_host
from benchmarks.traces.pieces import model as one_model
from benchmarks.traces.shared import second_copies

TRACES = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "traces"
SHORT_S = 400.0


def trace(name: str) -> Trace:
    """Return the beginning of one of the shipped traces."""
    whole = Trace.model_validate_json((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    return whole.model_copy(update={"jobs": tuple(j for j in whole.jobs if j.at < SHORT_S)})


def lines(given: Trace) -> dict[tuple[str, str], list[int]]:
    """Return the jobs of each model and lane in the order they were accepted."""
    by_line: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, job in sorted(enumerate(given.jobs), key=lambda item: (item[1].at, item[0])):
        by_line[job.model, job.lane].append(index)
    return by_line


def check(given: Trace, outcome: Outcome, *, by_arrival: bool = True) -> None:
    """Compare what happened with what the trace allows."""
    load_s = {model.name: model.load_s for model in given.models}
    for load in outcome.loads:
        assert load.finished_s == load.started_s + load_s[load.model]
    for job, asked in zip(outcome.jobs, given.jobs, strict=True):
        if job.started_s is None or job.ready_s is None:
            assert job.state == "cancelled"
            assert asked.cancel_at is not None
        else:
            assert asked.at <= job.ready_s <= job.started_s
            if job.state == "cancelled":
                assert job.finished_s == asked.cancel_at
            else:
                assert job.state == "completed"
                assert job.finished_s == job.started_s + asked.service_s
    for indexes in lines(given).values() if by_arrival else ():
        starts = [s for i in indexes if (s := outcome.jobs[i].started_s) is not None]
        assert starts == sorted(starts)
    for host in given.hosts:
        assert outcome.peak_vram_mb[host.name] <= host.vram_mb * host.margin
    _check_slots(given, outcome)


def _check_slots(given: Trace, outcome: Outcome) -> None:
    serial = {b.name for host in given.hosts for b in host.backends if b.serial}
    parallel = {model.name: model.parallel for model in given.models}
    events: list[tuple[float, int, str, str]] = []
    for job in outcome.jobs:
        if job.started_s is not None and job.finished_s is not None and job.backend is not None:
            events += [(job.started_s, 1, job.backend, job.model)]
            events += [(job.finished_s, -1, job.backend, job.model)]
    for load in outcome.loads:
        if load.backend in serial:
            events += [
                (load.started_s, 1, load.backend, ""),
                (load.finished_s, -1, load.backend, ""),
            ]
    running: Counter[tuple[str, str]] = Counter()
    for _, change, backend, model in sorted(events):
        running[backend, model] += change
        assert running[backend, model] <= parallel.get(model, 1)
        if backend in serial:
            assert sum(count for (name, _), count in running.items() if name == backend) <= 1


@pytest.mark.parametrize(
    "rules", sorted(RULES.keys() - {"without-double"})
)  # without second copies
@pytest.mark.parametrize("name", sorted(path.stem for path in TRACES.glob("*.json")))
def test_a_replay_keeps_every_promise(name: str, rules: str) -> None:
    """The real parts together would break what the planner alone keeps."""
    given = trace(name)
    shipped = rules in {"full", "fair"}  # the others promise nothing to anyone
    check(given, replay(given, rules, promises=shipped), by_arrival=rules != "fair")


def test_further_copies_leave_room_on_crowded_cards() -> None:
    """A burst of one server would shut the models of the other out of the cards both share."""
    whole = Trace.model_validate_json((TRACES / "crowded-cards.json").read_text(encoding="utf-8"))
    with_it, without = (
        summary(whole, replay(whole, rules, promises=False))["mean_wait_s"]
        for rules in ("full", "without-R5")
    )
    assert with_it <= 1.02 * without


def test_second_copies_shorten_waits_and_keep_every_promise() -> None:
    """A card with memory for two would draw one picture after the other, or others would wait for it."""
    drawn = second_copies(random.Random("second-copies-2"), slows=0.0)
    given = drawn.model_copy(update={"jobs": drawn.jobs[:150]})
    with_them, without = (replay(given, rules) for rules in ("full", "without-double"))
    check(given, with_them)
    waits = [summary(given, outcome)["mean_wait_s"] for outcome in (with_them, without)]
    assert waits[0] < 0.8 * waits[1]
    kept = [summary(given, outcome)["estimates_kept"] for outcome in (with_them, without)]
    assert kept[0] >= kept[1] - 0.05
    assert with_them.peak_vram_mb["h1"] <= given.hosts[0].usable_mb


def test_loading_ahead_is_measured_beside_the_rules_as_they_are() -> None:
    """A decision would rest on figures of another scheduler, or of loads that never happened."""
    flux, sdxl = (
        one_model(name, vram_mb=12000, load_s=30.0, service_s=5.0) for name in ("flux", "sdxl")
    )
    asked = [
        TraceJob(at=600.0 * number, model=each, service_s=5.0)
        for number, each in enumerate(("flux", "sdxl") * 4)
    ]
    given = Trace(hosts=(one_host(1),), models=(flux, sdxl), jobs=tuple(asked))
    today, told = (ForeseenReplay(given, way) for way in ("today", "told"))
    waits = [summary(given, run.outcome())["mean_wait_s"] for run in (today, told)]
    assert waits[0] == summary(given, replay(given, "full", promises=False))["mean_wait_s"] == 30.0
    assert waits[1] == 30.0 / 8  # the first one alone waits for its load
    assert len(told.foresight.ahead) == len(asked)


def test_a_fair_order_is_the_order_of_arrival_for_one_person() -> None:
    """A person alone would wait longer, or see their requests change places."""
    given = trace("overload")
    alone = tuple(job.model_copy(update={"user": "ada"}) for job in given.jobs)
    given = given.model_copy(update={"jobs": alone})
    fair, fifo = (replay(given, rules, promises=False) for rules in ("fair", "full"))
    assert fair.jobs == fifo.jobs
    assert fair.loads == fifo.loads


def test_a_flood_leaves_others_their_turns_and_is_served_in_time() -> None:
    """A light user would wait for twenty minutes behind one person, or that person for ever."""
    given = flooder(random.Random("flooder-3"))
    fair, fifo = (replay(given, rules, promises=False) for rules in ("fair", "full"))
    worst = [
        max(
            (job.started_s or 0.0) - asked.at
            for job, asked in zip(outcome.jobs, given.jobs, strict=True)
            if not asked.user.startswith(FLOODER)
        )
        for outcome in (fair, fifo)
    ]
    assert worst[0] <= worst[1] / 2
    later = (
        (one.started_s or 0.0) - (other.started_s or 0.0)
        for one, other in zip(fair.jobs, fifo.jobs, strict=True)
    )
    assert max(later) <= RULES["fair"].overtaken_s


def test_the_same_trace_gives_the_same_outcome() -> None:
    """Two schedulers could not be compared: the difference might be luck."""
    given = trace("shared-card")
    first, second = replay(given, "full"), replay(given, "full")
    same = {"decision_us_mean": 0.0, "forecast_ms_per_job": 0.0}
    assert first.model_copy(update=same) == second.model_copy(update=same)


def test_a_promise_never_knows_the_true_duration() -> None:
    """The benchmark would praise estimates that have read the answer."""
    given = trace("alternating")
    first = given.jobs[0]
    longer = first.model_copy(update={"service_s": first.service_s * 7})
    changed = given.model_copy(update={"jobs": (longer, *given.jobs[1:])})
    told, told_again = replay(given, "full").jobs[0], replay(changed, "full").jobs[0]
    assert told.estimate_s == told_again.estimate_s


def test_first_requests_in_one_moment_share_a_load() -> None:
    """Two people who ask for a cold model at once would have it loaded twice."""
    given = trace("two-hosts")
    asked = given.models[0].name
    together = tuple(TraceJob(at=5.0, model=asked, service_s=3.0) for _ in range(2))
    outcome = replay(given.model_copy(update={"jobs": together}), "full")
    assert [load.model for load in outcome.loads] == [asked]


def test_everything_that_waits_is_promised_a_moment() -> None:
    """People would be left without any time although a host serves them."""
    for name in ("overload", "lanes-and-cancels"):
        assert all(job.estimate_s is not None for job in replay(trace(name), "full").jobs)


def test_promises_are_kept_in_every_lane() -> None:
    """A person in a lane that others go before would be told a time without them."""
    given = hot_lanes(random.Random("hot-lanes-3"))
    given = given.model_copy(update={"jobs": given.jobs[:700]})
    figures = summary(given, replay(given, "full", promises=True))
    assert {lane: figures[f"kept_{lane}"] >= 0.8 for lane in ("vip", "normal", "relaxed")} == {
        "vip": True,
        "normal": True,
        "relaxed": True,
    }


def test_a_summary_shows_the_rules_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A crowd of thousands would be replayed under one queue first, for hours of virtual time."""
    main(["--summary", str(TRACES / "two-hosts.json"), "--rules", "plain"])
    header, row, mean = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["cpu", "s"]
    assert row.split()[:2] == ["two-hosts", "plain"]
    assert mean.startswith("geometric mean")
    assert float(row.split()[-1]) > 0
