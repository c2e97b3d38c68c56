"""`/edit <job>` and the button of that name: the request once more, with changes.

Without a new text it answers with a form that holds the old values. With pictures and no job it
changes these, and so it does with a picture that is replied to, if a model can.
"""

from typing import Any

from bot.commands.call import forms
from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.forms import FORM_TEXT_MOST
from bot.commands.call.jobs import past_job, replied_job, shown_request
from bot.commands.call.options import ANY_OPTIONS, OPTIONS, PICTURES, given_in
from bot.commands.call.parser import recheck
from bot.commands.call.sources import all_sources
from bot.commands.call.submission import repeated
from bot.commands.jobs.edit_picture import edit_pictures
from bot.core.answers import Answer, Asked
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content, Form
from bot.requests.creation import PROMPT_LIMIT, R, changed, new_seed, require_taken, require_text
from bot.requests.images import dimensions
from bot.requests.kinds import is_drawn
from bot.texts.catalogue import word
from queueing.core.jobs import Job
from queueing.core.requests import (
    REFERENCES_MOST,
    AnyRequest,
    Capability,
    Chat,
    Generation,
    SpeechToText,
    TextToImage,
    TextToSpeech,
)

COMMAND = Command(
    name="edit",
    help="command.edit",
    topic=Topic.JOBS,
    opens_form=True,
    takes={AttachmentKind.PICTURE: REFERENCES_MOST + 1},
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.edit_model",
            positional=True,
            able=(Capability.IMAGE_EDIT,),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.changes", positional=True),
        *ANY_OPTIONS,
        *PICTURES,
        Param(name="mask", kind=ParamKind.MASK, help="param.mask"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    if await _is_about_pictures(context, call):
        return await edit_pictures(context, call, await all_sources(context, call))
    job = await past_job(context, call)
    if call.args.keys() <= {"id"} and not call.invocation.form:
        return await _ask(context, call, job)
    return await repeated(context, call, job, _changed(context, call, job))


async def _is_about_pictures(context: Context, call: Call) -> bool:
    """Return whether a call changes pictures instead of a request. Raises `CallRefused`."""
    job_id, files = call.whole("id"), call.invocation.files
    if job_id is not None:
        if any(not each.replied for each in files):
            raise CallRefused("refused.picture_or_job", job=job_id)
        return False
    job = await replied_job(context, call)
    if job is None or any(not each.replied for each in files):
        return bool(files)
    able = context.catalog.able(Capability.IMAGE_EDIT)
    return is_drawn(job.request) and call.text("prompt") is not None and bool(able)


def _changed(context: Context, call: Call, job: Job) -> AnyRequest:
    """Return a job's request with what the call changes. Raises `Declined` and `BadCall`."""
    request = shown_request(job)
    options = given_in(call)
    model = call.text("model") or job.model
    takes = context.queue.models.offer.options_of(model)
    require_taken(options, type(request), model, takes)
    recheck(OPTIONS.get(type(request), ()), call.args)
    if call.invocation.form:
        shown = {field.name for field in forms.fields(job, call.language, takes, None)}
        request = _emptied(request, frozenset(shown - call.args.keys()))
    return changed(_with_words(request, call.text("prompt")), options)


def _with_words(request: R, text: str | None) -> R:
    """Return a request with another text, if there is one. Raises `Declined`."""
    changes: dict[str, Any] = {}
    match request:
        case Chat(messages=(*before, last)):
            question = require_text(text, FORM_TEXT_MOST)
            asked = last.model_copy(update={"text": question, "heard": "", "name": None})
            changes["messages"] = (*before, asked)
        case Generation() if text is not None:
            changes |= {"prompt": require_text(text, PROMPT_LIMIT), "original": None}
        case TextToSpeech() if text is not None:
            changes["text"] = require_text(text, FORM_TEXT_MOST)
        case SpeechToText() if text is not None:
            raise CallRefused("refused.no_words_to_edit", command="edit")
    return request.model_copy(update=changes)


def _emptied(request: R, fields: frozenset[str]) -> R:
    """Return a request without the fields a person emptied in its form; no seed means a new one."""
    changes: dict[str, Any] = dict.fromkeys(fields - {"prompt", "size", "seed"})
    if "size" in fields:
        changes |= {"width": None, "height": None}
    if "seed" in fields:
        changes["seed"] = new_seed()
    return request.model_copy(update=changes)


async def _ask(context: Context, call: Call, job: Job) -> Asked:
    """Ask for the changes: by a form, or by a reply if the platform has none."""
    request, language = shown_request(job), call.language
    if isinstance(request, SpeechToText):
        raise CallRefused("refused.no_words_to_edit", command="edit")
    takes = context.queue.models.offer.options_of(job.model)
    fields = forms.fields(job, language, takes, await _drawn_size(context, job))
    if any(len(field.value) > FORM_TEXT_MOST for field in fields):
        raise CallRefused("refused.too_long_to_edit", command=forms.command(request))
    form = Form(
        command="edit",
        job_id=job.id,
        title=word(language, forms.title(request)),
        fields=fields,
        send=word(language, "form.send"),
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
