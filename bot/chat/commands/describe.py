"""`/describe [model]` with a picture: a vision model describes it."""

from bot.chat.api.answers import Answer
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands.ask import QUESTION_LIMIT, ask, asked
from bot.chat.commands.attachments import meant_pictures
from bot.chat.commands.context import Call, Context
from bot.chat.commands.talks import earlier_job, name_of
from bot.chat.texts import word
from bot.requests.conversation import PICTURES
from bot.requests.drawing import require_text
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
