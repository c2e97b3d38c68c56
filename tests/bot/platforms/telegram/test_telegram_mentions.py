"""The bot's name is removed from a text without damage to the rest."""

from hypothesis import given
from hypothesis import strategies as st
from telegram import MessageEntity, User

from bot.core.content import utf16_length
from bot.platforms.telegram.text.mentions import unnamed

ME = User(id=999, first_name="Usher", is_bot=True, username="usher_bot")
NAME = "@usher_bot"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=","), max_size=20)


def mark(kind: str, before: str, marked: str) -> MessageEntity:
    return MessageEntity(type=kind, offset=utf16_length(before), length=utf16_length(marked))


@given(before=TEXTS, between=TEXTS, after=TEXTS)
def test_other_marks_stay_on_their_words(before: str, between: str, after: str) -> None:
    """A command or a link after the name would be cut in the wrong place."""
    lead = f"{before} {NAME} x{between}"
    text = f"{lead}cat🐈{after}"
    entities = (mark("mention", f"{before} ", NAME), mark("code", lead, "cat🐈"))
    left = unnamed(text, entities, ME)
    assert left.named
    assert NAME not in left.text or NAME in before + between + after
    assert left.entities[0].offset == utf16_length(left.text[: -len(f"cat🐈{after}")])
    assert left.text.endswith(f"x{between}cat🐈{after}")


@given(text=TEXTS, offset=st.integers(-5, 50), length=st.integers(-5, 50))
def test_marks_that_fit_no_text_are_passed_over(text: str, offset: int, length: int) -> None:
    """One strange update would come again forever."""
    strange = [MessageEntity(type=kind, offset=offset, length=length) for kind in ("mention", "b")]
    assert unnamed(text, strange, ME).text == text
