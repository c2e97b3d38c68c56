"""A server whose `url` leads to a redirect: nothing is sent there, and its operator learns why."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from backends.registry import KINDS, connect
from queueing.core.errors import Unavailable
from queueing.core.ports import Backend
from queueing.core.specs import BackendSpec
from tests.backends.openai.asking import model, work

REMOTE = [name for name, kind in KINDS.items() if kind.needs_url]
Front = Callable[[Callable[[str], str | None]], Awaitable[str]]


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """Start servers that redirect calls to what a function makes of their path.

    Calls that are not redirected are answered with a list of models.
    """
    runners: list[TestServer] = []

    async def start(to: Callable[[str], str | None]) -> str:
        async def moved(request: web.Request) -> web.Response:
            if (place := to(request.path)) is not None:
                return web.Response(status=308, headers={"Location": place})
            return web.json_response({"object": "list", "data": [{"id": "alpha"}]})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", moved)
        runners.append(server := TestServer(app))
        await server.start_server()
        return str(server.make_url("/ai"))

    yield start
    for each in runners:
        await each.close()


def backend(kind: str, url: str) -> Backend:
    return connect(BackendSpec(name="box", kind=kind, url=url))


@pytest.mark.parametrize("kind", REMOTE)
@pytest.mark.parametrize(
    ("to", "told"),
    [
        (lambda path: f"https://gpu.example{path}", "set url: https://gpu.example/ai"),
        (lambda path: f"https://gpu.example{path[3:]}/", "set url: https://gpu.example"),
        (lambda path: f"{path}/", "with a slash that the server or a proxy before it must not"),
        (lambda _: "/login?next=/s3cret", "/login'"),
    ],
    ids=["tls", "other-host", "slash", "login"],
)
async def test_every_kind_of_server_says_what_to_write(
    front: Front, kind: str, to: Callable[[str], str], told: str
) -> None:
    """An operator would read that there is no such server, and look for a fault in it."""
    box = backend(kind, await front(to))
    try:
        with pytest.raises(Unavailable, match="it redirects to") as caught:
            await box.probe()
    finally:
        await box.aclose()
    assert str(caught.value).endswith((told, f"{told} demand"))
    assert "s3cret" not in str(caught.value)


async def test_a_server_is_recognised_and_its_refusal_to_answer_is_its_operators_matter(
    front: Front,
) -> None:
    """A gateway would not be recognised, or people would be told to change their request."""
    box = backend("openai", await front(lambda path: None if path == "/ai/v1/models" else "/login"))
    try:
        assert (await box.probe()).flavour == "generic"
        for act in (box.admit(), box.run(model(), work("Hi"), lambda _: None)):
            with pytest.raises(Unavailable, match=r"it redirects to '.*/login'"):
                await act
    finally:
        await box.aclose()
