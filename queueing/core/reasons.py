"""What a reason implies, and its form in the log.

A reason is data, not a sentence: it says why the jobs of a model wait.
"""

import shlex
from datetime import datetime

from queueing.core.snapshot import Reason, WaitCause

_OPEN_ENDED = frozenset(
    {
        WaitCause.PAUSED,
        WaitCause.OFFLINE,
        WaitCause.KEY,
        WaitCause.NO_ROOM,
        WaitCause.PINNED,
        WaitCause.KEPT,
        WaitCause.YIELDING,
    }
)


def is_open_ended(reason: Reason | None) -> bool:
    """Return whether the wait depends on people, so that no time can be estimated."""
    return reason is not None and reason.why in _OPEN_ENDED


def code(reason: Reason) -> str:
    """Return the reason for the log, such as `room-busy host=gpu-1 other=sdxl`.

    The cause comes first, then each known field; the log's "queue" field names the model. Times
    carry this machine's UTC offset, because logs are read elsewhere.
    """
    fields = {"host": reason.host, "backend": reason.backend, "other": reason.other}
    fields |= {"since": _clock(reason.since), "until": _clock(reason.until)}
    known = [f"{name}={shlex.quote(value)}" for name, value in fields.items() if value]
    return " ".join((reason.why, *known))


def _clock(moment: float | None) -> str | None:
    if not moment:
        return None
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z")
