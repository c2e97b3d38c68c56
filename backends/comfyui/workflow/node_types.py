"""A server's own description of a node type's inputs, whatever shape it has. Pure.

Some inputs depend on others: a choice brings inputs of its own, a list has as many as it needs.
They are written with dots, such as `format.quality` and `images.image0`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

_CHOICE = "COMFY_DYNAMICCOMBO_V3"
_LIST = "COMFY_AUTOGROW_V3"
_NAMES_MOST = 100  # in a list, as on the server


@dataclass(slots=True)
class Inputs:
    """The inputs of a node by name, as far as its own values decide them."""

    required: dict[str, JsonValue] = field(default_factory=dict)
    optional: dict[str, JsonValue] = field(default_factory=dict)


def inputs_for(info: Mapping[str, JsonValue], values: Mapping[str, JsonValue]) -> Inputs:
    """Return the inputs that a node with these values has, from the server's description."""
    found = Inputs()
    for part, kinds in _parts(info.get("input")):
        for name, kind in kinds.items():
            needed = part == "required"
            if needed and name not in values and _is_choice(kind):
                found.required[name] = kind
            _expand(found, name, kind, values, needed=needed)
    return found


def choices_in(kind: JsonValue) -> list[str] | None:
    """Return an input's choices, None for a free input; servers use three shapes."""
    match kind:
        case [list(choices), *_]:
            return [str(choice) for choice in choices]
        case ["COMBO", {"options": list(choices)}, *_]:
            return [str(choice) for choice in choices]
        case [kind_name, {"options": list(options)}, *_] if kind_name == _CHOICE:
            return [
                str(option["key"])
                for option in options
                if isinstance(option, dict) and "key" in option
            ]
        case _:
            return None


def _expand(
    found: Inputs, name: str, kind: JsonValue, values: Mapping[str, JsonValue], *, needed: bool
) -> None:
    match kind:
        case [str(kind_name), {"options": list(options)}, *_] if kind_name == _CHOICE:
            if name not in values:  # the server asks for an inner choice only where one is made
                return
            found.required[name] = kind
            for option in options:
                if isinstance(option, dict) and option.get("key") == values[name]:
                    for part, kinds in _parts(option.get("inputs")):
                        for inner, each in kinds.items():
                            wanted = part == "required"
                            _expand(found, f"{name}.{inner}", each, values, needed=wanted)
        case [str(kind_name), {"template": dict(template)}, *_] if kind_name == _LIST:
            for number, (inner, each) in enumerate(_listed(template)):
                wanted = needed and number < _whole(template.get("min"))
                (found.required if wanted else found.optional)[f"{name}.{inner}"] = each
        case _:
            (found.required if needed else found.optional)[name] = kind


def _listed(template: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the inputs of a list, as many as there can be."""
    kinds = [kind for _, part in _parts(template.get("input")) for kind in part.values()]
    names = template.get("names")
    if not isinstance(names, list):
        most = min(_whole(template.get("max")), _NAMES_MOST)
        names = [f"{template.get('prefix')}{number}" for number in range(most)]
    for name in names if kinds else ():
        yield str(name), kinds[0]


def _parts(inputs: JsonValue) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    for part in ("required", "optional"):
        kinds = inputs.get(part) if isinstance(inputs, dict) else None
        if isinstance(kinds, dict):
            yield part, kinds


def _is_choice(kind: JsonValue) -> bool:
    return isinstance(kind, list) and kind[:1] == [_CHOICE]


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
