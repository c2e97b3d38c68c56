"""Asks for the chats' tokens and tries each at once; finds admins; plans the web chat's page.

Tokens are never shown.
"""

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr, TypeAdapter, ValidationError

from backends.common.options import in_words
from backends.common.proxies import NO_PROXIES, Proxies
from bot.app import process
from bot.cli.init import scan
from bot.cli.init.terminal import InitFailed, Terminal, agreed, ask_for, in_a_line
from bot.config.chats import ChatsConfig
from bot.config.reading.tokens import DiscordToken, TelegramToken, long_enough, whole
from bot.config.reading.values import Url
from bot.core.errors import ChatError, ChatRefused
from bot.core.platform import ChatAccount, ChatPerson
from bot.http.addresses import opened_by
from bot.platforms.discord.platform import discord_account
from bot.platforms.telegram.platform import telegram_account, writer_of
from queueing.core.concurrency import timeout

USUAL_PORT = 8080
TOKEN = "WEB_TOKEN"  # noqa: S105  # the variable's name
_PORTS = range(USUAL_PORT, USUAL_PORT + 20)
_URL: TypeAdapter[str] = TypeAdapter(Url)


@dataclass(frozen=True, kw_only=True, slots=True)
class PagePlan:
    """The web chat's page. With a `url`, other machines can reach it and it has a `token`."""

    port: int = USUAL_PORT
    url: str | None = None
    token: str | None = None

    @property
    def address(self) -> str:
        """The address to open in a browser, without the token."""
        return self.url or f"http://localhost:{self.port}/"

    @property
    def direct(self) -> bool:
        """Whether it is reached without a proxy: an http address with a port is the page's own."""
        parts = urlsplit(self.url or "")
        return parts.scheme == "http" and parts.port is not None


def address(given: str) -> str | None:
    """Parse the address at which people reach the page; None for this machine only.

    Raises `ValueError` with a sentence for the person.
    """
    if not given:
        return None
    try:
        url = _URL.validate_python(given)
    except ValidationError:
        raise ValueError("It must be an address such as https://usher.example.net.") from None
    return url if opened_by(scan.HERE, url=url) else None


def plan_page(given: str | None, terminal: Terminal, environ: Mapping[str, str]) -> PagePlan:
    """Return the page, with a new token unless the environment has one.

    Raises `InitFailed`.
    """
    question = "Address at which others reach the page; Enter for this machine only"
    url = given or ask_for(terminal, question, "", address)
    if url is None:
        return PagePlan(port=_free_port())
    token = environ.get(TOKEN) or secrets.token_hex(16)
    try:
        long_enough(SecretStr(token))
    except ValueError as error:
        raise InitFailed(f"{TOKEN} {error}") from None
    made = PagePlan(url=url, token=token)
    port = urlsplit(url).port if made.direct else None
    return replace(made, port=port or _free_port())


def _free_port() -> int:
    """Return a free port for the page, because a server may use the usual one."""
    for port in _PORTS:
        with socket.socket() as tried:
            if os.name == "posix":  # allow a port whose last connections have just ended
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((scan.HERE, port))
            except OSError:
                continue
            return port
    return USUAL_PORT


TRY_S = 20.0
_DISCORD: TypeAdapter[SecretStr] = TypeAdapter(DiscordToken)
_OWN_TELEGRAM: TypeAdapter[SecretStr] = TypeAdapter(TelegramToken)
_TELEGRAM: TypeAdapter[SecretStr] = TypeAdapter(Annotated[TelegramToken, AfterValidator(whole)])


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatKind:
    """A chat that needs a token: where to create it, and how to try it."""

    name: str
    title: str
    variable: str
    made: str
    form: TypeAdapter[SecretStr]
    account: Callable[[str], Awaitable[ChatAccount]]
    proxies: Proxies = NO_PROXIES


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPlan:
    """A chat to write. Without an `account`, its token could not be tried."""

    kind: ChatKind
    token: str
    account: ChatAccount | None = None


def kinds(telegram_api: str | None, proxies: Proxies = NO_PROXIES) -> tuple[ChatKind, ...]:
    """Return the chats that need a token. `telegram_api` is a self-hosted Bot API server."""
    return (
        ChatKind(
            name="discord",
            title="Discord",
            variable="DISCORD_TOKEN",
            made="create a bot and its token at https://discord.com/developers/applications (docs/discord.md)",
            form=_DISCORD,
            account=partial(discord_account, proxies=proxies),
            proxies=proxies,
        ),
        ChatKind(
            name="telegram",
            title="Telegram",
            variable="TELEGRAM_TOKEN",
            made="create a bot and its token with @BotFather (docs/telegram.md)",
            form=_OWN_TELEGRAM if telegram_api else _TELEGRAM,
            account=partial(telegram_account, api_url=telegram_api, proxies=proxies),
            proxies=proxies,
        ),
    )


def plan(kind: ChatKind, terminal: Terminal, given: Mapping[str, str]) -> ChatPlan | None:
    """Return the chat with a token that was given or typed; None without a token.

    Raises `InitFailed` if the token is refused and nobody can be asked for another.
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
            token = _formed(kind, token)
            return ChatPlan(kind=kind, token=token, account=_tried(kind, token))
        except ChatRefused as error:
            if not terminal.asks:
                raise InitFailed(f"{kind.variable}: {error}. Nothing was written.") from None
            whose = "" if typed else f" (from {kind.variable})"
            terminal.tell(f"  {error}{whose}.")
        except (ChatError, TimeoutError) as error:
            reason = str(error) or f"no answer within {TRY_S:.0f} s"
            terminal.tell(f"  Could not check the token with {kind.title}: {reason}")
            if agreed(terminal, "  Keep this token without checking it", usual=True):
                return ChatPlan(kind=kind, token=token)
        token = ""


def _formed(kind: ChatKind, token: str) -> str:
    """Return a token without what was copied around it. Raises `ChatRefused`."""
    try:
        return kind.form.validate_python(token).get_secret_value()
    except ValidationError as error:
        wrong = "; ".join(in_words(each) for each in error.errors(include_url=False))
        raise ChatRefused(f"The token {wrong}") from None


def _tried(kind: ChatKind, token: str) -> ChatAccount:
    async def ask() -> ChatAccount:
        async with timeout(TRY_S):
            return await kind.account(token)

    account = process.run(ask())
    return replace(account, name=in_a_line(account.name), owner=plainly_named(account.owner))


def plainly_named(person: ChatPerson | None) -> ChatPerson | None:
    """Return the person with a harmless one-line name, because people choose their names."""
    return person and replace(person, name=in_a_line(person.name))


WAIT_S = 180.0


def known_id(given: str) -> str:
    """Return an admin's id if it is valid.

    Raises `ValueError` with a sentence for the person.
    """
    naming = ChatsConfig.naming().values()
    if any(names.person.fits(given) or names.is_right(given) for names in naming):
        return given
    examples = ", ".join(names.person.example for names in naming)
    raise ValueError(f"It must be an id such as {examples}.")


def admins(
    chats: Sequence[ChatPlan],
    given: Sequence[str],
    terminal: Terminal,
    telegram_api: str | None,
    page: PagePlan,
) -> tuple[ChatPerson, ...]:
    """Return the admins. Without a chat that knows them, only the page has one."""
    found = [ChatPerson(id=each, name="as given") for each in given]
    for chat in chats:
        person = _of(chat, terminal, telegram_api)
        if person is not None and person.id not in {each.id for each in found}:
            found.append(person)
    return (*found, _of_page(page))


def _of_page(page: PagePlan) -> ChatPerson:
    who = "opens the page on this machine" if page.token is None else "has the page's token"
    return ChatPerson(id="web:local", name=f"whoever {who}")


def _of(chat: ChatPlan, terminal: Terminal, telegram_api: str | None) -> ChatPerson | None:
    owner = chat.account.owner if chat.account else None
    if owner is not None:
        question = f"Make {owner.name}, who owns this bot on {chat.kind.title}, an admin"
        return owner if agreed(terminal, question, usual=True) else None
    if chat.kind.name != "telegram" or chat.account is None or not terminal.asks:
        return _typed(chat, terminal)
    question = "Make yourself an admin on Telegram by sending the bot a message"
    if not agreed(terminal, question, usual=True):
        return _typed(chat, terminal)
    return _greeted(chat, terminal, telegram_api) or _typed(chat, terminal)


def _typed(chat: ChatPlan, terminal: Terminal) -> ChatPerson | None:
    question = f"Your id on {chat.kind.title}, if you know it; Enter for no admin there"

    def read(answer: str) -> str:
        return known_id(f"{chat.kind.name}:{answer}") if answer else ""

    given = ask_for(terminal, question, "", read)
    return ChatPerson(id=given, name="as you said") if given else None


def _greeted(chat: ChatPlan, terminal: Terminal, telegram_api: str | None) -> ChatPerson | None:
    """Wait for the person who sends a word that is shown only in this terminal."""
    word = secrets.token_hex(8)
    invite = chat.account.invite if chat.account else ""
    terminal.tell(f"Open {invite}?start={word} and press Start (or write {word} to the bot).")
    terminal.tell(f"Waiting for {WAIT_S / 60:.0f} minutes at most …")

    async def wait() -> ChatPerson:
        async with timeout(WAIT_S):
            person = await writer_of(word, chat.token, telegram_api, chat.kind.proxies)
            return replace(person, name=in_a_line(person.name))

    try:
        person = process.run(wait())
    except TimeoutError:
        terminal.tell("  No message came.")
        return None
    except ChatError as error:
        terminal.tell(f"  Could not ask Telegram: {error}")
        return None
    terminal.tell(f"That is {person.name} ({person.id}).")
    return person
