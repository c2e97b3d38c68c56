"""A chat's budget is never overspent, and final states always get through."""

from hypothesis import given
from hypothesis import strategies as st

from bot.cards import Card
from bot.pacer import Overall, Pace, patience_s
from tests.fakes.chat import LIMITS

requests = st.lists(st.tuples(st.floats(0, 30), st.booleans()), min_size=1, max_size=80)


@given(requests)
def test_a_group_never_sees_more_than_its_minute(steps: list[tuple[float, bool]]) -> None:
    """The platform would answer with penalties that grow."""
    pace, now, sent = Pace(LIMITS, group=True), 0.0, list[float]()
    for pause, final in steps:
        now = max(now + pause, pace.earliest(now + pause, urgent=final))
        pace.spend(now)
        sent.append(now)
    for at in sent:
        assert len([each for each in sent if at <= each < at + 60.0]) <= 20


@given(requests)
def test_an_end_never_waits_longer_than_an_update(steps: list[tuple[float, bool]]) -> None:
    """Results would be held up by the positions of others."""
    pace, now = Pace(LIMITS, group=True), 0.0
    for pause, final in steps:
        now += pause
        assert pace.earliest(now, urgent=True) <= pace.earliest(now, urgent=False)
        now = max(now, pace.earliest(now, urgent=final))
        pace.spend(now)


def test_a_penalty_is_waited_out_and_remembered_for_a_while() -> None:
    """Going on at the old pace makes the next penalty longer."""
    pace = Pace(LIMITS, group=False)
    pace.spend(0.0)
    pace.slow_down(0.0, 30.0)
    assert pace.earliest(1.0, urgent=True) == 30.0
    pace.spend(30.0)
    assert pace.earliest(30.0, urgent=True) == 32.0
    pace.spend(200.0)
    assert pace.earliest(200.0, urgent=True) == 201.0


def test_a_whole_bots_requests_are_spaced() -> None:
    """Many chats together would break the platform's overall limit."""
    overall = Overall(10.0)
    assert [round(overall.reserve(0.0), 3) for _ in range(4)] == [0.0, 0.1, 0.2, 0.3]
    assert overall.reserve(5.0) == 0.0


def test_the_head_of_a_line_is_shown_more_promptly() -> None:
    """Those who are next would look at stale places, or the end of the line eat the budget."""
    waits = [patience_s(position, 500) for position in (1, 10, 11, 12, 50, 5000)]
    assert waits == sorted(waits)
    assert waits[2] < 15.0 < waits[3]


def test_a_moment_that_wanders_a_little_is_not_shown_anew() -> None:
    """Every look would cost an edit."""
    card = Card.__new__(Card)
    card.moment = None
    assert card.steady(1000.0, 0.0) == 1000.0
    assert card.steady(1150.0, 0.0) == 1000.0
    assert card.steady(1300.0, 0.0) == 1300.0
    assert card.steady(1309.0, 1299.0) == 1300.0
    assert card.steady(1320.0, 1301.0) == 1320.0
    assert card.steady(None, 1301.0) is None
