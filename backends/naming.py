"""Turns servers' names of models into names people can type. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

ENDINGS = re.compile(r"(:latest|\.gguf|\.safetensors|\.ckpt)$", re.IGNORECASE)


def catalog_names(ids: Sequence[str]) -> list[str]:
    """Return a name for each id, in order: short where that is unique, and without spaces.

    "qwen/Qwen3-8B" becomes "qwen3-8b" unless another publisher has a "qwen3-8b" too.
    """
    short = [_typed(name.replace("\\", "/").rpartition("/")[2]) for name in ids]
    common = Counter(short)
    names: list[str] = []
    for brief, full in zip(short, ids, strict=True):
        name = brief if common[brief] == 1 else _typed(re.sub(r"[/\\]+", "-", full))
        numbered = (name, *(f"{name}-{number}" for number in range(2, len(ids) + 1)))
        names.append(next(each for each in numbered if each not in names))
    return names


def _typed(name: str) -> str:
    """Return a word without spaces and "=", which separate words in a command."""
    return re.sub(r"[\s=]+", "-", ENDINGS.sub("", name.strip())).strip("-").casefold() or "model"
