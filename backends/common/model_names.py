"""Maps the names that people type for models and LoRAs to the server's names. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

from queueing.core.catalog import near
from queueing.core.errors import ProblemKind, Rejected, problem

_ENDING = re.compile(r"\.(safetensors|sft|ckpt|pt|pth|bin|gguf)$", re.IGNORECASE)
_LISTED = 10  # names suggested for an unknown one
_NEAR = 3
_COMPARED = 1000  # most names to compare a word with, because comparing takes time
_NAME_MOST = 80  # characters in a LoRA's name


def lora_named(word: str, files: Sequence[str]) -> str:
    """Return the LoRA file for a path, or for a name without folder and extension.

    Raises `Rejected`, which lists the available names.
    """
    wanted = word.casefold()
    called = ((file, {file, base_name(file), lora_name(file)}) for file in files)
    found = [file for file, names in called if wanted in {name.casefold() for name in names}]
    if found:
        return found[0]
    names = [lora_name(file) for file in files[:_COMPARED]]
    meant = near(word, names, most=_NEAR)
    there, name = ", ".join(meant or names[:_LISTED]), word[:_NAME_MOST]
    why = (
        problem(ProblemKind.OTHER_LORAS, name=name, there=there)
        if there
        else problem(ProblemKind.NO_LORA, name=name)
    )
    raise Rejected(f"no LoRA is called {word!r}", problem=why)


def lora_name(file: str) -> str:
    """Return the name that people use for a LoRA: its file name without folder and extension.

    Removes invisible characters, such as those that reverse the direction of the surrounding text.
    """
    bare = _ENDING.sub("", base_name(file))
    return "".join(char for char in bare if char.isprintable())[:_NAME_MOST]


def base_name(file: str) -> str:
    """Return a file's name without its folder."""
    return file.replace("\\", "/").rpartition("/")[2]  # Windows servers list backslashes


def comparable(name: str) -> str:
    """Return a file's name with one kind of separator and in one case."""
    return name.replace("\\", "/").casefold()


ENDINGS = re.compile(r"(:latest|\.gguf|\.safetensors|\.ckpt)$", re.IGNORECASE)


def catalog_names(ids: Sequence[str]) -> list[str]:
    """Return a name for each id, in order: short where that is unique, and without spaces.

    "qwen/Qwen3-8B" becomes "qwen3-8b" unless another publisher has a "qwen3-8b" too.
    """
    short = [_typed(name.replace("\\", "/").rpartition("/")[2]) for name in ids]
    common = Counter(short)
    names: dict[str, None] = {}
    numbers: Counter[str] = Counter()  # a server may list the same name a thousand times
    for brief, full in zip(short, ids, strict=True):
        name = found = brief if common[brief] == 1 else _typed(re.sub(r"[/\\]+", "-", full))
        while found in names:
            numbers[name] += 1
            found = f"{name}-{numbers[name] + 1}"
        names[found] = None
    return list(names)


def _typed(name: str) -> str:
    """Return a word without spaces and "=", which separate words in a command.

    Removes invisible characters, such as those that reverse the direction of the surrounding text.
    """
    joined = re.sub(r"[\s=]+", "-", ENDINGS.sub("", name.strip()))
    seen = "".join(char for char in joined.casefold() if char.isprintable())
    return seen[:_NAME_MOST].strip("-/") or "model"
