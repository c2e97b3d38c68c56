"""New kinds of servers and new chats go through the suites that extending.md names."""

import tomllib
from pathlib import Path

from backends.openai.backend import FLAVOURS
from backends.registry import KINDS
from bot.platforms.registry import PLATFORMS
from tests.contracts.backend.test_backend import HARNESSES
from tests.contracts.chat.chat_harness import STAGES

ROOT = Path(__file__).parents[1]


def test_every_kind_of_server_is_run_through_the_contract_suite() -> None:
    """A new kind could break promises that the queue relies on."""
    tried = {name.split("-")[0] for name in HARNESSES}
    if tried & FLAVOURS.keys():  # its servers are tried one by one
        tried.add("openai")
    assert KINDS.keys() <= tried


def test_every_chat_is_run_through_the_contract_suite() -> None:
    """A new chat could lose calls or results."""
    assert PLATFORMS.keys() <= STAGES.keys()


def test_no_chat_may_import_another() -> None:
    """A new chat would be missing from the import rule."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    independent = {
        module
        for contract in rules["importlinter"]["contracts"]
        if contract["type"] == "independence"
        for module in contract["modules"]
    }
    assert "bot.platforms.*" in independent
