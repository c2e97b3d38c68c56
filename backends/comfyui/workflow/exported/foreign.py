"""Other programs' placeholders in workflow files: what they mean, and Usher's words for them. Pure."""

import re
from collections.abc import Iterator, Mapping

from backends.comfyui.workflow.graph.nodes import WORDS, Graph, texts_in

_PLACEHOLDER = re.compile(
    r"%(\w+)%|\$\{(\w+)\}|\$(\w+)\b\$?|(?<!\{)\{ *(\w+) *\}(?!\})|<(\w+)>|\[(\w+)\]|__(\w+?)__|@(\w+)@"
    r"|\bPARAM_(?:INT_|FLOAT_|STR_)?(\w+)"
)
_CALLED: Mapping[str, str] = {
    "batch_size": "count",
    "cfg": "guidance",
    "cfg_scale": "guidance",
    "char_avatar": "image",
    "denoise": "strength",
    "input_image": "image",
    "init_image": "image",
    "negative_prompt": "negative",
    "negativeprompt": "negative",
    "noise_seed": "seed",
    "positive": "prompt",
    "positive_prompt": "prompt",
    "positiveprompt": "prompt",
    "sampler_name": "sampler",
    "scale": "guidance",
    "text": "prompt",
    "user_avatar": "image",
    "user_prompt": "prompt",
}
"""What other programs call the placeholders of `WORDS`."""
_NAMED_BY_USHER = "filename_prefix"  # ComfyUI itself reads %width% there

STANDS_FOR_NEGATIVE = re.compile(r"[\W_]*neg(ative)?[\W_]*(prompt)?[\W_]*(text)?", re.IGNORECASE)
_UNQUOTED = re.compile(r"(?<=:)\s*(\{\{ *[a-z][a-z0-9_]* *(?::[^{}]*)?\}\})(?=\s*[,}\]])")
_BARE = re.compile(r'(?<=:)\s*(\{\w+\}|(?!true|false|null)[A-Za-z_$%][^\s",{}\[\]]*)(?=\s*[,}\]])')
USUAL = {
    "seed": 0,
    "steps": 20,
    "scale": 7,
    "cfg": 7,
    "width": 1024,
    "height": 1024,
    "denoise": 1,
    "batch_size": 1,
    "batchsize": 1,
}
"""Usual values of what other programs replace by numbers, such as "%steps%"."""

_MARKED = re.compile(rf'"[%{{$]({"|".join(USUAL)})[%}}$]"', re.IGNORECASE)
_TEXTS = [name for name, word in _CALLED.items() if word in {"prompt", "negative"}]
_TEXT_IN_BRACES = re.compile(rf"\{{\{{ *({'|'.join(_TEXTS)}) *\}}\}}")
_WHOLE_IN_BRACES = re.compile(r'"\{\{ *(\w+) *\}\}"')
_BRACES = re.compile(r"\{\{+|\}\}+")


def hint_of(graph: Graph) -> str:
    """Return another program's placeholder that could be `{{prompt}}`, or ""."""
    found = list(_found_in(graph))
    best = next((each for each in found if each[2] == "prompt"), found[0] if found else None)
    return "" if best is None else f"; {_replaced(graph, *best)}"


def whole_values(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the nodes in which an input is another program's placeholder, and the remedy."""
    for key, written, word in _found_in(graph):
        values = graph[key].inputs.items()
        if any(value == written for name, value in values if name != _NAMED_BY_USHER):
            yield key, _replaced(graph, key, written, word)


def _found_in(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Yield other programs' placeholders: the node, the text as written, and our name for it."""
    for key, node in graph.items():
        for text in texts_in(node.inputs):
            for found in _PLACEHOLDER.finditer(text):
                if (word := _word_of(found)) is not None:
                    yield key, found[0], word


def _replaced(graph: Graph, key: str, written: str, word: str) -> str:
    return f"write {{{{{word}}}}} instead of {written} in node {key} ({graph[key].class_type})"


def _word_of(found: re.Match[str]) -> str | None:
    name = next(filter(None, found.groups())).casefold()
    return name if name in WORDS else _CALLED.get(name)


def stands_for(text: str) -> str | None:
    """Return Usher's word for a text that consists of another program's placeholder, or None."""
    found = _PLACEHOLDER.fullmatch(text)
    return _word_of(found) if found else None


def with_ours(text: str, word: str) -> str:
    """Return a text with Usher's placeholder for `word` in place of other programs' ones."""

    def ours(found: re.Match[str]) -> str:
        return f"{{{{{word}}}}}" if _word_of(found) == word else found[0]

    return _PLACEHOLDER.sub(ours, text)


def in_our_words(text: str) -> Iterator[str]:
    """Yield readings of a file with Usher's words for other programs' placeholders.

    The second puts placeholders and words in quotes, the third also has no double braces.
    """
    quoted = _BARE.sub(r' "\1"', _UNQUOTED.sub(r' "\1"', text))
    single = _BRACES.sub(_apart, _WHOLE_IN_BRACES.sub(r'"{\1}"', quoted))
    yield from map(_numbered, (text, quoted, single))


def _numbered(text: str) -> str:
    """Return a text with numbers and Usher's words for the marks of other programs."""
    text = _TEXT_IN_BRACES.sub(lambda found: f"{{{{{_CALLED[found[1]]}}}}}", text)
    for word in ("steps", "width", "height"):
        if f"{{{{{word}:" not in text:  # a default would be given elsewhere
            text = re.sub(rf'"\{{\{{ *{word} *\}}\}}"', str(USUAL[word]), text)
    return _MARKED.sub(lambda found: str(USUAL[found[1].casefold()]), text)


def _apart(found: re.Match[str]) -> str:
    return " ".join(found[0])
