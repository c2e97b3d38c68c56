"""New kinds of servers and new chats are tested by the suites that extending.md names."""

import tomllib
from pathlib import Path

from backends.images.backend import IMAGE_FLAVOURS
from backends.openai.flavours.server import FLAVOURS
from backends.registry import KINDS
from bot.platforms.registry import PLATFORMS
from tests.contracts.backend.test_backend import HARNESSES
from tests.contracts.chat.chat_harness import STAGES

ROOT = Path(__file__).parents[1]


def test_every_kind_of_server_is_run_through_the_contract_suite() -> None:
    """A new kind could break promises that the queue relies on."""
    tried = {name.split("-")[0] for name in HARNESSES} | {"openai"}  # flavour by flavour: see below
    untried = sorted(KINDS.keys() - tried)
    assert untried == [], "each needs a tests/contracts/backend/harness_<kind>.py"


def test_every_flavour_is_run_through_the_contract_suite() -> None:
    """A new flavour could be detected, load or unload in a way that its server does not know."""
    flavours = [*FLAVOURS, *(f"images-{name}" for name in IMAGE_FLAVOURS)]
    untried = [each for each in flavours if not any(_is_of(each, name) for name in HARNESSES)]
    assert untried == [], "each needs a fake: add it to a `KINDS` in tests/fakes"


def _is_of(flavour: str, harness: str) -> bool:
    return harness == flavour or harness.startswith(f"{flavour}-")


def test_every_chat_is_run_through_the_contract_suite() -> None:
    """A new chat could lose calls or results."""
    untried = sorted(PLATFORMS.keys() - STAGES.keys())
    assert untried == [], "each needs a line in `STAGES` of tests/contracts/chat/chat_harness.py"


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
