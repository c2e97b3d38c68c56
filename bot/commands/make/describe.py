"""`/describe [model]` with a picture: a vision model describes it."""

from bot.commands.call.attachments import meant_pictures
from bot.commands.call.context import Call, Context
from bot.commands.call.talks import earlier_job, name_of
from bot.commands.make.ask import QUESTION_LIMIT, ask, asked
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.requests.conversation import PICTURES
from bot.requests.creation import require_text
from bot.texts.catalogue import word
from queueing.core.requests import Capability

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
            able=(Capability.VISION,),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.look_for", positional=True),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.look"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    files = await meant_pictures(context, call, most=PICTURES)
    question = call.text("prompt") or word(call.language, "describe.question")
    question = require_text(question, QUESTION_LIMIT)
    turn = asked(question, files, name=name_of(call) if call.text("prompt") else None)
    earlier = await earlier_job(context, call)
    return await ask(context, call, call.text("model"), turn, earlier)
