"""Places across the lanes of a model: the order in which its jobs will start."""

from collections.abc import Mapping
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from queueing.core.jobs import LANES, stand_in
from queueing.core.snapshot import Rules, Waiting
from queueing.planning.lanes import competing, place
from queueing.planning.planner import plan
from tests.queueing.planning.worlds import NOW, copy, model, world

Spent = Mapping[tuple[str, str], int]
COUNTS = st.fixed_dictionaries({lane: st.integers(0, 30) for lane in LANES})
WEIGHTS = st.fixed_dictionaries({lane: st.integers(1, 9) for lane in LANES})
MOVES = st.lists(st.sampled_from(("start", "start", "start", *LANES, *(f"-{x}" for x in LANES))))


def places(counts: Mapping[str, int], spent: Spent, rules: Rules) -> dict[tuple[str, int], int]:
    """Return the place of every job, by lane and its number within the lane."""
    lanes = competing("flux", counts, spent, rules.lane_weights)
    return {
        (lane, number): place(lanes, lane, number)
        for lane, waiting in counts.items()
        for number in range(1, waiting + 1)
    }


def started(
    counts: Mapping[str, int], spent: Spent, rules: Rules, slots: int
) -> tuple[list[str], Spent]:
    """Return the lanes of the jobs that one plan starts, and what the lanes have spent then."""
    ids = count(1)
    waiting = [
        Waiting(
            lane=lane,
            count=number,
            heads=tuple(stand_in(next(ids), "flux", NOW, lane=lane) for _ in range(min(8, number))),
            oldest_at=NOW,
        )
        for lane, number in counts.items()
        if number
    ]
    flux = model("flux", *waiting, parallel=slots)
    answer = plan(world(flux, copies=(copy("flux"),), lane_spent=spent, rules=rules))
    return [start.job.lane for start in answer.starts], answer.lane_spent


@given(counts=COUNTS, weights=WEIGHTS, slots=st.integers(1, 30))
def test_places_are_the_order_in_which_jobs_start(
    counts: dict[str, int], weights: dict[str, int], slots: int
) -> None:
    """Two people would be shown the same place, or a job start before one with a lower place."""
    rules, left = Rules(lane_weights=weights), dict(counts)
    spent: Spent = {}
    shown = places(counts, spent, rules)
    assert sorted(shown.values()) == list(range(1, sum(counts.values()) + 1))
    begun: list[int] = []
    while any(left.values()):
        lanes, spent = started(left, spent, rules, slots)
        for lane in lanes:
            begun.append(shown[lane, counts[lane] - left[lane] + 1])
            left[lane] -= 1
    assert begun == sorted(begun)


@given(weights=WEIGHTS, moves=MOVES)
def test_a_place_rises_only_when_somebody_arrives_and_goes_first(
    weights: dict[str, int], moves: list[str]
) -> None:
    """A person would be pushed back although no one came, or by someone who is behind them."""
    rules = Rules(lane_weights=weights)
    spent: Spent = {}
    queue: dict[str, list[int]] = {lane: [] for lane in LANES}
    ids = count(1)
    for move in moves:
        before = shown(queue, spent, rules)
        if move == "start":
            counts = {lane: len(waiting) for lane, waiting in queue.items()}
            lanes, spent = started(counts, spent, rules, 1)
            for lane in lanes:
                queue[lane].pop(0)
        elif move.startswith("-"):
            del queue[move[1:]][1:2]
        else:
            queue[move].append(next(ids))
        after = shown(queue, spent, rules)
        new = [place for job, place in after.items() if job not in before]
        for job in before.keys() & after.keys():
            assert after[job] <= before[job] + sum(place < after[job] for place in new)


def shown(queue: Mapping[str, list[int]], spent: Spent, rules: Rules) -> dict[int, int]:
    """Return the place of every job by its number."""
    found = places({lane: len(waiting) for lane, waiting in queue.items()}, spent, rules)
    return {queue[lane][number - 1]: place for (lane, number), place in found.items()}
