"""`/edit <job>` and the button of that name: the request once more, with changes.

Without a new text it answers with a form that holds the old values.
"""

from bot.chat.api.answers import Answer, Asked
from bot.chat.api.content import Content, Form, FormField
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.image import OPTIONS, options_of
from bot.chat.commands.jobs import past_job, shown_request
from bot.chat.commands.submitting import repeated
from bot.chat.texts import word
from bot.requests.drawing import PROMPT_LIMIT, changed, new_seed, require_taken, require_text
from bot.requests.images import dimensions
from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage, TextToImage

FORM_TEXT_MOST = 4_000  # the limit of a field in Discord's forms

COMMAND = Command(
    name="edit",
    help="command.edit",
    topic=Topic.JOBS,
    opens_form=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.prompt", positional=True),
        *OPTIONS,
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    if call.args.keys() <= {"id"} and not call.invocation.form:
        return await _ask(context, call, job)
    request = shown_request(job)
    if isinstance(request, Chat):
        return await repeated(context, call, job, _asked_anew(call, request))
    return await repeated(context, call, job, _drawn_anew(context, call, job, request))


def _asked_anew(call: Call, request: Chat) -> Chat:
    question = require_text(call.text("prompt"), FORM_TEXT_MOST)
    *before, last = request.messages
    asked = ChatMessage(role=last.role, text=question, pictures=last.pictures)
    return request.model_copy(update={"messages": (*before, asked)})


def _drawn_anew(context: Context, call: Call, job: Job, request: TextToImage) -> TextToImage:
    options = options_of(call)
    require_taken(options, job.model, context.queue.models.offer.options_of(job.model))
    if call.invocation.form:
        shown = {field.name for field in _fields(context, call, job, None)}
        request = _emptied(request, frozenset(shown - call.args.keys()))
    if (text := call.text("prompt")) is not None:
        prompt = require_text(text, PROMPT_LIMIT)
        request = request.model_copy(update={"prompt": prompt, "original": None})
    return changed(request, options)


def _emptied(request: TextToImage, fields: frozenset[str]) -> TextToImage:
    """Return a request without the fields a person emptied in its form; no seed means a new one."""
    changes: dict[str, int | None] = dict.fromkeys(fields & {"negative", "steps"}, None)
    if "size" in fields:
        changes |= {"width": None, "height": None}
    if "seed" in fields:
        changes["seed"] = new_seed()
    return request.model_copy(update=changes)


async def _ask(context: Context, call: Call, job: Job) -> Asked:
    """Ask for the changes: by a form, or by a reply if the platform has none."""
    chat = isinstance(job.request, Chat)
    fields = _fields(context, call, job, await _drawn_size(context, job))
    if len(fields[0].value) > FORM_TEXT_MOST:
        raise CallRefused("refused.too_long_to_edit", command="ask" if chat else "image")
    form = Form(
        command="edit",
        job_id=job.id,
        title=word(call.language, "form.edit_question" if chat else "form.edit_picture"),
        fields=fields,
        send=word(call.language, "form.send"),
    )
    user_id = call.invocation.user.partition(":")[2]
    body = call.say("edit.reply", text=fields[0].value)
    return Asked(form=form, content=Content(body=body, awaits=True, mention=user_id))


async def _drawn_size(context: Context, job: Job) -> tuple[int, int] | None:
    """Return the size of a job's first picture, for a request that named none."""
    if not isinstance(job.request, TextToImage) or job.request.width or job.request.upscale:
        return None
    output = await context.queue.jobs.output(job)
    return await dimensions(output.files[0]) if output and output.files else None


def _fields(
    context: Context, call: Call, job: Job, drawn: tuple[int, int] | None
) -> tuple[FormField, ...]:
    """Return a field for the text and each option the model takes, with the old values.

    `drawn` is the size of the picture if the request named none.
    """
    request, language = shown_request(job), call.language
    if isinstance(request, Chat):
        said = request.messages[-1].text
        label = word(language, "form.question")
        return (FormField(name="prompt", label=label, value=said, long=True, required=True),)
    wrote = FormField(
        name="prompt",
        label=word(language, "form.prompt"),
        value=request.original or request.prompt,
        long=True,
        required=True,
    )
    takes = context.queue.models.offer.options_of(job.model)
    sides = drawn or (request.width, request.height)
    shown = {
        "negative": ("negative", "form.negative", request.negative),
        "size": ("width", "form.size", f"{sides[0]}x{sides[1]}" if all(sides) else None),
        "steps": ("steps", "form.steps", request.steps),
        "seed": ("seed", "form.seed", request.seed),
    }
    options = (
        FormField(name=name, label=word(language, key), value="" if value is None else str(value))
        for name, (field, key, value) in shown.items()
        if takes is None or field in takes
    )
    return (wrote, *options)
