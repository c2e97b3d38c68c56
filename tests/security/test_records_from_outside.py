"""Every record that reads outside data keeps few errors, also one that is added later."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

import backends
import bot.api
from bot.api.jobs import events, webhooks
from bot.api.openai import answers
from bot.api.routes import models
from bot.api.runs.views import View
from queueing.core.requests import Record

ANSWERS = (answers, models, events, webhooks)
"""What is only ever sent; a `Record` is the operator's or was stored."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def readers(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the records and adapters that a module defines, each with the schema it reads by."""
    for name, value in vars(module).items():
        if isinstance(value, TypeAdapter):
            yield f"{module.__name__}.{name}", value.core_schema
        elif (
            isinstance(value, type)
            and issubclass(value, BaseModel)
            and value.__module__ == module.__name__
            and not issubclass(value, View | Record)
            and module not in ANSWERS
        ):
            yield f"{module.__name__}.{name}", value.__pydantic_core_schema__


def collections(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas of all lists and dicts in a schema except `JsonValue`: it fits any JSON."""
    if isinstance(schema, dict):
        if "pydantic_internal_union_tag_key" in schema.get("metadata", {}):
            return
        if schema.get("type") in ("dict", "frozenset", "list", "set", "tuple"):
            yield schema
        for part in schema.values():
            yield from collections(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from collections(part)


@pytest.mark.parametrize("package", [backends, bot.api])
def test_every_reader_stops_at_the_first_error_of_a_list(package: ModuleType) -> None:
    """A list of a million mistakes would be a million errors, of which one is shown."""
    seen = 0
    for module in modules(package):
        for name, schema in readers(module):
            for found in collections(schema):
                seen += 1
                assert found.get("fail_fast"), f"{name} reads a {found['type']} to its end"
    assert seen > 20
