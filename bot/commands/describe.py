"""`/describe [model]` with a picture: a model that sees says what is in it."""

from bot.attachments import AttachmentKind
from bot.commands import place
from bot.commands.answer import Answer
from bot.commands.ask import QUESTION_LIMIT, ask, asked
from bot.commands.context import Call, Context, bounded
from bot.commands.table import Command, Param, ParamKind, Topic
from bot.commands.talks import earlier_job, name_of
from bot.conversation import PICTURES
from bot.texts import word
from queueing.requests import Capability

COMMAND = Command(
    name="describe",
    help="command.describe",
    topic=Topic.MAKE,
    prose=True,
    menu="menu.describe",
    takes={AttachmentKind.PICTURE: PICTURES},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=Capability.VISION,
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.look_for", positional=True),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.look"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    files = await place.meant_pictures(context, call, most=PICTURES)
    question = call.text("prompt") or word(call.language, "describe.question")
    question = bounded(question, QUESTION_LIMIT)
    turn = asked(question, files, name=name_of(call) if call.text("prompt") else None)
    earlier = await earlier_job(context, call)
    return await ask(context, call, call.text("model"), turn, earlier)
