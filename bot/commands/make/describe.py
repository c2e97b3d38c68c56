"""`/describe` and `/transcribe`: describe an image, transcribe a recording."""

import re

from bot.commands.call.context import Call, Context
from bot.commands.call.files import meant_images
from bot.commands.call.jobs import earlier_job, name_of
from bot.commands.call.options import TRANSCRIPT_OPTIONS, WHEN, given_in
from bot.commands.call.sources import RECORDED, meant_recording
from bot.commands.call.submission import submitted
from bot.commands.make.ask import QUESTION_LIMIT, ask, asked
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.conversation import IMAGES
from bot.requests.creation import require_text
from bot.texts.catalogue import word
from queueing.core.requests import Capability, SpeechToText

DESCRIBE = Command(
    name="describe",
    help="command.describe",
    topic=Topic.MAKE,
    prose=True,
    menu="menu.describe",
    takes={AttachmentKind.IMAGE: IMAGES},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.VISION,),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.look_for", positional=True),
        Param(name="image", kind=ParamKind.IMAGE, help="param.look"),
    ),
)


async def handle_describe(context: Context, call: Call) -> Answer:
    files = await meant_images(context, call, most=IMAGES)
    question = call.text("prompt") or word(call.language, "describe.question")
    question = require_text(question, QUESTION_LIMIT)
    turn = asked(question, files, name=name_of(call) if call.text("prompt") else None)
    earlier = await earlier_job(context, call)
    return await ask(context, call, call.text("model"), turn, earlier)


_LANGUAGE = re.compile(r"([a-z]{2,3})(?:[-_][a-z]+)*", re.IGNORECASE)

TRANSCRIBE = Command(
    name="transcribe",
    help="command.transcribe",
    topic=Topic.MAKE,
    menu="menu.transcribe",
    takes=dict.fromkeys(RECORDED, 1),
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.SPEECH_TO_TEXT,),
        ),
        *TRANSCRIPT_OPTIONS,
        *WHEN,
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        Param(name="sound", kind=ParamKind.SOUND, help="param.sound"),
    ),
)


async def handle_transcribe(context: Context, call: Call) -> Answer:
    if call.text("model") is None and not context.catalog.able(Capability.SPEECH_TO_TEXT):
        raise Declined(Refusal(RefusalKind.NONE_TRANSCRIBES))  # before anything is downloaded
    recording = await meant_recording(context, call)
    options = given_in(context, call)
    if named := call.text("language"):
        options["language"] = language_code(named)
    request = SpeechToText(**options)
    return await submitted(context, call, request, (recording,), options=options)


def language_code(named: str) -> str:
    """Return the ISO 639 code of a language such as "de" or "de-AT". Raises `Declined`."""
    found = _LANGUAGE.fullmatch(named.strip())
    if found is None:
        raise Declined(Refusal(RefusalKind.NOT_A_LANGUAGE, value=named[:40]))
    return found[1].lower()
