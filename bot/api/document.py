"""Builds the API's OpenAPI document from the records that the API reads and writes."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import TypeAdapter

from bot.api.jobs.webhooks import HookEvent
from bot.api.operations import JSON, Operation, operation_of
from bot.api.runs.views import ErrorBody, JobView
from bot.version import version

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaMode

Tree = dict[str, Any]

DESCRIPTION = "GET /v1/openapi.json"
_REFERENCE = "#/components/schemas/{model}"
FORM = "multipart/form-data"
_EVERYWHERE = (403, 500, 503)
_WITH_KEY = (401, 429)
_RETRY = {
    "Retry-After": "Seconds until a retry can succeed, if known.",
    "x-should-retry": "`false` if a retry would create a second job or fail again.",
}


def document(routes: Iterable[str], *, url: str | None = None, open_: bool = False) -> Tree:
    """Build the document for routes such as "GET /v1/jobs". With `open_`, no key is required."""
    operations = {route: operation_of(route) for route in routes}
    types = _Types(operations.values())
    paths: dict[str, Tree] = {}
    for route, operation in operations.items():
        method, path = route.split(" ")
        paths.setdefault(path, {})[method.lower()] = _operation(route, operation, types)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Usher",
            "version": version(),
            "description": "Jobs of programs wait in the same queues as those of people."
            " OpenAI's paths work with OpenAI's clients. `/v1/jobs` submits jobs and reports their"
            " progress.",
        },
        "servers": [{"url": url or "/"}],
        "security": [{}, {"key": []}] if open_ else [{"key": []}],
        "paths": paths,
        "webhooks": {"job": {"post": _hook(types)}},
        "components": {
            "schemas": types.schemas,
            "responses": _error_responses(operations.values(), types),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key created with `/key new`.",
                }
            },
        },
    }


class DocumentRoute:
    """Serves the OpenAPI document without a key, because programs read it before they have one."""

    def __init__(
        self, routes: Iterable[str], *, url: str | None = None, open_: bool = False
    ) -> None:
        self._routes = (*routes, DESCRIPTION)
        self._url = url
        self._open = open_

    async def get(self, _request: web.Request) -> web.Response:
        """Return the document. The first call builds it."""
        # In a thread, because building takes longer than the rest of the startup.
        body = await asyncio.to_thread(_body, self._routes, self._url, self._open)
        headers = {"Cache-Control": "no-cache"}
        return web.Response(body=body, content_type=JSON, headers=headers)


@cache
def _body(routes: tuple[str, ...], url: str | None, open_: bool) -> bytes:
    return json.dumps(document(routes, url=url, open_=open_), ensure_ascii=False).encode()


class _Types:
    """JSON schemas of all types, separately for requests and responses."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        reads: list[Any] = []
        writes: list[Any] = [ErrorBody, HookEvent, JobView]
        for operation in operations:
            reads += [operation.request] if operation.request is not None else []
            writes += [kind for kind in operation.answers.values() if kind is not None]
            writes += [operation.items] if operation.items is not None else []
        modes: tuple[tuple[JsonSchemaMode, list[Any]], ...] = (
            ("validation", reads),
            ("serialization", writes),
        )
        inputs = [
            (str(kind), mode, TypeAdapter(kind)) for mode, kinds in modes for kind in _once(kinds)
        ]
        self._roots, defs = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
        self.schemas: Tree = defs.get("$defs", {})

    def read(self, kind: Any) -> Tree:
        return dict(self._roots[str(kind), "validation"])

    def written(self, kind: Any) -> Tree:
        return dict(self._roots[str(kind), "serialization"])


def _once(kinds: Iterable[Any]) -> list[Any]:
    return list({str(kind): kind for kind in kinds}.values())


def _operation(route: str, operation: Operation, types: _Types) -> Tree:
    tree: Tree = {
        "operationId": _name(route),
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": _responses(operation, types),
    }
    if operation.parameters:
        tree["parameters"] = [dict(each) for each in operation.parameters]
    content: dict[str, Tree] = {}
    if operation.request is not None:
        content[JSON] = {"schema": types.read(operation.request)}
    if operation.form:
        fields = {name: dict(schema) for name, schema in operation.form.items()}
        content[FORM] = {"schema": {"type": "object", "properties": fields}}
    if content:
        tree["requestBody"] = {"required": True, "content": content}
    if operation.public:
        tree["security"] = []
    return tree


def _hook(types: _Types) -> Tree:
    return {
        "operationId": "job_ended",
        "summary": "Sent to a job's `webhook` when it ends, signed according to Standard Webhooks",
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": types.written(HookEvent)}},
        },
        "responses": {"2XX": {"description": "Received."}},
        "security": [],
    }


def _responses(operation: Operation, types: _Types) -> Tree:
    content: dict[str, Tree] = {
        kind: {"schema": types.written(answer)} if answer is not None else {}
        for kind, answer in operation.answers.items()
    }
    done: Tree = {
        "description": HTTPStatus(operation.status).phrase,
        "headers": _headers(operation.headers),
        "content": content,
    }
    if operation.items is not None:
        done["x-event-schema"] = types.written(operation.items)
    more: Tree = {}
    if operation.empty:
        more["204"] = {"description": operation.empty}
    if HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE in operation.refusals:
        more["206"] = {"description": "The bytes requested with `Range`.", "content": content}
    if operation.status == HTTPStatus.OK and HTTPStatus.GATEWAY_TIMEOUT in operation.refusals:
        later = "With `Prefer: respond-async`: the accepted job. Fetch the result from it."
        job = {JSON: {"schema": types.written(JobView)}}
        more["202"] = {"description": later, "content": job}
    answers = {} if operation.absent else {str(operation.status): done}
    return (
        answers
        | more
        | {
            str(status): {"$ref": f"#/components/responses/{status}"}
            for status in _refusals(operation)
        }
    )


def _refusals(operation: Operation) -> list[int]:
    return sorted({*operation.refusals, *_EVERYWHERE, *(() if operation.public else _WITH_KEY)})


def _error_responses(operations: Iterable[Operation], types: _Types) -> Tree:
    statuses = sorted({status for each in operations for status in _refusals(each)})
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "headers": _headers(_RETRY),
            "content": {JSON: {"schema": types.written(ErrorBody)}},
        }
        for status in statuses
    }


def _headers(texts: Mapping[str, str]) -> Tree:
    return {
        name: {"description": text, "schema": {"type": "string"}} for name, text in texts.items()
    }


def _name(route: str) -> str:
    """Return an operation's id, such as "get_jobs_job_files_number"."""
    method, path = route.split(" ")
    words = path.removeprefix("/v1/").replace("{", "").replace("}", "").replace(".json", "")
    return "_".join([method.lower(), *words.split("/")])
