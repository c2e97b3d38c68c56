"""Checks requests, answers and events against OpenAI's OpenAPI document (tests/specs/openai)."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

DOCUMENT = Path(__file__).parent / "openai" / "openapi.json"
BASE = "urn:openai"


class NotOpenAI(AssertionError):
    """A request, an answer or an event is not what OpenAI's document describes."""


@cache
def document() -> dict[str, Any]:
    """Return the document; read once."""
    loaded: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return loaded


def check_request(method: str, path: str, body: object) -> None:
    """Raise `NotOpenAI` unless OpenAI's API has this request with such a body, sent as JSON."""
    operation = document()["paths"][path][method.lower()]
    assert "application/json" in operation["requestBody"]["content"]
    _check(
        ("paths", path, method.lower(), "requestBody", "content", "application/json", "schema"),
        body,
        f"request {method} {path}",
    )


def check_answer(method: str, path: str, body: object) -> None:
    """Raise `NotOpenAI` unless a call succeeds with such a body, sent as JSON."""
    _check(_answered(method, path, "application/json"), body, f"answer to {method} {path}")


def check_event(method: str, path: str, event: Mapping[str, Any]) -> None:
    """Raise `NotOpenAI` unless a stream contains such an event; its `type` decides which one."""
    pointer = _answered(method, path, "text/event-stream")
    reference = _at(pointer).get("$ref", "").rpartition("/")[2]
    schema = document()["components"]["schemas"].get(reference, {})
    kinds = {_kind(each["$ref"]): each["$ref"] for each in schema.get("anyOf", ())}
    what = f"event {event.get('type', 'of a stream')} of {method} {path}"
    if not kinds:
        _check(pointer, event, what)
        return
    if event["type"] not in kinds:
        raise NotOpenAI(f"{what}: there is none of this type")
    _check(tuple(kinds[event["type"]].removeprefix("#/").split("/")), event, what)


def check_schema(name: str, body: object) -> None:
    """Raise `NotOpenAI` unless a value is what one of the document's schemas describes."""
    _check(("components", "schemas", name), body, name)


def _answered(method: str, path: str, media: str) -> tuple[str, ...]:
    return ("paths", path, method.lower(), "responses", "200", "content", media, "schema")


def _kind(reference: str) -> str:
    properties = _at(tuple(reference.removeprefix("#/").split("/")))["properties"]
    return str(properties["type"]["enum"][0])


def _at(keys: tuple[str, ...]) -> Any:
    value: Any = document()
    for key in keys:
        value = value[key]
    return value


def _check(keys: tuple[str, ...], body: object, what: str) -> None:
    pointer = "/".join(key.replace("~", "~0").replace("/", "~1") for key in keys)
    error = best_match(_validator(pointer).iter_errors(body))
    if error is not None:
        raise NotOpenAI(f"{what}: {error.json_path}: {error.message[:1000]}")


def _type(validator: Any, types: Any, instance: Any, schema: Any) -> Any:
    if instance is None and schema.get("nullable"):
        return ()
    return Draft202012Validator.VALIDATORS["type"](validator, types, instance, schema)


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Any:
    if instance is None and schema.get("nullable"):
        return ()
    return Draft202012Validator.VALIDATORS["enum"](validator, values, instance, schema)


def _one_of(validator: Any, kinds: Any, instance: Any, schema: Any) -> Any:
    if instance is None and schema.get("nullable"):
        return ()
    name = "anyOf" if "discriminator" in schema else "oneOf"
    errors = Draft202012Validator.VALIDATORS[name](validator, kinds, instance, schema)
    return [_nearest(error, instance) for error in errors]


def _nearest(error: ValidationError, instance: Any) -> ValidationError:
    """Return the mistake in the alternative that has the value's `type`, if there is one."""
    if not isinstance(instance, dict) or "type" not in instance:
        return error
    tried: dict[Any, list[ValidationError]] = {}
    for each in error.context or ():
        tried.setdefault(each.schema_path[0], []).append(each)
    fits = [
        errors for errors in tried.values() if all(list(e.path)[:1] != ["type"] for e in errors)
    ]
    return fits[0][0] if len(fits) == 1 else error


_KINDS = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"type": _type, "enum": _enum, "oneOf": _one_of}
)


@cache
def _validator(pointer: str) -> Draft202012Validator:
    validator: Draft202012Validator = _KINDS({"$ref": f"{BASE}#/{pointer}"}, registry=_registry())
    return validator


@cache
def _registry() -> "Registry[Any]":
    resource = Resource.from_contents(document(), default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource(BASE, resource)
    return registry
