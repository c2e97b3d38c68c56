"""Attachments on Telegram: listed at once, downloaded only when they are read."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from telegram import Bot, ExternalReplyInfo, Message

from bot.core.attachments import AttachmentKind, kind_of
from bot.core.errors import ChatError, TooLarge
from bot.core.platform import Attachment
from bot.platforms.telegram.errors import chat_errors

DOWNLOAD_MOST = 20_000_000  # bytes; Telegram's limit for bots

# The order matters: an animation is also sent as a document, and a venue as a location.
_KINDS = {
    "animation": AttachmentKind.ANIMATION,
    "video": AttachmentKind.VIDEO,
    "video_note": AttachmentKind.ROUND_VIDEO,
    "voice": AttachmentKind.VOICE,
    "audio": AttachmentKind.AUDIO,
    "sticker": AttachmentKind.STICKER,
    "document": None,  # decided by its file name and type
    "poll": AttachmentKind.POLL,
    "venue": AttachmentKind.PLACE,
    "location": AttachmentKind.PLACE,
    "contact": AttachmentKind.CONTACT,
    "live_photo": AttachmentKind.VIDEO,
    "story": AttachmentKind.OTHER,
    "paid_media": AttachmentKind.OTHER,
    "checklist": AttachmentKind.OTHER,
    "dice": AttachmentKind.OTHER,
    "game": AttachmentKind.OTHER,
    "invoice": AttachmentKind.OTHER,
    "giveaway": AttachmentKind.OTHER,
    "giveaway_winners": AttachmentKind.OTHER,
    "gift": AttachmentKind.OTHER,
    "unique_gift": AttachmentKind.OTHER,
    "rich_message": AttachmentKind.OTHER,  # text in a form that the library cannot read yet
}


def attachments_of(bot: Bot, message: Message) -> Iterator[Attachment]:
    """Yield the attachment of a message and of the message it replies to."""
    own = attachment_of(bot, message)
    if own is not None:
        yield replace(own, part=str(message.message_id) if message.media_group_id else "")
    replied = message.reply_to_message or message.external_reply
    theirs = attachment_of(bot, replied, replied=True) if replied is not None else None
    if theirs is not None and not (_is_ours(bot, replied) and theirs.kind is AttachmentKind.TEXT):
        yield theirs  # the bot's own long answers, sent as files, are left out


def attachment_of(
    bot: Bot, message: Message | ExternalReplyInfo, *, replied: bool = False
) -> Attachment | None:
    """Return a message's attachment, if any. Telegram allows one per message."""
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        read = _reader(bot, largest.file_id, largest.file_size)
        return Attachment(
            kind=AttachmentKind.IMAGE,
            name="",  # a photo has no name, and people would see an invented one
            mime="image/jpeg",
            size=largest.file_size or 0,
            read=read,
            replied=replied,
        )
    for field, kind in _KINDS.items():
        # Some fields exist only on one of the two message types or in newer versions of Telegram.
        carried = getattr(message, field, None) or message.api_kwargs.get(field)
        if carried is not None:
            return _carried(bot, carried, kind, replied=replied)
    return None


def _carried(
    bot: Bot, carried: object, kind: AttachmentKind | None, *, replied: bool
) -> Attachment:
    """Return one of the library's file objects as an attachment.

    Other objects lack the file fields.
    """
    name = getattr(carried, "file_name", None) or ""
    mime = getattr(carried, "mime_type", None) or ""
    size = getattr(carried, "file_size", None)
    return Attachment(
        kind=kind or kind_of(name, mime),
        name=name,
        mime=mime,
        size=size or 0,
        read=_reader(bot, getattr(carried, "file_id", None), size),
        replied=replied,
    )


def _is_ours(bot: Bot, message: Message | ExternalReplyInfo | None) -> bool:
    author = message.from_user if isinstance(message, Message) else None
    return author is not None and author.id == bot.id


def _reader(bot: Bot, file_id: str | None, size: int | None) -> Callable[[], Awaitable[bytes]]:
    """Return a function that downloads a person's file on demand, never beyond the limit."""

    async def read() -> bytes:
        if file_id is None:
            raise ChatError("there is no file to download")
        if (size or 0) > DOWNLOAD_MOST:
            raise TooLarge(f"{size} bytes")
        with chat_errors():
            file = await bot.get_file(file_id)
            if (file.file_size or 0) > DOWNLOAD_MOST:
                raise TooLarge(f"{file.file_size} bytes")
            return bytes(await file.download_as_bytearray())

    return read
