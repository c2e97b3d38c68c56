"""When today began and ends, where this machine stands."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bot.people.days import day_of
from queueing.store.jobs.gpu_use import QUARTER_S


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be set here")
@pytest.mark.parametrize(
    ("zone", "moment", "began", "ends"),
    [
        ("UTC", "2026-01-01T00:00", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("Europe/Berlin", "2026-07-01T21:59", "2026-06-30T22:00", "2026-07-01T22:00"),
        ("Europe/Berlin", "2026-07-01T22:00", "2026-07-01T22:00", "2026-07-02T22:00"),
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),  # 23 hours
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),  # 25 hours
        ("Asia/Kathmandu", "2026-07-01T12:00", "2026-06-30T18:15", "2026-07-01T18:15"),
    ],
    indirect=["zone"],
)
def test_a_day_goes_from_midnight_to_midnight(
    zone: str, moment: str, began: str, ends: str
) -> None:
    """People would be told a wrong moment, or a day would lack an hour where clocks change."""
    day = day_of(_at(moment))
    assert day == (_at(began), _at(ends))
    assert day.began_at % QUARTER_S == 0.0  # or a day's sums would hold some of its neighbour's


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
