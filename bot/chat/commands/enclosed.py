"""Everything that came with a question: pictures, words of files, recordings; checked and read.

What a model here cannot use is refused before anything is read, and so before anything is accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.chat.api.attachment_kinds import SPOKEN
from bot.chat.api.base import Attachment
from bot.chat.commands.attachments import pictures, shown_name, whole, words
from bot.chat.commands.context import Call, Context
from bot.requests.recordings import RECORDINGS
from bot.requests.sounds import checked_sound, require_sound_weight
from queueing.core.requests import Capability, File

TAKES = dict.fromkeys(SPOKEN, RECORDINGS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Enclosed:
    """What came with a question: `words` of files, `shown` pictures, `said` recordings."""

    words: str = ""
    shown: tuple[File, ...] = ()
    said: tuple[File, ...] = ()


async def enclosed(context: Context, call: Call, limit: int) -> Enclosed:
    """Return what came with a question, its words within `limit` characters.

    Raises `BadCall` and `Declined`.
    """
    spoken = [file for file in call.invocation.files if file.kind in SPOKEN]
    if spoken:
        context.admission.usual_model(call.person, Capability.SPEECH_TO_TEXT)
    return Enclosed(
        shown=await pictures(call),
        words=await words(call, limit),
        said=await _recordings(call, spoken),
    )


async def _recordings(call: Call, spoken: Sequence[Attachment]) -> tuple[File, ...]:
    """Return recordings as they are written down; their size is looked at before any is read."""
    for each in spoken:
        require_sound_weight(shown_name(each), each.size)
    if spoken:
        await call.turn()
    return tuple([await checked_sound(shown_name(each), await whole(each)) for each in spoken])
