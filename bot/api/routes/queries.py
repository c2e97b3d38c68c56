"""The parameters of queries and paths: checked numbers. Pure."""

import re
from typing import Final

from aiohttp import web

from bot.api.calls.errors import invalid

_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)


def seconds(request: web.Request, name: str, *, most: float) -> float:
    """Return a number of seconds of the query, 0 if it is missing. Raises `ApiError`."""
    text = request.query.get(name, "0")
    if not _NUMBER.fullmatch(text) or float(text) > most:
        raise invalid(f"{name}: must be a number from 0 to {most:g}.", name)
    return float(text)


def whole(request: web.Request, name: str, *, most: int) -> int | None:
    """Return a whole number of the query that is at least 1, None if it is missing.

    Raises `ApiError`.
    """
    text = request.query.get(name)
    if text is None:
        return None
    if (number := whole_number(text)) is None or not 1 <= number <= most:
        raise invalid(f"{name}: must be a whole number from 1 to {most}.", name)
    return number


def whole_number(text: str) -> int | None:
    """Return the number that digits stand for, None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None
