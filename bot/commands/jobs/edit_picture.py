"""Pictures changed as a prompt says: `/edit` with pictures, and the button under one.

The button has a form for the words; on Telegram and the page a reply does the same.
"""

from dataclasses import fields

from bot.commands.call.context import Call, Context
from bot.commands.call.options import given_in
from bot.commands.call.sources import Source, all_sources
from bot.commands.call.submission import asking, placed
from bot.core.answers import Answer, Asked, Placed
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Content, Form, FormField
from bot.core.refusals import Declined, NoPicture, TooManyPictures
from bot.requests.creation import Drawing, DrawingOptions, require_taken
from bot.requests.masks import mask_of
from bot.texts.catalogue import word
from queueing.core.requests import REFERENCES_MOST, Capability, File, TextToImage

COMMAND = Command(
    name="edit-picture",
    help="command.edit_picture",
    hidden=True,
    opens_form=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True, positional=True),
        Param(name="number", kind=ParamKind.WHOLE, help="param.number", least=1, most=4),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.edited", positional=True),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    sources = await all_sources(context, call)
    if call.text("prompt") is None and not call.invocation.form:
        return _ask(call)
    return await edit_pictures(context, call, sources)


async def edit_pictures(context: Context, call: Call, sources: tuple[Source, ...]) -> Placed:
    """Submit pictures and the words that change them. Raises `CallRefused` and `Declined`."""
    given = given_in(call)
    model = call.text("model") or context.admission.usual_model(call.person, Capability.IMAGE_EDIT)
    own = {field.name for field in fields(DrawingOptions)}
    require_taken({n: v for n, v in given.items() if n not in own}, TextToImage, model, None)
    files, masked = await _files(call, tuple(source.file for source in sources))
    first = sources[0] if sources else None
    drawing = Drawing(
        prompt=call.text("prompt") or "",
        model=model,
        options=DrawingOptions(**given),
        files=files,
        edit=True,
        mask=masked,
        source=first.job_of(call.invocation.user) if first is not None else None,
    )
    by = await asking(context, call, Capability.IMAGE_EDIT)
    return placed(await context.admission.draw(by, drawing))


async def _files(call: Call, pictures: tuple[File, ...]) -> tuple[tuple[File, ...], bool]:
    """Return the pictures, then their mask if there is one, and whether there is."""
    if not pictures:
        raise Declined(NoPicture())
    in_field = any(each.option == "mask" for each in call.invocation.files)
    masked = in_field or bool(call.args.get("mask"))
    sent = masked and (in_field or len(pictures) > 1)
    references = pictures[:-1] if sent else pictures
    if not references:
        raise Declined(NoPicture())
    if len(references) > REFERENCES_MOST:
        raise Declined(TooManyPictures(count=len(references), limit=REFERENCES_MOST))
    if not masked:
        return references, False
    mask = await mask_of(references[0], pictures[-1] if sent else None)
    return (*references, mask), True


def _ask(call: Call) -> Asked:
    """Ask for the words: by a form, or by a reply if the platform has none."""
    language = call.language
    label = word(language, "form.edited")
    form = Form(
        command=COMMAND.name,
        job_id=call.whole("id"),
        title=word(language, "form.edit_this"),
        fields=(FormField(name="prompt", label=label, long=True, required=True),),
        send=word(language, "form.send"),
    )
    user_id = call.invocation.user.partition(":")[2]
    content = Content(body=call.say("edit_picture.reply"), awaits=True, mention=user_id)
    return Asked(form=form, content=content)
