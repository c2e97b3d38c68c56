"""Settings as people write them, which are compared with something later.

Each file of `configs/` has `settings` to add to a small configuration, and either the message if
they are `refused` or `warned` about, or how they are to be `reads`: the values by their places.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.config.loader import Config, ConfigError, parse
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("configs")
SMALL: dict[str, Any] = {
    "hosts": {"home": {"vram": "24GB", "backends": {"stand-in": {"kind": "demo"}}}},
    "chats": {"web": {"port": 0}},
}


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: merged(one[key], other[key])
        for key in one.keys() & other.keys()
        if _two(one, other, key)
    }
    return {**one, **other, **both}


def _two(one: dict[str, Any], other: dict[str, Any], key: str) -> bool:
    return isinstance(one[key], dict) and isinstance(other[key], dict)


def read(odd: dict[str, Any]) -> Config:
    return parse(json.dumps(merged(SMALL, odd["settings"]), ensure_ascii=False), {})


def at(config: Config, place: str) -> Any:
    """Return a setting. Chats' ids contain no dot, so a place is split at its dots."""
    found: Any = config
    for part in place.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return list(found) if isinstance(found, tuple) else found


@in_turn("case", CASES)
def test_what_would_match_nothing_is_refused_or_read_as_meant(case: Path) -> None:
    """The check would say that everything works, and nobody would be let in."""
    odd = read_case(case)
    if "refused" in odd:
        with pytest.raises(ConfigError) as caught:
            read(odd)
        assert len(caught.value.problems) == 1, caught.value.problems
        assert odd["refused"] in caught.value.problems[0]
        return
    config = read(odd)
    assert [odd.get("warned", "\n") in each for each in config.warnings if "warned" in odd] == (
        [True] if "warned" in odd else []
    )
    assert {place: at(config, place) for place in odd.get("reads", {})} == odd.get("reads", {})
