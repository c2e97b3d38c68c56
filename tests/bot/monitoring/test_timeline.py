"""A host's timeline covers the whole time, without gaps or overlaps, over random histories."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.monitoring.buckets import SECONDS
from bot.monitoring.records import Activity, Segment
from bot.monitoring.timeline import MERGED_S, HostTimeline, doing, merged
from queueing.core.snapshot import Residency
from queueing.core.status import HostActivity

Doing = tuple[Activity, tuple[str, ...]]
RUN: Doing = ("run", ("flux",))
OTHER: Doing = ("run", ("sdxl",))
LOAD: Doing = ("load", ("flux",))
IDLE: Doing = ("idle", ())
DOWN: Doing = ("down", ())
QUIET: Doing = ("quiet", ())
ASLEEP: Doing = ("asleep", ())
STEPS = st.lists(
    st.tuples(
        st.sampled_from([RUN, OTHER, LOAD, IDLE, DOWN, QUIET, ASLEEP]),
        st.sampled_from([0.0, 0.2, 0.7, 1.0, 3.0, 59.0, 130.0]),
        st.booleans(),
    ),
    min_size=1,
)


DOES = (
    (HostActivity(up=True), IDLE),
    (HostActivity(up=False), DOWN),
    (HostActivity(up=None), None),
    (HostActivity(up=True, running=frozenset({"flux"})), RUN),
    (HostActivity(up=True, copies=frozenset({("flux", "b", Residency.LOADING)})), LOAD),
    (
        HostActivity(
            up=True,
            running=frozenset({"sdxl"}),
            copies=frozenset({("flux", "b", Residency.LOADING)}),
        ),
        OTHER,
    ),
    (HostActivity(up=True, copies=frozenset({("flux", "b", Residency.UNLOADING)})), IDLE),
    (HostActivity(up=False, rest="asleep"), ASLEEP),
    (HostActivity(up=False, rest="waking"), ASLEEP),
    (HostActivity(up=False, rest="quiet"), QUIET),
    (HostActivity(up=True, rest="yielding"), ("yielding", ())),
    (HostActivity(up=True, rest="paused"), ("paused", ())),
    (HostActivity(up=True, rest="paused", running=frozenset({"flux"})), RUN),
)


def test_a_host_does_one_thing_at_a_time(subtests: pytest.Subtests) -> None:
    """A GPU that runs one model while it loads another would be drawn as waiting."""
    for state, does in DOES:
        with subtests.test(str(does)):
            assert doing(state) == does


@given(steps=STEPS)
def test_segments_and_seconds_cover_what_was_seen(steps: list[tuple[Doing, float, bool]]) -> None:
    """The timeline would have gaps, or a GPU would be busy for more seconds than there are."""
    timeline, now = HostTimeline(), 1000.0
    written: dict[float, Segment] = {}
    spent: dict[str, float] = {}
    for does, seconds, is_written in steps:
        timeline.see(does, now)
        now += seconds
        if is_written:
            take(timeline, now, written, spent)
    timeline.see(None, now)
    take(timeline, now, written, spent)
    assert sum(spent.values()) == pytest.approx(now - 1000.0)
    for kind, field in SECONDS.items():
        wanted = sum(seconds for does, seconds, _ in steps if does[0] == kind)
        assert spent.get(field, 0.0) == pytest.approx(wanted)
    segments = [written[begins] for begins in sorted(written)]
    for before, after in pairwise(segments):
        assert before.ends == pytest.approx(after.begins)
    if now > 1000.0 + MERGED_S:
        assert segments[0].begins == 1000.0
        assert segments[-1].ends == pytest.approx(now)


def take(
    timeline: HostTimeline, now: float, written: dict[float, Segment], spent: dict[str, float]
) -> None:
    """Write as the database does: a segment replaces the segment that began at the same moment."""
    segments, minutes = timeline.take(now)
    for segment in segments:
        written[segment.begins] = segment
    for at, bucket in minutes.items():
        assert sum(getattr(bucket, field) for field in SECONDS.values()) <= 60.0 + 1e-6
        assert at % 60 == 0
        for field in SECONDS.values():
            spent[field] = spent.get(field, 0.0) + getattr(bucket, field)


def test_the_pauses_between_jobs_are_not_drawn() -> None:
    """A busy day would be drawn with ten thousand lines, each thinner than a pixel."""
    timeline, now = HostTimeline(), 0.0
    for _ in range(100):
        timeline.see(RUN, now)
        timeline.see(IDLE, now + 4.0)
        now += 4.2
    segments, _ = timeline.take(now)
    assert [(each.kind, each.begins) for each in segments] == [("run", 0.0)]


def test_a_day_is_merged_to_minutes() -> None:
    """A page would be sent more segments than it has pixels."""
    seconds = [
        Segment(begins=float(at), ends=at + 0.5, kind="run", models=("flux",)) for at in range(600)
    ]
    assert merged(seconds, 60.0) == (Segment(begins=0.0, ends=600.0, kind="run", models=("flux",)),)
    assert merged([Segment(begins=0.0, ends=5.0, kind="idle")], 60.0) == ()


def test_a_day_of_short_jobs_shows_loads_and_jobs_in_their_shares() -> None:
    """A host whose loads take longer than its jobs would seem to do nothing but load."""
    day = []
    for minute in range(1440):
        at = 60.0 * minute
        model = ("flux", "sdxl")[minute % 2]
        day += [
            Segment(begins=at, ends=at + 25, kind="load", models=(model,)),
            Segment(begins=at + 25, ends=at + 39, kind="run", models=(model,)),
            Segment(begins=at + 39, ends=at + 60, kind="idle"),
        ]
    shown = merged(day, 60.0)
    for kind, seconds in (("load", 25), ("run", 14), ("idle", 21)):
        drawn_s = sum(each.ends - each.begins for each in shown if each.kind == kind)
        assert abs(drawn_s / 86400 - seconds / 60) < 0.01, (kind, drawn_s)


def test_a_day_shows_in_a_minute_only_what_happened_in_it() -> None:
    """Its table would show a model running while the server was down."""
    jobs = [
        Segment(begins=60.0 * at, ends=60.0 * at + 25, kind="run", models=("flux",))
        for at in range(9)
    ]
    rests = [Segment(begins=60.0 * at + 25, ends=60.0 * at + 60, kind="idle") for at in range(9)]
    away = Segment(begins=540.0, ends=900.0, kind="down")
    shown = merged([*jobs, *rests, away], 60.0)
    assert shown[-1] == away
