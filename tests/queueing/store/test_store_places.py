"""Positions by arithmetic must equal positions by counting, whatever happens in a queue."""

from bisect import insort

from hypothesis import given
from hypothesis import strategies as st

from queueing.store.jobs.positions import Move, PositionIndex

QUEUE = ("flux", "normal")


@given(st.lists(st.tuples(st.sampled_from(["arrive", "leave", "return", "first"]), st.integers(0))))
def test_positions_are_ranks(steps: list[tuple[str, int]]) -> None:
    """A person would read a place that counting the people ahead does not confirm."""
    places = PositionIndex()
    waiting: list[tuple[int, int]] = []  # (seq, job id), sorted: the model to compare with
    away: list[tuple[int, int]] = []
    next_id, last, first = 1, 0, 0
    for step, choice in steps:
        if step == "arrive":
            last += 1
            place = (last, next_id)
        elif step == "first":
            first -= 1
            place = (first, next_id)
        elif step == "leave" and waiting:
            gone = waiting.pop(choice % len(waiting))
            away.append(gone)
            places.move(Move(gone[1], "ada"))
            continue
        elif step == "return" and away:
            place = away.pop(choice % len(away))
        else:
            continue
        next_id += 1
        insort(waiting, place)
        places.move(Move(place[1], "ada", QUEUE, place[0]))
        _agree(places, waiting, away)
    _agree(places, waiting, away)


def _agree(
    places: PositionIndex, waiting: list[tuple[int, int]], away: list[tuple[int, int]]
) -> None:
    assert [places.position(job_id) for _, job_id in waiting] == list(range(1, len(waiting) + 1))
    assert all(places.position(job_id) is None for _, job_id in away)
    assert sum(queue.waiting for queue in places.queues()) == len(waiting)


def test_a_long_line_keeps_nothing_per_job_but_its_place() -> None:
    """A queue of a million jobs would slow every change down."""
    places = PositionIndex()
    for number in range(10_000):
        places.move(Move(number, "ada", QUEUE, number))
    for number in range(5_000):
        places.move(Move(number, "ada"))
    (queue,) = places.queues()
    assert (len(queue.holes), len(queue.returned), queue.waiting) == (0, 0, 5_000)


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), max_size=5),
    st.integers(-5, 5),
    st.data(),
)
def test_places_taken_at_once_are_places_taken_one_by_one(
    portions: list[list[int]], start: int, data: st.DataObject
) -> None:
    """After a restart people would have other places than before."""
    at_once, singly, seq, job_id = PositionIndex(), PositionIndex(), start, 0
    for steps in portions:
        seqs, ids = [], []
        for step in steps:
            seq, job_id = seq + step, job_id + 1
            seqs.append(seq)
            ids.append(job_id)
            singly.move(Move(job_id, "ada", QUEUE, seq))
        at_once.enter(QUEUE, ids, seqs)
    for gone in data.draw(st.sets(st.integers(1, max(1, job_id)))):
        for places in (at_once, singly):
            places.move(Move(gone, "ada"))
    everybody = range(job_id + 2)
    assert [at_once.find(each) for each in everybody] == [singly.find(each) for each in everybody]
    for one, other in zip(at_once.queues(), singly.queues(), strict=True):
        assert (one.head, one.end, one.waiting) == (other.head, other.end, other.waiting)
