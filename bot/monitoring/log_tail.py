"""The newest lines of the program's log, kept in memory for operators."""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext

from bot.monitoring.records import LogLine

LINES = 500
LONGEST = 4000  # characters; a traceback may have more


class LogTail(logging.Handler):
    """Keeps the newest lines, as its formatter writes them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=LINES)
        self._number = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            text = self.format(record)[:LONGEST]
        except Exception:  # noqa: BLE001  # a record's values may raise anything
            text = f"{record.levelname} {record.name}: a record that cannot be shown"
        self._number += 1
        level = record.levelname.lower()
        self._lines.append(LogLine(number=self._number, level=level, text=text))

    def after(self, number: int) -> Sequence[LogLine]:
        """Return the lines after the one with that number, oldest first.

        A number that no line has yet is one of an earlier run, so all lines are returned.
        """
        with self.lock or nullcontext():
            since = number if number <= self._number else 0
            return [line for line in self._lines if line.number > since]
