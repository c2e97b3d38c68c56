"""Checks requests and answers against the Bot API as data (tests/specs/telegram).

It knows the shapes, and the limits that the document states in prose: what Telegram does with a
request is left to `tests.fakes.telegram.telegram`.
"""

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parent / "telegram" / "api.min.json"

_LENGTH = re.compile(r"(\d+)-(\d+) (characters|bytes|items)")
_CONSTANT = re.compile(r"(?:must be|always) [\"“]?(\w+)[\"”]?")
_ATTACHED = "attach://"


class SpecMismatch(AssertionError):
    """A request or an answer is not what the document describes."""


@cache
def document() -> dict[str, Any]:
    """Return the document; read once."""
    loaded: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return loaded


def check_request(method: str, form: Mapping[str, str], files: Collection[str] = ()) -> None:
    """Raise `SpecMismatch` unless the Bot API has this method with such parameters.

    `form` has the fields of the form as they were sent, `files` the names of its files.
    """
    described = document()["methods"].get(method)
    if described is None:
        raise SpecMismatch(f"the Bot API has no {method}")
    fields = {field["name"]: field for field in described.get("fields", ())}
    attached = {name for name in files if name not in fields}
    given = set(form) | (set(files) - attached)
    if unknown := given - set(fields):
        raise SpecMismatch(f"{method} has no {sorted(unknown)}")
    for name, field in fields.items():
        if field["required"] and name not in given:
            raise SpecMismatch(f"{method} needs {name}")
    for name, text in form.items():
        value = _from_form(fields[name]["types"], text, f"{method}.{name}")
        _check_field(fields[name], value, f"{method}.{name}")
    if unnamed := attached - set(_attachments(form.values())):
        raise SpecMismatch(f"{method}: nothing refers to the files {sorted(unnamed)}")


def check_answer(method: str, result: Any) -> None:
    """Raise `SpecMismatch` unless that method may give such an answer."""
    returns = document()["methods"][method]["returns"]
    _check_any(returns, result, f"answer to {method}")


def parse(method: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return a request's parameters with their types. Raises `SpecMismatch`."""
    fields = {field["name"]: field for field in document()["methods"][method].get("fields", ())}
    return {
        name: _from_form(fields[name]["types"], text, f"{method}.{name}")
        for name, text in form.items()
    }


# ---------------------------------------------------------------- forms


def _from_form(types: list[str], text: str, what: str) -> Any:
    """Return the value of a form's field: texts unchanged, everything else is JSON."""
    if "Integer" in types and re.fullmatch(r"-?\d+", text):
        return int(text)
    if "String" in types:
        return text
    if "InputFile" in types and text.startswith(_ATTACHED):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise SpecMismatch(f"{what}: {text!r:.80} is not {types}") from None


def _attachments(texts: Collection[str]) -> list[str]:
    return [name for text in texts for name in re.findall(r"attach://(\w+)", text)]


# ---------------------------------------------------------------- values


def _check_field(field: Mapping[str, Any], value: Any, what: str) -> None:
    _check_any(field["types"], value, what)
    description = field["description"]
    if limits := _LENGTH.search(description):
        least, most, unit = int(limits[1]), int(limits[2]), limits[3]
        size = _size(value, unit)
        if not least <= size <= most:
            raise SpecMismatch(f"{what}: {size} {unit}, allowed are {least} to {most}")
    constant = _CONSTANT.search(description)
    if field["name"] in {"type", "source", "status"} and constant and value != constant[1]:
        raise SpecMismatch(f"{what}: {value!r} instead of {constant[1]!r}")


def _size(value: Any, unit: str) -> int:
    if unit == "bytes":
        return len(str(value).encode())
    if unit == "characters":  # in UTF-16 units, the stricter reading
        return len(str(value).encode("utf-16-le", "surrogatepass")) // 2
    return len(value)


def _check_any(types: list[str], value: Any, what: str) -> None:
    """Check a value against several allowed types; among objects, the nearest reports the error."""
    lists = [name for name in types if name.startswith(_LIST)]
    if len(lists) == len(types) > 1 and isinstance(
        value, list
    ):  # pictures and films mix in an album
        for index, each in enumerate(value):
            _check_any([name.removeprefix(_LIST) for name in lists], each, f"{what}[{index}]")
        return
    problems = []
    for name in types:
        try:
            _check(name, value, what)
        except SpecMismatch as problem:
            problems.append(problem)
        else:
            return
    raise problems[0] if len(problems) == 1 else SpecMismatch(f"{what}: {problems}")


def _check(name: str, value: Any, what: str) -> None:
    if name.startswith(_LIST):
        if not isinstance(value, list):
            raise SpecMismatch(f"{what}: {value!r:.80} is no list")
        for index, each in enumerate(value):
            _check(name.removeprefix(_LIST), each, f"{what}[{index}]")
    elif name in _BASIC:
        if not _BASIC[name](value):
            raise SpecMismatch(f"{what}: {value!r:.80} is no {name}")
    else:
        _check_object(name, value, what)


_LIST = "Array of "
_BASIC = {
    "Integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "Float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "Boolean": lambda value: isinstance(value, bool),
    "String": lambda value: isinstance(value, str),
    "InputFile": lambda value: isinstance(value, str) and value.startswith(_ATTACHED),
}


def _check_object(name: str, value: Any, what: str) -> None:
    described = document()["types"][name]
    if described.get("subtypes"):
        _check_any(described["subtypes"], value, what)
        return
    if not isinstance(value, dict):
        raise SpecMismatch(f"{what}: {value!r:.80} is no {name}")
    fields = {field["name"]: field for field in described.get("fields", ())}
    if unknown := set(value) - set(fields):
        raise SpecMismatch(f"{what}: {name} has no {sorted(unknown)}")
    for field in fields.values():
        if field["name"] in value:
            _check_field(field, value[field["name"]], f"{what}.{field['name']}")
        elif field["required"]:
            raise SpecMismatch(f"{what}: {name} needs {field['name']}")
