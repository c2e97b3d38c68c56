"""Estimates that people are told stay until they are clearly wrong."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.status import Estimate
from queueing.service.shown_estimates import GONE_FOR_S, ShownEstimates, after


def estimate(earliest: float, latest: float) -> Estimate:
    return Estimate(at=(earliest + latest) / 2, earliest=earliest, latest=latest)


def told(*fresh: Estimate | None) -> list[Estimate | None]:
    """Return what is told each second, given these forecasts."""
    shown = ShownEstimates()
    return [shown.of("job", each, float(now)) for now, each in enumerate(fresh)]


def test_a_range_that_wanders_is_told_as_before() -> None:
    """Every update would cost an edit."""
    first = estimate(900.0, 1100.0)
    assert set(told(first, *[estimate(900 + by, 1100 + by) for by in (90, -150, 199)])) == {first}


def test_a_range_apart_from_the_one_told_replaces_it_at_once() -> None:
    """A person would read a range long known to be wrong."""
    first, later = estimate(90.0, 110.0), estimate(120.0, 160.0)
    assert told(first, later) == [first, later]
    assert told(later, first) == [later, first]


def test_a_range_half_as_wide_replaces_a_wide_one() -> None:
    """Near the end a person would still read "between one and ten minutes"."""
    wide, narrow = estimate(100.0, 500.0), estimate(200.0, 390.0)
    assert told(wide, narrow) == [wide, narrow]
    assert told(wide, estimate(200.0, 450.0)) == [wide, wide]


def test_once_the_range_has_passed_the_next_one_says_so() -> None:
    """A job that takes longer would get one new range after another, without explanation."""
    first, next_one = estimate(1.0, 2.0), estimate(3.0, 9.0)
    said = told(first, first, next_one, next_one)
    assert said[-1] == replace(next_one, late=True, soon=True)
    assert told(estimate(1.0, 2.0), None, None)[-1] is None, "nothing is told that has passed"


def test_from_its_earliest_moment_on_it_may_be_any_moment() -> None:
    """The message would still name a time that has passed."""
    shown = ShownEstimates()
    one = estimate(100.0, 200.0)
    assert [
        shown.of("job", one, now) == replace(one, soon=soon)
        for now, soon in ((0, False), (101, True))
    ]
    assert shown.look_up("other", one, 150.0) == replace(one, soon=True)


def test_a_forecast_that_is_gone_for_a_moment_is_not_taken_back() -> None:
    """While a start is stored its queue has no forecast: the time would flicker."""
    one = estimate(100.0, 110.0)
    assert told(one, None, one) == [one, one, one]
    assert told(one, *[None] * (int(GONE_FOR_S) + 2))[-1] is None


ranges = st.tuples(st.floats(0, 300), st.floats(0, 300)).map(lambda ends: estimate(*sorted(ends)))


@given(st.lists(ranges | st.none(), min_size=1, max_size=60))
def test_what_is_told_has_not_passed_and_agrees_with_the_forecast(
    forecasts: list[Estimate | None],
) -> None:
    """A message would promise what nobody expects any longer."""
    for now, (said, fresh) in enumerate(zip(told(*forecasts), forecasts, strict=True)):
        if fresh is not None:
            assert said is not None
            assert said.earliest <= fresh.latest
            assert fresh.earliest <= said.latest
        elif said is not None:
            assert said.latest > now


def test_questions_about_others_are_told_apart_and_what_nobody_asks_for_is_dropped() -> None:
    """One person's time would be shown to another, or the memory grow forever."""
    shown = ShownEstimates()
    for number in range(30_000):
        shown.of(number, estimate(1.0 + number, 2.0 + number), number * 1.0)
    assert len(shown) < 20_000
    assert after(None, None, 0.0) is None
