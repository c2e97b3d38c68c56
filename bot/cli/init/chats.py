"""Asks for the tokens of chats and tries each at once; tokens are never shown."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter, ValidationError

from bot.app import event_loop
from bot.cli.init.terminal import InitFailed, Terminal, agreed, in_a_line
from bot.config.values import Token
from bot.core.account import ChatAccount, ChatPerson
from bot.core.errors import ChatError, ChatRefused
from bot.platforms.discord.platform import discord_account
from bot.platforms.telegram.platform import telegram_account
from queueing.core.concurrency import timeout

TRY_S = 20.0
_TOKEN: TypeAdapter[object] = TypeAdapter(Token)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatKind:
    """A chat that wants a token: where it is made, and how it is tried."""

    name: str
    title: str
    variable: str
    made: str
    account: Callable[[str], Awaitable[ChatAccount]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPlan:
    """A chat to write; without an `account` its token could not be tried."""

    kind: ChatKind
    token: str
    account: ChatAccount | None = None


def kinds(telegram_api: str | None) -> tuple[ChatKind, ...]:
    """Return the chats that want a token; `telegram_api` is a Bot API server of one's own."""
    return (
        ChatKind(
            name="discord",
            title="Discord",
            variable="DISCORD_TOKEN",
            made="https://discord.com/developers/applications makes a bot and its token (docs/discord.md)",
            account=discord_account,
        ),
        ChatKind(
            name="telegram",
            title="Telegram",
            variable="TELEGRAM_TOKEN",
            made="@BotFather makes a bot and its token (docs/telegram.md)",
            account=partial(telegram_account, api_url=telegram_api),
        ),
    )


def plan(kind: ChatKind, terminal: Terminal, given: Mapping[str, str]) -> ChatPlan | None:
    """Return the chat with a token that was given or is typed; None if there is none.

    Raises `InitFailed` for one that is refused where no one can be asked for another.
    """
    token, typed = given.get(kind.variable, ""), False
    if terminal.asks and not token:
        terminal.tell(f"{kind.title}: {kind.made}.")
    while True:
        if not token:
            question = (
                f"{kind.title} bot token, not shown while you type; Enter for no {kind.title}"
            )
            token, typed = terminal.ask_secret(question), True
        if not token:
            return None
        try:
            return ChatPlan(kind=kind, token=token, account=_tried(kind, token))
        except ChatRefused as error:
            if not terminal.asks:
                raise InitFailed(f"{kind.variable}: {error}. Nothing was written.") from None
            whose = "" if typed else f" (from {kind.variable})"
            terminal.tell(f"  {error}{whose}.")
        except (ChatError, TimeoutError) as error:
            told = str(error) or f"no answer within {TRY_S:.0f} s"
            terminal.tell(f"  {kind.title} could not be asked: {told}")
            if agreed(terminal, "  Keep this token without having tried it", usual=True):
                return ChatPlan(kind=kind, token=token)
        token = ""


def _tried(kind: ChatKind, token: str) -> ChatAccount:
    try:
        _TOKEN.validate_python(token)
    except ValidationError:
        raise ChatRefused("A token is plain letters, digits and signs, on one line") from None

    async def ask() -> ChatAccount:
        async with timeout(TRY_S):
            return await kind.account(token)

    account = event_loop.run(ask())
    return replace(account, name=in_a_line(account.name), owner=plainly_named(account.owner))


def plainly_named(person: ChatPerson | None) -> ChatPerson | None:
    """Return a person whose name is one harmless line: people choose theirs."""
    return person and replace(person, name=in_a_line(person.name))
