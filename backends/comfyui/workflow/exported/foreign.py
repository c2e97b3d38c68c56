"""Other programs' placeholders in workflow files. Pure."""

import re
from collections.abc import Iterator, Mapping

from backends.comfyui.workflow.graph.nodes import WORDS, Graph, texts_in

_PLACEHOLDER = re.compile(
    r"%(\w+)%|\$\{(\w+)\}|\$(\w+)\b|(?<!\{)\{ *(\w+) *\}(?!\})|<(\w+)>|\[(\w+)\]|__(\w+?)__|@(\w+)@"
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
    "scale": "guidance",
    "text": "prompt",
    "user_avatar": "image",
    "user_prompt": "prompt",
}
"""What other programs call the placeholders of `WORDS`."""
_NAMED_BY_USHER = "filename_prefix"  # ComfyUI itself reads %width% there


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
                name = next(filter(None, found.groups())).casefold()
                word = name if name in WORDS else _CALLED.get(name)
                if word is not None:
                    yield key, found[0], word


def _replaced(graph: Graph, key: str, written: str, word: str) -> str:
    return f"write {{{{{word}}}}} instead of {written} in node {key} ({graph[key].class_type})"
