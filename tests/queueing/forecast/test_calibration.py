"""Ranges are as wide as estimates were wrong, and contain four of five jobs."""

from collections import deque
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.forecast.calibration import KEPT, Calibration, Category, Score, scale_s

NORMAL = Category("normal", loads=False, measured=True)
NEW = Category("normal", loads=True, measured=False)


def covered(error: "list[float]", calibration: Calibration, category: Category = NORMAL) -> float:
    """Return the share of jobs that end within their range, each off by a share of its wait."""
    kept = 0
    for number, off in enumerate(error):
        now, wait_s = number * 10.0, 20.0 + 37 * number % 400
        expected = now + wait_s
        actual = max(now, expected + off * scale_s(now, expected))
        earliest, latest = calibration.range(category, now, expected)
        kept += earliest <= actual <= latest
        calibration.observe(category, now, expected, actual)
    return kept / len(error)


@pytest.mark.parametrize("spread", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("off", [-0.3, 0.0, 0.5])
def test_four_of_five_jobs_end_within_their_range_whatever_is_wrong(
    spread: float, off: float
) -> None:
    """Loads that are slower than expected would make every promise wrong in the same way."""
    random = Random(7)
    errors = [random.gauss(off, spread) for _ in range(600)]
    assert 0.76 <= covered(errors, Calibration()) <= 0.86


def test_a_drift_is_followed() -> None:
    """After a change of hardware people would be told wrong ranges for two hundred jobs."""
    random = Random(3)
    errors = [random.gauss(number / 200, 0.1) for number in range(800)]
    assert 0.7 <= covered(errors, Calibration()) <= 0.9


def test_the_range_of_a_model_that_never_ran_is_wide_and_narrows() -> None:
    """A guess would be presented as knowledge."""
    calibration = Calibration()
    first = calibration.range(NEW, 0.0, 60.0)
    known = calibration.range(NORMAL, 0.0, 60.0)
    assert first.latest - first.earliest > 2 * (known.latest - known.earliest)
    assert first.earliest < 30.0
    assert first.latest > 180.0
    for number in range(100):
        calibration.observe(NEW, 0.0, 60.0, 55.0 + number % 10)
    narrow = calibration.range(NEW, 0.0, 60.0)
    assert narrow.latest - narrow.earliest < 15.0


def test_with_few_scores_those_of_its_kin_count() -> None:
    """Every lane would have to learn separately that loads are slow."""
    calibration, relaxed = Calibration(), Category("relaxed", loads=False, measured=True)
    for _ in range(40):
        calibration.observe(NORMAL, 0.0, 100.0, 150.0)
    assert calibration.range(relaxed, 0.0, 100.0).latest > 140.0
    running = Category("", loads=False, measured=True)
    assert calibration.range(running, 0.0, 100.0).earliest < 100.0, "what runs is another matter"


def test_the_scores_survive_a_restart() -> None:
    """Each restart would widen all ranges again."""
    calibration, stored, random = Calibration(), dict[tuple[str, int], Score](), Random(5)
    for number in range(3 * KEPT + 20):
        category = NORMAL if number % 3 else NEW
        row = calibration.observe(category, 0.0, 100.0, 100 + random.gauss(20, 30))
        stored[row.category, row.slot] = row
    assert len(stored) <= 2 * KEPT
    again = Calibration(stored.values())
    for category in (NORMAL, NEW):
        before = calibration.range(category, 0.0, 100.0)
        assert again.range(category, 0.0, 100.0) == pytest.approx(before, abs=12.0)
    assert (
        again.observe(NORMAL, 0.0, 1.0, 1.0).number
        == calibration.observe(NORMAL, 0.0, 1.0, 1.0).number
    )


@given(st.floats(0, 1e6), st.lists(st.floats(-5, 50), max_size=300), st.sampled_from([NORMAL, NEW]))
def test_a_range_never_begins_before_now_or_ends_before_it_begins(
    wait_s: float, scores: list[float], category: Category
) -> None:
    """A person would read "ready 6:31–6:28"."""
    calibration = Calibration()
    for score in deque(scores, maxlen=KEPT):
        calibration.observe(category, 0.0, 100.0, 100 + 100 * score)
    earliest, latest = calibration.range(category, 1000.0, 1000.0 + wait_s)
    assert 1000.0 <= earliest <= latest
