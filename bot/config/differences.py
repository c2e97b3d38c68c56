"""How two configurations differ: what processes must share, and what a reload may change. Pure.

A configuration becomes a mark for each setting that is not at its default: so versions agree in
spite of a setting that only one of them knows, until it is used. A mark is a keyed digest and short
on purpose: it shows a difference, but is no way to test guesses of a token.
"""

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TypeVar

from pydantic import BaseModel, SecretStr

from bot.config.config import Config
from bot.config.sections import WORKFLOWS, RoleConfig
from bot.config.values import WorkflowFile

OWN: Sequence[tuple[str, ...]] = (
    ("database",),
    ("hosts", "*", "gpu"),
    ("chats", "web", "host"),
    ("chats", "web", "port"),
    ("api", "host"),
    ("api", "port"),
    ("cluster", "listen"),
    ("cluster", "advertise"),
    ("logging",),
    ("metrics",),
)
"""The settings each process may have of its own: what they name is not the same on every machine."""

_ORDERED = {("models",)}  # where none is named, the first able one is used
_DIGITS = 4
GROUP = "group"
_NAMED = 3  # differences that a sentence names

Place = tuple[str, ...]
"""Where a setting is, such as `("models", "flux", "vram")`."""
Marks = Mapping[Place, str]


def marks(config: Config, key: bytes) -> Marks:
    """Return the marks of a configuration; only those with the same key can be compared."""
    return {
        place: _mark(key, place, value)
        for place, value in _of_group(config, ())
        if not _is_own(place)
    }


def settings_of(config: Config) -> Iterator[tuple[Place, object]]:
    """Yield every setting that is not at its default, and every group that need not be there."""
    yield from _of_group(config, ())


def differences(here: Marks, there: Marks) -> tuple[str, ...]:
    """Return in words which settings differ, each with its path; none if the two are the same."""
    told = []
    for place in apart(here, there):
        path = ".".join(place)
        if place in here and place in there:
            told.append(f"{path} differs")
        else:
            told.append(f"{path} is only {'here' if place in here else 'there'}")
    return tuple(told)


def apart(here: Mapping[Place, object], there: Mapping[Place, object]) -> Iterator[Place]:
    """Yield where two configurations differ: the outermost group that only one has, or a setting."""
    places = [
        place
        for place in sorted({*here, *there})
        if (place in here) is not (place in there) or here[place] != there[place]
    ]
    one_sided = {place for place in places if (place in here) is not (place in there)}
    for place in places:
        held = any(_holds(group, place) for group in one_sided)
        # The order of models is a setting: it differs, too, where one came or went.
        holds = place not in one_sided and any(_holds(place, inner) for inner in places)
        if not held and not holds:
            yield place


def _holds(group: Place, place: Place) -> bool:
    return len(group) < len(place) and place[: len(group)] == group


def in_words(told: Sequence[str]) -> str:
    """Return the first differences as one part of a sentence."""
    more = len(told) - _NAMED
    rest = [f"{more} more"] if more > 0 else []
    *others, last = [*told[:_NAMED], *rest]
    return f"{', '.join(others)} and {last}" if others else last


def _of_group(section: BaseModel, place: Place) -> Iterator[tuple[Place, object]]:
    """Yield what is set away from its default."""
    for name, field in type(section).model_fields.items():
        value, usual = getattr(section, name), field.get_default(call_default_factory=True)
        if value != usual or _is_no_limit(section, name):
            yield from _settings(value, (*place, field.alias or name), usual)
    for name, value in (section.__pydantic_extra__ or {}).items():
        yield from _settings(value, (*place, name))


def _settings(value: object, place: Place, usual: object = None) -> Iterator[tuple[Place, object]]:
    """Yield a setting, or a group and all in it; a group that is always there is no difference."""
    match value:
        case BaseModel():
            if not isinstance(usual, BaseModel):
                yield place, GROUP
            yield from _of_group(value, place)
        case Mapping():
            if place in _ORDERED:
                yield place, list(value)
            elif not isinstance(usual, Mapping):
                yield place, GROUP
            for name, inner in value.items():
                yield from _settings(inner, (*place, str(name)))
        case WorkflowFile():  # where the file is differs with the machine
            yield place, [PurePath(value).name, value.digest]
        case str() if place[-1] in WORKFLOWS:
            yield place, PurePath(value).name
        case _:
            yield place, value


def _is_no_limit(section: BaseModel, name: str) -> bool:
    """Return whether a role has no limit, instead of inheriting one."""
    of_role = isinstance(section, RoleConfig) and name in section.model_fields_set
    return of_role and getattr(section, name) is None


def _is_own(place: Place) -> bool:
    return any(
        len(own) <= len(place) and all(a in ("*", b) for a, b in zip(own, place, strict=False))
        for own in OWN
    )


def _mark(key: bytes, place: Place, value: object) -> str:
    told = json.dumps([place, value], default=_plain, sort_keys=True)
    return hmac.digest(key, told.encode(), "sha256").hex()[:_DIGITS]


def _plain(value: object) -> object:
    """Return as JSON what a setting may be beside texts, numbers and lists."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return value.name
        case frozenset():
            return sorted(map(str, value))
        case _:
            raise TypeError(type(value))


S = TypeVar("S", bound=BaseModel)

APPLIED: frozenset[Place] = frozenset(
    {
        ("hosts",),
        ("models",),
        ("timezone",),
        ("scheduling",),
        ("admins",),
        ("roles",),
        ("limits",),
        ("waiting",),
        ("retention", "days"),
        ("retention", "history"),
        ("rooms",),
        ("styles",),
        ("defaults",),
        ("conversation",),
        ("logging",),
        ("chats", "*", "allow"),
        ("chats", "*", "allow_roles"),
    }
)
"""The places whose settings a running bot takes over; `*` stands for any name."""

RESTART: Mapping[Place, str] = {
    ("database",): "everything the bot knows is in it",
    ("retention", "size"): "the file's bound is set as it is opened",
    ("cluster",): "all processes of a cluster must have agreed on it",
    ("chats",): "a chat is signed in to, and its page served, as it is started",
    ("api",): "its programs are connected to what was opened at the start",
    ("metrics",): "it is read where it was opened at the start",
}
"""The other places, and why they need a restart; what `APPLIED` names within them does not."""


def merged(now: Config, new: Config) -> Config:
    """Return what holds after a reload: the new settings where they are applied, else the old."""
    held = _merged(now, new, ())
    return held.with_warnings(new.warnings)


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """Return the paths of the settings that differ, and of the groups that were added or removed."""
    here, there = dict(settings_of(before)), dict(settings_of(after))
    return tuple(_in_words(place, here, there) for place in apart(here, there))


def _in_words(place: Place, here: Mapping[Place, object], there: Mapping[Place, object]) -> str:
    path = ".".join(place)
    if here.get(place) == GROUP:
        return f"{path} (removed)"
    return f"{path} (added)" if there.get(place) == GROUP else path


def _merged(now: S, new: S, place: Place) -> S:
    """Return a group with the new values of what is applied in it."""
    taken: dict[str, object] = {}
    for name, field in type(now).model_fields.items():
        inner = (*place, field.alias or name)
        old_value, new_value = getattr(now, name), getattr(new, name)
        if _is_applied(inner):
            taken[name] = new_value
        elif isinstance(old_value, BaseModel) and type(old_value) is type(new_value):
            taken[name] = _merged(old_value, new_value, inner)
    return now.model_copy(update=taken)


def _is_applied(place: Place) -> bool:
    return any(
        len(applied) <= len(place)
        and all(a in ("*", b) for a, b in zip(applied, place, strict=False))
        for applied in APPLIED
    )
