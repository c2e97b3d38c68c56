"""`/music [model] <description>`: music or a sound, sung if there are lyrics."""

from bot.commands.call.context import Call, Context
from bot.commands.call.options import MUSIC_OPTIONS, given_in
from bot.commands.call.submission import asking, placed
from bot.commands.call.when import WHEN
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from bot.requests.creation import Drawing, DrawingOptions
from queueing.core.requests import Capability, TextToAudio

COMMAND = Command(
    name="music",
    help="command.music",
    topic=Topic.MAKE,
    example="example.music",
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_AUDIO,),
        ),
        Param(
            name="prompt", kind=ParamKind.TEXT, help="param.played", required=True, positional=True
        ),
        *MUSIC_OPTIONS,
        *WHEN,
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    drawing = Drawing(
        prompt=call.text("prompt") or "",
        makes=TextToAudio,
        model=call.text("model"),
        options=DrawingOptions(**given_in(call)),
        raw=bool(call.args.get("raw")),
    )
    by = await asking(context, call, Capability.TEXT_TO_AUDIO)
    return placed(await context.admission.draw(by, drawing))
