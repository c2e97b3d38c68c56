"""How a forecast continues beyond the jobs it has simulated."""

from collections.abc import Mapping

import pytest

from queueing.core.snapshot import Waiting
from queueing.forecast.forecast import Key, Share, shares
from queueing.forecast.simulated_queue import SimulatedQueue, Started

NOW = 1_000.0


def seen(model: str, begun: int, waiting: int) -> SimulatedQueue:
    """Return a queue of this many jobs, some of which started within the last 100 s."""
    view = Waiting(lane="normal", count=begun + waiting, heads=(), oldest_at=NOW - 100)
    starts = [Started(NOW - 100 + index, "b1") for index in range(begun)]
    return SimulatedQueue(model, view, NOW - 100, starts=starts)


def run_on(*queues: SimulatedQueue, most_slots: int = 8) -> Mapping[Key, Share]:
    """Let the queues continue with jobs of 10 s."""
    return shares(
        {(queue.model, "normal"): queue for queue in queues},
        since=NOW - 100,
        now=NOW,
        service_s=lambda _: 10.0,
        most_slots=lambda _: most_slots,
    )


def test_lines_share_the_gpus_as_they_did() -> None:
    """With three models on four GPUs each would be promised a GPU of its own, or all of them."""
    tail = run_on(seen("flux", 30, 60), seen("sdxl", 10, 20))["flux", "normal"]
    assert tail.start_at(60) == pytest.approx(NOW + 100)
    assert tail.start_at(90) == pytest.approx(NOW + 200)


def test_the_last_line_gets_what_the_others_leave() -> None:
    """People in the longest queue would be promised an evening instead of an hour."""
    tail = run_on(seen("flux", 20, 100), seen("sdxl", 20, 20))
    assert tail["sdxl", "normal"].start_at(40) == pytest.approx(NOW + 100)
    assert tail["flux", "normal"].start_at(40) == pytest.approx(NOW + 100)
    assert tail["flux", "normal"].start_at(120) == pytest.approx(NOW + 300)


def test_no_line_gets_more_than_its_servers_can_run() -> None:
    """A model on one machine would be promised the speed of all machines."""
    tail = run_on(seen("flux", 20, 100), seen("sdxl", 20, 20), most_slots=2)
    assert tail["flux", "normal"].start_at(120) == pytest.approx(NOW + 500)


def test_a_line_whose_turn_was_not_seen_is_taken_for_one_like_the_others() -> None:
    """No one in it would be promised anything."""
    tail = run_on(seen("flux", 20, 20), seen("rare", 0, 20))["rare", "normal"]
    assert NOW < tail.start_at(1) < tail.start_at(20) <= NOW + 200


def test_behind_the_last_nobody_is_promised_anything() -> None:
    """A time would be made up from a queue that has none."""
    tail = run_on(seen("flux", 20, 0))["flux", "normal"]
    assert tail.start_at(21) == float("inf")
