"""Detects that the first word of a prompt may have been meant as a model's name.

Such a word stays in the prompt: it may be meant literally, and a job gets its place without a
question. The job's message mentions it once.
"""

from bot.chat.api.origin import NearModel
from bot.chat.api.table import ParamKind
from bot.chat.commands.context import Call, Context
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, TextToImage

_OF_TEXT = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
_LOOKED_AT = 20  # of the person's latest jobs


async def near_model(context: Context, call: Call, needs: Capability) -> NearModel | None:
    """Return the model that the first typed word resembles, or None if nothing needs saying."""
    text = _prompt(context, call)
    word = text.split(maxsplit=1)[0] if text else ""
    able = Capability.TEXT_TO_TEXT if needs in _OF_TEXT else Capability.TEXT_TO_IMAGE
    meant = context.catalog.misspelt(word, able)
    if meant is None or await _used_before(context, call.invocation.user, word):
        return None
    return NearModel(word=word, meant=meant)


def _prompt(context: Context, call: Call) -> str:
    """Return the text that was typed where a model could come first; "" for other calls."""
    if call.invocation.options or call.text("model") is not None:
        return ""
    command = next(each for each in context.commands if each.name == call.invocation.command)
    positional = {param.kind: param.name for param in command.params if param.positional}
    if ParamKind.MODEL not in positional:
        return ""
    return call.text(positional.get(ParamKind.TEXT, "")) or ""


async def _used_before(context: Context, user: str, word: str) -> bool:
    """Return whether the person recently began a prompt this way: then they know, or mean it."""
    jobs = await context.queue.jobs.history(user, limit=_LOOKED_AT)
    return any(_asked(job).casefold().startswith(word.casefold()) for job in jobs)


def _asked(job: Job) -> str:
    match job.request:
        case TextToImage(original=original, prompt=prompt):
            return original or prompt
        case Chat(messages=messages):
            return messages[-1].text
