"""Calls as people know them from other bots, and incomplete calls.

Each file of `calls/` has what is `typed`, and the answer that is `told`: null if the call is
understood.
"""

from pathlib import Path

from bot.commands.call.context import offered, unknown_command
from bot.commands.call.parser import parse
from bot.commands.registry import COMMANDS
from bot.core.refusals import Declined
from bot.texts.catalogue import plain
from bot.texts.refusals import sentence
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("calls")
OFFERED = offered(COMMANDS, admin=False)
KNOWN = {name: each for each in OFFERED for name in (each.name, *each.aliases)}


def told(typed: str) -> str | None:
    name, _, text = typed.removeprefix("/").partition(" ")
    try:
        if name not in KNOWN:
            raise unknown_command(name, OFFERED)
        parse(KNOWN[name], text, lambda word: word == "flux")
    except Declined as declined:
        return plain(sentence(declined.refusal, "en", name))
    return None


@in_turn("case", CASES)
def test_what_other_bots_call_it_is_answered_with_what_to_type(case: Path) -> None:
    """People who come from another bot would be refused without being told what to type."""
    odd = read_case(case)
    assert told(odd["typed"]) == odd["told"]
