"""`/music` and `/speak`: sound from words."""

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import replied_job, shown_job, without
from bot.commands.call.options import MUSIC_OPTIONS, SPEECH_OPTIONS, WHEN, given_in
from bot.commands.call.submission import create, submitted
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.refusals import Declined, RefusalKind
from bot.requests.creation import Creation, DrawingOptions, require_text
from bot.requests.recordings import SPOKEN_MOST, spoken
from queueing.core.jobs import Job
from queueing.core.requests import Capability, TextToAudio, TextToSpeech

MUSIC = Command(
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


async def handle_music(context: Context, call: Call) -> Answer:
    drawing = Creation(
        prompt=call.text("prompt") or "",
        makes=TextToAudio,
        model=call.text("model"),
        options=DrawingOptions(**given_in(context, call)),
        raw=bool(call.args.get("raw")),
    )
    return await create(context, call, Capability.TEXT_TO_AUDIO, drawing)


SPEAK = Command(
    name="speak",
    help="command.speak",
    topic=Topic.MAKE,
    example="example.speak",
    prose=True,
    menu="menu.speak",
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_SPEECH,),
        ),
        Param(name="text", kind=ParamKind.TEXT, help="param.spoken", positional=True),
        *SPEECH_OPTIONS,
        *WHEN,
        Param(name="id", kind=ParamKind.JOB, help="param.spoken_job"),
    ),
)


async def handle_speak(context: Context, call: Call) -> Answer:
    own = call.text("text")
    job = await _answer(context, call)
    said = own or await _text_of(context, job) or spoken(call.invocation.quoted)
    if not said and job is not None:
        raise await _without_text(context, job)
    options = given_in(context, call)
    mine = not own and job is not None and job.owner == call.invocation.user
    request = TextToSpeech(
        text=require_text(said, SPOKEN_MOST),
        source=job.id if job is not None and mine else None,
        **options,
    )
    return await submitted(context, call, request, options=options)


async def _answer(context: Context, call: Call) -> Job | None:
    """Return the named job, or the one replied to if its result is a text.

    Raises `Declined`.
    """
    job_id = call.whole("id")
    if job_id is not None:
        return await shown_job(context, call, job_id)
    job = await replied_job(context, call)
    return None if job is None or job.request.gives_files else job


async def _text_of(context: Context, job: Job | None) -> str:
    if job is None or job.request.gives_files:
        return ""
    output = await context.queue.jobs.output(job)
    return spoken(output.text) if output is not None else ""


async def _without_text(context: Context, job: Job) -> Declined:
    kept = not job.request.gives_files and await context.queue.jobs.output(job) is None
    return without(job, kept=kept, gone=RefusalKind.ANSWER_GONE, never=RefusalKind.NOTHING_TO_READ)
