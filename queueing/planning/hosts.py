"""Hosts that rest: in their quiet hours, while another program has their card, and while they wake. Pure.

Nothing is given to a host that rests, and all that is idle leaves (`idle.clear`), except of one that
wakes.
"""

from math import inf

from queueing.core.snapshot import Blocked, HostView, Reason

LEAD_S = 15.0  # a host is empty this long before its quiet hours: unloading takes a while


def rests(view: HostView, now: float) -> bool:
    """Return whether a host does nothing now: its owner wants the card."""
    if view.yields_since is not None or wakes(view, now):
        return True
    if not view.quiet:  # nearly all: a generator would cost more than the answer
        return False
    return any(quiet.begins_at - LEAD_S <= now < quiet.ends_at for quiet in view.quiet)


def wakes(view: HostView, now: float) -> bool:
    """Return whether a host slept and is not back yet."""
    return view.waking_until is not None and now < view.waking_until


def next_change_at(view: HostView, now: float) -> float:
    """Return when a host begins or ceases to rest by itself, inf for never."""
    moments = [at for q in view.quiet for at in (q.begins_at - LEAD_S, q.ends_at) if at > now]
    if view.waking_until is not None and view.waking_until > now:
        moments.append(view.waking_until)
    return min(moments, default=inf)


def next_quiet(view: HostView, now: float) -> tuple[float, float] | None:
    """Return the beginning and the end of the quiet hours that have begun or come next."""
    coming = (quiet for quiet in view.quiet if quiet.ends_at > now)
    first = min(coming, key=lambda quiet: quiet.begins_at, default=None)
    return None if first is None else (first.begins_at, first.ends_at)


def opens_for(view: HostView, at: float, needed_s: float) -> float | None:
    """Return the first moment from `at` on from which a host has so much time; None while it yields."""
    if view.yields_since is not None:
        return None
    at = max(at, view.waking_until or at)
    for quiet in view.quiet:
        if at + needed_s <= quiet.begins_at - LEAD_S:
            break
        at = max(at, quiet.ends_at)
    return at


def why_rests(view: HostView, now: float, model: str = "") -> Reason | None:
    """Return why a host does nothing now, None if it does not rest."""
    if view.yields_since is not None:
        return Reason(why=Blocked.YIELDING, model=model, host=view.name, since=view.yields_since)
    if wakes(view, now):
        machine = view.machine or view.name
        return Reason(why=Blocked.WAKING, model=model, host=machine)
    if view.asleep and not view.overslept:
        return Reason(why=Blocked.ASLEEP, model=model, host=view.machine or view.name)
    if not rests(view, now):
        return None
    quiet = next_quiet(view, now)
    until = None if quiet is None else quiet[1]
    return Reason(why=Blocked.QUIET, model=model, host=view.name, until=until)
