"""`/ask [model] <question>`: a streamed answer. A reply to an answer continues its conversation.

The menu entry "Ask about this" shows a form for the question. A form cannot carry files, so a
message with attachments is answered without one. A recording or a forwarded text without a comment
is the question itself.
Late parts of an album join a waiting question or are refused.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.commands.call.context import Call, Context
from bot.commands.call.files import TAKES, enclosed
from bot.commands.call.forms import FORM_TEXT_MOST
from bot.commands.call.jobs import earlier_job, forwarded_in, name_of, quoted_in, words_behind
from bot.commands.call.options import WHEN
from bot.commands.call.submission import asking, placed
from bot.core.answers import AcceptedJob, Answer, FormReply
from bot.core.attachments import SPOKEN, AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content, Form, FormField
from bot.core.origin import Origin
from bot.core.platform import Album
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.admission import Question
from bot.requests.conversation import IMAGES, Conversation
from bot.requests.creation import require_text
from bot.texts.catalogue import word
from queueing.core.jobs import Job
from queueing.core.requests import Capability, ChatMessage, File

QUESTION_LIMIT = 20_000
TEXTS = 10

ASK = Command(
    name="ask",
    help="command.ask",
    topic=Topic.MAKE,
    example="example.ask",
    prose=True,
    takes={AttachmentKind.IMAGE: IMAGES, AttachmentKind.TEXT: TEXTS, **TAKES},
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
        Param(name="image", kind=ParamKind.IMAGE, help="param.look"),
        Param(name="about", kind=ParamKind.TEXT, help="param.about"),
        *WHEN,
    ),
)


async def handle_ask(context: Context, call: Call) -> Answer:
    return await put(context, call, require_text(call.text("prompt"), QUESTION_LIMIT))


async def put(context: Context, call: Call, question: str) -> Answer:
    """Submit a question with its attachments. Without text, a recording is the question."""
    given = await enclosed(context, call, QUESTION_LIMIT)
    earlier = await earlier_job(context, call)
    goes_on = earlier is not None and call.invocation.replied_to is not None
    subject = call.text("about") or ("" if goes_on else await _referred(context, call))
    subject = "\n\n".join(filter(None, (given.words, subject, forwarded_in(call))))
    cut = (word(call.language, "result.referred"),) if len(subject) > QUESTION_LIMIT else ()
    turn = asked(about(subject, question), given.shown, given.said, name=name_of(call))
    return await ask(context, call, call.text("model"), turn, earlier, cut=(*given.cut, *cut))


async def _referred(context: Context, call: Call) -> str:
    return await words_behind(context, call) or quoted_in(call)


def about(subject: str, question: str) -> str:
    """Return a question preceded by a quotation of its subject, if it has one."""
    return f"{_quoted(subject[:QUESTION_LIMIT])}\n\n{question}".rstrip() if subject else question


def asked(
    question: str,
    shown: tuple[File, ...],
    said: tuple[File, ...] = (),
    *,
    name: str | None = None,
) -> Conversation:
    """Return a question with its images and recordings.

    `name` is the speaker, if the model should know.
    """
    files = (*shown, *said)
    places = tuple(range(len(files)))
    turn = ChatMessage(
        role="user",
        text=question,
        images=places[: len(shown)],
        sounds=places[len(shown) :],
        name=name,
    )
    return Conversation(turns=(turn,), files=files)


async def ask(
    context: Context,
    call: Call,
    named: str | None,
    talk: Conversation,
    earlier: Job | None = None,
    *,
    cut: Sequence[str] = (),
) -> AcceptedJob:
    """Submit a question that may continue an earlier one. Raises `Declined`."""
    needs = Capability.VISION if talk.has_image else Capability.TEXT_TO_TEXT
    invocation = call.invocation
    question = Question(
        talk=talk,
        model=named,
        earlier=earlier,
        replies=invocation.replied_to is not None,
        system=context.live.chat_settings.of(invocation.platform, invocation.places).system,
    )
    by = await asking(context, call, needs, cut=cut)
    return placed(await context.admission.ask(by, question))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


ASK_ABOUT = Command(
    name="ask-about",
    help="menu.ask_about",
    menu="menu.ask_about",
    hidden=True,
    opens_form=True,
    takes=ASK.takes,
)


async def handle_ask_about(context: Context, call: Call) -> Answer:
    if call.invocation.files:
        return await _at_once(context, call)
    quoted = quoted_in(call)[:FORM_TEXT_MOST]
    if not quoted:
        raise Declined(Refusal(RefusalKind.NOTHING_TO_ASK))
    language = call.language
    question = word(language, "form.question")
    subject = word(language, "form.about")
    form = Form(
        command="ask",
        title=word(language, "form.ask_about"),
        fields=(
            FormField(name="prompt", label=question, required=True),
            FormField(name="about", label=subject, value=quoted, long=True, required=True),
        ),
        send=word(language, "form.send"),
    )
    return FormReply(form=form, content=Content(body=(question,)))


async def _at_once(context: Context, call: Call) -> Answer:
    """Ask without a form about the message's files and text."""
    given = await enclosed(context, call, QUESTION_LIMIT)
    subject = "\n\n".join(each for each in (given.words, quoted_in(call)) if each)
    key = "ask_about.question" if subject or given.said else "describe.question"
    question = about(subject, word(call.language, key))
    turn = asked(question, given.shown, given.said)
    return await ask(context, call, None, turn, cut=given.cut)


LISTEN = Command(
    name="listen",
    help="command.listen",
    hidden=True,
    takes=ASK.takes,
    params=tuple(param for param in ASK.params if param.name == "model"),
)


async def handle_listen(context: Context, call: Call) -> Answer:
    return await put(context, call, "")


def refuse_incomplete(album: Album) -> None:
    """Refuse part of an album whose other parts are missing. Raises `Declined`."""
    if album.begun:
        raise Declined(Refusal(RefusalKind.ALBUM_LATE))
    if album.partial:
        raise Declined(Refusal(RefusalKind.ALBUM_PARTIAL))


async def join_late(context: Context, call: Call, job: Job) -> Answer:
    """Add late album parts to the question they were sent with, while it waits.

    Parts that are already included change nothing. Raises `Declined`.
    """
    origin = Origin.model_validate_json(job.reply_to)
    late = tuple(file for file in call.invocation.files if file.part not in origin.parts)
    if not late:
        return AcceptedJob(job=job)
    if not job.held and any(file.kind in SPOKEN for file in late):
        raise Declined(Refusal(RefusalKind.ALBUM_TOO_LATE, job=job.id))
    by = await asking(context, call, Capability.VISION)
    given = await enclosed(context, call, QUESTION_LIMIT, late)
    changes = {
        "parts": (*origin.parts, *(file.part for file in late)),
        "cut": (*origin.cut, *given.cut),
    }
    by = replace(by, reply_to=origin.model_copy(update=changes).model_dump_json())
    words = about(given.words, call.invocation.text)
    return placed(await context.admission.add(by, job, asked(words, given.shown, given.said)))
