"""Finds the voice that reads a text aloud, and says which voices there are instead. Pure."""

import re
from collections.abc import Sequence

from backends.openai.flavours.form import AudioForm
from queueing.core.errors import Rejected
from queueing.core.near import near
from queueing.core.problems import What, problem

OPENAI = frozenset(
    {
        *("alloy", "ash", "ballad", "coral", "echo", "fable"),
        *("nova", "onyx", "sage", "shimmer", "verse"),
    }
)
"""OpenAI's own voices, which servers map to theirs."""

_MIX = re.compile(r"[+-]")
_WEIGHT = re.compile(r"\([^()]*\)$")
_LISTED = 8  # voices named to a person
_NAME_MOST = 60  # characters of a wrong name


def voice_named(wanted: str, voices: Sequence[str], form: AudioForm) -> str:
    """Return a voice as the server spells it. Raises `Rejected` for one that it does not list."""
    if not voices:
        return wanted
    known = {voice.casefold(): voice for voice in voices}
    if (whole := known.get(wanted.casefold())) is not None:
        return whole
    named = (
        [_WEIGHT.sub("", part.strip()) for part in _MIX.split(wanted)] if form.mixes else [wanted]
    )
    also = OPENAI if form.mixes else frozenset()
    wrong = [name for name in named if name.casefold() not in known and name not in also]
    if not wrong:
        return wanted
    name = wrong[0][:_NAME_MOST]
    there = ", ".join(near(name, voices, most=_LISTED) or voices[:_LISTED])
    told = problem(What.OTHER_VOICES, name=name, there=there)
    raise Rejected(f"no voice is called {name!r}; there are {there}", problem=told)
