"""What a reload applies, what it names, and that it names everything else."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from bot.config.changes import APPLIED, changed, merged
from bot.config.config import Config
from bot.config.load import ConfigError, parse

CONFIG = """\
hosts:
  home: {vram: 24GB, backends: {stand-in: {kind: demo}}}
models:
  flux: {backends: [stand-in], vram: 12GB}
chats:
  web: {port: 8080}
  telegram: {token: "1234567:AAHabcdefgh"}
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
    ("roles:", "scheduling: {order: fair}\nroles:"): ([], ["scheduling.order"]),
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
    ('gh"}', 'gh", allow: [42]}'): (["chats.telegram.allow"], []),
    ("AAHabcdefgh", "AAHabcdefgi"): ([], ["chats.telegram.token"]),
    ("8080", "8082"): ([], ["chats.web.port"]),
    ("8081", "8083"): ([], ["api.port"]),
    ("api: {port: 8081}\n", ""): ([], ["api (removed)"]),
    ("roles:", "database: other.sqlite\nroles:"): ([], ["database"]),
    ("roles:", "cluster: {lease_s: 3}\nroles:"): ([], ["cluster.lease_s"]),
    ("roles:", "retention: {days: 3}\nroles:"): ([], ["retention.days"]),
    ("  web: {port: 8080}\n", ""): ([], ["chats.web (removed)"]),
}


def read(*changes: tuple[str, str]) -> Config:
    text = CONFIG
    for old, new in changes:
        text = text.replace(old, new, 1)
    return parse(text, {})


@pytest.mark.parametrize(("change", "told"), CHANGES.items(), ids=lambda each: str(each)[:40])
def test_every_change_is_applied_or_needs_a_restart(
    change: tuple[str, str], told: tuple[list[str], list[str]]
) -> None:
    """An operator would believe a change that the bot has not taken."""
    before, after = read(), read(change)
    held = merged(before, after)
    assert (list(changed(before, held)), list(changed(held, after))) == told


@given(st.lists(st.sampled_from(sorted(CHANGES)), unique=True, max_size=5))
def test_what_is_applied_and_what_is_not_make_up_the_new_configuration(
    changes: list[tuple[str, str]],
) -> None:
    """A change could get lost between the two lists."""
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


def _groups(config: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in config.model_fields.items():
        yield (*place, field.alias or name)


def test_all_that_is_applied_exists() -> None:
    """A typing error in the list would leave a setting unapplied."""
    top = set(_groups(Config))
    assert {place[:1] for place in APPLIED} <= top
    limits = set(_groups(Config.model_fields["limits"].annotation or Config, ("limits",)))
    assert {place for place in APPLIED if place[0] == "limits"} <= limits
