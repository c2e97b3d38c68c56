"""`/ask [model] <question>`: a streamed answer; a reply to an answer continues its conversation."""

from bot.commands import place
from bot.commands.context import Answer, Call, Context, Placed, bounded, usual_model
from bot.commands.table import Command, Param, ParamKind
from queueing.jobs import Job, JobState
from queueing.requests import Capability, Chat, ChatMessage

QUESTION_LIMIT = 20_000
REMEMBERED_CHARS = 24_000  # of a conversation; older turns are left out first
PICTURES = 4

COMMAND = Command(
    name="ask",
    help="command.ask",
    params=(
        Param(name="model", kind=ParamKind.MODEL, help="param.model", positional=True),
        Param(
            name="prompt",
            kind=ParamKind.TEXT,
            help="param.question",
            required=True,
            positional=True,
        ),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.look"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    question = bounded(call.text("prompt"), QUESTION_LIMIT)
    files = await place.pictures(call, most=PICTURES)
    earlier = await _conversation(context, call)
    model = call.text("model") or (earlier.model if earlier else None)
    if model is None:
        model = usual_model(
            context, call.person, Capability.VISION if files else Capability.TEXT_TO_TEXT
        )
    asked = ChatMessage(role="user", text=question, pictures=tuple(range(len(files))))
    before = await _turns(context, earlier) if earlier else ()
    request = Chat(messages=(*before, asked))
    return Placed(job=await place.place(context, call, model, request, files))


async def _conversation(context: Context, call: Call) -> Job | None:
    """Return the caller's own answered job this is a reply to, if it is one."""
    ref = call.invocation.replied_to
    job_id = await context.records.job_of(ref) if ref else None
    job = await context.queue.get(job_id) if job_id is not None else None
    if job is None or job.state is not JobState.COMPLETED or not isinstance(job.request, Chat):
        return None
    return job if context.access.may_touch(call.invocation.user, job) else None


async def _turns(context: Context, job: Job) -> tuple[ChatMessage, ...]:
    """Return what was said so far, newest turns first to be kept; pictures are not sent again."""
    if not isinstance(job.request, Chat):
        return ()
    output = await context.queue.output(job)
    said = [message.model_copy(update={"pictures": ()}) for message in job.request.messages]
    if output is not None:
        said.append(ChatMessage(role="assistant", text=output.text))
    kept: list[ChatMessage] = []
    room = REMEMBERED_CHARS
    for message in reversed(said):
        room -= len(message.text)
        if room < 0:
            break
        kept.append(message)
    return tuple(reversed(kept))
