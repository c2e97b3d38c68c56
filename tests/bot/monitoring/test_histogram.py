"""Quantiles from classes are close to those of the times themselves, however they are added."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from bot.monitoring.buckets import Histogram, class_of, middle_s

TIMES = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=200)


@given(times=TIMES, share=st.sampled_from([0.5, 0.95]), cut=st.integers(0, 200))
def test_a_quantile_is_off_by_a_twentieth_at_most(
    times: list[float], share: float, cut: int
) -> None:
    """A wait of a minute would be shown as two minutes."""
    parts = [times[:cut], times[cut:]]
    found = Histogram()
    for part in parts:
        one = Histogram()
        for seconds in part:
            one += Histogram.of(seconds)
        found += Histogram.read(one.written())
    exact = sorted(times)[ceil(share * len(times) - 1e-9) - 1]
    told = found.quantile(share)
    assert told is not None
    assert abs(told - exact) <= max(0.051, exact * 0.0501)


def test_without_times_there_is_no_quantile() -> None:
    """A model without jobs would seem to answer at once."""
    assert Histogram().quantile(0.5) is None
    assert Histogram.read("") == Histogram()


def test_classes_are_in_order() -> None:
    """Adding would mix times of different lengths."""
    numbers = [class_of(middle_s(number)) for number in range(200)]
    assert numbers == list(range(200))
