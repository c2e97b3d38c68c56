"""Traces replayed through the real scheduler, loader, job runner and store keep the promises."""

import json
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from benchmarks.schedule.__main__ import is_covered, main, summary
from benchmarks.schedule.replay import RULES, replay
from benchmarks.schedule.trace import Trace, TraceJob, read
from benchmarks.traces.kinds import GB, SHIPPED, bursts, host, hosts, model, requests
from benchmarks.traces.kinds import trace as trace_of
from benchmarks.traces.make import as_text, named, shipped
from tests.benchmarks.trace_check import check

SHORT_S = 400.0
DIGESTS = {
    "two-queues": "02b0380046d0",
    "two-hosts": "e4786fc60caf",
    "bursty": "0e6be8d3cef2",
    "alternating": "4057790be326",
    "hot-and-cold": "a6cd1fe74b3d",
    "overload": "10de0b5354db",
    "shared-card": "0482359eebef",
    "crowded-cards": "dee45f56c9dc",
    "lanes-and-cancels": "92d2614d9aad",
    "two-cards": "0ba5f5511304",
}


def trace(name: str) -> Trace:
    """Return the beginning of a shipped trace."""
    whole = shipped(name)
    return whole.model_copy(update={"jobs": tuple(j for j in whole.jobs if j.at < SHORT_S)})


@pytest.mark.parametrize("name", SHIPPED)
def test_a_replay_keeps_every_promise(name: str) -> None:
    """The real parts together would break what the planner alone keeps."""
    given = trace(name)
    check(given, replay(given, "full"))
    check(given, replay(given, "fair"), by_arrival=False)


@pytest.mark.parametrize("rules", sorted(RULES.keys() - {"full", "fair"}))
def test_a_replay_under_other_rules_is_one_that_could_happen(rules: str) -> None:
    """Usher's rules would be compared with rules that cheat."""
    given = trace("crowded-cards")
    check(given, replay(given, rules, promises=False))


def test_shipped_traces_are_the_same_everywhere() -> None:
    """Figures from two machines, or from two versions of Python, could not be compared."""
    found = {name: sha256(as_text(shipped(name)).encode()).hexdigest()[:12] for name in SHIPPED}
    assert found == DIGESTS


def test_a_shipped_trace_is_named_as_a_file_or_by_a_pattern(tmp_path: Path) -> None:
    """A person who knows a trace's name would also have to know how it is made."""
    out = tmp_path / "out.json"
    assert main(["--trace", "benchmarks/traces/alternating.json", "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    jobs = shipped("alternating").jobs
    assert found.keys() == {
        "decision_us_mean",
        "decisions",
        "forecast_ms_per_job",
        "jobs",
        "loads",
        "peak_vram_mb",
    }
    assert len(found["jobs"]) == len(jobs)
    assert found["jobs"][0].keys() == {
        "backend",
        "estimate_s",
        "range_s",
        "finished_s",
        "index",
        "model",
        "ready_s",
        "started_s",
        "state",
    }
    assert found["loads"][0].keys() == {"backend", "evicted", "finished_s", "model", "started_s"}
    assert [path.stem for path in named(Path("benchmarks/traces/*.json"))] == list(SHIPPED)


def test_a_trace_written_to_a_file_is_read_back(tmp_path: Path) -> None:
    """Nobody could change a shipped trace a little and replay it."""
    file = tmp_path / "mine.json"
    file.write_text(as_text(shipped("two-cards")), encoding="utf-8")
    assert read(file) == shipped("two-cards")


def test_further_copies_leave_room_on_crowded_gpus() -> None:
    """A burst on one server would keep the other's models off the GPUs that both share."""
    whole = shipped("crowded-cards")
    with_it, without = (
        summary(whole, replay(whole, rules, promises=False))["mean_wait_s"]
        for rules in ("full", "without-R5")
    )
    assert with_it <= 1.02 * without


def test_second_copies_shorten_waits_and_keep_every_promise() -> None:
    """A GPU with memory for two would draw one image at a time, or others would wait for it."""
    rng = Random("second copies")
    models = [
        model(name, "s1", "s2", vram_mb=mb * GB, load_s=20.0, service_s=15.0)
        for name, mb in (("flux", 8), ("sdxl", 5))
    ]
    models = [each.model_copy(update={"copies": 2}) for each in models]
    jobs = requests(rng, models[0], 0.6 / 15, 1500)
    jobs += bursts(rng, models, (2, 1), 0.5 / 15 / 5, 1500, most=9, pause_s=4)
    given = trace_of([host(1, "s1", "s2", serial=True)], models, jobs)
    with_them, without = (replay(given, rules) for rules in ("full", "without-double"))
    check(given, with_them)
    waits = [summary(given, outcome)["mean_wait_s"] for outcome in (with_them, without)]
    assert waits[0] < 0.8 * waits[1]
    kept = [summary(given, outcome)["estimates_kept"] for outcome in (with_them, without)]
    assert kept[0] >= kept[1] - 0.05


def test_a_fair_order_is_the_order_of_arrival_for_one_person() -> None:
    """A person alone would wait longer, or see the order of their requests change."""
    given = trace("overload")
    alone = tuple(job.model_copy(update={"user": "ada"}) for job in given.jobs)
    given = given.model_copy(update={"jobs": alone})
    fair, fifo = (replay(given, rules, promises=False) for rules in ("fair", "full"))
    assert fair.jobs == fifo.jobs
    assert fair.loads == fifo.loads


def test_a_flood_leaves_others_their_turns_and_is_served_in_time() -> None:
    """A light user would wait twenty minutes behind one person, or that person forever."""
    rng, asked = Random("flooder"), model("flux", service_s=12.0)
    jobs = requests(rng, asked, 0.35 / 12, 7200)
    for first_at in (900.0, 3600.0):
        flood = TraceJob(at=first_at, model="flux", service_s=12.0, user="flooder")
        jobs += [flood.model_copy(update={"at": first_at + number}) for number in range(100)]
    given = trace_of(hosts(1), [asked], jobs)
    fair, fifo = (replay(given, rules, promises=False) for rules in ("fair", "full"))
    worst = [
        max(
            (job.started_s or 0.0) - asked.at
            for job, asked in zip(outcome.jobs, given.jobs, strict=True)
            if asked.user != "flooder"
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
    """Two schedulers could not be compared: the difference might be chance."""
    given = trace("shared-card")
    first, second = replay(given, "full"), replay(given, "full")
    same = {"decision_us_mean": 0.0, "forecast_ms_per_job": 0.0}
    assert first.model_copy(update=same) == second.model_copy(update=same)


def test_a_promise_never_knows_the_true_duration() -> None:
    """The benchmark would praise estimates that had seen the result."""
    given = trace("alternating")
    first = given.jobs[0]
    longer = first.model_copy(update={"service_s": first.service_s * 7})
    changed = given.model_copy(update={"jobs": (longer, *given.jobs[1:])})
    told, told_again = replay(given, "full").jobs[0], replay(changed, "full").jobs[0]
    assert told.estimate_s == told_again.estimate_s


def test_first_requests_in_one_moment_share_a_load() -> None:
    """Two people who ask for an unloaded model at once would have it loaded twice."""
    given = trace("two-hosts")
    asked = given.models[0].name
    together = tuple(TraceJob(at=5.0, model=asked, service_s=3.0) for _ in range(2))
    outcome = replay(given.model_copy(update={"jobs": together}), "full")
    assert [load.model for load in outcome.loads] == [asked]


def test_everything_that_waits_is_promised_a_moment() -> None:
    """People would be given no time at all although a host serves them."""
    for name in ("overload", "lanes-and-cancels"):
        assert all(job.estimate_s is not None for job in replay(trace(name), "full").jobs)


def test_jobs_end_within_their_ranges_in_every_lane() -> None:
    """A person in a lane that others overtake would be told a time that ignores those others."""
    rng, on = Random("hot lanes"), ("b1", "b2")
    hot = model("hot", *on, load_s=21.0, service_s=4.0)
    cold = [model(f"cold-{n}", *on, load_s=20.0 + 5 * n, service_s=5.0 * n) for n in range(1, 6)]
    asked = requests(rng, hot, 0.87 * 2 / 4.1, 1650)
    for each in cold:
        asked += requests(rng, each, 1 / 900, 1650)
    lanes = ("vip", *("normal",) * 4, *("relaxed",) * 2)
    lane_of = {f"u{number}": rng.choice(lanes) for number in range(1, 21)}
    jobs = [job.model_copy(update={"lane": lane_of[job.user]}) for job in asked]
    given = trace_of(hosts(2), [hot, *cold], jobs)
    kept: dict[str, list[bool]] = {"vip": [], "normal": [], "relaxed": []}
    for outcome, job in zip(replay(given, "full").jobs, given.jobs, strict=True):
        kept[job.lane].append(is_covered(outcome))
    shares = {lane: sum(each) / len(each) for lane, each in kept.items()}
    assert all(share >= 0.7 for share in shares.values()), shares


def test_a_summary_shows_the_rules_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A crowd of thousands would first be replayed under one queue, for hours of virtual time."""
    main(["--summary", "two-hosts", "--rules", "plain"])
    header, row, mean = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["cpu", "s"]
    assert row.split()[:2] == ["two-hosts", "plain"]
    assert mean.startswith("geometric mean")
    assert float(row.split()[-1]) > 0
