"""Logs for what visitors can cause: one line a minute for each kind of event."""

import logging
import time
from dataclasses import dataclass

EVERY_S = 60.0

Kind = tuple[object, ...]


@dataclass(kw_only=True, slots=True)
class _Logged:
    at: float
    left_out: int = 0


_logged: dict[Kind, _Logged] = {}  # as many as there are places in the code


def sparing(log: logging.Logger) -> logging.Logger:
    """Have a log omit lines of a kind that it had within the last minute; the next counts them."""
    if _is_due not in log.filters:
        log.addFilter(_is_due)
    return log


def forget() -> None:
    """Forget what was logged, for tests."""
    _logged.clear()


def _is_due(record: logging.LogRecord) -> bool:
    now, kind = time.monotonic(), _kind_of(record)
    last = _logged.get(kind)
    if last is not None and now < last.at + EVERY_S:
        last.left_out += 1
        return False
    _logged[kind] = _Logged(at=now)
    if last is not None and last.left_out:
        record.msg = f"{record.getMessage()} (and {last.left_out} more like this)"
        record.args = None
    return True


def _kind_of(record: logging.LogRecord) -> Kind:
    """Return what makes two lines alike: where they were written, and where their error arose."""
    place: Kind = (record.pathname, record.lineno)
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return place
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    raised = innermost and (innermost.tb_frame.f_code.co_filename, innermost.tb_lineno)
    return (*place, type(error), raised)
