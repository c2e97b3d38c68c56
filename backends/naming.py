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
    return [
        brief if common[brief] == 1 else _typed(full.replace("/", "-"))
        for brief, full in zip(short, ids, strict=True)
    ]


def _typed(name: str) -> str:
    """Return a word without spaces and "=", which separate words in a command."""
    return re.sub(r"[\s=]+", "-", ENDINGS.sub("", name.strip())).strip("-").casefold() or "model"
