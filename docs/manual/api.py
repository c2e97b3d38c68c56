"""The reference of the HTTP API, made from its OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.api.document import document
from bot.api.operations import OPERATIONS

Tree = Mapping[str, Any]


def page() -> str:
    """Return the page in Markdown."""
    tree = document(OPERATIONS)
    return "\n".join(_lines(tree)) + "\n"


def _lines(tree: Tree) -> Iterator[str]:
    yield "# All routes of the HTTP API\n"
    yield "Generated from the OpenAPI document that a running bot serves at `/v1/openapi.json`."
    yield "[The HTTP API](../api.md) explains how calls wait and what they return.\n"
    for path, methods in tree["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"{method.upper()} {path}", operation)
    yield "## Records\n"
    for name, schema in tree["components"]["schemas"].items():
        yield from _record(name, schema)


def _operation(route: str, operation: Tree) -> Iterator[str]:
    yield f"## `{route}`\n"
    yield f"{operation['summary'].rstrip('.')}.\n"
    if operation.get("parameters"):
        yield "| parameter | in | type | meaning |"
        yield "|---|---|---|---|"
        for each in operation["parameters"]:
            told = each.get("description", "")
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(told)} |"
        yield ""
    if body := operation.get("requestBody"):
        forms = ", ".join(
            f"{_type(content.get('schema', {}))} as `{kind}`"
            for kind, content in body["content"].items()
        )
        yield f"Takes {forms}.\n"
    statuses = ", ".join(f"`{status}`" for status in operation["responses"])
    yield f"Statuses: {statuses}.\n"


def _record(name: str, schema: Tree) -> Iterator[str]:
    yield f"### {name}\n"
    if about := schema.get("description"):
        yield f"{about.splitlines()[0]}\n"
    if "properties" not in schema:
        yield f"{_type(schema)}\n"
        return
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    needed = schema.get("required", ())
    for field, about in schema["properties"].items():
        star = " (needed)" if field in needed else ""
        yield f"| `{field}`{star} | {_type(about)} | {_cell(about.get('description', ''))} |"
    yield ""


def _type(schema: Tree) -> str:
    """Return how a schema reads, records as links."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[several]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
