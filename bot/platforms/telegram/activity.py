"""Shows at the top of a chat that a file is being sent, during a slow upload."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from telegram import Bot
from telegram.constants import ChatAction
from telegram.error import TelegramError

from backends.common.file_types import mime_of
from bot.platforms.telegram.messages import Destination
from queueing.core.requests import File

AFTER_S = 0.5  # the notice would outlast a quicker upload
EVERY_S = 4.5  # Telegram shows an action for five seconds

_ACTIONS = {
    "image": ChatAction.UPLOAD_PHOTO,
    "video": ChatAction.UPLOAD_VIDEO,
    "audio": ChatAction.UPLOAD_VOICE,
}

_log = logging.getLogger(__name__)


@asynccontextmanager
async def uploading(bot: Bot, place: Destination, files: Sequence[File]) -> AsyncIterator[None]:
    """Show inside the block that these files are being sent, if it takes long. Never raises."""
    if not files:
        yield
        return
    showing = asyncio.create_task(_show(bot, place, action_of(files[0])), name="upload")
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait({showing})


def action_of(file: File) -> ChatAction:
    """Return what Telegram calls the sending of such a file."""
    kind, _, _ = mime_of(file.data).partition("/")
    return _ACTIONS.get(kind, ChatAction.UPLOAD_DOCUMENT)


async def _show(bot: Bot, place: Destination, action: ChatAction) -> None:
    await asyncio.sleep(AFTER_S)
    try:
        while True:
            await bot.send_chat_action(place.chat_id, action, message_thread_id=place.thread_id)
            await asyncio.sleep(EVERY_S)
    except (TelegramError, RuntimeError) as error:  # refused, the connection, or a stop
        _log.debug("could not show that a file is being sent: %s", error)
