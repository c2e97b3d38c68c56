"""Which messages of a Telegram group are calls, and what they ask.

Each file of `updates/` has a `message` (what it leaves out is `USUAL`) and the `call` that is made
of it: the fields that matter, or null for a message that is meant for people.
"""

from pathlib import Path

from telegram import Bot, Update, User

from bot.core.content import Content
from bot.core.platform import MessageRef
from bot.platforms.telegram.calls import CallReader
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("updates")
USUAL = {
    "message_id": 1,
    "date": 1,
    "chat": {"id": -100700, "type": "supergroup", "title": "Cats"},
    "from": {"id": 7, "is_bot": False, "first_name": "Ada"},
}


async def post(_chat: str, _content: Content, _reply: MessageRef | None) -> MessageRef:
    raise AssertionError


def reader(*, reads_all: bool = False) -> CallReader:
    bot = Bot("999:x")
    bot._bot_user = User(
        id=999,
        first_name="Usher",
        is_bot=True,
        username="usher_bot",
        can_read_all_group_messages=reads_all,
    )
    return CallReader(
        platform="telegram", bot=bot, known={"ask": "ask", "image": "image"}, post=post
    )


@in_turn("case", CASES)
def test_people_in_a_group_are_heard_when_they_call(case: Path) -> None:
    """A bot called by its name would stay silent, or answer when it is not called."""
    odd = read_case(case)
    update = Update.de_json({"update_id": 1, "message": USUAL | odd["message"]}, None)
    call = reader().call_of([update])
    made = call.invocation() if call is not None else None
    if odd["call"] is None or made is None:
        assert made is odd["call"]
        return
    found = {key: getattr(made, key) for key in odd["call"]}
    assert found | ({"files": len(made.files)} if "files" in found else {}) == odd["call"]
