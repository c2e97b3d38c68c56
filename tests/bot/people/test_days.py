"""When today began and ends, in the configured time zone or that of the machine."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.config.loader import parse
from bot.people.access import Access, PersonLimits, day_of, next_at
from queueing.store.jobs.admission import QUARTER_S

CONFIG = """
timezone: Europe/Berlin
hosts: {here: {vram: 1GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""


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
    """People would be told a wrong time, or a day would lack an hour where clocks change."""
    for configured in (None, ZoneInfo(zone)):
        day = day_of(_at(moment), configured)
        assert day == (_at(began), _at(ends))
        assert day.began_at % QUARTER_S == 0.0  # or a day's sums would hold its neighbour's


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be set here")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"], indirect=True)
def test_the_configured_zone_counts_wherever_the_process_runs(zone: str) -> None:
    """A day, and `--by 18:00`, would depend on which machine holds the queue."""
    assert zone
    config = parse(CONFIG, {})
    for access in (config.access(), adopted(config.access())):
        now = _at("2026-07-01T12:00")
        assert day_of(now, access.zone).began_at == _at("2026-06-30T22:00")
        assert next_at(now, access.zone, hour=18, minute=30) == _at("2026-07-01T16:30")
        assert next_at(now, access.zone, hour=14, minute=0) == _at("2026-07-02T12:00")


def adopted(access: Access) -> Access:
    """Return the zone that a reload gives to rules without one."""
    before = Access([], PersonLimits())
    before.adopt(access)
    return before


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
