"""Who wrote a Telegram message, a quotation or what is forwarded. Pure functions."""

from telegram import (
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    User,
)

from bot.platforms.telegram.text.marks import Reader


def id_of(user: User | None) -> int | None:
    """Return a person's id, if there is a person."""
    return user.id if user else None


def author_of(message: Message) -> tuple[str, str]:
    """Return the id and name of a message's author.

    People who write in the name of a group or channel share one of Telegram's ids (1087968824,
    136817688, 777000). Such an id carries no rights. The anonymous people of each chat count as one
    separate owner.
    """
    if message.sender_chat is not None or message.from_user is None:
        chat = message.sender_chat or message.chat
        return f"anonymous{message.chat.id}", chat.effective_name or "anonymous"
    return str(message.from_user.id), message.from_user.full_name


def source_of(origin: MessageOrigin) -> str:
    """Return the name of the person, group or channel that wrote a forwarded message."""
    match origin:
        case MessageOriginUser():
            return origin.sender_user.full_name
        case MessageOriginHiddenUser():
            return origin.sender_user_name
        case MessageOriginChat():
            return origin.sender_chat.effective_name or ""
        case MessageOriginChannel():
            return origin.chat.effective_name or ""
        case _:  # a kind that the library does not know yet
            return ""


def quoted(message: Message, read: Reader) -> str:
    """Return the text a message replies to: the part the person selected, otherwise all of it."""
    if message.quote is not None:
        return read(message.quote.text, message.quote.entities or ())
    replied = message.reply_to_message
    if replied is None:
        return ""
    return read(replied.text or replied.caption or "", replied.entities or replied.caption_entities)


def quoted_by(message: Message) -> str:
    """Return who wrote what a message replies to; for something forwarded, its source."""
    replied, elsewhere = message.reply_to_message, message.external_reply
    if replied is None:
        return source_of(elsewhere.origin) if elsewhere is not None else ""
    origin = replied.forward_origin
    return (source_of(origin) if origin is not None else "") or author_of(replied)[1]
