"""`--later` and `--by 8:00`: what may wait until nothing else does, and when it shall be done."""

import re
from datetime import UTC, datetime, timedelta

from bot.chat.api.table import Param, ParamKind
from bot.chat.commands.context import Call, CallRefused

WHEN = (
    Param(name="later", kind=ParamKind.FLAG, help="param.later"),
    Param(name="by", kind=ParamKind.TEXT, help="param.by"),
)
_CLOCK = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?")


def is_later(call: Call) -> bool:
    """Return whether a call's job waits until nothing else does."""
    return bool(call.args.get("later")) or call.text("by") is not None


def due_at(call: Call, now: float) -> float | None:
    """Return when a call's job shall be done, None without such a moment. Raises `CallRefused`.

    A time of day is the next such one where this machine stands.
    """
    said = call.text("by")
    if said is None:
        return None
    clock = _CLOCK.fullmatch(said.strip())
    if clock is None:
        raise CallRefused("refused.by", text=said[:40])
    here = datetime.fromtimestamp(now, UTC).astimezone().replace(tzinfo=None)
    at = here.replace(hour=int(clock[1]), minute=int(clock[2] or 0), second=0, microsecond=0)
    if at <= here:
        at += timedelta(days=1)
    return at.astimezone().timestamp()
