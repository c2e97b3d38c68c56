"""Files people attach on Discord: seen at once, downloaded only when they are read."""

from collections.abc import Sequence

import aiohttp
import discord

from bot.platforms.base import Attachment, ChatUnavailable, TooLarge
from bot.platforms.discord_errors import chat_errors
from bot.text_files import is_text_file

DOWNLOAD_TIMEOUT_S = 60.0


def pictures_of(message: discord.Message | None) -> Sequence[discord.Attachment]:
    """Return the pictures attached to a message."""
    attached = message.attachments if message is not None else ()
    return [file for file in attached if (file.content_type or "").startswith("image/")]


def text_files_of(message: discord.Message | None) -> Sequence[discord.Attachment]:
    """Return the text files attached to a message."""
    attached = message.attachments if message is not None else ()
    return [file for file in attached if is_text_file(file.filename, file.content_type or "")]


def attachment_of(file: discord.Attachment, limit: int) -> Attachment:
    """Return a person's file, downloaded only when it is read and never beyond `limit` bytes."""

    async def read() -> bytes:
        if file.size > limit:
            raise TooLarge(f"{file.size} bytes")
        return await _download(file.url, limit)

    mime = (file.content_type or "application/octet-stream").partition(";")[0].strip()
    return Attachment(name=file.filename, mime=mime, size=file.size, read=read)


async def _download(url: str, limit: int) -> bytes:
    """Fetch a file from the address Discord signed for us; no other address is ever fetched."""
    timeout = aiohttp.ClientTimeout(total=DOWNLOAD_TIMEOUT_S)
    with chat_errors():
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ChatUnavailable(f"the attachment's address answered {answer.status}")
            data = bytearray()
            async for piece in answer.content.iter_chunked(65536):
                data += piece
                if len(data) > limit:
                    raise TooLarge(f"more than {limit} bytes")
            return bytes(data)
