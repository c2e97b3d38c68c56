"""The parameters of routes, for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from bot.api.routes.jobs import ID_MOST
from bot.api.runs.repeats import KEY_MOST

Parameter = Mapping[str, Any]


def query(name: str, text: str, **schema: Any) -> Parameter:
    """Return a query parameter."""
    return {"name": name, "in": "query", "description": text, "schema": schema}


def path_text(name: str) -> Parameter:
    """Return a path parameter that accepts any text."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


JOB: Parameter = {
    "name": "job",
    "in": "path",
    "required": True,
    "description": "The number of one of the caller's jobs.",
    "schema": {"type": "integer", "minimum": 1, "maximum": ID_MOST},
}
FILE: Parameter = {
    "name": "number",
    "in": "path",
    "required": True,
    "description": "The number of the result file, starting at 1.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10_000},
}
LAST_EVENT: Parameter = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event received. The text continues after it.",
    "schema": {"type": "string"},
}
UPLOAD: Parameter = {
    "name": "file",
    "in": "path",
    "required": True,
    "description": "The id of one of the caller's uploaded files.",
    "schema": {"type": "string", "pattern": "^file-[0-9a-f]{24}$"},
}
BYTES: Mapping[str, Any] = {"type": "string", "contentMediaType": "application/octet-stream"}
MODEL: Parameter = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "A model's name or alias.",
    "schema": {"type": "string", "minLength": 1},
}
KEY: Parameter = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeating a call with the same key and body returns the same job.",
    "schema": {"type": "string", "maxLength": KEY_MOST},
}
