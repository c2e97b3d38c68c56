"""The bot's own name in what people write, found by Telegram's marks. Pure functions.

Telegram marks a name ("@usher_bot") and a person picked from its list without one. The marks
("entities") count UTF-16 units. Code has no such marks, so a name in code calls nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import Message, MessageEntity, User

from bot.core.addressing import without_name
from bot.core.content import utf16_length

_QUOTES = {MessageEntity.BLOCKQUOTE, MessageEntity.EXPANDABLE_BLOCKQUOTE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """A message's text without the bot's name. `named` says whether the name was there."""

    text: str
    entities: tuple[MessageEntity, ...]
    named: bool


def heard(message: Message, me: User) -> Heard:
    """Return the text or caption as the bot hears it.

    A name in forwarded words calls nobody: whoever forwards them did not write them.
    """
    text = message.text or message.caption or ""
    entities = tuple(message.entities or message.caption_entities)
    if message.forward_origin is not None:
        return Heard(text=text, entities=entities, named=False)
    return unnamed(text, entities, me)


def unnamed(text: str, entities: Sequence[MessageEntity], me: User) -> Heard:
    """Return a text without the bot's name, with the marks of what is left.

    A name in a quotation does not count, because somebody else wrote it.
    """
    quotes = [each for each in entities if each.type in _QUOTES]
    found = [
        each
        for each in entities
        if _means(each, text, me) and not any(_contains(quote, each) for quote in quotes)
    ]
    mine = tuple(sorted(found, key=lambda each: each.offset))
    left = tuple(each for each in entities if each not in mine)
    while mine:
        mark, *later = mine
        shorter = _cut(text, mark, me)
        by = utf16_length(text) - utf16_length(shorter)
        left, mine = _moved(left, mark, by), _moved(later, mark, by)
        text = shorter
    return Heard(text=text, entities=left, named=bool(found))


def names_another(words: Heard) -> bool:
    """Return whether a text begins with the name of somebody else."""
    calls = {MessageEntity.MENTION, MessageEntity.TEXT_MENTION}
    begins = any(each.type in calls and each.offset == 0 for each in words.entities)
    return begins and not words.named


def _means(mark: MessageEntity, text: str, me: User) -> bool:
    match mark.type:
        case MessageEntity.TEXT_MENTION:
            return mark.user is not None and mark.user.id == me.id
        case MessageEntity.MENTION if me.username:
            name = text[_index(text, mark.offset) : _index(text, mark.offset + mark.length)]
            return name.casefold() == f"@{me.username}".casefold()
        case _:
            return False


def _contains(mark: MessageEntity, other: MessageEntity) -> bool:
    return mark.offset <= other.offset < mark.offset + mark.length


def _cut(text: str, mark: MessageEntity, me: User) -> str:
    """Return the text without the marked name, or with the bot's plain name in its place."""
    start, end = _index(text, mark.offset), _index(text, mark.offset + mark.length)
    name = me.first_name if mark.type == MessageEntity.MENTION else text[start:end]
    return without_name(text[:start], text[end:], name)


def _moved(
    marks: Sequence[MessageEntity], gone: MessageEntity, by: int
) -> tuple[MessageEntity, ...]:
    """Return the marks after a cut of `by` units around the one that is gone."""
    moved = []
    for mark in marks:
        offset, length = mark.offset, mark.length
        if offset >= gone.offset + gone.length:
            offset = max(0, offset - by)
        elif offset + length >= gone.offset + gone.length:
            length -= by
        if length > 0:
            place = {"offset": offset, "length": length}
            moved.append(MessageEntity.de_json({**mark.to_dict(), **place}, None))
    return tuple(moved)


def _index(text: str, unit: int) -> int:
    """Return the place in a text that so many UTF-16 units lie before."""
    before = text.encode("utf-16-le", "surrogatepass")[: max(0, unit) * 2]
    return len(before.decode("utf-16-le", "replace"))
