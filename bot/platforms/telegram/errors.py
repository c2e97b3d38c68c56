"""Translates errors of python-telegram-bot to the bot's few `ChatError`s.

Telegram distinguishes most causes only by an English text. The texts here are from its server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    InvalidToken,
    RetryAfter,
    TelegramError,
)

from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatMoved,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    ServedElsewhere,
    SlowDown,
    TooLarge,
)

# Parts of the description of a 400, in lower case.
NOT_MODIFIED = "message is not modified"
NO_TEXT = "there is no text in the message to edit"
NO_VOICES = "voice_messages_forbidden"
BAD_ENTITIES = "entit"
NO_MESSAGE = "message to react not found"
MUTED = (
    "not enough rights to send text",
    "have no rights to send",
    "no write access",
    "chat_write_forbidden",
    "chat_restricted",
)
_QUERY_TOO_OLD = "query is too old"
_BAD_PHOTO = (
    "photo_invalid_dimensions",
    "image_process_failed",
    "photo_ext_invalid",
    "video_content_type_invalid",
    "video_file_invalid",
    "audio_content_type_invalid",
)

_BY_TEXT: tuple[tuple[str, type[ChatError]], ...] = (
    ("message to edit not found", MessageGone),
    ("message can't be edited", MessageGone),
    ("message_id_invalid", MessageGone),
    ("message to delete not found", MessageGone),
    (_QUERY_TOO_OLD, MessageGone),
    ("chat not found", ChatGone),
    ("chat_write_forbidden", ChatGone),
    ("chat_restricted", ChatGone),
    ("chat_admin_required", ChatGone),
    ("group chat was deactivated", ChatGone),
    ("message thread not found", ChatGone),
    ("not enough rights", ChatGone),
    ("have no rights", ChatGone),
    ("no write access", ChatGone),
    ("peer_id_invalid", ChatGone),
    ("topic_closed", ChatGone),
    ("topic_deleted", ChatGone),
    ("user_deactivated", ChatGone),
    ("message is too long", TooLarge),
    ("caption is too long", TooLarge),
    ("caption_too_long", TooLarge),
    ("file is too big", TooLarge),
    ("request entity too large", TooLarge),
)

_NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_NEVER_SENT = (*_NOT_REACHED, httpx.PoolTimeout)


@contextmanager
def chat_errors(*, unclear: bool = False) -> Iterator[None]:
    """Raise `ChatError`s in place of the library's errors.

    `unclear` marks a request that must not be blindly retried, because it may have succeeded
    although the connection failed.
    """
    try:
        yield
    except TelegramError as error:
        raise _chat_error(error, unclear=unclear) from error
    except RuntimeError as error:  # the library raises it for a connection closed during a stop
        raise ChatUnavailable(str(error)) from error


def _chat_error(error: TelegramError, *, unclear: bool) -> ChatError:
    """Return the matching `ChatError`.

    The order matters: `BadRequest` and `TimedOut` are also `NetworkError`s, but only a failed
    connection may be retried.
    """
    text = str(error)
    made: ChatError
    match error:
        case RetryAfter():
            made = SlowDown(pause_s(error))
        case ChatMigrated():
            made = ChatMoved(str(error.new_chat_id))
        case BadRequest():
            made = _by_text(text) or ContentRefused(text)
        case Forbidden():
            made = ChatGone(text)
        case InvalidToken():  # the library's text contains the token
            made = ChatUnavailable("Telegram does not accept the bot token")
        case _ if isinstance(refusal := _by_text(text), TooLarge):
            made = refusal  # the library reports a 413 as a network error
        case _ if isinstance(error.__cause__, ServedElsewhere):
            made = error.__cause__
        case _ if isinstance(error.__cause__, _NOT_REACHED):
            said = text.removeprefix(f"httpx.{type(error.__cause__).__name__}: ")
            made = ChatUnavailable(f"cannot reach Telegram: {said}")
        case _:
            made = ChatUnavailable(text, unclear=unclear and _may_have_arrived(error))
    return made


def _by_text(text: str) -> ChatError | None:
    lowered = text.lower()
    for part, kind in _BY_TEXT:
        if part in lowered:
            return kind(text)
    return None


def _may_have_arrived(error: TelegramError) -> bool:
    """Return whether the request behind an error may have reached Telegram."""
    return not isinstance(error.__cause__, _NEVER_SENT)


def says(error: TelegramError | ChatError, *parts: str) -> bool:
    """Return whether a refusal's description contains one of the parts, given in lower case."""
    text = str(error).lower()
    return any(part in text for part in parts)


def is_bad_photo(error: BadRequest) -> bool:
    """Return whether Telegram cannot show the file inline. It may accept it as a document."""
    return says(error, *_BAD_PHOTO)


def pause_s(error: RetryAfter) -> float:
    """Return the wait that a 429 requests, in seconds.

    The library returns a number or a `timedelta`, depending on an environment variable.
    """
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
