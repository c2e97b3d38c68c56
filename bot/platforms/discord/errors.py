"""Translates errors of discord.py and aiohttp to the bot's few `ChatError`s.

Also keeps discord.py from sleeping through a rate limit and then sending an outdated text, and from
closing its connection over one event.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord

from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.core.platform import ChatLease

_log = logging.getLogger(__name__)

# Discord's error codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes
ALREADY_ACKNOWLEDGED = 40060
ARCHIVED_THREAD = 50083
# Unknown webhook, unknown interaction (too late), token too old.
EXPIRED_INTERACTION = frozenset({10015, 10062, 50027})
NO_HISTORY_TO_REPLY = 160002
OLD_MESSAGE_EDITS = 30046

# Discord's budget for edits of messages over an hour old is unpublished and small.
OLD_MESSAGE_PAUSE_S = 300.0
UNKNOWN_PAUSE_S = 5.0  # for a 429 without a duration

_BY_CODE: Mapping[int, type[ChatError]] = {
    10003: ChatGone,  # unknown channel
    10004: ChatGone,  # unknown server
    10008: MessageGone,  # unknown message
    10013: ChatGone,  # unknown user
    40005: TooLarge,
    50001: ChatGone,  # missing access
    50005: MessageGone,  # a message by another author
    50027: MessageGone,  # the token of an interaction, too late
    50007: ChatGone,  # this person does not accept direct messages
    50013: ChatGone,  # missing permissions
    50278: ChatGone,  # no shared server with this person
    ARCHIVED_THREAD: ChatGone,
}


_BY_STATUS: Mapping[int, type[ChatError]] = {
    400: ContentRefused,
    403: ChatGone,
    404: MessageGone,
    413: TooLarge,
}

CONNECTION_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)
"""The errors of a start or a connection that justify a retry."""


class _OldMessage(discord.RateLimited):
    """The rate limit for edits of messages over an hour old. The channel itself has budget left."""


@contextmanager
def chat_errors(*, unclear: bool = False) -> Iterator[None]:
    """Raise `ChatError`s in place of the libraries' errors.

    `unclear` marks a request that must not be blindly retried, because it may have succeeded
    although the connection failed.
    """
    try:
        yield
    except _OldMessage as error:
        raise SlowDown(error.retry_after, old_message=True) from error
    except discord.RateLimited as error:
        raise SlowDown(error.retry_after) from error
    except discord.HTTPException as error:
        raise _from_answer(error, unclear=unclear) from error
    except aiohttp.ClientProxyConnectionError as error:
        proxy = f"the proxy {error.host}:{error.port}"
        raise ChatUnavailable(f"cannot reach Discord through {proxy}: {error.os_error}") from error
    except aiohttp.ClientHttpProxyError as error:
        text = f"the proxy does not connect to Discord: {error.status} {error.message}"
        raise ChatUnavailable(text) from error
    except aiohttp.ClientConnectorError as error:
        raise ChatUnavailable(f"cannot reach Discord: {error}") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise ChatUnavailable(cause, unclear=unclear) from error
    except RuntimeError as error:  # aiohttp's error for a session closed during a stop or reconnect
        raise ChatUnavailable(str(error)) from error


def _from_answer(error: discord.HTTPException, *, unclear: bool) -> ChatError:
    """Return the error for a response from Discord."""
    text = str(error)
    if error.code == OLD_MESSAGE_EDITS:
        return SlowDown(OLD_MESSAGE_PAUSE_S, old_message=True)
    if error.status == 429:
        return SlowDown(UNKNOWN_PAUSE_S)
    kind = _BY_CODE.get(error.code) or _BY_STATUS.get(error.status)
    if kind is not None:
        return kind(text)
    return ChatUnavailable(text, unclear=unclear and error.status >= 500)


def refuse_to_wait(lease: ChatLease) -> aiohttp.TraceConfig:
    """Return a hook for `discord.Client(http_trace=…)` that raises `RateLimited` on a 429 at once.

    discord.py would sleep and then send the same text, outdated by then, up to five times. The hook
    leaves only limits of the whole bot to discord.py, which then holds back all requests. It also
    raises if Discord fails to post through a webhook: nothing recognises the library's repeat.

    Every HTTP request and every gateway connection first checks the `lease`, and raises
    `ServedElsewhere` if it is not held.
    """

    async def require_post(*_about: object) -> None:
        lease.require()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(require_post)
    trace.on_request_end.append(_raise_rate_limited)
    trace.on_request_end.append(_raise_unclear)
    return trace


async def _raise_rate_limited(
    _session: aiohttp.ClientSession,
    _context: SimpleNamespace,
    end: aiohttp.TraceRequestEndParams,
) -> None:
    if end.response.status != 429 or "X-RateLimit-Global" in end.response.headers:
        return
    raise await _limit(end.response)


async def _raise_unclear(
    _session: aiohttp.ClientSession,
    _context: SimpleNamespace,
    end: aiohttp.TraceRequestEndParams,
) -> None:
    if end.response.status >= 500 and end.method == "POST" and "/webhooks/" in end.url.path:
        raise discord.DiscordServerError(end.response, await end.response.text())


async def _limit(response: aiohttp.ClientResponse) -> discord.RateLimited:
    """Return the error for a 429. Reads the body, which releases the connection."""
    body: object = None
    try:
        body = await response.json(content_type=None)
    except ValueError:  # Cloudflare answers with an HTML page
        body = None
    pause = response.headers.get("Retry-After", UNKNOWN_PAUSE_S)
    code: object = None
    if isinstance(body, Mapping):
        pause = body.get("retry_after", pause)
        code = body.get("code")
    try:
        pause_s = float(pause)
    except ValueError:
        pause_s = UNKNOWN_PAUSE_S
    if code == OLD_MESSAGE_EDITS:
        return _OldMessage(max(pause_s, OLD_MESSAGE_PAUSE_S))
    return discord.RateLimited(pause_s)


def pass_over_unreadable(readers: dict[str, Callable[[Any], None]]) -> None:
    """Let discord.py's readers of events log and ignore what they cannot read.

    Otherwise one such event closes the connection, and all calls that wait for an answer are lost.
    Without READY there is no connection, so its errors remain.
    """
    for event, read in [*readers.items()]:
        if event != "READY":
            readers[event] = partial(_read, event, read)


def _read(event: str, read: Callable[[Any], None], data: Any) -> None:
    try:
        read(data)
    except Exception:  # noqa: BLE001  # whatever the library raises
        _log.exception("ignored an event that discord.py cannot read: %s", event)
