"""`--later` and `--by 8:00`: what may wait until nothing else does, and when it shall be done."""

import re
from datetime import tzinfo

from bot.commands.call.context import Call, CallRefused
from bot.core.command import Param, ParamKind
from bot.people.days import next_at

WHEN = (
    Param(name="later", kind=ParamKind.FLAG, help="param.later"),
    Param(name="by", kind=ParamKind.TEXT, help="param.by"),
)
_CLOCK = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?")


def is_later(call: Call) -> bool:
    """Return whether a call's job waits until nothing else does."""
    return bool(call.args.get("later")) or call.text("by") is not None


def due_at(call: Call, now: float, zone: tzinfo | None) -> float | None:
    """Return when a call's job shall be done, None without such a moment. Raises `CallRefused`.

    A time of day is the next such one in the zone.
    """
    said = call.text("by")
    if said is None:
        return None
    clock = _CLOCK.fullmatch(said.strip())
    if clock is None:
        raise CallRefused("refused.by", text=said[:40])
    return next_at(now, zone, hour=int(clock[1]), minute=int(clock[2] or 0))
