"""Sets up logging. Removes secrets and terminal control sequences from every record.

The formatter of the only handler redacts the finished line, including its traceback. So redaction
also covers third-party loggers, warnings, uncaught exceptions and errors of the event loop. The
newest lines are kept in memory for operators.
"""

import asyncio
import json
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO
from urllib.parse import quote, quote_plus

from bot.http.clients import sparing
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


HIDDEN = "[hidden]"

TAIL = LogTail()
"""The newest lines, without secrets, once logging is set up."""

_SHAPES = re.compile(
    r"(?P<telegram>(?<=bot)\d{5,}:[\w-]{10,}|\b\d{6,12}:[\w-]{30,})"
    r"|(?P<discord>\b[\w-]{23,28}\.[\w-]{6,7}\.[\w-]{27,})"
    r"|(?P<lmstudio>\bsk-[\w-]{8,}(?::[\w-]+)?)"
    r"|(?<=Bearer )[^\s'\",]+"
    r"|(?<=Bot )[\w-]{20,}\.[\w.-]+"
    r"|(?<=[?&]token=)[^\s&'\"]+"
)
"""Forms of tokens: those of Telegram, Discord and LM Studio, and those in headers and URLs."""

# Escape sequences, carriage returns, and characters that change the text direction.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

CHATTY = (
    "PIL",
    "aiohttp.access",
    "aiosqlite",  # at DEBUG, logs every stored value, including prompts and images
    "discord",
    "httpcore",
    "psycopg",
    "markdown_it",  # at DEBUG, logs every rule it tries on an answer
    "httpx",  # at INFO, logs every URL; Telegram's contain the token
    "telegram",
)
_SHORTEST = 4  # characters; a shorter secret would redact half of every line

_log = sparing(logging.getLogger(__name__))


class Redactor:
    """Replaces known secrets, and texts that look like secrets, with a mark."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        given = {secret for secret in secrets if len(secret) >= _SHORTEST}
        spelled = {each for secret in given for each in _spellings(secret)}
        worth = sorted(spelled, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, worth))) if worth else None

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        if self._known:
            text = self._known.sub(HIDDEN, text)
        return _SHAPES.sub(HIDDEN, text)


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret unchanged, as encoded in URLs, and as quoted."""
    yield secret
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]


def harmless(text: str) -> str:
    """Remove terminal control sequences and characters that change the text direction."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class TextFormatter(logging.Formatter):
    """Formats a record as one line for people, with its traceback indented below."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", style="{")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as text without secrets."""
        return harmless(self._redact(super().format(record).replace("\n", "\n    ")))


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, for log collectors."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as JSON without secrets."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": harmless(self._redact(record.getMessage())),
        }
        if record.exc_info:
            line["traceback"] = harmless(self._redact(self.formatException(record.exc_info)))
        return json.dumps(line, ensure_ascii=False)


class _Handler(logging.StreamHandler[TextIO]):
    """Drops records that cannot be formatted.

    The standard handler would print their values.
    """

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception as error:  # noqa: BLE001  # a record's values may raise anything
            kind = type(error).__name__
            return f"{record.levelname} {record.name}: a record that cannot be shown ({kind})"

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the library's name
        """Do nothing. If the stream is broken, there is nowhere to report it."""


def set_up(
    *,
    level: str = "info",
    form: Literal["text", "json"] = "text",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all log records to `stream` (stderr by default), without secrets.

    Replaces earlier set-ups.
    """
    redact = Redactor(secrets)
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter(redact) if form == "json" else TextFormatter(redact))
    TAIL.setFormatter(TextFormatter(redact))
    root = logging.getLogger()
    root.handlers = [handler, TAIL]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # the engine reports what it warns about
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_thread


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Log what the event loop would otherwise print, so that it is redacted as well."""
    loop.set_exception_handler(_log_loop_error)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _log.critical("stopped by an unexpected error", exc_info=(kind, error, traceback))


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _log.error("a thread failed", exc_info=args.exc_value)


def _log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    _log.error("%s", context.get("message", "error in the event loop"), exc_info=error)
