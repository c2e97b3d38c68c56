"""One English sentence for each reason why a model's jobs wait.

Log, chat and `/queue` print this text; other languages live with the texts of the bot.
"""

from datetime import UTC, datetime

from queueing.world import Blocked, Reason


def sentence(reason: Reason) -> str:
    """Return the reason as one sentence without a full stop, for the person who waits.

    Moments are shown as hours and minutes UTC; a chat that knows the reader's clock formats
    `since` and `until` itself.
    """
    return _WORDS[reason.why](reason)


def _in_line(reason: Reason) -> str:
    return f"behind others in {reason.model}"


def _loading(reason: Reason) -> str:
    return f"loading {reason.model}{_on(reason)}{_about(reason)}"


def _room_busy(reason: Reason) -> str:
    if reason.other is None:
        return f"waiting for room{_on(reason)}"
    return f"{reason.other} is busy{_on(reason)} until its running job ends"


def _loader_busy(reason: Reason) -> str:
    if reason.other is None:
        return f"something else is loading{_on(reason)}"
    return f"{reason.other} is being loaded{_on(reason)} first{_about(reason)}"


def _reserved(reason: Reason) -> str:
    return f"{_host(reason)} is kept for {_other(reason)}, which has waited longer"


def _gated(reason: Reason) -> str:
    return f"{_other(reason)} has waited longer and gets its turn{_on(reason)} first"


def _no_room(reason: Reason) -> str:
    return f"other programs hold the memory {reason.model} needs{_on(reason)}"


def _pinned(reason: Reason) -> str:
    return f"an admin keeps {_other(reason)} in the memory{_on(reason)}"


def _offline(reason: Reason) -> str:
    if reason.host is None:
        return f"no host has {reason.model}"
    since = f" since {_clock(reason.since)}" if reason.since else ""
    return f"{reason.host} is offline{since}, no other host has {reason.model}"


def _load_pause(reason: Reason) -> str:
    return f"loading {reason.model} failed, next try{_at(reason)}"


def _retry_pause(reason: Reason) -> str:
    return f"pausing after a failed attempt, next try{_at(reason)}"


def _enhancing(_reason: Reason) -> str:
    return "a text model improves the prompt first"


def _paused(reason: Reason) -> str:
    return "paused by an admin" if reason.host is None else f"{reason.host} is paused by an admin"


def _suspect(reason: Reason) -> str:
    if reason.other is None or reason.other == reason.model:
        return "its server died before, so one job runs alone first"
    return f"{reason.other} runs alone{_on(reason)} first, because its server died before"


def _starting(_reason: Reason) -> str:
    return "starting now"


_WORDS = {
    Blocked.IN_LINE: _in_line,
    Blocked.LOADING: _loading,
    Blocked.ROOM_BUSY: _room_busy,
    Blocked.LOADER_BUSY: _loader_busy,
    Blocked.RESERVED: _reserved,
    Blocked.GATED: _gated,
    Blocked.NO_ROOM: _no_room,
    Blocked.PINNED: _pinned,
    Blocked.OFFLINE: _offline,
    Blocked.LOAD_PAUSE: _load_pause,
    Blocked.RETRY_PAUSE: _retry_pause,
    Blocked.ENHANCING: _enhancing,
    Blocked.PAUSED: _paused,
    Blocked.SUSPECT: _suspect,
    Blocked.STARTING: _starting,
}


def _on(reason: Reason) -> str:
    return f" on {reason.host}" if reason.host else ""


def _host(reason: Reason) -> str:
    return reason.host or "its host"


def _other(reason: Reason) -> str:
    return reason.other or "another model"


def _about(reason: Reason) -> str:
    return "" if reason.about_s is None else f", about {max(1, round(reason.about_s))} s"


def _at(reason: Reason) -> str:
    return " soon" if reason.until is None else f" at {_clock(reason.until)}"


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M UTC")
