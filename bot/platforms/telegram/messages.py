"""Posts and edits messages: chooses Telegram's method for a content, and its parameters.

Raises the library's errors; the caller translates them.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from telegram import (
    Bot,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
)
from telegram.error import BadRequest

from bot.core.content import Content
from bot.core.errors import ChatError, ChatUnavailable, TooLarge
from bot.platforms.telegram.errors import (
    BAD_ENTITIES,
    NO_TEXT,
    NO_VOICES,
    NOT_MODIFIED,
    chat_errors,
    is_bad_photo,
    says,
)
from bot.platforms.telegram.media import (
    Media,
    SendKind,
    SentFile,
    as_document,
    as_voice_message,
    shown_as,
    shown_together,
)
from bot.platforms.telegram.renderer import CAPTION_MOST, OutgoingTelegram, outgoing
from queueing.core.requests import File

ALBUM_MOST = 10

T = TypeVar("T")

_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """Where a message goes: a chat, a thread in it, and the message it replies to."""

    chat_id: int
    thread_id: int | None = None
    reply_to: int | None = None

    @property
    def group(self) -> bool:
        """Whether several people read there. Telegram's group ids are negative."""
        return self.chat_id < 0

    def options(self) -> dict[str, Any]:
        """Return the options of all sending methods.

        Replying to a deleted message is not an error.
        """
        reply = self.reply_to and ReplyParameters(self.reply_to, allow_sending_without_reply=True)
        return {
            "chat_id": self.chat_id,
            "message_thread_id": self.thread_id,
            "reply_parameters": reply or None,
        }


async def post(bot: Bot, place: Destination, content: Content) -> Sequence[Message]:
    """Post content, and return its messages, that with the buttons first.

    An album cannot have buttons, so they and the text are sent in a message below it.
    """
    if len(content.files) > ALBUM_MOST:
        raise TooLarge(f"{len(content.files)} files in one message")
    if len(content.files) < 2:
        return [await _formatted(content, place, partial(_post_one, bot, place, content))]
    if not content.buttons:
        return await _formatted(content, place, partial(_post_album, bot, place, content))
    bare = OutgoingTelegram(text="", entities=[], keyboard=None, spoiler=content.spoiler)
    album = await _post_album(bot, place, content, bare)
    try:
        with chat_errors(unclear=True):
            return [*await post(bot, place, replace(content, files=())), *album]
    except ChatError as error:  # the album was sent, so the whole must not be sent again
        raise ChatUnavailable(
            f"the album was sent, its text was not: {error}", unclear=True
        ) from error


async def draft(bot: Bot, place: Destination, number: int, content: Content) -> None:
    """Show a text as a draft, in place of one with the same number. It disappears by itself."""

    async def send(message: OutgoingTelegram) -> bool:
        return await bot.send_message_draft(
            place.chat_id,
            number,
            message.text,
            message_thread_id=place.thread_id,
            entities=message.entities,
        )

    await _formatted(content, place, send)


async def _formatted(
    content: Content,
    place: Destination,
    send: Callable[[OutgoingTelegram], Awaitable[T]],
    most: int | None = None,
) -> T:
    """Send with formatting, or without it if Telegram refuses the entities."""
    message = outgoing(content, group=place.group, now=time.time(), most=most)
    try:
        return await send(message)
    except BadRequest as error:
        if not (message.entities and says(error, BAD_ENTITIES)):
            raise
        bare = outgoing(content, group=place.group, now=time.time(), most=most, formatted=False)
        return await send(bare)


async def _post_one(
    bot: Bot, place: Destination, content: Content, message: OutgoingTelegram
) -> Message:
    options = place.options() | {"reply_markup": message.markup}
    if not content.files:
        return await bot.send_message(
            text=message.text,
            entities=message.entities,
            link_preview_options=_NO_PREVIEW,
            **options,
        )
    (file,) = content.files
    caption = {"caption": message.text, "caption_entities": message.entities}
    if content.voice and (voice := await as_voice_message(file)) is not None:
        try:
            return await _post_file(bot, voice, message, caption | options)
        except BadRequest as error:
            # Some people do not accept voice messages, but do accept audio files.
            if not says(error, NO_VOICES):
                raise
    shown = await shown_as(file, hidden=content.spoiler)
    try:
        return await _post_file(bot, shown, message, caption | options)
    except BadRequest as error:
        if shown.kind is SendKind.DOCUMENT or not is_bad_photo(error):
            raise
    return await _post_file(bot, as_document(file), message, caption | options)


async def _post_file(
    bot: Bot, shown: SentFile, message: OutgoingTelegram, options: Mapping[str, Any]
) -> Message:
    sending: Mapping[SendKind, Callable[..., Awaitable[Message]]] = {
        SendKind.PHOTO: bot.send_photo,
        SendKind.VIDEO: bot.send_video,
        SendKind.ANIMATION: bot.send_animation,
        SendKind.AUDIO: bot.send_audio,
        SendKind.VOICE: bot.send_voice,
        SendKind.DOCUMENT: bot.send_document,
    }
    parameters = shown.parameters(spoiler=message.spoiler)
    return await sending[shown.kind](**parameters, **options)


async def _post_album(
    bot: Bot, place: Destination, content: Content, message: OutgoingTelegram
) -> Sequence[Message]:
    """Post files as one album: inline if all can be shown together, otherwise as documents."""
    without = replace(message, text="", entities=[])
    captions = [message, *[without] * (len(content.files) - 1)]
    shown = await shown_together(content.files, hidden=content.spoiler)
    media = [_media(each, caption) for each, caption in zip(shown, captions, strict=True)]
    return await bot.send_media_group(media=media, **place.options())  # type: ignore[arg-type]


def _media(shown: SentFile, message: OutgoingTelegram) -> Media:
    caption: dict[str, Any] = {}
    if message.text:
        caption = {"caption": message.text, "caption_entities": message.entities}
    return shown.media(caption, spoiler=message.spoiler)


# ---------------------------------------------------------------- edits


class _At(NamedTuple):
    """The message to edit."""

    chat_id: int
    message_id: int


async def show(bot: Bot, place: Destination, message_id: int, content: Content) -> None:
    """Replace a message's whole content. Idempotent.

    A text message can become an image or a document, and these can become each other. They never
    become a text again, so plain text is then shown as the caption.
    """
    if len(content.files) > 1:
        raise TooLarge("on Telegram an edit can have only one file")
    at = _At(place.chat_id, message_id)

    async def send(message: OutgoingTelegram) -> None:
        if content.files:
            await _show_file(bot, at, content.files[0], message)
        else:
            await _show_words(bot, at, message)

    try:
        try:
            await _formatted(content, place, send)
        except BadRequest as error:
            if not says(error, NO_TEXT):
                raise
            await _formatted(content, place, partial(_show_caption, bot, at), CAPTION_MOST)
    except BadRequest as error:
        if not says(error, NOT_MODIFIED):
            raise


async def _show_words(bot: Bot, at: _At, message: OutgoingTelegram) -> None:
    await bot.edit_message_text(
        message.text,
        entities=message.entities,
        link_preview_options=_NO_PREVIEW,
        reply_markup=message.keyboard,
        chat_id=at.chat_id,
        message_id=at.message_id,
    )


async def _show_caption(bot: Bot, at: _At, message: OutgoingTelegram) -> None:
    await bot.edit_message_caption(
        caption=message.text,
        caption_entities=message.entities,
        reply_markup=message.keyboard,
        chat_id=at.chat_id,
        message_id=at.message_id,
    )


async def _show_file(bot: Bot, at: _At, file: File, message: OutgoingTelegram) -> None:
    async def replace_by(shown: SentFile) -> None:
        await bot.edit_message_media(
            _media(shown, message),
            chat_id=at.chat_id,
            message_id=at.message_id,
            reply_markup=message.keyboard,
        )

    shown = await shown_as(file, hidden=message.spoiler)
    try:
        await replace_by(shown)
    except BadRequest as error:
        if shown.kind is SendKind.DOCUMENT or not is_bad_photo(error):
            raise
        await replace_by(as_document(file))
