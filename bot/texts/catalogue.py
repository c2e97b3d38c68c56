"""Fills in the texts people read, which are in one TOML file per language.

`say` is pure. Values may be parts of a body. They stay separate parts between the words, so each
platform shows them in its own way, and no value is ever read as a template.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bot.core.command import Command
from bot.core.content import Body, CommandText, Markdown, Moment, Part, Period, ProgressBar, Strong
from queueing.core.constructors import altering
from queueing.core.jobs import Job
from queueing.core.status import GpuTime


def _read(file: Traversable) -> Mapping[str, str]:
    """Return the texts of a language by key, "<table>.<name>"."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {f"{table}.{name}": text for table in tables for name, text in tables[table].items()}


CATALOGUES: Mapping[str, Mapping[str, str]] = {
    file.name.removesuffix(".toml"): _read(file)
    for file in files("bot.texts").iterdir()
    if file.name.endswith(".toml")
}
DEFAULT_LANGUAGE = "en"
ZONE = " UTC"
_BAR = 5  # characters
_HALF_A_DAY_S = 12 * 3600.0

_altered = altering(Moment)
_SLOT = re.compile(r"\{(\w+)(?::([^}]*))?\}")

Value = str | int | float | Moment | Period | Markdown | Strong | CommandText | ProgressBar


def language_of(locale: str | None) -> str:
    """Return the catalogue's language for a locale such as "de-DE"; English by default."""
    language = (locale or "").replace("_", "-").split("-")[0].lower()
    return language if language in CATALOGUES else DEFAULT_LANGUAGE


def say(language: str, key: str, **values: Value) -> Body:
    """Return the text of a key with its values filled in.

    `{moment:at }` puts "at " before a moment shown as a time of day, but not before a countdown.
    `{count:job|jobs}` puts one of the two words after a number. Raises `KeyError` for an unknown
    key or a missing value; both are bugs that tests find.
    """
    slots, last = _cut(CATALOGUES[language][key])
    parts: list[Part] = []
    for words, name, option in slots:
        parts += (words, _filled(language, values[name], option))
    parts.append(last)
    return join(parts)


def _filled(language: str, value: Value, option: str) -> Part:
    if isinstance(value, Moment):
        return _altered(value, before=option) if option else value
    if not isinstance(value, str | int | float):
        return value
    written = value if isinstance(value, str) else decimal(language, value)
    one, is_counted, many = option.partition("|")
    return f"{written} {one if value == 1 else many}" if is_counted else written


def decimal(language: str, number: float) -> str:
    """Return a number as that language writes it, without needless decimals."""
    written = str(number) if isinstance(number, int) else f"{number:g}"
    return written.replace(".", word(language, "number.point"))


@lru_cache(maxsize=4096)  # more than there are texts
def _cut(template: str) -> tuple[Sequence[tuple[str, str, str]], str]:
    """Return each slot with the words before it and its option, and the words after the last."""
    slots, end = [], 0
    for slot in _SLOT.finditer(template):
        slots.append((template[end : slot.start()], slot[1], slot[2] or ""))
        end = slot.end()
    return slots, template[end:]


def word(language: str, key: str, **values: str | float) -> str:
    """Return a text as plain words, for buttons and for use inside other texts."""
    return plain(say(language, key, **values)) if values else _word(language, key)


_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


def names_of(command: Command) -> Sequence[str]:
    """Return all names that people may type for a command, in every language, its own first.

    Names with umlauts may also be typed without.
    """
    key = f"called.{command.name}"
    translated = [each.get(key, command.name) for each in CATALOGUES.values()]
    plain_names = (each.translate(_UMLAUTS) for each in translated)
    return tuple(dict.fromkeys((command.name, *command.aliases, *translated, *plain_names)))


@lru_cache(maxsize=4096)  # as above
def _word(language: str, key: str) -> str:
    return plain(say(language, key))


def join(parts: list[Part] | Body) -> Body:
    """Merge neighbouring strings, so that equal texts are equal bodies."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)


def plain(body: Body, *, local: bool = False) -> str:
    """Return a body as plain text.

    Moments become clock times, in UTC or `local` to this machine.
    """
    return "".join([part if isinstance(part, str) else _bare(part, local=local) for part in body])


def is_far(moment: float, now: float) -> bool:
    """Return whether a moment is so far off that its time of day alone is ambiguous."""
    return abs(moment - now) >= _HALF_A_DAY_S


def dated(body: Body, now: float) -> Body:
    """Return the body with dates added to moments whose time of day alone is ambiguous."""
    return tuple(
        replace(part, day=True)
        if (isinstance(part, Moment) and is_far(part.at, now))
        or (isinstance(part, Period) and is_far(part.ends_at, now))
        else part
        for part in body
    )


def clock(moment: Moment, *, local: bool = False) -> str:
    """Return a moment's time of day, in UTC or `local` to this machine, with its date if requested.

    The date has the same format in every language.
    """
    at = datetime.fromtimestamp(moment.at, UTC).astimezone(None if local else UTC)
    form = "%Y-%m-%d %H:%M" if moment.day else "%H:%M"
    return moment.before + at.strftime(form) + ("" if local else ZONE)


def clocks(moments: Sequence[Moment], *, local: bool = False) -> Sequence[str]:
    """Return the times of day of several moments. Only the last one names the time zone."""
    *first, last = (clock(each, local=local) for each in moments)
    return (*(each.removesuffix(ZONE) for each in first), last)


def bar_text(share: float) -> str:
    """Return a bar of characters.

    It is empty only before the first step, and full only at the end.
    """
    full = max(0, min(_BAR, int(share * _BAR) + (0 < share < 1 / _BAR)))
    return "▰" * full + "▱" * (_BAR - full)


def _bare(part: Part, *, local: bool) -> str:
    match part:
        case Moment():
            return clock(part, local=local)
        case Period(moments=moments):
            return "–".join(clocks(moments, local=local))
        case ProgressBar(share):
            return bar_text(share)
        case Markdown(text) | Strong(text) | CommandText(text):
            return text
        case str():
            return part


def describe(key: str, language: str | None) -> str:
    """Return the help text of a command or parameter for a platform's own menu."""
    return word(language_of(language), key)


COSTLY_S = 60.0  # people with a GPU limit see the cost of a job from this on
_A_FEW_S = 600.0  # below this, minutes are shown with one decimal


def in_minutes(seconds: float) -> float:
    """Return seconds as minutes, with one decimal if there are only a few."""
    return round(seconds / 60, 1) if seconds < _A_FEW_S else round(seconds / 60)


def minutes(seconds: float, language: str) -> str:
    """Return seconds as minutes in that language."""
    return decimal(language, in_minutes(seconds))


def used_today(time: GpuTime, limit_s: float | None, language: str) -> Body:
    """Return a person's GPU time today, their limit, and the time held for open jobs."""
    used = minutes(time.used_s, language)
    if limit_s is None:
        return say(language, "gpu.used", used=used)
    body = say(language, "gpu.used_of", used=used, limit=minutes(limit_s, language))
    if time.held_s:
        body += say(language, "gpu.held", held=minutes(time.held_s, language))
    return join(body)


def cost(job: Job, language: str) -> Body:
    """Return the GPU time a job will take from its owner's limit, on a new line.

    Empty if the job is short or its owner has no limit.
    """
    if job.gpu_s < COSTLY_S:
        return ()
    return ("\n", *say(language, "gpu.cost", cost=minutes(job.gpu_s, language)))
