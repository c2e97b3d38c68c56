"""Discord's marks in texts ("<@8>", "<#101>") as the words that people see. Pure functions.

A model would answer with the numbers, and a reader would read them aloud. Code keeps its marks, as
in Discord's own client.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_ID = r"[0-9]{1,20}"
_MARK = re.compile(
    rf"(?<!\\)<(?:@!?(?P<person>{_ID})|@&(?P<role>{_ID})|#(?P<channel>{_ID})"
    rf"|a?:(?P<emoji>\w{{1,64}}):{_ID}|t:(?P<moment>-?[0-9]{{1,13}})(?::[tTdDfFsSR])?"
    rf"|/(?P<command>[\w -]{{1,100}}):{_ID}|id:(?P<place>[a-z-]{{1,20}})(?::{_ID})?)>"
)
_TICKS = re.compile("(`+)")
_AS_TYPED = {"emoji": ":{}:", "command": "/{}", "place": "#{}"}
_DASHES = re.compile("-{2,}|[—–]")

Named = Callable[[int], str | None]
"""Returns the name behind an id, or None if it is unknown."""


def nobody(_id: int) -> str | None:
    """Return no name."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Who and what ids stand for, where a text was written."""

    person: Named = nobody
    role: Named = nobody
    channel: Named = nobody


def readable(text: str, names: Names) -> str:
    """Return a text with names in place of marks. Code stays as it is."""
    return "".join(
        part if is_code else _MARK.sub(lambda mark: _word(mark, names), part)
        for part, is_code in _stretches(text)
    )


def people_in(text: str) -> Iterator[int]:
    """Yield the ids of the people that a text mentions."""
    yield from _ids(text, "person")


def channels_in(text: str) -> Iterator[int]:
    """Yield the ids of the channels that a text mentions."""
    yield from _ids(text, "channel")


def _ids(text: str, kind: str) -> Iterator[int]:
    for part, is_code in _stretches(text):
        for mark in () if is_code else _MARK.finditer(part):
            if mark[kind] is not None:
                yield int(mark[kind])


def _stretches(text: str) -> Iterator[tuple[str, bool]]:
    """Yield a text's stretches, and whether each is code: between equally many backticks."""
    parts = _TICKS.split(text)  # words and backticks in turn
    last = {ticks: place for place, ticks in enumerate(parts) if place % 2}
    place = 0
    while place < len(parts):
        is_code = last.get(parts[place], 0) > place
        end = parts.index(parts[place], place + 1) if is_code else place
        yield "".join(parts[place : end + 1]), is_code
        place = end + 1


def _word(mark: re.Match[str], names: Names) -> str:
    """Return what people see in place of a mark; for what is unknown, Discord's own words."""
    kind = mark.lastgroup or ""
    value = mark[kind]
    match kind:
        case "person":
            return f"@{_plain(names.person(int(value))) or 'unknown-user'}"
        case "role":
            return f"@{_plain(names.role(int(value))) or 'unknown-role'}"
        case "channel":
            return f"#{_plain(names.channel(int(value))) or 'unknown'}"
        case "moment":
            return _moment(int(value)) or mark[0]
        case _:
            return _AS_TYPED[kind].format(value)


def _plain(name: str | None) -> str:
    """Return a name that cannot be read as an option of a command."""
    return _DASHES.sub("-", " ".join((name or "").split())).lstrip("@#")


def _moment(seconds: int) -> str | None:
    """Return a moment in words that do not depend on the reader's time zone."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return None
