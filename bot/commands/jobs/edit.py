"""`/edit` and `/again`: repeat a request, with or without changes, and edit images by a prompt.

Without a new text, `/edit` answers with a form that holds the old values. With images and no job it
edits those images. It also edits an image that is replied to, or the latest one, if a model can.
"""

import re
from dataclasses import fields, replace
from typing import Any

from bot.commands.call import forms
from bot.commands.call.context import Call, Context
from bot.commands.call.forms import FORM_TEXT_MOST
from bot.commands.call.jobs import drawn_images, past_job, replied_job, shown_request
from bot.commands.call.options import ANY_OPTIONS, IMAGES, OPTIONS, given_in
from bot.commands.call.parser import literal, recheck
from bot.commands.call.sources import NUMBER, Source, all_sources
from bot.commands.call.submission import create, repeated
from bot.core.answers import AcceptedJob, Answer, FormReply
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content, Form, FormField
from bot.core.platform import Invocation
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests import shared_prompts
from bot.requests.creation import (
    PROMPT_LIMIT,
    Creation,
    DrawingOptions,
    R,
    changed,
    new_seed,
    require_taken,
    require_text,
)
from bot.requests.files.images import dimensions, mask_of
from bot.texts.catalogue import word
from queueing.core.jobs import Job
from queueing.core.requests import (
    REFERENCES_MOST,
    AnyRequest,
    Capability,
    Chat,
    Embed,
    File,
    Generation,
    SpeechToText,
    TextToImage,
    TextToSpeech,
)

_LOOKED_AT = 20  # of the person's latest jobs

AGAIN = Command(
    name="again",
    help="command.again",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle_again(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    request = job.request
    if isinstance(request, Generation):
        request = request.model_copy(update={"seed": new_seed()})
    return await repeated(context, call, job, request)


EDIT_IMAGE = Command(
    name="edit-image",
    help="command.edit_image",
    hidden=True,
    opens_form=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True, positional=True),
        NUMBER,
        Param(name="prompt", kind=ParamKind.TEXT, help="param.edited", positional=True),
        *ANY_OPTIONS,
    ),
)


async def handle_edit_image(context: Context, call: Call) -> Answer:
    sources = await all_sources(context, call)
    if call.text("prompt") is None and not call.invocation.form:
        context.admission.usual_model(call.person, Capability.IMAGE_EDIT)  # refuses before a form
        return _ask_for_words(call)
    return await edit_images(context, call, sources)


async def edit_images(context: Context, call: Call, sources: tuple[Source, ...]) -> AcceptedJob:
    """Submit images and the prompt that changes them. Raises `Declined`."""
    given = given_in(context, call)
    model = call.text("model") or context.admission.usual_model(call.person, Capability.IMAGE_EDIT)
    own = {field.name for field in fields(DrawingOptions)}
    require_taken({n: v for n, v in given.items() if n not in own}, TextToImage, model, None)
    files, masked = await _files(call, tuple(source.file for source in sources))
    first = sources[0] if sources else None
    drawing = Creation(
        prompt=call.text("prompt") or "",
        model=model,
        options=DrawingOptions(**given),
        files=files,
        edit=True,
        mask=masked,
        source=first.job_of(call.invocation.user) if first is not None else None,
    )
    return await create(context, call, Capability.IMAGE_EDIT, drawing)


async def _files(call: Call, images: tuple[File, ...]) -> tuple[tuple[File, ...], bool]:
    """Return the images followed by their mask, if there is one, and whether there is."""
    if not images:
        raise Declined(Refusal(RefusalKind.NO_IMAGE))
    in_field = any(each.option == "mask" for each in call.invocation.files)
    masked = in_field or bool(call.args.get("mask"))
    sent = masked and (in_field or len(images) > 1)
    references = images[:-1] if sent else images
    if not references:
        raise Declined(Refusal(RefusalKind.NO_IMAGE))
    if len(references) > REFERENCES_MOST:
        raise Declined(
            Refusal(RefusalKind.TOO_MANY_IMAGES, count=len(references), most=REFERENCES_MOST)
        )
    if not masked:
        return references, False
    mask = await mask_of(references[0], images[-1] if sent else None)
    return (*references, mask), True


def _ask_for_words(call: Call) -> FormReply:
    """Ask for the prompt: by a form, or by a reply if the platform has no forms."""
    language = call.language
    label = word(language, "form.edited")
    form = Form(
        command=EDIT_IMAGE.name,
        job_id=call.whole("id"),
        number=call.whole("number"),
        title=word(language, "form.edit_this"),
        fields=(FormField(name="prompt", label=label, long=True, required=True),),
        send=word(language, "form.send"),
    )
    user_id = call.invocation.user.partition(":")[2]
    content = Content(body=call.say("edit_image.reply"), awaits=True, mention=user_id)
    return FormReply(form=form, content=content)


EDIT = Command(
    name="edit",
    help="command.edit",
    topic=Topic.JOBS,
    opens_form=True,
    takes={AttachmentKind.IMAGE: REFERENCES_MOST + 1},
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
        *IMAGES,
        Param(name="mask", kind=ParamKind.MASK, help="param.mask"),
    ),
)


_PROSE = Chat | TextToSpeech
_NUMBER = re.compile(r"#?(\d{1,15})(?=\s|$)")


async def shaped(context: Context, command: Command, invocation: Invocation) -> Command:
    """Return a call's command: `/edit` with the options of the job it changes, if that has prose.

    Words such as "--amend" stay in a question or in what is read aloud.
    """
    if command is not EDIT:
        return command
    job = await _named(context, invocation)
    if job is None or job.owner != invocation.user or not isinstance(job.request, _PROSE):
        return EDIT
    others = {*ANY_OPTIONS} - {*OPTIONS.get(type(job.request), ())}
    return replace(EDIT, params=[each for each in EDIT.params if each not in others], prose=True)


async def _named(context: Context, invocation: Invocation) -> Job | None:
    """Return the job that a call names or replies to, whoever's it is."""
    named = _NUMBER.match(str(invocation.options.get("id", invocation.text)))
    if named is not None:
        return await context.queue.jobs.get(int(named[1]))
    at = invocation.replied_to
    job_id = await context.records.job_of(at) if at is not None else None
    return None if job_id is None else await context.queue.jobs.get(job_id)


async def handle_edit(context: Context, call: Call) -> Answer:
    if await _is_about_images(context, call):
        return await edit_images(context, call, await all_sources(context, call))
    job = await _meant(context, call)
    if (image := await _image_of(context, call, job)) is not None:
        return await edit_images(context, call, (image,))
    if call.args.keys() <= {"id"} and not call.invocation.form:
        return await _ask_for_changes(context, call, job)
    request, unused = _changed(context, call, job)
    return await repeated(context, call, job, request, unused=unused)


async def _is_about_images(context: Context, call: Call) -> bool:
    """Return whether a call edits images rather than an earlier request. Raises `Declined`.

    Only the image can be changed of another person's request.
    """
    at, job_id, files = call.invocation, call.whole("id"), call.invocation.files
    if job_id is not None:
        if any(not each.replied for each in files):
            raise Declined(Refusal(RefusalKind.IMAGE_OR_JOB, job=job_id))
        return False
    job = await replied_job(context, call)
    if job is None or any(not each.replied for each in files):
        return bool(files)
    able = context.catalog.able(Capability.IMAGE_EDIT)
    own = context.access.may_touch(at.user, job, at.rights)
    asks = call.text("prompt") is not None or not own
    return isinstance(job.request, TextToImage) and asks and bool(able)


async def _meant(context: Context, call: Call) -> Job:
    """Return the job to change. A new text alone skips speech, transcripts and embeddings."""
    at = call.invocation
    if at.form or at.replied_to is not None or call.whole("id") is not None:
        return await past_job(context, call)
    if call.text("prompt") is not None:
        await call.turn()
        for job in await context.queue.jobs.history(at.user, limit=_LOOKED_AT):
            if not isinstance(job.request, TextToSpeech | SpeechToText | Embed):
                return job
    return await past_job(context, call)


async def _image_of(context: Context, call: Call, job: Job) -> Source | None:
    """Return the image that a new text without a reply changes, if a model can edit it."""
    at = call.invocation
    pointed = at.form or at.replied_to is not None or call.whole("id") is not None
    if pointed or call.text("prompt") is None or not context.catalog.able(Capability.IMAGE_EDIT):
        return None
    images = await drawn_images(context, job) if isinstance(job.request, TextToImage) else ()
    return Source(file=images[0], job=job) if images else None


def _changed(context: Context, call: Call, job: Job) -> tuple[AnyRequest, tuple[str, ...]]:
    """Return a job's request with the call's changes, and what in its prompt has no effect.

    Raises `Declined`.
    """
    request, options = shown_request(job), given_in(context, call)
    unused: tuple[str, ...] = ()
    model = call.text("model") or job.model
    takes = context.queue.models.offer.options_of(model)
    require_taken(options, type(request), model, takes)
    recheck(OPTIONS.get(type(request), ()), call.args)
    if call.invocation.form:
        shown = {field.name for field in forms.fields(job, call.language, takes, None)}
        request = _emptied(request, frozenset(shown - call.args.keys()))
    text = call.text("prompt")
    if text and isinstance(request, Generation):
        drawing = Creation(prompt=text, options=DrawingOptions(**options))
        drawing, unused = shared_prompts.applied(drawing, shared_prompts.read(text), takes)
        text, options = drawing.prompt, dict(drawing.options.given)
        require_taken(options, type(request), model, takes)
    return changed(_with_words(request, text), options), unused


def _with_words(request: R, text: str | None) -> R:
    """Return a request with a new text, if there is one. Raises `Declined`."""
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
            raise Declined(Refusal(RefusalKind.NO_WORDS_TO_EDIT))
    return request.model_copy(update=changes)


def _emptied(request: R, fields: frozenset[str]) -> R:
    """Return a request without the fields emptied in its form. No seed means a new one."""
    changes: dict[str, Any] = dict.fromkeys(fields - {"prompt", "size", "seed"})
    if "size" in fields:
        changes |= {"width": None, "height": None}
    if "seed" in fields:
        changes["seed"] = new_seed()
    return request.model_copy(update=changes)


async def _ask_for_changes(context: Context, call: Call, job: Job) -> FormReply:
    """Ask for the changes: by a form, or by a reply if the platform has no forms."""
    request, language = shown_request(job), call.language
    if isinstance(request, SpeechToText):
        raise Declined(Refusal(RefusalKind.NO_WORDS_TO_EDIT))
    _require_again(context, job)
    takes = context.queue.models.offer.options_of(job.model)
    kind = forms.FORMS[type(request)]
    first, *others = forms.fields(job, language, takes, await _drawn_size(context, job))
    if not isinstance(request, _PROSE):
        first = replace(first, value=literal(first.value))
    fields = (first, *others)
    if any(len(field.value) > FORM_TEXT_MOST for field in fields):
        raise Declined(Refusal(RefusalKind.TOO_LONG_TO_EDIT, command=kind.command))
    form = Form(
        command="edit",
        job_id=job.id,
        title=word(language, kind.title),
        fields=fields,
        send=word(language, "form.send"),
    )
    user_id = call.invocation.user.partition(":")[2]
    body = call.say("edit.reply", text=fields[0].value)
    return FormReply(form=form, content=Content(body=body, awaits=True, mention=user_id))


def _require_again(context: Context, job: Job) -> None:
    """Refuse to change a job that a rule does not allow any more. Raises `Declined`."""
    spec = context.queue.models.offer.catalog.find(job.model)
    needed = (job.request.needs(has_files=each) for each in (False, True))
    able = next((each for each in needed if spec and each in spec.capabilities), None)
    if able is not None:
        context.admission.require(job.model, able)


async def _drawn_size(context: Context, job: Job) -> tuple[int, int] | None:
    """Return the size of a job's first image, for a request that named none."""
    if not isinstance(job.request, TextToImage) or job.request.width or job.request.upscale:
        return None
    output = await context.queue.jobs.output(job)
    return await dimensions(output.files[0]) if output and output.files else None
