"""The fair order of a queue: its bound, and that nothing else is lost."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.jobs import Job, stand_in
from queueing.core.snapshot import QueueHead
from queueing.engine.fair.fair_order import HALF_LIFE_S, Claim, Overtaker, fair_order, remaining
from queueing.engine.fair.usage import FairDelays

PEOPLE = ("ada", "bob", "eve", None)
COSTS = st.floats(0.0, 100.0)
CLAIMS = st.lists(st.tuples(st.sampled_from(PEOPLE), COSTS), max_size=30).map(
    lambda rows: [Claim(10 * seq, who, cost) for seq, (who, cost) in enumerate(rows)]
)
USED = st.dictionaries(st.sampled_from(["ada", "bob", "eve"]), st.floats(0.0, 1000.0))
OVERTAKERS = st.lists(st.builds(Overtaker, st.integers(1, 400), COSTS, st.just(0.0)), max_size=10)
BOUNDS = st.floats(0.0, 500.0)


def passed_s(claims: Sequence[Claim], order: Sequence[int]) -> list[float]:
    """Return, for each job in its turn, the seconds of later jobs that went before it."""
    return [
        sum(claims[other].cost_s for other in order[:at] if other > index)
        for at, index in enumerate(order)
    ]


def before_s(claims: Sequence[Claim], overtakers: Sequence[Overtaker]) -> list[float]:
    return [sum(each.cost_s for each in overtakers if each.seq > job.seq) for job in claims]


@given(CLAIMS, USED, OVERTAKERS, BOUNDS)
def test_nobody_is_overtaken_by_more_than_the_bound(
    claims: list[Claim], used: Mapping[str, float], overtakers: list[Overtaker], bound: float
) -> None:
    """A person with a hundred videos would wait until no one else asks for anything."""
    order = fair_order(claims, used, overtakers, bound)
    earlier = before_s(claims, overtakers)
    for index, passed in zip(order, passed_s(claims, order), strict=True):
        assert passed == pytest.approx(0.0) or earlier[index] + passed <= bound + 1e-6


@given(CLAIMS, USED, OVERTAKERS, BOUNDS)
def test_everybody_has_a_turn_and_each_keeps_their_own_order(
    claims: list[Claim], used: Mapping[str, float], overtakers: list[Overtaker], bound: float
) -> None:
    """A job would be lost or started twice, or the second image come before the first."""
    order = fair_order(claims, used, overtakers, bound)
    assert sorted(order) == list(range(len(claims)))
    for person in PEOPLE:
        mine = [index for index in order if claims[index].person == person]
        assert mine == sorted(mine)
    assert order == fair_order(claims, dict(sorted(used.items())), overtakers[::-1], bound)


@given(CLAIMS, USED, OVERTAKERS, BOUNDS)
def test_one_person_or_no_bound_is_the_order_of_arrival(
    claims: list[Claim], used: Mapping[str, float], overtakers: list[Overtaker], bound: float
) -> None:
    """A person alone would see their own requests change places."""
    alone = [claim._replace(person="ada") for claim in claims]
    assert fair_order(alone, used, overtakers, bound) == list(range(len(claims)))
    dear = [claim._replace(cost_s=claim.cost_s + 0.1) for claim in claims]
    assert fair_order(dear, used, overtakers, 0.0) == list(range(len(claims)))


@given(CLAIMS, USED)
def test_without_a_bound_the_one_who_used_least_is_always_next(
    claims: list[Claim], used: Mapping[str, float]
) -> None:
    """A start would be given to a person who has had more than another who waits."""
    spent = dict(used)
    left = set(range(len(claims)))
    for index in fair_order(claims, used, (), 1e9):
        person = claims[index].person
        if person is not None:
            others = {claims[each].person for each in left}
            assert None not in others
            least = min(spent.get(each, 0.0) for each in others if each is not None)
            assert spent.get(person, 0.0) == least
            spent[person] = spent.get(person, 0.0) + claims[index].cost_s
        left.discard(index)


@given(CLAIMS, USED, BOUNDS, st.integers(0, 10))
def test_a_start_changes_nothing_for_those_behind_it(
    claims: list[Claim], used: Mapping[str, float], bound: float, starts: int
) -> None:
    """Places would jump although only what was expected has happened."""
    order = fair_order(claims, used, (), bound)
    started, rest = order[:starts], order[starts:]
    spent = dict(used)
    for index in started:
        person = claims[index].person
        if person is not None:
            spent[person] = spent.get(person, 0.0) + claims[index].cost_s
    left = sorted(rest)
    begun = [Overtaker(claims[index].seq, claims[index].cost_s, 0.0) for index in started]
    again = fair_order([claims[index] for index in left], spent, begun, bound)
    assert [left[index] for index in again] == rest


def test_a_light_user_goes_before_a_flood_and_the_flood_is_not_forgotten() -> None:
    """The rule would have no effect, or too much."""
    flood = [Claim(seq, "eve", 10.0) for seq in range(6)]
    light = [Claim(6, "ada", 10.0), Claim(7, "bob", 10.0)]
    claims = [*flood, *light]
    assert fair_order(claims, {"eve": 50.0}, (), 600.0)[:3] == [6, 7, 0]
    assert fair_order(claims, {"eve": 50.0}, (), 15.0)[:3] == [6, 0, 1]
    assert fair_order(claims, {"eve": 50.0}, (), 20.0)[:3] == [6, 7, 0], "the bound itself is kept"
    assert fair_order(claims, {"eve": 50.0}, [Overtaker(9, 20.0, 0.0)], 15.0)[0] == 0


def test_what_was_used_long_ago_counts_little() -> None:
    """A video of last night would still push its owner back."""
    assert remaining(100.0, 0.0) == 100.0
    assert remaining(100.0, HALF_LIFE_S) == pytest.approx(50.0)
    assert remaining(100.0, -5.0) == 100.0  # a clock that was set back


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40))
def test_a_line_is_shown_with_the_moments_it_would_have_by_arrival(steps: list[int | None]) -> None:
    """With the times of overtaken jobs, it would take turns from other models."""
    late, waiting, by_arrival = FairDelays(), list[Job](), list[float]()
    for number, step in enumerate(steps, start=1):
        if step is None or not waiting:
            waiting.append(stand_in(number, "flux", 10.0 * number))
            by_arrival.append(10.0 * number)
        else:
            late.began(waiting.pop(step % len(waiting)), 5.0, 10.0 * number)
            by_arrival.pop(0)
        heads, count = tuple(waiting), len(waiting)
        queue = QueueHead(
            model="flux", lane="normal", waiting=count, heads=heads, first_queued_at=0.0
        )
        late.overtakers_of(queue)
        assert late.moments(queue) == by_arrival
