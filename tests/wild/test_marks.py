"""How models read the formatting that Telegram stores beside a text.

Each file of `marks/` has a `text`, its `entities` and how they are `written` for a model.
"""

from pathlib import Path

from telegram import MessageEntity

from bot.platforms.telegram.text.marks import written
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("marks")


@in_turn("case", CASES)
def test_models_read_what_people_see(case: Path) -> None:
    """The address behind a word would be lost, or code reach a model without its line breaks."""
    odd = read_case(case)
    marks = MessageEntity.de_list(odd["entities"], None)
    assert written(odd["text"], marks) == odd["written"]
