"""Reads a waiting message as a person does, and judges whether its place and its moment are true.

A place is true if it is the one `/queue` tells; "at most 5 ahead" as long as no more are, which
includes a job that has begun. A moment is true while what it names can still come,
and agrees with what is estimated now. A message in which either is missing is untrue, unless
nothing can honestly be said: the wait depends on people, or the job is not in line yet.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from bot.core.content import Body, Moment, Period
from bot.texts.catalogue import plain
from queueing.core.jobs import JobState
from queueing.core.snapshot import WaitCause, is_open_ended
from queueing.core.status import Standing

_WAITS = re.compile("[⏳📦]")
_PLACE = re.compile(r"#(\d+) in line")
_AHEAD = re.compile(r"at most (\d+) ahead")  # in a message that is rarely edited
_NONE_AHEAD = re.compile("nobody ahead")
_LOADS = re.compile("📦 loading")  # the first in line is told of the load instead
_NOT_QUEUED = frozenset({WaitCause.HELD, WaitCause.LATER, WaitCause.ENHANCING})


class Fault(StrEnum):
    """Why what a message says is not true."""

    MISSING = "missing"
    STALE = "stale"  # another place by now, or the job has begun
    PASSED = "passed"
    APART = "apart"  # from the range that is estimated now
    TOO_SOON = "too soon"  # "any moment", of something that is later
    NEEDLESS = "needless"  # a moment, although none can be told


@dataclass(frozen=True, slots=True)
class Said:
    """What a message says; `earliest` is None if that may be any moment."""

    waits: bool
    place: int | None
    at_most: bool  # that place, or less: also of a job that has begun
    earliest: float | None
    latest: float | None


def said_in(body: Body) -> Said:
    """Return what a message says."""
    text = plain(body)
    waits, place = _WAITS.search(text) is not None, _PLACE.search(text)
    ahead = _AHEAD.search(text)
    at_most = ahead is not None or _NONE_AHEAD.search(text) is not None
    number = int(place[1]) if place else int(ahead[1]) + 1 if ahead else None
    if at_most or _LOADS.search(text):
        number = number or 1
    for part in body:
        if isinstance(part, Period):
            return Said(waits, number, at_most, part.begins_at, part.ends_at)
        if isinstance(part, Moment) and not part.clock:
            return Said(waits, number, at_most, None, part.at)
    return Said(waits, number, at_most, None, None)


def is_read(said: Said, standing: Standing) -> bool:
    """Whether it is the message of a job that waits, or says that it does."""
    return said.waits or standing.job.state is JobState.PENDING


def place_fault(said: Said, standing: Standing) -> Fault | None:
    """Return why the place is not true; None if it is."""
    if said.place and said.at_most:
        begun = standing.job.state is not JobState.PENDING
        ahead = begun or (standing.position is not None and standing.position <= said.place)
        return None if ahead else Fault.STALE
    if said.place != standing.position:
        return Fault.STALE if said.place is not None else Fault.MISSING
    why = None if standing.reason is None else standing.reason.why
    pauses = why is WaitCause.RETRY_PAUSE or is_open_ended(standing.reason)
    told = said.place is not None or pauses or not _is_queued(standing)
    return None if told else Fault.MISSING


def moment_fault(said: Said, standing: Standing, now: float) -> Fault | None:
    """Return why the range is not true; None if it is."""
    queued = standing.job.state is not JobState.PENDING or _is_queued(standing)
    if is_open_ended(standing.reason) or not queued:
        return None if said.latest is None else Fault.NEEDLESS
    if said.latest is None:
        return Fault.MISSING if is_read(said, standing) else None
    if said.latest < now:
        return Fault.PASSED
    ends = standing.ends
    if ends is None:
        return None
    if said.earliest is None and not ends.soon:
        return Fault.TOO_SOON
    begins = now if said.earliest is None else said.earliest
    return Fault.APART if ends.earliest > said.latest or ends.latest < begins else None


def _is_queued(standing: Standing) -> bool:
    """Whether a waiting job is to have a place and a range."""
    why = None if standing.reason is None else standing.reason.why
    waits = standing.job.state is JobState.PENDING
    return waits and not standing.overflow and why not in _NOT_QUEUED
