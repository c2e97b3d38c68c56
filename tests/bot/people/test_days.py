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
def test_a_day_goes_from_midnight_to_midnight() -> None:
    """People would be told a wrong moment, or a day would lack an hour where clocks change."""
    cases: list[tuple[str, str, str, str]] = [
        ("UTC", "2026-01-01T00:00", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("Europe/Berlin", "2026-07-01T21:59", "2026-06-30T22:00", "2026-07-01T22:00"),
        ("Europe/Berlin", "2026-07-01T22:00", "2026-07-01T22:00", "2026-07-02T22:00"),
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),  # 23 hours
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),  # 25 hours
        ("Asia/Kathmandu", "2026-07-01T12:00", "2026-06-30T18:15", "2026-07-01T18:15"),
    ]
    for zone, moment, began, ends in cases:
        day = day_of(_at(moment))
        assert day == (_at(began), _at(ends)), zone
        assert day.began_at % QUARTER_S == 0.0, (
            zone
        )  # or a day's sums would hold some of its neighbour's


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
