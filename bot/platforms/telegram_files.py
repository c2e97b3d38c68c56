"""Files people send on Telegram: seen at once, downloaded only when they are read."""

from collections.abc import Iterator, Sequence

from telegram import Bot, Message

from bot.platforms.base import Attachment, TooLarge
from bot.platforms.telegram_errors import chat_errors
from bot.text_files import is_text_file

DOWNLOAD_MOST = 20_000_000  # bytes; Telegram gives a bot no more


def pictures_of(bot: Bot, messages: Sequence[Message | None]) -> Iterator[Attachment]:
    """Yield the picture of a message, or else of the one it replies to."""
    for message in messages:
        if message is None:
            continue
        if message.photo:
            largest = max(message.photo, key=lambda size: size.width * size.height)
            yield _attachment(bot, largest.file_id, largest.file_size, "photo.jpg", "image/jpeg")
            return
        document = message.document
        if document is not None and (document.mime_type or "").startswith("image/"):
            mime, name = document.mime_type or "", document.file_name or "picture"
            yield _attachment(bot, document.file_id, document.file_size, name, mime)
            return


def text_file_of(bot: Bot, message: Message | None) -> Attachment | None:
    """Return the text file of a person's message; our own long answers are no new words."""
    author = message.from_user if message is not None else None
    ours = author is not None and author.id == bot.id
    document = message.document if message is not None and not ours else None
    if document is None:
        return None
    name, mime = document.file_name or "text", document.mime_type or ""
    if not is_text_file(name, mime):
        return None
    return _attachment(bot, document.file_id, document.file_size, name, mime)


def _attachment(bot: Bot, file_id: str, size: int | None, name: str, mime: str) -> Attachment:
    """Return a person's file, downloaded only when it is read and never beyond the limit."""

    async def read() -> bytes:
        if (size or 0) > DOWNLOAD_MOST:
            raise TooLarge(f"{size} bytes")
        with chat_errors():
            file = await bot.get_file(file_id)
            if (file.file_size or 0) > DOWNLOAD_MOST:
                raise TooLarge(f"{file.file_size} bytes")
            return bytes(await file.download_as_bytearray())

    return Attachment(name=name, mime=mime, size=size or 0, read=read)
