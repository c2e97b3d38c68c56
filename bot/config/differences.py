"""Compares configurations: what processes must share, and what a reload may change. Pure.

Each setting that is not at its default becomes a mark. Versions therefore agree about a setting
that only one of them knows until it is used. A mark is a keyed digest and short on purpose: it
reveals a difference but cannot be used to test guesses of a token.
"""

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TypeVar

from pydantic import BaseModel, SecretStr

from bot.config.config import Config
from bot.config.reading.values import WorkflowFile
from bot.config.sections import WORKFLOWS, OwnLimitsConfig

OWN: Sequence[tuple[str, ...]] = (
    ("database",),
    ("hosts", "*", "gpu"),
    ("proxy",),
    ("chats", "web", "host"),
    ("chats", "web", "port"),
    ("api", "host"),
    ("api", "port"),
    ("cluster", "listen"),
    ("cluster", "advertise"),
    ("logging",),
    ("metrics",),
)
"""The settings that may differ between processes, because their values differ between machines."""

_ORDERED = {("models",)}  # order matters: by default the first suitable one is used
_DIGITS = 4
GROUP = "group"
_NAMED = 3  # differences named in a sentence

Place = tuple[str, ...]
"""The path of a setting, such as `("models", "flux", "vram")`."""
Marks = Mapping[Place, str]


def marks(config: Config, key: bytes) -> Marks:
    """Return the marks of a configuration. Only marks with the same key can be compared."""
    return {
        place: _mark(key, place, value)
        for place, value in _of_group(config, ())
        if not _is_own(place)
    }


def settings_of(config: Config) -> Iterator[tuple[Place, object]]:
    """Yield every setting that is not at its default, and every optional group."""
    yield from _of_group(config, ())


def differences(here: Marks, there: Marks) -> tuple[str, ...]:
    """Return a phrase for each setting that differs, with its path; empty if there are none."""
    found = []
    for place in apart(here, there):
        path = ".".join(place)
        if place in here and place in there:
            found.append(f"{path} differs")
        else:
            found.append(f"{path} is only {'here' if place in here else 'there'}")
    return tuple(found)


def apart(here: Mapping[Place, object], there: Mapping[Place, object]) -> Iterator[Place]:
    """Yield where two configurations differ: a setting, or the outermost group only one has."""
    places = [
        place
        for place in sorted({*here, *there})
        if (place in here) is not (place in there) or here[place] != there[place]
    ]
    one_sided = {place for place in places if (place in here) is not (place in there)}
    for place in places:
        held = any(_holds(group, place) for group in one_sided)
        # The order of models is a setting, and it also differs if a model was added or removed.
        holds = place not in one_sided and any(_holds(place, inner) for inner in places)
        if not held and not holds:
            yield place


def _holds(group: Place, place: Place) -> bool:
    return len(group) < len(place) and place[: len(group)] == group


def in_words(found: Sequence[str]) -> str:
    """Return the first differences as part of a sentence."""
    more = len(found) - _NAMED
    rest = [f"{more} more"] if more > 0 else []
    *others, last = [*found[:_NAMED], *rest]
    return f"{', '.join(others)} and {last}" if others else last


def _of_group(section: BaseModel, place: Place) -> Iterator[tuple[Place, object]]:
    """Yield the settings of a group that are not at their default."""
    for name, field in type(section).model_fields.items():
        value, usual = getattr(section, name), field.get_default(call_default_factory=True)
        if value != usual or _is_no_limit(section, name):
            yield from _settings(value, (*place, field.alias or name), usual)
    for name, value in (section.__pydantic_extra__ or {}).items():
        yield from _settings(value, (*place, name))


def _settings(value: object, place: Place, usual: object = None) -> Iterator[tuple[Place, object]]:
    """Yield a setting, or a group and everything in it.

    A mandatory group is not a difference.
    """
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
        case tuple() if value and isinstance(value[0], BaseModel):
            yield place, list(map(_as_written, value))
        case WorkflowFile():  # the file's path differs between machines
            yield place, [PurePath(value).name, value.digest]
        case str() if place[-1] in WORKFLOWS:
            yield place, PurePath(value).name
        case _:
            yield place, value


def _as_written(section: BaseModel) -> Mapping[str, object]:
    return section.model_dump(mode="json", exclude_unset=True)


def _is_no_limit(section: BaseModel, name: str) -> bool:
    """Return whether a role explicitly has no limit, instead of inheriting one."""
    of_role = isinstance(section, OwnLimitsConfig) and name in section.model_fields_set
    return of_role and getattr(section, name) is None


def _is_own(place: Place) -> bool:
    return any(
        len(own) <= len(place) and all(a in ("*", b) for a, b in zip(own, place, strict=False))
        for own in OWN
    )


def _mark(key: bytes, place: Place, value: object) -> str:
    written = json.dumps([place, value], default=_plain, sort_keys=True)
    return hmac.digest(key, written.encode(), "sha256").hex()[:_DIGITS]


def _plain(value: object) -> object:
    """Return a setting that is not a text, number or list in a form that JSON can hold."""
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
        ("rules",),
        ("styles",),
        ("defaults",),
        ("conversation",),
        ("logging",),
        ("chats", "*", "allow"),
        ("chats", "*", "allow_roles"),
    }
)
"""The settings that a reload applies to a running bot; `*` stands for any name."""

RESTART: Mapping[Place, str] = {
    ("proxy",): "connections are opened through it",
    ("database",): "it contains the bot's entire state",
    ("retention", "size"): "its limit is set when the file is opened",
    ("cluster",): "all processes of a cluster must agree on it",
    ("chats",): "a chat signs in, and its page is served, only at the start",
    ("api",): "it is opened only at the start",
    ("metrics",): "they are served from the address opened at the start",
}
"""The other settings, and why they need a restart.

`APPLIED` overrides them for its own paths.
"""


def merged(now: Config, new: Config) -> Config:
    """Return the configuration after a reload, with the new settings that can be applied."""
    held = _merged(now, new, ())
    return held.with_warnings(new.warnings)


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """Return the paths of settings that differ, and of groups that were added or removed."""
    here, there = dict(settings_of(before)), dict(settings_of(after))
    return tuple(_in_words(place, here, there) for place in apart(here, there))


def _in_words(place: Place, here: Mapping[Place, object], there: Mapping[Place, object]) -> str:
    path = ".".join(place)
    if here.get(place) == GROUP:
        return f"{path} (removed)"
    return f"{path} (added)" if there.get(place) == GROUP else path


def _merged(now: S, new: S, place: Place) -> S:
    """Return a group with the new values of the settings that a reload applies."""
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
