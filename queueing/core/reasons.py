"""One English sentence for each reason why a model's jobs wait.

Log, chat and `/queue` use this text; other languages live with the bot's texts. Moments stay
moments: each place that shows a sentence has a clock of its own.
"""

from collections.abc import Callable
from datetime import datetime

from queueing.core.snapshot import Reason, WaitCause

_OPEN_ENDED = frozenset(
    {
        WaitCause.PAUSED,
        WaitCause.OFFLINE,
        WaitCause.NO_ROOM,
        WaitCause.PINNED,
        WaitCause.KEPT,
        WaitCause.YIELDING,
    }
)

_HALF_A_DAY_S = 12 * 3600.0

Words = tuple[str | float, ...]
"""A sentence in pieces: text, and the moments (UNIX seconds) it names."""


def words(reason: Reason) -> Words:
    """Return the reason as one sentence without a full stop, for the waiting person."""
    return tuple(piece for piece in _WORDS[reason.why](reason) if piece != "")


def sentence(reason: Reason, *, now: float) -> str:
    """Return the sentence for the log, with its moments in this machine's time."""
    return "".join(_clock(p, now) if isinstance(p, float) else p for p in words(reason))


def is_far(moment: float, now: float) -> bool:
    """Return whether a time of day alone would not tell which day a moment belongs to."""
    return abs(moment - now) >= _HALF_A_DAY_S


def is_open_ended(reason: Reason | None) -> bool:
    """Return whether the wait depends on people, so that naming a moment would be dishonest."""
    return reason is not None and reason.why in _OPEN_ENDED


def _clock(moment: float, now: float) -> str:
    """Return the time of day in the machine's zone, with its offset: logs travel."""
    local = datetime.fromtimestamp(moment).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S%z" if is_far(moment, now) else "%H:%M:%S%z")


def _queued(reason: Reason) -> Words:
    return (f"behind other requests for {reason.model}",)


def _loading(reason: Reason) -> Words:
    return (f"loading {reason.model}{_on(reason)}",)


def _room_busy(reason: Reason) -> Words:
    if reason.other is None:
        return (f"waiting for room{_on(reason)}",)
    return (f"{reason.other} is busy{_on(reason)}",)


def _loader_busy(reason: Reason) -> Words:
    if reason.other is None:
        return (f"another model is being loaded{_on(reason)} first",)
    return (f"{reason.other} is being loaded{_on(reason)} first",)


def _reserved(reason: Reason) -> Words:
    return (f"{_host(reason)} is kept for {_other(reason)}, which has waited longer",)


def _gated(reason: Reason) -> Words:
    return (f"{_other(reason)} has waited longer and gets its turn{_on(reason)} first",)


def _no_room(reason: Reason) -> Words:
    return (f"other programs are using the memory {reason.model} needs{_on(reason)}",)


def _pinned(reason: Reason) -> Words:
    return (f"an admin keeps {_other(reason)} in memory{_on(reason)}",)


def _kept(reason: Reason) -> Words:
    stays = f"{_other(reason)} stays in memory{_on(reason)}"
    change = f"its operator can end it, or set vram of {_other(reason)} if that takes less"
    return (f"{stays}, because its server can't unload it on request: {change}",)


def _offline(reason: Reason) -> Words:
    if reason.host is None:
        return (f"no machine has {reason.model}",)
    nowhere = f", and no other {'server' if reason.backend else 'machine'} has {reason.model}"
    away = f"{reason.backend} on {reason.host}" if reason.backend else reason.host
    if not reason.since:
        return (f"{away} is offline{nowhere}",)
    return (f"{away} has been offline since ", reason.since, nowhere)


def _load_pause(reason: Reason) -> Words:
    return (f"loading {reason.model} failed; next try", *_at(reason))


def _retry_pause(reason: Reason) -> Words:
    return ("pausing after a failed attempt; next try", *_at(reason))


def _enhancing(_reason: Reason) -> Words:
    return ("a text model is improving the prompt first",)


def _held(_reason: Reason) -> Words:
    return ("what was said is being written down first",)


def _paused(reason: Reason) -> Words:
    return (
        "paused by an admin" if reason.host is None else f"{reason.host} is paused by an admin",
    )


def _quiet(reason: Reason) -> Words:
    return (f"{_host(reason)} has quiet hours", *_ends(reason))


def _quiet_soon(reason: Reason) -> Words:
    begins: Words = () if reason.since is None else (" at ", reason.since)
    ends: Words = () if reason.until is None else (" and end at ", reason.until)
    soon = f"too little time is left before {_host(reason)}'s quiet hours"
    return (f"{soon}, which begin", *begins, *ends)


def _waking(reason: Reason) -> Words:
    return (f"{_host(reason)} is waking",)


def _asleep(reason: Reason) -> Words:
    return (f"{_host(reason)} sleeps until it is needed",)


def _yielding(reason: Reason) -> Words:
    since: Words = () if reason.since is None else (" since ", reason.since)
    return (f"another program has been using the GPU of {_host(reason)}", *since)


def _suspect(reason: Reason) -> Words:
    if reason.other is None or reason.other == reason.model:
        return ("its server crashed last time, so one job runs alone first",)
    return (f"{reason.other} runs alone{_on(reason)} first, because its server crashed last time",)


def _later(reason: Reason) -> Words:
    if reason.until is None:
        return ("it runs when nothing else waits",)
    return ("it runs when nothing else waits, and begins in time to be done by ", reason.until)


def _late(reason: Reason) -> Words:
    until: Words = ("then",) if reason.until is None else (reason.until,)
    return ("other things come before it, so that it may not be done by ", *until)


def _starting(_reason: Reason) -> Words:
    return ("starting now",)


_WORDS: dict[WaitCause, Callable[[Reason], Words]] = {
    WaitCause.QUEUED: _queued,
    WaitCause.LOADING: _loading,
    WaitCause.ROOM_BUSY: _room_busy,
    WaitCause.LOADER_BUSY: _loader_busy,
    WaitCause.RESERVED: _reserved,
    WaitCause.GATED: _gated,
    WaitCause.NO_ROOM: _no_room,
    WaitCause.PINNED: _pinned,
    WaitCause.KEPT: _kept,
    WaitCause.OFFLINE: _offline,
    WaitCause.LOAD_PAUSE: _load_pause,
    WaitCause.RETRY_PAUSE: _retry_pause,
    WaitCause.ENHANCING: _enhancing,
    WaitCause.HELD: _held,
    WaitCause.PAUSED: _paused,
    WaitCause.QUIET: _quiet,
    WaitCause.QUIET_SOON: _quiet_soon,
    WaitCause.WAKING: _waking,
    WaitCause.ASLEEP: _asleep,
    WaitCause.YIELDING: _yielding,
    WaitCause.SUSPECT: _suspect,
    WaitCause.LATER: _later,
    WaitCause.LATE: _late,
    WaitCause.STARTING: _starting,
}


def _on(reason: Reason) -> str:
    return f" on {reason.host}" if reason.host else ""


def _host(reason: Reason) -> str:
    return reason.host or "its machine"


def _other(reason: Reason) -> str:
    return reason.other or "another model"


def _ends(reason: Reason) -> Words:
    return () if reason.until is None else (" until ", reason.until)


def _at(reason: Reason) -> Words:
    return (" soon",) if reason.until is None else (" at ", reason.until)
