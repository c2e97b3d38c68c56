"""Proxies as desktops, companies and containers set them, and what uses them.

Each file of `proxies/` has an `environ`, perhaps the setting `proxy`, and what it `reaches`: the
proxy of each address, null for none. It also has what is `warned` about, or the message if the
setting is `refused`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.cli.findings import about_proxies
from bot.config.loader import Config, ConfigError, parse
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("proxies")
SMALL: dict[str, Any] = {
    "hosts": {"home": {"vram": "24GB", "backends": {"stand-in": {"kind": "demo"}}}},
    "chats": {"telegram": {"token": "${TOKEN}"}},
}
TOKEN = "1234567890:AAEhBP0av28fGh5nB3kdjYtQwErTyUiOpLk"


def read(odd: dict[str, Any]) -> Config:
    settings = SMALL | ({"proxy": odd["proxy"]} if "proxy" in odd else {})
    return parse(json.dumps(settings), {"TOKEN": TOKEN, **odd.get("environ", {})})


@in_turn("case", CASES)
def test_one_rule_says_what_goes_through_a_proxy(case: Path) -> None:
    """A bot would not start on a desktop, or ask a company's proxy for the GPU beside it."""
    odd = read_case(case)
    if "refused" in odd:
        with pytest.raises(ConfigError) as caught:
            read(odd)
        assert [odd["refused"] in each for each in caught.value.problems] == [True]
        return
    config = read(odd)
    assert {url: config.proxies.to(url) for url in odd["reaches"]} == odd["reaches"]
    assert [odd.get("warned", "\n") in each for each in config.warnings] == (
        [True] if "warned" in odd else []
    )
    assert not any("geheim" in each for each in config.warnings)


def test_the_check_names_the_proxy_and_what_it_is_used_for() -> None:
    """Nobody would know that an environment variable decides how the bot connects."""
    config = read({"proxy": "http://ada:geheim@squid.example:3128"})
    assert [(each.what, each.name, each.text) for each in about_proxies(config)] == [
        ("proxy", "http://squid.example:3128", "used for telegram")
    ]
    assert "geheim" in config.secrets()
    near = read({"environ": {"HTTP_PROXY": "http://squid.example:3128"}})
    assert list(about_proxies(near)) == []
