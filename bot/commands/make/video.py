"""`/film [model] <prompt>` and the button of that name: a film from words, or from pictures too."""

from bot.commands.call.context import Call, Context
from bot.commands.call.options import FILM_OPTIONS, WHEN, given_in
from bot.commands.call.sources import all_sources
from bot.commands.call.submission import asking, placed
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.refusals import Declined, NoPicture, TooManyPictures
from bot.requests.creation import Creation, DrawingOptions
from bot.requests.kinds import typed
from queueing.core.requests import Capability, TextToVideo

PICTURES = 2  # the first and the last of a film

COMMAND = Command(
    name="film",
    help="command.film",
    topic=Topic.MAKE,
    example="example.film",
    takes={AttachmentKind.PICTURE: PICTURES},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.filmed", positional=True),
        *FILM_OPTIONS,
        *WHEN,
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw"),
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        Param(name="number", kind=ParamKind.WHOLE, help="param.number", least=1, most=4),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.first_picture"),
        Param(name="last", kind=ParamKind.PICTURE, help="param.last_picture"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    sources = await all_sources(context, call)
    if len(sources) > PICTURES:
        raise Declined(TooManyPictures(count=len(sources), limit=PICTURES))
    able = context.catalog.able
    if not (sources or able(Capability.TEXT_TO_VIDEO)) and able(Capability.IMAGE_TO_VIDEO):
        raise Declined(NoPicture())
    first = sources[0] if sources else None
    drawing = Creation(
        prompt=call.text("prompt") or (typed(first.request) if first is not None else ""),
        makes=TextToVideo,
        model=call.text("model"),
        options=DrawingOptions(**given_in(call)),
        files=tuple(each.file for each in sources),
        source=first.job_of(call.invocation.user) if first is not None else None,
        raw=bool(call.args.get("raw")),
    )
    needs = Capability.IMAGE_TO_VIDEO if sources else Capability.TEXT_TO_VIDEO
    return placed(await context.admission.draw(await asking(context, call, needs), drawing))
