"""Checks requests and answers against Discord's own OpenAPI document (tests/specs/discord).

It only knows the shapes: what Discord does with a request is left to `tests.fakes.discord.discord`.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENT = Path(__file__).parent / "discord" / "openapi.json"
BASE = "urn:discord"


class SpecMismatch(AssertionError):
    """A request or an answer is not what Discord's document describes."""


@cache
def document() -> dict[str, Any]:
    """Return the document; read once."""
    loaded: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return loaded


def check_request(method: str, path: str, body: object, *, multipart: bool = False) -> None:
    """Raise `SpecMismatch` unless Discord's API has this request with such a body."""
    template = template_of(method, path)
    operation = document()["paths"][template][method.lower()]
    media = "multipart/form-data" if multipart else "application/json"
    described = operation.get("requestBody", {}).get("content", {})
    if body is None:
        if operation.get("requestBody", {}).get("required"):
            raise SpecMismatch(f"{method} {path} needs a body")
        return
    if media not in described:
        raise SpecMismatch(f"{method} {path} takes no {media}")
    pointer = _pointer("paths", template, method.lower(), "requestBody", "content", media, "schema")
    _validate(pointer, body, f"request {method} {path}")


def check_answer(method: str, path: str, status: int, body: object) -> None:
    """Raise `SpecMismatch` unless Discord's document knows such an answer; it has no 5xx."""
    if status >= 500:
        return
    template = template_of(method, path)
    answers: Mapping[str, Any] = document()["paths"][template][method.lower()]["responses"]
    key = str(status) if str(status) in answers else f"{status // 100}XX"
    if key not in answers:
        raise SpecMismatch(f"{method} {path} never answers {status}")
    answer = answers[key]
    where: tuple[str, ...] = ("paths", template, method.lower(), "responses", key)
    if "$ref" in answer:
        where = tuple(answer["$ref"].removeprefix("#/").split("/"))
        answer = document()["components"]["responses"][where[-1]]
    if "content" not in answer:
        if body is not None:
            raise SpecMismatch(f"{method} {path} answers {status} without a body")
        return
    pointer = _pointer(*where, "content", "application/json", "schema")
    _validate(pointer, body, f"answer {status} to {method} {path}")


@cache
def _templates() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the document's paths as patterns, the most literal first."""
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    return tuple(
        (re.compile("/".join(_segment(each) for each in path.split("/"))), path) for path in paths
    )


def _segment(text: str) -> str:
    return "[^/]+" if text.startswith("{") else re.escape(text)


def template_of(method: str, path: str) -> str:
    """Return the document's path for a concrete one. Raises `SpecMismatch` for an unknown one."""
    for pattern, template in _templates():
        if pattern.fullmatch(path) and method.lower() in document()["paths"][template]:
            return template
    raise SpecMismatch(f"Discord's API has no {method} {path}")


def _pointer(*keys: str) -> str:
    return "/".join(key.replace("~", "~0").replace("/", "~1") for key in keys)


# Discord reads ids as numbers too, and discord.py sends the ids of attachments and of mentioned
# people so; in answers they are strings, as the document says.
_LENIENT = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "type": lambda validator, types, instance, schema: (
            None
            if schema.get("format") == "snowflake" and isinstance(instance, int)
            else Draft202012Validator.VALIDATORS["type"](validator, types, instance, schema)
        )
    },
)


@cache
def _validator(pointer: str) -> Draft202012Validator:
    schema = {"$ref": f"{BASE}#/{pointer}"}
    kinds = _LENIENT if "/requestBody/" in pointer else Draft202012Validator
    return kinds(schema, registry=_registry())


@cache
def _registry() -> "Registry[Any]":
    resource = Resource.from_contents(document(), default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource(BASE, resource)
    return registry


_ID = re.compile(r'"[1-9]\d{16,19}"')
_right: set[tuple[str, str]] = set()  # what was found to be right, but for the ids in it


def _validate(pointer: str, body: object, what: str) -> None:
    """Raise `SpecMismatch` for a body that is wrong.

    Checking a bot's commands takes a third of a second, and every bot that a test starts has the
    same commands.
    """
    seen = (pointer, _ID.sub('"1"', json.dumps(body, sort_keys=True)))
    if seen in _right:
        return
    error = best_match(_validator(pointer).iter_errors(body))
    if error is not None:
        raise SpecMismatch(f"{what}: {error.json_path}: {error.message}")
    _right.add(seen)
