"""Moments people are told change only when they are clearly off, and not back and forth."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.standings import PASSES_S
from queueing.service.calm_eta import Calm, Counts, Expectation

LOOK_S = 1.0


def expected(at: float) -> Expectation:
    return Expectation(at=at, earliest=at - 5, latest=at + 5)


def told(*forecasts: float | None, key: str = "job") -> list[float | None]:
    """Return what is told at each look, one a second, where the forecasts are these."""
    calm, said = Calm(), list[float | None]()
    for now, at in enumerate(forecasts):
        answer = calm.of(key, None if at is None else expected(at), now * LOOK_S)
        said.append(None if answer is None else answer.at)
    return said


def test_a_moment_that_wanders_a_little_is_told_as_before() -> None:
    """Every look would cost an edit."""
    assert set(told(*[1000.0 + wander for wander in (0, 90, -90, 150, -150, 9)])) == {1000.0}


def test_a_moment_that_is_clearly_off_is_corrected_soon() -> None:
    """A person would read a promise long known to be wrong."""
    assert told(1000.0, *[1300.0] * 9)[-1] == 1300.0
    assert told(30.0, *[41.0] * 9)[-1] == 41.0


def test_a_correction_is_taken_back_only_when_it_stays_wrong() -> None:
    """The same place was told 86 s, 50 s, 2 min, 57 s and 2 min within half a minute."""
    swings = [86.0, 52.0, 123.0, 60.0, 124.0, 125.0, 64.0, 127.0] * 4
    moments = [now + at for now, at in enumerate(swings)]
    said = told(*moments)
    changes = [new for old, new in pairwise(said) if new != old]
    assert len(changes) <= 1
    assert told(100.0, *[150.0] * 5, *[100.0] * 25)[-1] == 100.0


@given(st.lists(st.one_of(st.none(), st.floats(0, 200)), min_size=1, max_size=80))
def test_no_moment_that_has_passed_is_told(forecasts: list[float | None]) -> None:
    """A promise would stand in the past."""
    for now, at in enumerate(told(*forecasts)):
        assert at is None or at > now * LOOK_S - PASSES_S


def test_a_forecast_that_is_gone_for_a_moment_is_not_taken_back() -> None:
    """While a start is written down its line has no forecast: the time would flicker."""
    assert told(100.0, None, 100.0) == [100.0, 100.0, 100.0]
    assert told(100.0, *[None] * 9)[-1] is None


def test_each_job_has_a_moment_of_its_own_and_those_long_gone_are_let_go() -> None:
    """One job's time would be told of another, or memory would grow for ever."""
    calm = Calm()
    calm.of(1, expected(100.0), 0.0)
    assert calm.of(2, expected(90.0), 0.0) == expected(90.0)
    for number in range(25_000):
        calm.of(number, expected(1e9), number * 1.0)
    assert len(calm) < 12_000


def counted(*counts: int) -> list[int]:
    """Return what is told at each look, one a second, where so many are counted."""
    kept = Counts()
    return [kept.of("line", count, float(now)) for now, count in enumerate(counts)]


def test_a_count_that_sways_is_told_as_the_lower_one() -> None:
    """A message would be edited every three seconds, and lag behind /queue each time."""
    assert counted(2, 1, 1, 1, 2, 2, 1, 2, 1, 1) == [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_a_count_that_grew_for_good_is_told_after_a_while() -> None:
    """Three who came would never be told of."""
    assert counted(1, 4, 4, 4, 4, 4)[-1] == 4
    assert counted(5, 4, 3, 3)[-1] == 3


def test_a_count_nobody_asked_for_is_told_as_it_is() -> None:
    """What was told a minute ago says nothing of the line of now."""
    kept = Counts()
    assert kept.of("line", 1, 0.0) == 1
    assert kept.of("line", 7, 60.0) == 7
