"""`/edit <job>` and the button of that name: the request once more, with some of it changed.

Without a new text it answers with a form that holds the old values.
"""

from bot.chat.api.answers import Answer, Asked, Placed
from bot.chat.api.content import Content, Form, FormField
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands import drawing, place
from bot.chat.commands.context import Call, CallRefused, Context, bounded
from bot.chat.commands.drawing import OPTIONS, PROMPT_LIMIT
from bot.chat.commands.jobs import past_job
from bot.chat.texts import word
from bot.requests.images import dimensions
from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage, TextToImage

FORM_TEXT_MOST = 4_000  # what a field of Discord's forms holds

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
    if isinstance(job.request, Chat):
        return await _ask_again(context, call, job, job.request)
    return await _draw_again(context, call, job, job.request)


async def _ask_again(context: Context, call: Call, job: Job, request: Chat) -> Placed:
    question = bounded(call.text("prompt"), FORM_TEXT_MOST)
    *before, last = request.messages
    asked = ChatMessage(role=last.role, text=question, pictures=last.pictures)
    request = request.model_copy(update={"messages": (*before, asked)})
    files = await context.queue.inputs(job)
    placed = await place.place(context, call, job.model, request, files, earlier=job)
    return Placed(job=placed)


async def _draw_again(context: Context, call: Call, job: Job, request: TextToImage) -> Placed:
    drawing.refuse_unsupported(call, job.model, context.queue.options(job.model))
    if call.invocation.form:
        shown = {field.name for field in _fields(context, call, job, None)}
        request = _emptied(request, frozenset(shown - call.args.keys()))
    if (text := call.text("prompt")) is not None:
        prompt = bounded(text, PROMPT_LIMIT)
        request = request.model_copy(update={"prompt": prompt, "original": None})
    request = drawing.changed(request, call)
    return await drawing.draw(context, call, job.model, request, await context.queue.inputs(job))


def _emptied(request: TextToImage, fields: frozenset[str]) -> TextToImage:
    """Return a request without what a person emptied in its form; no seed means a new one."""
    changes: dict[str, int | None] = dict.fromkeys(fields & {"negative", "steps"}, None)
    if "size" in fields:
        changes |= {"width": None, "height": None}
    if "seed" in fields:
        changes["seed"] = drawing.new_seed()
    return request.model_copy(update=changes)


async def _ask(context: Context, call: Call, job: Job) -> Asked:
    """Ask for the changes: by a form, or by a reply where the platform has none."""
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
    output = await context.queue.output(job)
    return await dimensions(output.files[0]) if output and output.files else None


def _fields(
    context: Context, call: Call, job: Job, drawn: tuple[int, int] | None
) -> tuple[FormField, ...]:
    """Return a field for the text and each option the model takes, with the old values.

    `drawn` is the size of the picture where the request named none.
    """
    request, language = job.request, call.language
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
    takes = context.queue.options(job.model)
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
