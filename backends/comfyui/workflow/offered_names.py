"""File names and choices as a server offers them. Pure.

Servers on Windows list folders with a backslash, and templates come from servers of both kinds. A
server accepts a name only as it lists it.
"""

from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue

from backends.comfyui.workflow.graph.node_types import choices_in, inputs_for
from backends.common.model_names import base_name, comparable, one_like, with_slashes
from queueing.core.catalog import near

_LISTED = 10  # names of a short list, which is shown whole
_NEAREST = 5
_ALIKE = 0.5  # folders and endings of file names differ more than words do


def offered_name(name: str, choices: Collection[str]) -> str | None:
    """Return the choice that a name means: the same but for its separators, or for its case.

    Returns None if there is none, or if several differ from it only in case.
    """
    return one_like(name, choices, with_slashes) or one_like(name, choices, comparable)


def as_offered(
    inputs: Mapping[str, JsonValue], info: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """Return a node's inputs with each name as the server's description of the node offers it."""
    while changed := _respelled(inputs, info):  # a choice may add inputs with choices of their own
        inputs = {**inputs, **changed}
    return inputs


def _respelled(
    inputs: Mapping[str, JsonValue], info: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    known = inputs_for(info, inputs)
    found: dict[str, JsonValue] = {}
    for name, kind in {**known.required, **known.optional}.items():
        value, choices = inputs.get(name), choices_in(kind)
        if isinstance(value, str) and choices and value not in choices:
            offered = offered_name(value, choices)
            found |= {name: offered} if offered else {}
    return found


def in_short(name: str, choices: Sequence[str]) -> str:
    """Return what a server has instead of a name: everything, or what is most similar to it."""
    if len(choices) <= _LISTED:
        return f"it has: {', '.join(choices) or 'none'}"
    own = comparable(base_name(name))
    same = [choice for choice in choices if comparable(base_name(choice)) == own]
    close = dict.fromkeys((*same, *near(name, choices, most=_NEAREST, alike=_ALIKE)))
    if close:
        return f"the nearest of its {len(choices)}: {', '.join([*close][:_NEAREST])}"
    return f"it has: {', '.join(choices[:_LISTED])} …"
