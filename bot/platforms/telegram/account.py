"""A bot's account on Telegram, asked for while it is set up; needs its token and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from telegram import Bot, Update
from telegram.error import InvalidToken

from bot.core.account import ChatAccount, ChatPerson
from bot.core.errors import ChatRefused, ChatUnavailable
from bot.platforms.telegram.errors import chat_errors

API_URL = "https://api.telegram.org"
ASK_EVERY_S = 1.0
WAIT_S = 10  # of one call for messages
PRIVATE = "private"


async def telegram_account(token: str, api_url: str | None = None) -> ChatAccount:
    """Return the account of a token. Raises `ChatError`."""
    async with _asking(token, api_url) as bot:
        return ChatAccount(name=f"@{bot.username}", invite=f"https://t.me/{bot.username}")


async def writer_of(word: str, token: str, api_url: str | None = None) -> ChatPerson:
    """Wait for a private message to the bot with a word in it; return the person who wrote it.

    Confirms nothing, so the bot finds every message when it starts. Raises `ChatError`.
    """
    async with _asking(token, api_url) as bot:
        while True:
            updates = await bot.get_updates(timeout=WAIT_S, read_timeout=2 * WAIT_S)
            if found := _writer(updates, word):
                return found
            await asyncio.sleep(ASK_EVERY_S)  # older messages are answered at once, every time


def _writer(updates: Iterable[Update], word: str) -> ChatPerson | None:
    for update in updates:
        message = update.message
        if message is None or message.from_user is None or message.chat.type != PRIVATE:
            continue
        if word in (message.text or "").split():
            return ChatPerson(
                id=f"telegram:{message.from_user.id}", name=message.from_user.full_name
            )
    return None


@asynccontextmanager
async def _asking(token: str, api_url: str | None) -> AsyncIterator[Bot]:
    """Provide a bot that has logged in."""
    try:
        with chat_errors():
            async with Bot(token, base_url=f"{api_url or API_URL}/bot") as bot:
                yield bot
    except InvalidToken:
        raise _refused() from None
    except ChatUnavailable as error:
        if isinstance(error.__cause__, InvalidToken):
            raise _refused() from None
        raise


def _refused() -> ChatRefused:
    # The library's own text contains the token.
    return ChatRefused("Telegram does not accept this token: ask @BotFather for the right one")
