"""Quiet hours as an operator writes them: "Mon-Fri 18:00-23:00", several separated by semicolons. Pure."""

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator

from queueing.core.near import near
from queueing.core.quiet_hours import DAY_MIN, WeeklyWindow

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORM = 'must be days and hours, such as "Mon-Fri 18:00-23:00"'
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z,\s-]+?)\s+)?(?P<begins>\d\d?:\d\d)\s*-\s*(?P<ends>\d\d?:\d\d)"
)
_TIME = re.compile(r"(\d\d?):(\d\d)")


def windows(value: object) -> object:
    """Read one text, or a list of them, as weekly windows."""
    texts = value if isinstance(value, list | tuple) else [value]
    return tuple(_window(part) for text in texts for part in str(text).split(";") if part.strip())


def _window(text: str) -> WeeklyWindow:
    match = _WINDOW.fullmatch(text.strip().casefold())
    if match is None:
        raise ValueError(FORM)
    begins_min, ends_min = _minutes(match["begins"]), _minutes(match["ends"])
    if begins_min in {ends_min, DAY_MIN}:
        raise ValueError("must end at another time than it begins; a whole day is 00:00-24:00")
    return WeeklyWindow(_days(match["days"]), begins_min, ends_min)


def _minutes(text: str) -> int:
    hour, minute = (int(part) for part in _TIME.findall(text)[0])
    minutes = hour * 60 + minute
    if minute > 59 or minutes > DAY_MIN:
        raise ValueError(f"must have times of a day: {text} is none")
    return minutes


def _days(text: str | None) -> frozenset[int]:
    """Return the days of a list such as "mon-wed, sat"; every day without one."""
    if text is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = (name.strip() for name in part.partition("-"))
        begin, end = _day(first), _day(last or first)
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(found)


def _day(name: str) -> int:
    if name not in DAYS:
        raise ValueError(f"{FORM}: {name!r} is no day")
    return DAYS.index(name)


def zone(name: str) -> str:
    """Return a time zone's name. Raises `ValueError` for one that this machine does not know."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            text = "this machine knows no time zones: install the Python package tzdata"
            raise ValueError(text) from None
        meant = near(name, sorted(known), most=1, alike=0.6)
        hint = f"did you mean {meant[0]}?" if meant else "such as Europe/Berlin"
        raise ValueError(f"there is no time zone {name!r}; {hint}") from None
    return name


QuietWindows = Annotated[tuple[WeeklyWindow, ...], BeforeValidator(windows)]
Zone = Annotated[str, AfterValidator(zone)]
