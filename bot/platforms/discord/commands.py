"""The command table as Discord slash commands: typed options, completion, translated help.

Does not know what commands do; passes every call to one `Take`.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import discord
from discord import app_commands

from bot.core.asker import Asker
from bot.core.command import Command, Param, ParamKind
from bot.core.platform import CommandHandler
from bot.platforms.discord.channels import asker_of
from bot.platforms.discord.components.forms import FORM_LABEL_MOST, FORM_VALUE_MOST

WHOLE_MOST = 2**53 - 1  # Discord's integers are JavaScript numbers
TEXT_OPTION_MOST = 6000
CHOICES_MOST = 25
CHOICE_TEXT_MOST = 100
HELP_MOST = 100
MENU_MOST = 32

Describe = Callable[[str, str], str]
"""Returns a help text: `describe(key, language)`."""


Take = Callable[
    ["discord.Interaction[Any]", str, Mapping[str, Any], discord.Message | None], Awaitable[None]
]
"""Starts a command's call: its values by parameter name, or the message of an opened menu."""

_CHOSEN = frozenset({ParamKind.MODEL, ParamKind.SIZE, ParamKind.STYLE})
FURTHER = "more"
"""The option in which rare ones are typed."""
_FURTHER = Param(name=FURTHER, kind=ParamKind.TEXT, help="param.further")
_FURTHER_MOST = 1000
_FORM_ITEMS_MOST = 5
_FormItem = (
    discord.ui.Select[discord.ui.Modal]
    | discord.ui.TextInput[discord.ui.Modal]
    | discord.ui.FileUpload[discord.ui.Modal]
)
_CALLED = "called."  # the texts with the names of commands
_NAME = re.compile(r"[-_'\w]{1,32}")
_OPTION_TYPES: Mapping[ParamKind, discord.AppCommandOptionType] = {
    ParamKind.WHOLE: discord.AppCommandOptionType.integer,
    ParamKind.DECIMAL: discord.AppCommandOptionType.number,
    ParamKind.FLAG: discord.AppCommandOptionType.boolean,
    ParamKind.IMAGE: discord.AppCommandOptionType.attachment,
    ParamKind.SOUND: discord.AppCommandOptionType.attachment,
    ParamKind.MASK: discord.AppCommandOptionType.attachment,
}
_COMPLETED = frozenset(
    {ParamKind.MODEL, ParamKind.HOST, ParamKind.JOB, ParamKind.SIZE, ParamKind.STYLE}
)


class HelpTexts(app_commands.Translator):
    """Provides Discord with the names and help texts of commands in every language.

    Options have the same names in all languages.
    """

    def __init__(self, describe: Describe) -> None:
        self._describe = describe

    async def translate(
        self,
        string: app_commands.locale_str,
        locale: discord.Locale,
        context: app_commands.TranslationContextTypes,
    ) -> str | None:
        """Return the text in that language, or None if it equals the English one."""
        if "key" not in string.extras:
            return None
        text = self._describe(string.extras["key"], locale.value)[:HELP_MOST]
        named = context.location is app_commands.TranslationContextLocation.command_name
        if named and string.extras["key"].startswith(_CALLED) and not _NAME.fullmatch(text):
            return None
        return None if text == string.message else text


class Option(app_commands.Transformer):
    """One option of a slash command, built from its row in the command table."""

    def __init__(self, param: Param, platform: str, handler: CommandHandler) -> None:
        self._param = param
        self._platform = platform
        self._handler = handler

    @property
    def type(self) -> discord.AppCommandOptionType:
        """Discord's type for the option. Types Discord lacks become strings."""
        if self._words_too:
            return discord.AppCommandOptionType.string
        return _OPTION_TYPES.get(self._param.kind, discord.AppCommandOptionType.string)

    @property
    def _words_too(self) -> bool:
        """Whether words are allowed in addition to numbers; only a string option can hold both."""
        return self._param.kind is ParamKind.WHOLE and bool(self._param.choices)

    @property
    def min_value(self) -> int | float | None:
        """The minimum number, or the minimum length of free text."""
        match self._param.kind:
            case ParamKind.WHOLE if self._param.least is not None and not self._words_too:
                return max(int(self._param.least), -WHOLE_MOST)
            case ParamKind.DECIMAL:
                return self._param.least
            case ParamKind.TEXT:
                return 1
            case _:
                return None

    @property
    def max_value(self) -> int | float | None:
        """The maximum number, or the maximum length of free text."""
        match self._param.kind:
            case ParamKind.WHOLE if self._param.most is not None and not self._words_too:
                return min(int(self._param.most), WHOLE_MOST)
            case ParamKind.DECIMAL:
                return self._param.most
            case ParamKind.TEXT:
                return TEXT_OPTION_MOST
            case _:
                return None

    @property
    def choices(self) -> list[app_commands.Choice[str | int | float]] | None:
        """The values Discord offers, or None if any value may be given."""
        if self._param.kind is not ParamKind.CHOICE:
            return None
        return [_choice(word) for word in self._param.choices]

    async def transform(self, interaction: "discord.Interaction[Any]", value: Any, /) -> Any:  # noqa: ARG002 - the library's signature
        """Return the value in the table's type.

        Validation happens later, the same for all platforms.
        """
        if self._param.kind is ParamKind.DECIMAL:
            return float(value)  # Discord sends 1.0 as 1
        return value


class CompletedOption(Option):
    """An option with suggestions while a person types."""

    @property
    def choices(self) -> None:
        """None, because values other than the suggestions are allowed."""
        return

    async def autocomplete(
        self, interaction: "discord.Interaction[Any]", value: str | float, /
    ) -> list[app_commands.Choice[str | int | float]]:
        """Return the handler's suggestions.

        They come from memory, within Discord's three seconds.
        """
        asker = asker_of(interaction, self._platform)
        words = self._handler.suggest(self._param, str(value), asker)
        fitting = [word for word in words if 0 < len(word) <= CHOICE_TEXT_MOST]
        return [_choice(word) for word in fitting[:CHOICES_MOST]]


def _choice(word: str) -> app_commands.Choice[str | int | float]:
    return app_commands.Choice(name=word, value=word)


def option_of(param: Param, platform: str, handler: CommandHandler) -> Option:
    """Return the option for a parameter. Choices beyond Discord's maximum become completions."""
    completed = param.kind in _COMPLETED or len(param.choices) > CHOICES_MOST
    return (CompletedOption if completed else Option)(param, platform, handler)


def slash_command(
    command: Command, platform: str, handler: CommandHandler, describe: Describe, take: Take
) -> "app_commands.Command[Any, ..., None]":
    """Return the slash command for a row of the command table."""
    params = fields_of(command)

    async def callback(interaction: "discord.Interaction[Any]", **values: Any) -> None:
        given = {param.name: values[_identifier(param)] for param in params}
        await take(interaction, command.name, given, None)

    # discord.py reads a command's options from the signature of its callback.
    callback.__signature__ = _signature(params, platform, handler)  # type: ignore[attr-defined]
    app_commands.describe(**{_identifier(param): _help(param.help, describe) for param in params})(
        callback
    )
    app_commands.rename(**{_identifier(param): param.name for param in params})(callback)
    made: app_commands.Command[Any, ..., None] = app_commands.Command(
        name=_name(command), description=_help(command.help, describe), callback=callback
    )
    if command.admin:
        # Only hides the command; servers may change it, and the bot checks rights itself.
        made.default_permissions = discord.Permissions(manage_guild=True)
    return made


def fields_of(command: Command) -> Sequence[Param]:
    """Return the options that a command has in the menu. The rare ones share one."""
    if not any(each.rare for each in command.params):
        return command.params
    shown = [each for each in command.params if not each.rare]
    if has_form(command):
        shown = [replace(each, required=False) for each in shown]
    return (*shown, _FURTHER)


def has_form(command: Command) -> bool:
    """Return whether a call without values opens a form for a command's options."""
    rare = any(each.rare for each in command.params)
    return rare and not command.opens_form and any(map(_is_prompt, command.params))


def _is_prompt(param: Param) -> bool:
    return param.kind is ParamKind.TEXT and param.positional


def options_form(
    command: Command, handler: CommandHandler, describe: Describe, language: str, asker: Asker
) -> discord.ui.Modal:
    """Return the form of a command: its prompt, common choices, images, and a line for the rest.

    It is recognised by its id.
    """
    images = [each for each in command.params if each.kind is ParamKind.IMAGE]
    modal = discord.ui.Modal(
        title=describe(command.help, language)[:FORM_LABEL_MOST],
        custom_id=f"form:{command.name}",
    )
    chosen = [each for each in command.params if each.kind is not ParamKind.IMAGE]
    offered = [
        (param, item)
        for param in sorted(chosen, key=_is_prompt, reverse=True)
        if (item := _form_item(param, handler, asker)) is not None
    ]
    last: list[tuple[Param, _FormItem]] = [(_FURTHER, _text_line(_FURTHER))]
    if images:
        last.insert(0, (images[0], _upload(images)))
    for param, item in (*offered[: _FORM_ITEMS_MOST - len(last)], *last):
        label = describe(param.help, language)[:FORM_LABEL_MOST]
        modal.add_item(discord.ui.Label(text=label, component=item))
    modal.stop()
    return modal


def _form_item(param: Param, handler: CommandHandler, asker: Asker) -> _FormItem | None:
    if param.rare:
        return None
    if _is_prompt(param):
        return _text_line(param)
    if param.kind not in _CHOSEN:
        return None
    words = [each for each in handler.suggest(param, "", asker) if len(each) <= CHOICE_TEXT_MOST]
    if not words:
        return None
    options = [discord.SelectOption(label=each, value=each) for each in words[:CHOICES_MOST]]
    return discord.ui.Select(custom_id=param.name, options=options, min_values=0, required=False)


def _text_line(param: Param) -> _FormItem:
    long = param is not _FURTHER
    return discord.ui.TextInput(
        custom_id=param.name,
        style=discord.TextStyle.paragraph if long else discord.TextStyle.short,
        required=long,
        max_length=FORM_VALUE_MOST if long else _FURTHER_MOST,
    )


def _upload(images: Sequence[Param]) -> _FormItem:
    """Return the field in which a command's images are uploaded."""
    return discord.ui.FileUpload(
        custom_id=images[0].name, required=False, min_values=0, max_values=len(images)
    )


def _signature(
    params: Sequence[Param], platform: str, handler: CommandHandler
) -> inspect.Signature:
    options = [
        inspect.Parameter(
            _identifier(param),
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if param.required else None,
            annotation=option_of(param, platform, handler),
        )
        for param in params
    ]
    caller = inspect.Parameter(
        "interaction", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=discord.Interaction
    )
    return inspect.Signature([caller, *options])


def _identifier(param: Param) -> str:
    return param.name.replace("-", "_")


def _name(command: Command) -> app_commands.locale_str | str:
    """Return a command's name, to be translated. Admins type the same in all languages."""
    if command.admin:
        return command.name
    return app_commands.locale_str(command.name, key=_CALLED + command.name)


def _help(key: str, describe: Describe) -> app_commands.locale_str:
    return app_commands.locale_str(describe(key, "en")[:HELP_MOST], key=key)


def command_tree(
    client: discord.Client,
    platform: str,
    handler: CommandHandler,
    describe: Describe,
    take: Take,
    *,
    anywhere: bool = False,
) -> "app_commands.CommandTree[discord.Client]":
    """Return the tree of all visible commands, for servers and direct messages.

    With `anywhere`, people may also install the bot for themselves and use its commands, except
    those of admins, in any chat.
    """
    tree = app_commands.CommandTree(
        client,
        allowed_contexts=app_commands.AppCommandContext(
            guild=True, dm_channel=True, private_channel=False
        ),
        allowed_installs=app_commands.AppInstallationType(guild=True, user=False),
    )
    for command in handler.commands:
        if not command.hidden:
            made = slash_command(command, platform, handler, describe, take)
            if anywhere and not command.admin:
                made.allowed_contexts = app_commands.AppCommandContext(
                    guild=True, dm_channel=True, private_channel=True
                )
                made.allowed_installs = app_commands.AppInstallationType(guild=True, user=True)
            tree.add_command(made)
        if command.menu is not None:
            tree.add_command(menu_entry(command, command.menu, describe, take))
    return tree


def menu_entry(
    command: Command, label: str, describe: Describe, take: Take
) -> app_commands.ContextMenu:
    """Return a command's entry in the menu of messages. Discord shows at most five."""

    async def callback(interaction: "discord.Interaction[Any]", message: discord.Message) -> None:
        await take(interaction, command.name, {}, message)

    name = app_commands.locale_str(describe(label, "en")[:MENU_MOST], key=label)
    return app_commands.ContextMenu(
        name=name, callback=callback, type=discord.AppCommandType.message
    )


async def digest(tree: "app_commands.CommandTree[discord.Client]", texts: HelpTexts) -> str:
    """Return a hash of all commands as registered with Discord."""
    commands: Sequence[Any] = tree.get_commands()
    payload = [await command.get_translated_payload(tree, texts) for command in commands]
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def missing_commands(
    commands: Sequence[Command], describe: Describe, known: Sequence[app_commands.AppCommand]
) -> Sequence[str]:
    """Return the names of commands and menu entries that Discord does not know."""
    there = {command.name for command in known}
    ours = [command.name for command in commands if not command.hidden]
    ours += [describe(each.menu, "en")[:MENU_MOST] for each in commands if each.menu is not None]
    return [name for name in ours if name not in there]
