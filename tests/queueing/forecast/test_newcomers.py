"""Newcomers under a fair order: promises count those whose turn will come first."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.schedule.replay import replay
from benchmarks.schedule.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel
from queueing.forecast.arrivals import Comings, Newcomers, going_first

RATES = st.floats(0.0, 1.0)
USED = st.floats(0.0, 5000.0)


@given(
    st.lists(st.tuples(RATES, USED), max_size=8),
    USED,
    st.floats(0.1, 60.0),
    st.floats(0.0, 3600.0),
    st.floats(0.0, 1800.0),
)
def test_newcomers_delay_no_one_beyond_their_turns_and_the_bound(
    others: list[tuple[float, float]], used_s: float, cost_s: float, wait_s: float, most_s: float
) -> None:
    """A promise would be hours off because of people who may not go first."""
    newcomers = Newcomers(going_first(others, used_s, cost_s), most_s)
    assert len(newcomers.persons) == sum(theirs_s < used_s for _, theirs_s in others)
    delay_s = newcomers.delay_s(wait_s, cost_s)
    turns = sum(person.most for person in newcomers.persons)
    assert 0.0 <= delay_s <= min(most_s, turns * cost_s) + 1e-6
    assert newcomers.number(wait_s) <= newcomers.number(wait_s + 60.0) <= turns + 1e-6


def test_those_who_used_as_much_do_not_go_first() -> None:
    assert going_first([(0.1, 100.0)], used_s=100.0, cost_s=5.0) == ()
    ((per_s, most),) = going_first([(0.1, 50.0)], used_s=100.0, cost_s=5.0)
    assert (per_s, most) == (0.1, 10.0)


def test_how_often_a_person_comes_fades() -> None:
    arrivals = Comings(0.0)
    for at in range(0, 900, 60):
        arrivals.note("an", float(at))
    (often,) = arrivals.per_s(900.0).values()
    (later,) = arrivals.per_s(2700.0).values()
    assert 1 / 90 < often < 1 / 45
    assert later < often / 4


def flood(of: int) -> Trace:
    """Return three people who ask once a minute, and one who asks for a lot after ten minutes."""
    light = [
        TraceJob(at=60.0 * n + 20.0 * who, model="m", service_s=10.0, user=f"light{who}")
        for n in range(40)
        for who in range(3)
    ]
    heavy = [TraceJob(at=601.0, model="m", service_s=10.0, user="flooder") for _ in range(of)]
    return Trace(
        hosts=(TraceHost(name="h", vram_mb=10_000, backends=(TraceBackend(name="b"),)),),
        models=(TraceModel(name="m", vram_mb=4000, load_s=10.0, service_s=10.0, backends=("b",)),),
        jobs=tuple(sorted(light + heavy, key=lambda job: job.at)),
    )


def test_a_flooder_is_promised_the_waits_behind_those_who_will_come() -> None:
    """The promise would be half of the wait: each minute three others go first."""
    trace = flood(30)
    outcome = replay(trace, "fair")
    kept = []
    for job in outcome.jobs:
        asked = trace.jobs[job.index]
        if asked.user == "flooder":
            assert job.finished_s is not None
            assert job.estimate_s is not None
            wait_s = job.finished_s - asked.at
            kept.append(abs(job.estimate_s - job.finished_s) <= max(5.0, 0.2 * wait_s))
    assert sum(kept) >= 0.8 * len(kept)
