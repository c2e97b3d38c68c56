"""`/ask [model] <question>`: a streamed answer; a reply to an answer continues its conversation."""

from collections.abc import Sequence

from bot.commands.call import talks
from bot.commands.call.context import Call, Context
from bot.commands.call.files import TAKES, enclosed
from bot.commands.call.submission import asking, placed
from bot.commands.call.when import WHEN
from bot.core.answers import Answer, Placed
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.requests.admission import NewQuestion
from bot.requests.conversation import PICTURES, Talk
from bot.requests.creation import require_text
from queueing.core.jobs import Job
from queueing.core.requests import Capability, ChatMessage, File

QUESTION_LIMIT = 20_000
TEXTS = 10

COMMAND = Command(
    name="ask",
    help="command.ask",
    topic=Topic.MAKE,
    example="example.ask",
    prose=True,
    takes={AttachmentKind.PICTURE: PICTURES, AttachmentKind.TEXT: TEXTS, **TAKES},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_TEXT,),
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
        *WHEN,
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    return await put(context, call, require_text(call.text("prompt"), QUESTION_LIMIT))


async def put(context: Context, call: Call, question: str) -> Answer:
    """Ask a question about what came with it; without words, a recording is the question."""
    given = await enclosed(context, call, QUESTION_LIMIT)
    earlier = await talks.earlier_job(context, call)
    goes_on = earlier is not None and call.invocation.replied_to is not None
    subject = call.text("about") or ("" if goes_on else talks.quoted_in(call))
    question = about("\n\n".join(each for each in (given.words, subject) if each), question)
    turn = asked(question, given.shown, given.said, name=talks.name_of(call))
    return await ask(context, call, call.text("model"), turn, earlier, cut=given.cut)


def about(subject: str, question: str) -> str:
    """Return a question after a quotation of what it is about, if anything."""
    return f"{_quoted(subject[:QUESTION_LIMIT])}\n\n{question}".rstrip() if subject else question


def asked(
    question: str,
    shown: tuple[File, ...],
    said: tuple[File, ...] = (),
    *,
    name: str | None = None,
) -> Talk:
    """Return a question with its pictures and recordings.

    `name` is the speaker, if the model should know.
    """
    files = (*shown, *said)
    places = tuple(range(len(files)))
    turn = ChatMessage(
        role="user",
        text=question,
        pictures=places[: len(shown)],
        sounds=places[len(shown) :],
        name=name,
    )
    return Talk(turns=(turn,), files=files)


async def ask(
    context: Context,
    call: Call,
    named: str | None,
    talk: Talk,
    earlier: Job | None = None,
    *,
    cut: Sequence[str] = (),
) -> Placed:
    """Accept a question that continues an earlier one. Raises `Declined`."""
    needs = Capability.VISION if talk.pictured else Capability.TEXT_TO_TEXT
    invocation = call.invocation
    question = NewQuestion(
        talk=talk,
        model=named,
        earlier=earlier,
        replies=invocation.replied_to is not None,
        system=context.chat_settings.of(invocation.platform, invocation.places).system,
    )
    by = await asking(context, call, needs, cut=cut)
    return placed(await context.admission.ask(by, question))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
