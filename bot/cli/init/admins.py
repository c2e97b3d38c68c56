"""Finds out who may pause, cancel and see everything: the person at this terminal, as chats know them."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from bot.app import event_loop
from bot.cli.init.chats import ChatPlan
from bot.cli.init.page import PagePlan
from bot.cli.init.terminal import Terminal, agreed, ask_for, in_a_line
from bot.config.chats import ChatsConfig
from bot.core.account import ChatPerson
from bot.core.errors import ChatError
from bot.platforms.telegram.platform import writer_of
from queueing.core.concurrency import timeout

WAIT_S = 180.0


def known_id(given: str) -> str:
    """Return an admin's id as a configuration has it. Raises `ValueError` with a sentence."""
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
    """Return the admins; without a chat that knows them, only the page has one."""
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
    question = "Make yourself an admin on Telegram, by a message to the bot"
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
    """Wait for the person who knows a word that is shown here and nowhere else."""
    word = secrets.token_hex(8)
    invite = chat.account.invite if chat.account else ""
    terminal.tell(f"Open {invite}?start={word} and press Start (or write {word} to the bot).")
    terminal.tell(f"Waiting for {WAIT_S / 60:.0f} minutes at most …")

    async def wait() -> ChatPerson:
        async with timeout(WAIT_S):
            person = await writer_of(word, chat.token, telegram_api)
            return replace(person, name=in_a_line(person.name))

    try:
        person = event_loop.run(wait())
    except TimeoutError:
        terminal.tell("  No message came.")
        return None
    except ChatError as error:
        terminal.tell(f"  Telegram could not be asked: {error}")
        return None
    terminal.tell(f"That is {person.name} ({person.id}).")
    return person
