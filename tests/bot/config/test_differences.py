"""What a reload applies, what it reports as not applied, and that nothing is left out."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from bot.config.config import Config
from bot.config.differences import APPLIED, RESTART, Place, changed, merged
from bot.config.loader import ConfigError, parse

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"
G = TypeVar("G", bound=BaseModel)

CONFIG = """\
hosts:
  home: {vram: 24GB, backends: {stand-in: {kind: demo}}}
models:
  flux: {backends: [stand-in], vram: 12GB}
chats:
  web: {port: 8080}
  telegram: {token: "1234567:AAHabcdefgh-and-as-many-signs-again"}
api: {port: 8081}
roles: {patrons: {lane: vip}}
limits: {per_hour: 5}
"""

CHANGES: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("12GB", "8GB"): (["models.flux.vram"], []),
    ("  flux:", "  sdxl: {backends: [stand-in]}\n  flux:"): (["models.sdxl (added)"], []),
    ("chats:", "  sd3: {backends: [stand-in]}\nchats:"): (["models.sd3 (added)"], []),
    ("24GB", "16GB"): (["hosts.home.vram"], []),
    ("{kind: demo}", "{kind: demo}, more: {kind: demo}"): (
        ["hosts.home.backends.more (added)"],
        [],
    ),
    ("roles:", "scheduling: {gate: false}\nroles:"): (["scheduling.gate"], []),
    ("roles:", "scheduling: {order: fair}\nroles:"): (["scheduling.order"], []),
    ("roles:", "waiting: {chat: 1h}\nroles:"): (["waiting.chat"], []),
    ("per_hour: 5", "per_hour: 5, files_per_hour: 2GB"): (["limits.files_per_hour"], []),
    ("roles:", "timezone: Europe/Berlin\nroles:"): (["timezone"], []),
    ("24GB", "24GB, wake: {mac: 001a2b3c4d5e}"): (["hosts.home.wake (added)"], []),
    ("per_hour: 5", "per_hour: 6"): (["limits.per_hour"], []),
    ("limits: {per_hour: 5}\n", ""): (["limits.per_hour"], []),
    ("roles:", "admins: ['web:local']\nroles:"): (["admins"], []),
    ("lane: vip", "per_hour: none"): (
        ["roles.patrons.lane", "roles.patrons.per_hour"],
        [],
    ),
    ("roles:", "rooms: {'*': {spoiler: true}}\nroles:"): (["rooms.* (added)"], []),
    ("roles:", "styles: {noir: {prompt: '{prompt}, noir'}}\nroles:"): (
        ["styles.noir (added)"],
        [],
    ),
    ("roles:", "defaults: {image: flux}\nroles:"): (["defaults.image"], []),
    ("roles:", "conversation: {idle: 5min}\nroles:"): (["conversation.idle"], []),
    ("roles:", "logging: {level: debug}\nroles:"): (["logging.level"], []),
    ('again"}', 'again", allow: [42]}'): (["chats.telegram.allow"], []),
    ("AAHabcdefgh", "AAHabcdefgi"): ([], ["chats.telegram.token"]),
    ("8080", "8082"): ([], ["chats.web.port"]),
    ("8081", "8083"): ([], ["api.port"]),
    ("api: {port: 8081}\n", ""): ([], ["api (removed)"]),
    ("roles:", "database: other.sqlite\nroles:"): ([], ["database"]),
    ("roles:", "cluster: {lease_s: 3}\nroles:"): ([], ["cluster.lease_s"]),
    ("roles:", "retention: {days: 3, size: 3GB}\nroles:"): (
        ["retention.days"],
        ["retention.size"],
    ),
    ("  web: {port: 8080}\n", ""): ([], ["chats.web (removed)"]),
}


def read(*changes: tuple[str, str]) -> Config:
    text = CONFIG
    for old, new in changes:
        text = text.replace(old, new, 1)
    return parse(text, {})


def test_every_change_is_applied_or_needs_a_restart() -> None:
    """An operator would rely on a change that the bot has not made."""
    before = read()
    for change, told in CHANGES.items():
        after = read(change)
        held = merged(before, after)
        assert (list(changed(before, held)), list(changed(held, after))) == told, change


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(CHANGES)), unique=True, max_size=5))
def test_what_is_applied_and_what_is_not_make_up_the_new_configuration(
    changes: list[tuple[str, str]],
) -> None:
    """A change could be lost between the two lists."""
    try:
        before, after = read(), read(*changes)
    except ConfigError:  # two of them give one section twice
        reject()
    held = merged(before, after)
    told = changed(before, held) + changed(held, after)
    assert bool(told) == (before != after)
    assert merged(held, after) == held
    assert changed(held, held) == ()
    assert merged(after, before) == merged(after, merged(held, before))


def _below(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the groups of settings that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _below(inner)


def _places(group: type[BaseModel], place: Place = ()) -> Iterator[Place]:
    """Yield the path of every setting there is; `*` stands for any name."""
    for name, field in group.model_fields.items():
        inner = (*place, field.alias or name)
        groups = list(_below(field.annotation))
        named = ("*",) if groups and _is_mapping(field.annotation) else ()
        for each in groups:
            yield from _places(each, (*inner, *named))
        if not groups:
            yield inner


def _is_mapping(annotation: Any) -> bool:
    inner = (get_origin(each) for each in (annotation, *get_args(annotation)))
    return any(isinstance(each, type) and issubclass(each, Mapping) for each in inner)


PLACES = sorted(set(_places(Config)))


def _covers(listed: Place, place: Place) -> bool:
    pairs = zip(listed, place, strict=False)
    return len(listed) <= len(place) and all(a in ("*", b) for a, b in pairs)


def test_every_setting_is_applied_or_has_a_reason_not_to_be() -> None:
    """A setting that is added later would be ignored by a reload, or need a restart in vain."""
    listed = (*APPLIED, *RESTART)
    assert [at for at in PLACES if not any(_covers(each, at) for each in listed)] == []


def test_all_that_is_listed_exists() -> None:
    """A typing error in a list would leave a setting unapplied, or unexplained."""
    for listed in (*APPLIED, *RESTART):
        assert any(_covers(listed, place) for place in PLACES), listed
    for listed in RESTART:
        left = [place for place in PLACES if _covers(listed, place)]
        assert any(not any(_covers(each, place) for each in APPLIED) for place in left), listed


@cache
def example() -> Config:
    """Return a configuration in which every setting has a value."""
    text = EXAMPLE.read_text(encoding="utf-8")
    values = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "1234567:Zk4pX91mQv7s")
    values["DISCORD_TOKEN"] = "MTk4NjIyNDgz.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7k"
    return parse(text, values, folder=EXAMPLE.parent)


def _leaves(group: BaseModel, place: Place = ()) -> Iterator[Place]:
    """Yield the path of every setting that has a value in a configuration, with its names."""
    for name, field in type(group).model_fields.items():
        inner, value = (*place, field.alias or name), getattr(group, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, inner)
        elif isinstance(value, Mapping) and any(map(_is_group, value.values())):
            for key, each in value.items():
                yield from _leaves(each, (*inner, key))
        else:
            yield inner


def _is_group(value: object) -> bool:
    return isinstance(value, BaseModel)


def _with(group: G, place: Place, value: object) -> G:
    """Return a group with another value at a path, whatever the setting would accept."""
    first, *rest = place
    name = next(
        name for name, field in type(group).model_fields.items() if first in (name, field.alias)
    )
    held: Any = getattr(group, name)
    if isinstance(held, Mapping) and rest:
        key, *rest = rest
        inner: Any = {**held, key: _with(held[key], tuple(rest), value)}
    else:
        inner = _with(held, tuple(rest), value) if rest else value
    return group.model_copy(update={name: inner})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_setting_is_ignored_silently(data: st.DataObject) -> None:
    """An operator would rely on a change that the bot has not made."""
    before = example()
    place = data.draw(st.sampled_from(sorted(_leaves(before))))
    after = _with(before, place, "another value")
    held = merged(before, after)
    applied = any(_covers(each, place) for each in APPLIED)
    path = ".".join(place)
    assert changed(before, held) == ((path,) if applied else ())
    assert changed(held, after) == (() if applied else (path,))
