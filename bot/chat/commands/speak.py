"""`/speak [model] <text>` and the button of that name: a text, or an answer, is read aloud."""

from bot.chat.api.answers import Answer
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands.context import Call, Context
from bot.chat.commands.jobs import own_job, replied_job
from bot.chat.commands.options import SPEECH_OPTIONS, given_in
from bot.chat.commands.submitting import submitted
from bot.chat.commands.when import WHEN
from bot.requests.drawing import require_text
from bot.requests.kinds import gives_files
from bot.requests.spoken import SPOKEN_MOST, spoken
from queueing.core.jobs import Job
from queueing.core.requests import Capability, TextToSpeech

COMMAND = Command(
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


async def handle(context: Context, call: Call) -> Answer:
    own = call.text("text")
    job = await _answer(context, call)
    said = own or await _said(context, job) or spoken(call.invocation.quoted)
    options = given_in(call)
    mine = not own and job is not None and job.owner == call.invocation.user
    request = TextToSpeech(
        text=require_text(said, SPOKEN_MOST),
        source=job.id if job is not None and mine else None,
        **options,
    )
    return await submitted(context, call, request, options=options)


async def _answer(context: Context, call: Call) -> Job | None:
    """Return the job named or replied to whose result is a text. Raises `CallRefused`."""
    job_id = call.whole("id")
    job = await (replied_job(context, call) if job_id is None else own_job(context, call, job_id))
    return None if job is None or gives_files(job.request) else job


async def _said(context: Context, job: Job | None) -> str:
    output = await context.queue.jobs.output(job) if job is not None else None
    return spoken(output.text) if output is not None else ""
