"""The OpenAPI document: complete, valid, and in agreement with what the API answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from jsonschema import Draft202012Validator

from bot.api import document as described_by
from bot.api.document import DocumentRoute
from bot.api.operations import ABSENT, OPERATIONS
from bot.api.server import ApiServer
from tests.bot.api.calls.test_keys import CLOSED, bearer, new_key, page_of
from tests.bot.api.jobs.test_jobs import CHAT, DRAW, SLOW, done
from tests.bot.api.whole_api import Api, running

METHODS = {"get", "post", "put", "delete", "patch"}


def served(gateway: ApiServer) -> set[str]:
    """Return the routes that the application really has."""
    resources = gateway._application().router.routes()
    return {
        f"{route.method} {route.resource.canonical}"
        for route in resources
        if route.resource is not None and route.method.lower() in METHODS
    }


def described(document: Any) -> set[str]:
    return {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if method in METHODS
    }


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if isinstance(reference := tree.get("$ref"), str):
            yield reference
        for value in tree.values():
            yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def found(document: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        document = document[step.replace("~1", "/")]
    return document


def errors_of(document: Any, route: str, status: int, answer: Any) -> list[str]:
    """Return where an answer differs from its description in the document."""
    method, path = route.split(" ")
    response = document["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in response:
        response = found(document, response["$ref"])
    schema = response["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(answer)]


async def test_the_document_has_every_route_and_no_other(api: Api) -> None:
    """Programs made from the document would call what does not exist, or miss what does."""
    assert api.parts.gateway is not None
    every = served(api.parts.gateway)
    routes = {route for route in every if route.split(" ")[1].startswith("/v1/")}
    offered = {route for route in routes if not route.split(" ")[1].startswith(ABSENT)}
    assert offered == set(OPERATIONS), "bot/api/operations.py describes each route"
    document = await api.get("/openapi.json")
    assert described(document) == routes


async def test_the_document_is_valid(api: Api) -> None:
    """Generators of clients would refuse it."""
    document = await api.get("/openapi.json")
    assert document["openapi"].startswith("3.1.")
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in set(references(document)):
        assert found(document, reference) is not None
    ids = [op["operationId"] for path in document["paths"].values() for op in path.values()]
    assert len(ids) == len(set(ids))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            inside = {each["name"] for each in parameters if each["in"] == "path"}
            assert inside == {step[1:-1] for step in path.split("/") if step.startswith("{")}


async def test_every_answer_in_json_has_a_form(api: Api) -> None:
    """A client made from the document would give its user a value without any fields.

    Whether they are the real fields, `tests.bot.api.whole_api` checks for each answer.
    """
    document = await api.get("/openapi.json")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answer = operation["responses"].get("200", {}).get("content", {})
            assert answer.get("application/json") != {}, (method, path)


async def test_what_is_not_there_promises_nothing(api: Api) -> None:
    """Programs would be made for calls that always fail."""
    document = await api.get("/openapi.json")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path.startswith(ABSENT):
                assert not [each for each in operation["responses"] if each[0] == "2"]
                url = api.url.removesuffix("/v1") + path.replace("{response}", "resp_1")
                async with api.session.request(method, url, json={}) as answer:
                    assert answer.status == 404, path
            else:
                assert [each for each in operation["responses"] if each[0] == "2"], path


async def test_answers_are_as_described(api: Api) -> None:
    """A program that trusts the document would fail at the first answer."""
    document = await api.get("/openapi.json")

    def check(route: str, answer: Any, status: int = 200) -> None:
        assert not errors_of(document, route, status, answer), route

    check("GET /v1/models", await api.get("/models"))
    check("GET /v1/models/{name}", await api.get("/models/gpt-4o"))
    for body in (DRAW, CHAT):
        job = await api.post("/jobs", body, status=202)
        check("POST /v1/jobs", job, 202)
        ended = await done(api, job)
        check("GET /v1/jobs/{job}", ended)
        async with api.session.delete(f"{api.url}/jobs/{job['id']}") as answer:
            check("DELETE /v1/jobs/{job}", await answer.json())
        events = document["components"]["schemas"]
        for event in await api.events(f"/jobs/{job['id']}/events"):
            kind = f"{event['type'].capitalize()}Event"
            whole = {**events[kind], "components": document["components"]}
            assert not list(Draft202012Validator(whole).iter_errors(event)), event
    check("GET /v1/jobs", await api.get("/jobs"))
    check("GET /v1/queue", await api.get("/queue"))
    check("GET /v1/hosts", await api.get("/hosts"))
    check("POST /v1/jobs", await api.post("/jobs", {}, status=400), 400)
    check("GET /v1/jobs/{job}", await api.get("/jobs/999", status=404), 404)


async def test_a_waiting_jobs_events_are_as_described(tmp_path: Path) -> None:
    """A program that shows places in the queue would show nothing."""
    async with running(tmp_path, SLOW) as api:
        document = await api.get("/openapi.json")
        jobs = [await api.post("/jobs", DRAW, status=202) for _ in range(3)]
        for route, path in (
            ("GET /v1/jobs/{job}", f"/jobs/{jobs[-1]['id']}"),
            ("GET /v1/jobs", "/jobs?state=open"),
            ("GET /v1/queue", "/queue"),
        ):
            assert not errors_of(document, route, 200, await api.get(path)), route


async def test_the_document_needs_no_key(tmp_path: Path) -> None:
    """A program could not learn how to send its key."""
    async with running(tmp_path, CLOSED) as api:
        document = await api.get("/openapi.json")
        assert document["security"] == [{"key": []}]
        await api.get("/models", status=401)
        for path, operations in document["paths"].items():
            for operation in operations.values():
                assert ("401" in operation["responses"]) is ("security" not in operation), path
        key = bearer(await new_key(await page_of(api)))
        async with api.session.get(f"{api.url}/openapi.json", headers=key) as answer:
            assert await answer.json() == document


async def test_the_document_is_made_once_and_not_by_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each start of the API would take a tenth of a second longer, almost doubling it."""
    made: list[str | None] = []
    original = described_by.document

    def counted(routes: Any, *, url: str | None, open_: bool) -> dict[str, Any]:
        made.append(url)
        return original(routes, url=url, open_=open_)

    monkeypatch.setattr(described_by, "document", counted)
    urls = ("https://one.example", "https://one.example", "https://two.example")
    routes = [DocumentRoute(["GET /v1/jobs"], url=url) for url in urls]
    assert made == []
    asked = make_mocked_request("GET", "/v1/openapi.json")
    bodies = [(await route.get(asked)).body for route in routes]
    assert bodies[0] == bodies[1] != bodies[2]
    assert made == ["https://one.example", "https://two.example"]
