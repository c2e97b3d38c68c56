"""`/video [model] <prompt>` and its button: a video from text, or from text and images."""

from bot.commands.call.context import Call, Context
from bot.commands.call.options import VIDEO_OPTIONS, WHEN, given_in
from bot.commands.call.sources import NUMBER, all_sources
from bot.commands.call.submission import create
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.creation import Creation, DrawingOptions
from queueing.core.requests import Capability, TextToVideo

IMAGES = 2  # the first and the last frame of a video

COMMAND = Command(
    name="video",
    aliases=("film",),
    help="command.video",
    topic=Topic.MAKE,
    example="example.video",
    takes={AttachmentKind.IMAGE: IMAGES},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.video_scene", positional=True),
        *VIDEO_OPTIONS,
        *WHEN,
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw", rare=True),
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        NUMBER,
        Param(name="image", kind=ParamKind.IMAGE, help="param.first_image"),
        Param(name="last", kind=ParamKind.IMAGE, help="param.last_image"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    sources = await all_sources(context, call)
    if len(sources) > IMAGES:
        raise Declined(Refusal(RefusalKind.TOO_MANY_IMAGES, count=len(sources), most=IMAGES))
    able = context.catalog.able
    if not (sources or able(Capability.TEXT_TO_VIDEO)) and able(Capability.IMAGE_TO_VIDEO):
        raise Declined(Refusal(RefusalKind.NO_IMAGE))
    first = sources[0] if sources else None
    drawing = Creation(
        prompt=call.text("prompt") or (first.request.words if first is not None else ""),
        makes=TextToVideo,
        model=call.text("model"),
        options=DrawingOptions(**given_in(context, call)),
        files=tuple(each.file for each in sources),
        source=first.job_of(call.invocation.user) if first is not None else None,
        raw=bool(call.args.get("raw")),
    )
    needs = Capability.IMAGE_TO_VIDEO if sources else Capability.TEXT_TO_VIDEO
    return await create(context, call, needs, drawing)
