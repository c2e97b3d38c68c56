"""`/help`: every command with its form, made from the command table; admins see theirs."""

from bot.commands.context import Answer, Call, Context, reply
from bot.commands.parse import usage
from bot.commands.table import Command
from bot.platforms.base import Body
from bot.texts import join, word

COMMAND = Command(name="help", help="command.help")


async def handle(context: Context, call: Call) -> Answer:
    shown = [command for command in context.commands if not command.hidden]
    body: Body = (*call.say("help.intro"), "\n")
    for command in shown:
        if not command.admin:
            body += ("\n", *_line(call, command))
    if context.access.is_admin(call.invocation.user):
        body += ("\n\n", *call.say("help.admin"))
        for command in shown:
            if command.admin:
                body += ("\n", *_line(call, command))
    if call.invocation.group:
        body += ("\n\n", *call.say("help.groups"))
    return reply(join(body))


def _line(call: Call, command: Command) -> Body:
    help_text = word(call.language, command.help)
    return call.say("help.line", usage=usage(command), help=help_text)
