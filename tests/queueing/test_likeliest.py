"""The moment most likely to be right where some who have yet to come may go first."""

from math import exp
from random import Random

from queueing.core.standings import Promised
from queueing.planning.likeliest import shift
from tests.samples import seeds


def test_nothing_is_added_where_none_can_go_first() -> None:
    """The most favoured lane would be promised more than its wait."""
    assert shift(30.0, 0.0, 10.0, 2.0) == 0.0
    assert shift(30.0, 0.5, 0.0, 2.0) == 0.0


def test_a_promise_lies_where_both_none_and_one_keep_it() -> None:
    """A mean number of 0.3 would promise a moment that one who goes first always breaks."""
    later_s = shift(30.0, 0.3, 10.0, 0.5)
    promise = Promised(given_at=0.0, done_at=30.0 + later_s)
    assert promise.kept(30.0)
    assert promise.kept(40.0)


def test_one_too_far_off_for_any_promise_is_not_waited_for() -> None:
    """A promise between two moments would be broken by both."""
    assert shift(10.0, 0.3, 60.0, 0.5) < 5.0


def _number(random: Random, expected: float) -> int:
    """Draw how many come: a Poisson number."""
    number, chance = 0, random.random()
    while chance > exp(-expected):
        number, chance = number + 1, chance * random.random()
    return number


@seeds(range(12), quick=4)
def test_no_other_moment_is_kept_clearly_more_often(seeds: range) -> None:
    """A promise would be broken that another moment would have kept."""
    for seed in seeds:
        print(f"seed {seed}")
        check_moments(Random(seed))


def check_moments(random: Random) -> None:
    """Draw a crowd, and compare the promised moment with others around it."""
    wait_s, expected = random.uniform(5.0, 90.0), random.uniform(0.05, 2.5)
    each_s, spread_s = random.uniform(3.0, 25.0), random.uniform(0.5, 4.0)
    ends = [
        max(0.1, wait_s + _number(random, expected) * each_s + random.gauss(0.0, 1.5 * spread_s))
        for _ in range(600)
    ]

    def kept(told_s: float) -> float:
        promise = Promised(given_at=0.0, done_at=told_s)
        return sum(promise.kept(end) for end in ends) / len(ends)

    told = kept(wait_s + shift(wait_s, expected, each_s, spread_s))
    assert told >= max(kept(wait_s + later_s) for later_s in range(-10, 80, 2)) - 0.05
