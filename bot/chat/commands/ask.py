"""`/ask [model] <question>`: a streamed answer; a reply to an answer continues its conversation."""

from bot.chat.api.answers import Answer, Placed
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands import place, talks
from bot.chat.commands.context import Call, CallRefused, Context, bounded, usual_model
from bot.requests.conversation import PICTURES, Talk, continued, room_chars
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, ChatMessage, File

QUESTION_LIMIT = 20_000
TEXTS = 10

COMMAND = Command(
    name="ask",
    help="command.ask",
    topic=Topic.MAKE,
    example="example.ask",
    prose=True,
    takes={AttachmentKind.PICTURE: PICTURES, AttachmentKind.TEXT: TEXTS},
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
    files = await place.pictures(call)
    read = await place.words(call, QUESTION_LIMIT)
    earlier = await talks.earlier_job(context, call)
    goes_on = earlier is not None and call.invocation.replied_to is not None
    subject = call.text("about") or ("" if goes_on else talks.quoted_in(call))
    question = about("\n\n".join(each for each in (read, subject) if each), question)
    turn = asked(question, files, name=talks.name_of(call))
    return await ask(context, call, call.text("model"), turn, earlier)


def about(subject: str, question: str) -> str:
    """Return a question with what it is about quoted before it, if anything."""
    return f"{_quoted(subject[:QUESTION_LIMIT])}\n\n{question}" if subject else question


def asked(question: str, files: tuple[File, ...], *, name: str | None = None) -> Talk:
    """Return a question with all its pictures; `name` is who asks, where the model is to know."""
    pictures = tuple(range(len(files)))
    turn = ChatMessage(role="user", text=question, pictures=pictures, name=name)
    return Talk(turns=(turn,), files=files)


async def ask(
    context: Context, call: Call, named: str | None, question: Talk, earlier: Job | None = None
) -> Placed:
    """Accept a question that goes on with an earlier one. Raises `Refused` or `CallRefused`."""
    model = named or _model(context, call, question, earlier)
    spec = context.catalog.find(model)
    talk = continued(
        await talks.talk_of(context, earlier),
        question,
        system=context.rooms.of(call.invocation.platform, call.invocation.places).system,
        room=room_chars(spec),
        sees=spec is not None and Capability.VISION in spec.capabilities,
    )
    request = Chat(messages=talk.turns)
    job = await place.place(context, call, model, request, talk.files, earlier=earlier)
    return Placed(job=job)


def _model(context: Context, call: Call, question: Talk, earlier: Job | None) -> str:
    """Return the model a conversation goes on with, or else the person's usual one.

    Pictures need a model that sees; a usual model chosen since then comes first. Raises
    `CallRefused`.
    """
    able = Capability.VISION if question.files else Capability.TEXT_TO_TEXT
    names = context.catalog.able(able)
    if question.files and not names:
        raise CallRefused("refused.cannot_see")
    if earlier is not None and (spec := context.catalog.find(earlier.model)) is not None:
        replies = call.invocation.replied_to is not None
        chosen_since = earlier.queued_at <= (call.person.ask_model_at or 0.0)
        if spec.name in names and (replies or not chosen_since):
            return spec.name
    return usual_model(context, call.person, able)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
