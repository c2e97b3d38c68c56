"""`/help`: one line for each command of the table; `/help image`: the options of that command.

Admins also see the names of admin commands; `/help admin` lists those.
"""

from collections.abc import Iterable, Sequence

from bot.commands.call.context import (
    Call,
    Context,
    is_admin,
    offered,
    reply,
    unknown_command,
)
from bot.commands.call.parser import options, usage
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Body, CommandText, Strong
from bot.texts.catalogue import join, names_of, word

_ADMIN = "admin"

COMMAND = Command(
    name="help",
    help="command.help",
    params=(Param(name="command", kind=ParamKind.TEXT, help="param.command", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    admin = is_admin(context, call)
    shown = offered(context.commands, admin=admin)
    if (named := call.text("command")) is not None:
        name = named.removeprefix("/").casefold()
        admins = [each for each in shown if each.admin]
        if name == _ADMIN and admins:
            return reply(join(_group(call, "help.admin", admins)))
        return reply(_one(call, shown, name))
    tried = [each for each in shown if each.name in {"image", "ask"}]
    whole = all(_served(context, each) for each in tried)
    body: Body = call.say("help.intro" if whole else "help.intro_plain")
    for topic in Topic:
        listed = [
            each
            for each in shown
            if each.topic is topic and not each.admin and _served(context, each)
        ]
        body += ("\n\n", *_group(call, f"help.{topic}", listed))
    if admin:
        body += (
            "\n\n",
            Strong(word(call.language, "help.admin")),
            " · ",
            CommandText(f"/help {_ADMIN}"),
            "\n",
        )
        for each in shown:
            body += (CommandText(f"/{each.name}"), " ") if each.admin else ()
    body += ("\n\n", *call.say("help.more"))
    if call.invocation.group:
        body += ("\n", *call.say("help.groups"))
    return reply(join(body))


def _served(context: Context, command: Command) -> bool:
    """Return whether a command needs no model, or a model here can do what it asks for."""
    return not command.makes or any(map(context.catalog.able, command.makes))


def _group(call: Call, heading: str, commands: Iterable[Command]) -> Body:
    body: Body = (Strong(word(call.language, heading)),)
    for command in commands:
        body += ("\n", *_command(call, command))
    return body


def _command(call: Call, command: Command) -> Body:
    name, _, rest = usage(command).partition(" ")
    shown: Body = (CommandText(name), f" {rest}" if rest else "")
    return shown + call.say("help.line", usage="", help=word(call.language, command.help))


def _one(call: Call, shown: Sequence[Command], name: str) -> Body:
    command = next((each for each in shown if name in names_of(each)), None)
    if command is None:
        raise unknown_command(name, shown)
    body = _command(call, command)
    for param in command.params:
        if param.positional:
            body += ("\n", *_line(call, param.name, param.help))
    for param in options(command):
        body += ("\n", *_line(call, _typed(param), param.help))
    if command.example is not None:
        body += ("\n\n", *call.say("help.example", example=word(call.language, command.example)))
    return join(body)


def _typed(param: Param) -> str:
    if param.kind in {ParamKind.FLAG, ParamKind.MASK}:
        return f"--{param.name}"
    return f"--{param.name} {'|'.join(param.choices) or '…'}"


def _line(call: Call, name: str, help_key: str) -> Body:
    return call.say("help.line", usage=Strong(name), help=word(call.language, help_key))
