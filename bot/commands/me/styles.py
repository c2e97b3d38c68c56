"""`/styles`: the named presets of the operator."""

from bot.commands.call.context import Call, Context, reply
from bot.core.answers import Answer
from bot.core.command import Command
from bot.core.content import Body, Strong
from bot.texts.catalogue import join

COMMAND = Command(name="styles", help="command.styles")


async def handle(context: Context, call: Call) -> Answer:
    if not context.admission.styles:
        return reply(call.say("styles.none"))
    body: Body = ()
    for name, style in context.admission.styles.items():
        body += ("\n", *call.say("styles.line", name=Strong(name), prompt=style.prompt))
    return reply(join(body[1:]))
