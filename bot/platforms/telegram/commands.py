"""Commands as people type them on Telegram and as its menu lists them. Pure functions.

Commands in a text are found by Telegram's own marks ("entities"), which count UTF-16 units.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from telegram import BotCommand, MessageEntity

from bot.core.command import Command
from bot.texts.catalogue import CATALOGUES, DEFAULT_LANGUAGE

Describe = Callable[[str, str], str]
"""Returns a help text: `describe(key, language)`."""

LANGUAGES = tuple(CATALOGUES.keys() - {DEFAULT_LANGUAGE})  # the default language serves all others
HELP_MOST = 256
MENU_MOST = 100

_NAMED = re.compile(r"/([^\W\d_][\w-]*)(?:@(\w+))?(?=[\s=]|$)")
_NAME = re.compile(r"[a-z0-9_]{1,32}")
_BEFORE_EQUALS = re.compile(r"([^\s=-][^\s=]*)=")


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedCommand:
    """A command at the start of a message. `addressee` is the bot named after "@", if any."""

    command: str
    addressee: str | None
    text: str


def typed(
    text: str, entities: Sequence[MessageEntity], known: Collection[str] = ()
) -> TypedCommand | None:
    """Return the command at the start of a message, or None if there is none.

    Telegram marks only the plain letters of a name, so names with others must be `known`.
    """
    named = _NAMED.match(text)
    if named is not None and not named[1].isascii() and named[1].lower() in known:
        return TypedCommand(
            command=named[1].lower(),
            addressee=named[2] and named[2].lower(),
            text=_spaced(text[named.end() :]),
        )
    marks = (each for each in entities if each.type == MessageEntity.BOT_COMMAND)
    mark = next((each for each in marks if each.offset == 0), None)
    if mark is None:
        return None
    units = text.encode("utf-16-le", "surrogatepass")
    whole = units[: mark.length * 2].decode("utf-16-le", "replace")
    rest = units[mark.length * 2 :].decode("utf-16-le", "replace")
    name, _, addressee = whole.removeprefix("/").partition("@")
    return TypedCommand(
        command=name.lower(), addressee=addressee.lower() or None, text=_spaced(rest)
    )


def _spaced(rest: str) -> str:
    """Return the text after a command, and accept the form "=flux=cat on mat".

    Only the separating equals signs become spaces: the one before the first word and the one after
    it. Whether the first word is a model is decided by the code that knows the models.
    """
    if not rest.startswith("="):
        return rest.strip()
    words = rest[1:].strip()
    first = _BEFORE_EQUALS.match(words)
    return f"{first[1]} {words[first.end() :]}" if first else words


def menu(
    commands: Sequence[Command], describe: Describe, language: str, *, admin: bool
) -> list[BotCommand]:
    """Return the entries of Telegram's command menu, for everyone or for an admin."""
    return list(_entries(commands, describe, language, admin=admin))[:MENU_MOST]


def _entries(
    commands: Sequence[Command], describe: Describe, language: str, *, admin: bool
) -> Iterator[BotCommand]:
    for command in commands:
        if command.hidden or (command.admin and not admin) or not _NAME.fullmatch(command.name):
            continue
        yield BotCommand(command.name, describe(command.help, language)[:HELP_MOST])
