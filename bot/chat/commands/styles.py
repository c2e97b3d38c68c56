"""`/styles`: the named presets of the operator."""

from bot.chat.api.answers import Answer
from bot.chat.api.content import Body, Strong
from bot.chat.api.table import Command
from bot.chat.commands.context import Call, Context, reply
from bot.chat.texts import join

COMMAND = Command(name="styles", help="command.styles")


async def handle(context: Context, call: Call) -> Answer:
    if not context.admission.styles:
        return reply(call.say("styles.none"))
    body: Body = ()
    for name, style in context.admission.styles.items():
        body += ("\n", *call.say("styles.line", name=Strong(name), prompt=style.prompt))
    return reply(join(body[1:]))
