"""`/ask [model] <question>`: a streamed answer; a reply to an answer continues its conversation."""

from bot.commands import place
from bot.commands.context import Answer, Call, Context, Placed, bounded, usual_model
from bot.commands.jobs import replied_job
from bot.commands.table import Command, Param, ParamKind, Topic
from bot.conversation import PICTURES, Talk, continued, room_chars
from bot.text_files import is_text_file
from queueing.jobs import Job
from queueing.requests import Capability, Chat, ChatMessage, File

QUESTION_LIMIT = 20_000

COMMAND = Command(
    name="ask",
    help="command.ask",
    topic=Topic.MAKE,
    example="example.ask",
    prose=True,
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=Capability.TEXT_TO_TEXT,
        ),
        Param(
            name="prompt",
            kind=ParamKind.TEXT,
            help="param.question",
            required=True,
            positional=True,
        ),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.look"),
        Param(name="about", kind=ParamKind.TEXT, help="param.about"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    question = bounded(call.text("prompt"), QUESTION_LIMIT)
    texts = [file for file in call.invocation.files if is_text_file(file.name, file.mime)]
    files = await place.pictures(call, most=PICTURES, apart_from=texts)
    read = await place.words(texts, QUESTION_LIMIT)
    earlier = await _conversation(context, call)
    model = call.text("model") or (earlier.model if earlier else None)
    about = call.text("about") or (call.invocation.quoted if earlier is None else "")
    if about := "\n\n".join(each for each in (read, about) if each):
        question = f"{_quoted(about[:QUESTION_LIMIT])}\n\n{question}"
    return await ask(context, call, model, asked(question, files), await _talk(context, earlier))


def asked(question: str, files: tuple[File, ...]) -> Talk:
    """Return a question with all its pictures."""
    turn = ChatMessage(role="user", text=question, pictures=tuple(range(len(files))))
    return Talk(turns=(turn,), files=files)


async def ask(
    context: Context, call: Call, model: str | None, question: Talk, earlier: Talk
) -> Placed:
    """Accept a question with what was said before it. Raises `Refused` or `CallRefused`."""
    if model is None:
        able = Capability.VISION if question.files else Capability.TEXT_TO_TEXT
        model = usual_model(context, call.person, able)
    spec = context.catalog.find(model)
    talk = continued(
        earlier,
        question,
        system=context.rooms.of(call.invocation.platform, call.invocation.chat).system,
        room=room_chars(spec),
        sees=spec is not None and Capability.VISION in spec.capabilities,
    )
    request = Chat(messages=talk.turns)
    return Placed(job=await place.place(context, call, model, request, talk.files))


async def _conversation(context: Context, call: Call) -> Job | None:
    """Return the job whose answer this is a reply to, whoever asked it: they read it here."""
    job = await replied_job(context, call)
    answered = job is not None and job.state.final and isinstance(job.request, Chat)
    return job if answered else None


async def _talk(context: Context, job: Job | None) -> Talk:
    """Return what was said up to a job's answer; one that was stopped has said nothing."""
    if job is None or not isinstance(job.request, Chat):
        return Talk()
    output = await context.queue.output(job)
    said = job.request.messages
    if output is not None:
        said = (*said, ChatMessage(role="assistant", text=output.text))
    return Talk(turns=said, files=await context.queue.inputs(job))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
