"""Quiet hours as moments: time zones, changes of the clock, windows over midnight."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.quiet_hours import AHEAD, QuietHours, QuietSpan, WeeklyWindow

BERLIN = ZoneInfo("Europe/Berlin")
EVERY_DAY = frozenset(range(7))


def at(text: str) -> float:
    """Return a moment by the clock in Berlin, such as "2026-03-29 03:00"."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def hours(*windows: tuple[object, str, str]) -> QuietHours:
    def minutes(text: str) -> int:
        hour, minute = text.split(":")
        return int(hour) * 60 + int(minute)

    return QuietHours(
        tuple(
            WeeklyWindow(frozenset(days), minutes(begins), minutes(ends))  # type: ignore[call-overload]
            for days, begins, ends in windows
        ),
        "Europe/Berlin",
    )


def first(quiet: QuietHours, now: str) -> QuietSpan:
    return quiet.coming(at(now))[0]


def test_a_window_is_the_hours_of_its_days() -> None:
    evenings = hours((range(5), "18:00", "23:00"))
    friday = QuietSpan(at("2026-11-27 18:00"), at("2026-11-27 23:00"))
    monday = QuietSpan(at("2026-11-30 18:00"), at("2026-11-30 23:00"))
    assert first(evenings, "2026-11-27 12:00") == friday
    assert first(evenings, "2026-11-27 22:59") == friday
    assert first(evenings, "2026-11-27 23:00") == monday
    assert first(evenings, "2026-11-29 12:00") == monday


def test_a_window_over_midnight_ends_on_the_next_day() -> None:
    nights = hours(((5,), "22:00", "06:00"))
    night = QuietSpan(at("2026-11-28 22:00"), at("2026-11-29 06:00"))
    assert first(nights, "2026-11-28 12:00") == night
    assert first(nights, "2026-11-29 05:00") == night, "on Sunday morning it is still Saturday's"


def test_windows_that_touch_are_one() -> None:
    weekend = hours(((4,), "18:00", "24:00"), ((5, 6), "00:00", "24:00"))
    whole = QuietSpan(at("2026-11-27 18:00"), at("2026-11-30 00:00"))
    assert first(weekend, "2026-11-28 12:00") == whole


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [
        ("02:30", "05:00", ("2026-03-29 03:00", "2026-03-29 05:00")),
        ("01:00", "02:30", ("2026-03-29 01:00", "2026-03-29 03:00")),
        ("01:00", "04:00", ("2026-03-29 01:00", "2026-03-29 04:00")),
    ],
)
def test_the_clock_skips_an_hour_in_spring(
    begins: str, ends: str, expected: tuple[str, str]
) -> None:
    """The clock goes from 2:00 to 3:00: a time in between means the moment of the change."""
    quiet = hours((EVERY_DAY, begins, ends))
    assert first(quiet, "2026-03-29 00:30") == QuietSpan(at(expected[0]), at(expected[1]))


def test_a_window_within_the_skipped_hour_does_not_exist_that_day() -> None:
    quiet = hours((EVERY_DAY, "02:10", "02:50"))
    assert first(quiet, "2026-03-29 00:30").begins_at == at("2026-03-30 02:10")


def test_the_clock_repeats_an_hour_in_autumn() -> None:
    """The clock reads 2:30 twice: the window begins at the first and ends at the last."""
    quiet = first(hours((EVERY_DAY, "02:30", "02:45")), "2026-10-25 00:30")
    assert quiet.begins_at == at("2026-10-25 02:30")
    assert quiet.ends_at - quiet.begins_at == 3600 + 900
    evening = first(hours((EVERY_DAY, "20:00", "06:00")), "2026-10-24 12:00")
    assert evening.ends_at - evening.begins_at == 11 * 3600


def test_how_long_it_is_open_at_most_is_known() -> None:
    now = at("2026-11-25 12:00")
    assert hours((EVERY_DAY, "18:00", "23:00")).longest_open_s(now) == 19 * 3600
    assert hours((EVERY_DAY, "00:30", "24:00")).longest_open_s(now) == 1800
    assert hours((EVERY_DAY, "00:00", "24:00")).longest_open_s(now) == 0
    weekly = hours(((0,), "18:00", "23:00"))
    assert weekly.longest_open_s(now) == 7 * 86400 - 5 * 3600


WINDOWS = st.lists(
    st.tuples(
        st.frozensets(st.integers(0, 6), min_size=1), st.integers(0, 1439), st.integers(0, 1440)
    ).filter(lambda window: window[1] != window[2]),
    min_size=1,
    max_size=3,
)


@given(
    windows=WINDOWS,
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    now=st.floats(1.7e9, 1.9e9),
)
def test_spans_are_in_order_apart_and_as_the_clock_reads(
    windows: list[tuple[frozenset[int], int, int]], zone: str, now: float
) -> None:
    quiet = QuietHours(tuple(WeeklyWindow(*window) for window in windows), zone)
    spans = quiet.coming(now)
    assert all(span.begins_at < span.ends_at and span.ends_at > now for span in spans)
    for one, later in pairwise(spans):
        assert one.ends_at < later.begins_at
    for span in spans[:-1]:
        if span.ends_at > now + AHEAD.total_seconds() - 2 * 86400:
            continue  # a later window may touch it, and is not known yet
        begins = datetime.fromtimestamp(span.begins_at, ZoneInfo(zone))
        minutes = begins.hour * 60 + begins.minute
        known = {window[1] for window in windows}
        before = datetime.fromtimestamp(span.begins_at - 1, ZoneInfo(zone))
        skipped = begins.utcoffset() != before.utcoffset()
        assert minutes in known or skipped or span == spans[0]
