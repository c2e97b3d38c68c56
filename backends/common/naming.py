"""Turns servers' model names into names people can type. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

_NAME_MOST = 80  # characters; a number may follow
ENDINGS = re.compile(r"(:latest|\.gguf|\.safetensors|\.ckpt)$", re.IGNORECASE)


def catalog_names(ids: Sequence[str]) -> list[str]:
    """Return a name for each id, in order: short where that is unique, and without spaces.

    "qwen/Qwen3-8B" becomes "qwen3-8b" unless another publisher has a "qwen3-8b" too.
    """
    short = [_typed(name.replace("\\", "/").rpartition("/")[2]) for name in ids]
    common = Counter(short)
    names: dict[str, None] = {}
    numbers: Counter[str] = Counter()  # a server may list one name a thousand times
    for brief, full in zip(short, ids, strict=True):
        name = found = brief if common[brief] == 1 else _typed(re.sub(r"[/\\]+", "-", full))
        while found in names:
            numbers[name] += 1
            found = f"{name}-{numbers[name] + 1}"
        names[found] = None
    return list(names)


def _typed(name: str) -> str:
    """Return a word without spaces and "=", which separate words in a command.

    Invisible characters are removed: a name must not reverse the text around it.
    """
    joined = re.sub(r"[\s=]+", "-", ENDINGS.sub("", name.strip()))
    seen = "".join(char for char in joined.casefold() if char.isprintable())
    return seen[:_NAME_MOST].strip("-/") or "model"
