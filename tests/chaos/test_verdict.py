"""The trial notices a request accepted twice, and permits retries that had to begin again."""

from random import Random
from typing import Any, cast

import pytest

from tests.chaos.people.program_calls import ProgramRequest
from tests.chaos.people.program_jobs import NativeJob
from tests.chaos.verdict import Queue, Row, accepted_twice


def row(job: int, state: str, *, finished_at: float | None, queued_at: float = 0.0) -> Row:
    return Row(
        id=job,
        number=7,
        model="writes",
        owner="api:local",
        state=state,
        acknowledged=True,
        attempt=1,
        sendings=1,
        queued_at=queued_at,
        started_at=1.0,
        finished_at=finished_at,
    )


AGAIN = row(2, "completed", queued_at=5.0, finished_at=6.0)


@pytest.mark.parametrize(
    "first",
    [
        row(1, "pending", finished_at=None),
        row(1, "completed", finished_at=4.0),
        row(1, "cancelled", finished_at=5.5),
    ],
)
def test_a_second_job_beside_the_first_is_a_breach(first: Row) -> None:
    """A GPU would unnoticed work twice for one call."""
    assert len(list(accepted_twice([first, AGAIN]))) == 1


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_retry_after_the_end_of_its_job_is_no_breach(state: str) -> None:
    """A client that may try again after a failure would count as a fault of the bot."""
    first = row(1, state, finished_at=4.0)
    assert list(accepted_twice([first, AGAIN])) == []
    between = Queue(model="writes").overtaken([first, AGAIN], [(7, 1.0)])
    assert list(between) == []


@pytest.mark.parametrize("keyed", [True, False])
def test_only_a_key_promises_the_same_job(*, keyed: bool) -> None:
    """A retry without a key after its job was cancelled would count as a breach."""
    wish = ProgramRequest(number=7, model="writes", prompt="7", headers={}, others={})
    call = NativeJob(
        wish=wish,
        session=cast("Any", None),
        urls=(),
        random=Random(1),
        keyed=keyed,
        faults=[],
    )
    call.is_job(1)
    call.is_job(1)
    call.is_job(2)
    assert call.faults == ["call 7 was job 1, then 2"] * keyed
