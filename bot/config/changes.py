"""What a reload may change while the bot runs, and how two configurations differ in that. Pure.

A setting is applied only if it is listed here. Every other difference needs a restart and is named;
why it does is listed as well, so that no setting that is added later can be forgotten.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from bot.config.config import Config
from bot.config.differences import GROUP, Place, apart, settings_of

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
