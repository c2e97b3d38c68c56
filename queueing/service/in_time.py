"""In time: how much longer a job may wait that shall be done by a moment; pure.

The forecast says when it would be done if it were let go now. What it cannot know is that a model comes
in between that holds the card: as long as a gate lets one is added, and the work of one batch once more.
Nor does it know that a machine goes to sleep until then: waking is added wherever it can be woken.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from queueing.core.quiet_hours import Quiet
from queueing.core.snapshot import HostView, Rules
from queueing.planning.hosts import LEAD_S
from queueing.planning.reservations import CLOSED_AFTER_LOADS, CROWD_SHARE, LOADS_IN_LIMIT
from queueing.planning.sites import Site

SLACK_S = 60.0
MOST_TURNS = 2  # of rivals: one that has a host reserved, and one that comes before


class Rival(NamedTuple):
    """A model that may hold the card of another: its load, its longest usual job, if it waits now."""

    load_s: float
    service_s: float
    waits: bool


class Way(NamedTuple):
    """How a job can begin on a server: the quiet hours of all cards it takes, and what it waits for.

    `kept_s` is how long others may keep those cards: rivals, and a job of its own model that begins just
    before it is let go. `wake_s` is how long their machine takes to wake.
    """

    quiet: tuple[Quiet, ...]
    load_s: float
    kept_s: float
    wake_s: float


def kept_s(load_s: float, rivals: Sequence[Rival], rules: Rules) -> float:
    """Return how long rivals may keep a card from a model of that load, once it must have it."""
    if not rivals:
        return 0.0
    waiting = max(1, sum(rival.waits for rival in rivals))
    swap_s = load_s + max(rival.load_s for rival in rivals)
    longest_s = max(rival.service_s for rival in rivals)
    turn_s = (rules.patience + CLOSED_AFTER_LOADS) * swap_s + longest_s + load_s
    limit_s = rules.age_limit_s * CROWD_SHARE * waiting + LOADS_IN_LIMIT * load_s
    return limit_s + min(waiting, MOST_TURNS) * turn_s


def open_until(due_at: float, quiet: Iterable[Quiet], needed_s: float) -> float:
    """Return by when a job must be done on hosts: before quiet hours after which there is no time."""
    for span in sorted(quiet, key=lambda each: each.begins_at, reverse=True):
        if span.begins_at - LEAD_S < due_at and due_at - span.ends_at < needed_s:
            due_at = min(due_at, span.begins_at - LEAD_S)
    return due_at


def surely_done_at(done_at: float, now: float, sites: Iterable[Site]) -> float:
    """Return by when a job is done that takes turns with other models, as far as can be promised.

    Their turns may last as long again as the forecast shows, and stand still in quiet hours.
    """
    wait_s = max(0.0, done_at - now)
    ends = [_after(done_at, wait_s, site.hosts) for site in sites if not _is_lent(site)]
    return min(ends, default=done_at + wait_s)


def _after(at: float, wait_s: float, hosts: Iterable[HostView]) -> float:
    """Return when so much time has passed in which all of these hosts were open."""
    coming = (quiet for host in hosts for quiet in host.quiet if quiet.ends_at > at)
    for quiet in sorted(coming, key=lambda each: each.begins_at):
        open_s = max(0.0, quiet.begins_at - LEAD_S - at)
        if wait_s <= open_s:
            break
        wait_s -= open_s
        at = max(at, quiet.ends_at)
    return at + wait_s


def _is_lent(site: Site) -> bool:
    return any(host.yields_since is not None for host in site.hosts)


def spare_s(done_at: float, due_at: float, way: Way, *, service_s: float, work_s: float) -> float:
    """Return how much longer a job may wait that would be done at `done_at`, with others of its batch.

    Those take `work_s`, and twice that beside people who come meanwhile.
    """
    needed_s = way.wake_s + way.load_s + service_s + 2 * work_s + way.kept_s
    by_at = open_until(due_at, way.quiet, needed_s)
    return by_at - done_at - work_s - way.kept_s - way.wake_s - SLACK_S
