"""`/transcribe [model]` with a recording: what is said in it, written down."""

import re

from bot.commands.call.context import Call, Context
from bot.commands.call.options import TRANSCRIPT_OPTIONS, given_in
from bot.commands.call.parser import BadCall
from bot.commands.call.recordings import RECORDED, meant_recording
from bot.commands.call.submission import submitted
from bot.commands.call.when import WHEN
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from queueing.core.requests import Capability, SpeechToText

_LANGUAGE = re.compile(r"([a-z]{2,3})(?:[-_][a-z]+)*", re.IGNORECASE)

COMMAND = Command(
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


async def handle(context: Context, call: Call) -> Answer:
    if call.text("model") is None:  # refused before anything is downloaded
        context.admission.usual_model(call.person, Capability.SPEECH_TO_TEXT)
    recording = await meant_recording(context, call)
    options = given_in(call)
    if named := call.text("language"):
        options["language"] = language_code(named)
    request = SpeechToText(**options)
    return await submitted(context, call, request, (recording,), options=options)


def language_code(named: str) -> str:
    """Return the ISO 639 code of a language such as "de" or "de-AT". Raises `BadCall`."""
    found = _LANGUAGE.fullmatch(named.strip())
    if found is None:
        raise BadCall("problem.language", value=named[:40])
    return found[1].lower()
