"""The names people use for a server's LoRAs, and which file each one means. Pure."""

import re
from collections.abc import Sequence

from queueing.core.errors import Rejected
from queueing.core.near import near
from queueing.core.problems import What, problem

_ENDING = re.compile(r"\.(safetensors|sft|ckpt|pt|pth|bin|gguf)$", re.IGNORECASE)
_LISTED = 10  # names told to a person whose own is unknown
_NEAR = 3
_COMPARED = 1000  # names a word is compared with, because comparing takes time
_NAME_MOST = 80  # characters in a LoRA's name


def lora_named(word: str, files: Sequence[str]) -> str:
    """Return the LoRA file a person means, by path or by name without folder and ending.

    Raises `Rejected` with the available names.
    """
    wanted = word.casefold()
    called = ((file, {file, _base_name(file), lora_name(file)}) for file in files)
    found = [file for file, names in called if wanted in {name.casefold() for name in names}]
    if found:
        return found[0]
    names = [lora_name(file) for file in files[:_COMPARED]]
    meant = near(word, names, most=_NEAR)
    there, name = ", ".join(meant or names[:_LISTED]), word[:_NAME_MOST]
    why = (
        problem(What.OTHER_LORAS, name=name, there=there)
        if there
        else problem(What.NO_LORA, name=name)
    )
    raise Rejected(f"no LoRA is called {word!r}", problem=why)


def lora_name(file: str) -> str:
    """Return the name people use for a LoRA: its file's name without folder and ending.

    Invisible characters are removed: a name must not reverse the text around it.
    """
    bare = _ENDING.sub("", _base_name(file))
    return "".join(char for char in bare if char.isprintable())[:_NAME_MOST]


def _base_name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]  # servers on Windows list their own slashes
