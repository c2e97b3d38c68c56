"""Finds the LoRAs a person names among those of a server. Pure."""

from collections.abc import Sequence

from backends.common.naming import ENDINGS
from queueing.core.errors import Rejected
from queueing.core.near import near
from queueing.core.problems import What, problem

_LISTED = 5  # names told to a person whose own is unknown
_NAME_MOST = 80


def shown(path: str) -> str:
    """Return what people call a LoRA: its name without folder and ending."""
    return ENDINGS.sub("", path.replace("\\", "/").rpartition("/")[2])


def found(word: str, paths: Sequence[str]) -> str:
    """Return the path of the LoRA a person means. Raises `Rejected` with names that resemble it."""
    wanted = word.casefold()
    for path in paths:
        if wanted in {path.casefold(), shown(path).casefold()}:
            return path
    names = [shown(path) for path in paths]
    there = ", ".join(near(word, names, most=_LISTED) or names[:_LISTED])
    name = word[:_NAME_MOST]
    why = (
        problem(What.OTHER_LORAS, name=name, there=there)
        if there
        else problem(What.NO_LORA, name=name)
    )
    raise Rejected(f"no LoRA is called {word!r}", problem=why)
