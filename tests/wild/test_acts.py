"""Which messages on Telegram are one request, and what it says.

Each file of `acts/` has `messages` of one person (what they leave out is `USUAL`; `at` is when each
arrives, in seconds) and the `calls` that they become, in order: the fields that matter, with the
number of files and each forwarded text as its source and words. `group` moves them to a group;
`all` is whether the bot receives all messages there.
"""

from pathlib import Path
from typing import Any

from telegram import Update

from tests.fakes.telegram.polled_updates import PolledUpdates
from tests.samples import in_turn
from tests.simulation.loop import run
from tests.wild.cases import cases, read_case
from tests.wild.test_updates import USUAL as IN_A_GROUP
from tests.wild.test_updates import reader

CASES = cases("acts")
PRIVATE = {"chat": {"id": 7, "type": "private", "first_name": "Ada"}}
LONG_S = 30.0


def updates_of(odd: dict[str, Any]) -> list[tuple[float, Update]]:
    usual = IN_A_GROUP if odd.get("group") else IN_A_GROUP | PRIVATE
    coming = []
    for number, given in enumerate(odd["messages"], 1):
        long = {"text": given["text"] * given.pop("times")} if "times" in given else {}
        message = usual | {"message_id": number} | given | long
        update = Update.de_json({"update_id": number, "message": message}, None)
        assert update is not None
        coming.append((given.get("at", 0.0), update))
    return coming


def told(invocation: Any, fields: dict[str, Any]) -> dict[str, Any]:
    found = {key: getattr(invocation, key) for key in fields if key != "length"}
    if "forwarded" in found:
        found["forwarded"] = [[each.by, each.text] for each in invocation.forwarded]
    if "files" in found:
        found["files"] = len(invocation.files)
    return found | ({"length": len(invocation.text)} if "length" in fields else {})


@in_turn("case", CASES)
def test_what_people_do_at_once_is_one_request(case: Path) -> None:
    """One act of a person would get several answers, the first of them without its topic."""
    odd = read_case(case)
    coming = updates_of(odd)
    polled = PolledUpdates(coming)
    run(polled.live(LONG_S, in_groups=odd.get("all", False)))
    by_id = {update.update_id: update for _, update in coming}
    acts = [[by_id[number] for number in served] for served in sorted(polled.served)]
    read = reader(reads_all=odd.get("all", False))
    calls = [call.invocation() for each in acts if (call := read.call_of(each))]
    assert len(calls) == len(odd["calls"])
    assert [told(*each) for each in zip(calls, odd["calls"], strict=True)] == odd["calls"]
