"""Maps the names that people type for models and LoRAs to the server's names. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from queueing.core.catalog import near
from queueing.core.errors import ProblemKind, Rejected, problem

_ENDING = re.compile(r"\.(safetensors|sft|ckpt|pt|pth|bin|gguf)$", re.IGNORECASE)
_LISTED = 10  # names suggested for an unknown one
_NEAR = 3
_COMPARED = 1000  # most names to compare a word with, because comparing takes time
_NAME_MOST = 80  # characters in a LoRA's name


def lora_named(word: str, files: Sequence[str]) -> str:
    """Return the LoRA file that a word means: a path, or an end of one that no other file has.

    Case and extension do not matter, and folders may be left out or separated in either way.
    Raises `Rejected` with the available names, or with those the word could mean.
    """
    if word in files:
        return word
    wanted = comparable(_readable(word)).strip("/")[:_NAME_MOST]
    found = [file for file in dict.fromkeys(files) if wanted in map(comparable, _ends(file))]
    whole = [file for file in found if comparable(_whole(file)) == wanted]
    found = whole if len(whole) == 1 else found
    if len(found) == 1:
        return found[0]
    raise _ambiguous(word, found, files) if found else _unknown(word, files)


def lora_names(files: Sequence[str]) -> tuple[str, ...]:
    """Return the names people use for LoRAs: the shortest end of each path that only it has."""
    unique = dict.fromkeys(files)
    common = Counter(end for file in unique for end in {comparable(end) for end in _ends(file)})
    return tuple(
        next((end for end in _ends(file) if common[comparable(end)] == 1), _whole(file))
        for file in unique
    )


def _ambiguous(word: str, found: Sequence[str], files: Sequence[str]) -> Rejected:
    names = dict(zip(dict.fromkeys(files), lora_names(files), strict=True))
    there = ", ".join([names[file] for file in found][:_LISTED])
    why = problem(ProblemKind.AMBIGUOUS_LORA, name=word[:_NAME_MOST], there=there)
    return Rejected(f"several LoRAs are called {word!r}", problem=why)


def _unknown(word: str, files: Sequence[str]) -> Rejected:
    names = lora_names(files[:_COMPARED])
    meant = near(word, names, most=_NEAR) or near(base_name(word), names, most=_NEAR)
    there, name = ", ".join(meant or names[:_LISTED]), word[:_NAME_MOST]
    why = (
        problem(ProblemKind.OTHER_LORAS, name=name, there=there)
        if there
        else problem(ProblemKind.NO_LORA, name=name)
    )
    return Rejected(f"no LoRA is called {word!r}", problem=why)


def _ends(file: str) -> list[str]:
    """Return the names that a file could be called by: first without extension, the shortest first.

    A folder and its extension are added until the name is the whole path.
    """
    parts = _readable(file).strip("/").split("/")
    paths = ["/".join(parts[at:]) for at in reversed(range(len(parts)))]
    ends = [*(_ENDING.sub("", path) for path in paths), *paths]
    return [end[:_NAME_MOST] for end in ends if end]


def _whole(file: str) -> str:
    return [_readable(file)[:_NAME_MOST], *_ends(file)][-1]


def _readable(file: str) -> str:
    """Return a path without invisible characters, which could reverse the text around a name."""
    return "".join(char for char in with_slashes(file) if char.isprintable())


def lora_word(name: str) -> str:
    """Return a LoRA's name in one case, without its extension, to compare it with another."""
    return _ENDING.sub("", comparable(_readable(name)).strip("/"))


def base_name(file: str) -> str:
    """Return a file's name without its folder."""
    return with_slashes(file).rpartition("/")[2]


def short_name(file: str) -> str:
    """Return a model file's name without its folder and extension."""
    return _ENDING.sub("", base_name(file))


def comparable(name: str) -> str:
    """Return a file's name with one kind of separator and in one case."""
    return with_slashes(name).casefold()


def one_like(name: str, choices: Collection[str], form: Callable[[str], str]) -> str | None:
    """Return the choice that is the name, or else the only one that has the same form, or None."""
    if name in choices:
        return name
    wanted = form(name)
    alike = [choice for choice in choices if form(choice) == wanted]
    return alike[0] if len(alike) == 1 else None


def with_slashes(name: str) -> str:
    """Return a file's name with one kind of separator, because Windows servers list backslashes."""
    return name.replace("\\", "/")


ENDINGS = re.compile(r"(:latest|\.gguf|\.safetensors|\.ckpt)$", re.IGNORECASE)


def catalog_names(ids: Sequence[str]) -> list[str]:
    """Return a name for each id, in order: short where that is unique, and without spaces.

    "qwen/Qwen3-8B" becomes "qwen3-8b" unless another publisher has a "qwen3-8b" too.
    """
    short = [_typed(base_name(name)) for name in ids]
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
