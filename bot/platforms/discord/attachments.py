"""Attachments on Discord: listed at once, downloaded only when they are read."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import aiohttp
import discord

from bot.core.attachments import AttachmentKind, kind_of
from bot.core.errors import ChatError, ChatUnavailable, TooLarge
from bot.core.platform import Attachment
from bot.platforms.discord.components.layouts import media_in
from bot.platforms.discord.errors import chat_errors
from bot.platforms.discord.forwards import said_in

DOWNLOAD_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Downloads:
    """How files are downloaded: at most `limit` bytes of each, and through which proxy."""

    limit: int
    proxy: str | None = None


def attachments_of(
    message: discord.Message, how: Downloads, *, replied: bool = False
) -> Iterator[Attachment]:
    """Yield the attachments of a message and of the messages forwarded with it."""
    voice = message.flags.voice
    for file in message.attachments:
        yield attachment_of(file, how, replied=replied, voice=voice)
    yield from _in_layout(message, how, replied=replied)
    for snapshot in message.message_snapshots:
        for file in snapshot.attachments:
            yield attachment_of(file, how, replied=replied, voice=snapshot.flags.voice)
        yield from _in_layout(snapshot, how, replied=replied)
    stickers = [*message.stickers, *_stickers_of(message)]
    for sticker in stickers:
        yield _placeholder(AttachmentKind.STICKER, sticker.name, replied=replied)
    if message.poll is not None:
        yield _placeholder(AttachmentKind.POLL, "", replied=replied)
    if message.activity is not None or any(map(_is_only_shown, message.message_snapshots)):
        yield _placeholder(AttachmentKind.OTHER, "", replied=replied)


def of_reply(message: discord.Message, how: Downloads, *, ours: bool) -> Iterator[Attachment]:
    """Yield the attachments of a message that is replied to or whose menu was opened.

    Leaves out text files by the bot, which are its own long answers.
    """
    for file in attachments_of(message, how, replied=True):
        if not (ours and file.kind is AttachmentKind.TEXT):
            yield file


def unseen() -> Attachment:
    """Return a placeholder for a message that Discord withholds, so that answers can mention it."""
    return _placeholder(AttachmentKind.UNSEEN, "", replied=True)


def withheld() -> Attachment:
    """Return a placeholder for the words of a call that Discord withholds."""
    return _placeholder(AttachmentKind.WITHHELD, "", replied=False)


def attachment_of(
    file: discord.Attachment, how: Downloads, *, replied: bool = False, voice: bool = False
) -> Attachment:
    """Return a person's file. It is downloaded only when read, and never beyond the limit."""

    async def read() -> bytes:
        if file.size > how.limit:
            raise TooLarge(f"{file.size} bytes")
        return await _download(file.url, how)

    mime = (file.content_type or "application/octet-stream").partition(";")[0].strip()
    return Attachment(
        kind=AttachmentKind.VOICE if voice else kind_of(file.filename, file.content_type or ""),
        name=file.filename,
        mime=mime,
        size=file.size,
        read=read,
        replied=replied,
    )


def _in_layout(
    message: discord.Message | discord.MessageSnapshot, how: Downloads, *, replied: bool
) -> Iterator[Attachment]:
    """Yield the files in a layout. Discord does not tell their sizes."""
    for media in media_in(message):
        name = PurePosixPath(unquote(urlsplit(media.url).path)).name
        mime = media.content_type or ""
        yield Attachment(
            kind=kind_of(name, mime),
            name=name,
            mime=mime.partition(";")[0].strip() or "application/octet-stream",
            size=0,
            read=partial(_download, media.url, how),
            replied=replied,
        )


def _stickers_of(message: discord.Message) -> Iterator[discord.StickerItem]:
    for snapshot in message.message_snapshots:
        yield from snapshot.stickers


def _is_only_shown(snapshot: discord.MessageSnapshot) -> bool:
    """Return whether a forwarded message consists only of embeds and buttons made by a program."""
    files = snapshot.attachments or any(media_in(snapshot))
    said = said_in(snapshot) or files or snapshot.stickers
    return not said and bool(snapshot.embeds or snapshot.components)


def _placeholder(kind: AttachmentKind, name: str, *, replied: bool) -> Attachment:
    """Return a placeholder for an attachment that is not a file, so that answers can mention it."""

    async def read() -> bytes:
        raise ChatError("there is no file to download")

    return Attachment(kind=kind, name=name, mime="", size=0, read=read, replied=replied)


async def _download(url: str, how: Downloads) -> bytes:
    """Download a file from the address that Discord signed for the bot. Follows no redirects."""
    timeout = aiohttp.ClientTimeout(total=DOWNLOAD_TIMEOUT_S)
    with chat_errors():
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, proxy=how.proxy, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ChatUnavailable(
                    f"downloading the attachment failed with status {answer.status}"
                )
            data = bytearray()
            async for piece in answer.content.iter_chunked(65536):
                data += piece
                if len(data) > how.limit:
                    raise TooLarge(f"more than {how.limit} bytes")
            return bytes(data)
