"""How a running job's own steps correct what was expected of it."""

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.requests import Progress
from queueing.engine.attempt_sender import ProgressEstimate


def test_the_first_steps_say_nothing_yet() -> None:
    """Because of one slow first step, an end in an hour would be promised."""
    pace = ProgressEstimate(ends_at=10.0)
    assert [pace.seen((step, 20), 5.0 * step) for step in (1, 2, 3)] == [None, None, None]
    assert pace.seen((4, 20), 20.0) == 20.0 + 16 * 5.0


def test_a_quick_stage_does_not_promise_an_early_end() -> None:
    """An image drawn in two stages would be promised for the end of its first stage."""
    pace = ProgressEstimate(ends_at=100.0)
    assert pace.seen((1, 8), 1.0) is None
    assert pace.seen((8, 8), 8.0) == 100.0


def test_each_stage_counts_from_its_own_beginning() -> None:
    """The first steps of a second image would count as going backwards."""
    pace = ProgressEstimate(ends_at=0.0)
    pace.seen((1, 8), 0.0)
    pace.seen((8, 8), 7.0)
    assert pace.seen((1, 8), 50.0) is None
    assert pace.seen((5, 8), 54.0) == 57.0


def test_work_that_waits_at_its_server_begins_when_it_begins() -> None:
    """Behind another person's hour-long video an image would say "done in 5 s" all the time."""
    pace = ProgressEstimate(ends_at=15.0, now=5.0)
    assert pace.heard(Progress(ahead=1), 6.0) is None
    assert pace.heard(Progress(fraction=0.0), 100.0) == 110.0
    assert pace.heard(Progress(fraction=0.1), 101.0) is None


def test_what_is_nearly_done_may_end_sooner_than_usual() -> None:
    """At step 58 of 60 people would read that it takes half a minute more."""
    pace = ProgressEstimate(ends_at=100.0, now=0.0)
    pace.heard(Progress(fraction=0.0, step=(1, 60)), 1.0)
    assert pace.heard(Progress(fraction=0.5, step=(31, 60)), 31.0) == 100.0
    ends_at = pace.heard(Progress(fraction=0.95, step=(58, 60)), 58.0)
    assert ends_at is not None
    assert 60.0 <= ends_at < 63.0


@given(
    st.floats(0, 1e6),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.floats(0, 1e3)), max_size=30),
)
def test_no_end_lies_before_now_or_before_the_usual_one(
    usual_end: float, looks: list[tuple[int, int, float]]
) -> None:
    """Whatever a server counts, a promise would be broken the moment it is made."""
    pace, now = ProgressEstimate(usual_end), 0.0
    for number, total, pause_s in looks:
        now += pause_s
        ends_at = pace.seen((number, total), now)
        assert ends_at is None or ends_at >= max(usual_end, now)
