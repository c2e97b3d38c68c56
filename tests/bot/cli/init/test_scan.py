"""What is read from servers, and what they cannot do to the person who looks for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from bot.cli.init import scan
from tests.fakes.llm.llm import serving
from tests.fakes.ports import port_of
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.servers.painters import painting
from tests.patience import runs_out

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[str]:
    """Serve every path with one handler."""
    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def found(url: str, *, token: str = "") -> scan.FoundServer:
    (server,) = await scan.look([url], tokens={url: token})
    return server


async def test_a_text_server_is_known_with_its_models() -> None:
    """It would be written as another kind, which cannot load or unload its models."""
    cases: list[tuple[str, str, str]] = [
        ("lmstudio", "lmstudio", "lmstudio"),
        ("lmstudio-0.3", "lmstudio", "lmstudio"),
        ("ollama", "openai", "ollama"),
        ("llamacpp", "openai", "llamacpp"),
        ("llamacpp-router", "openai", "llamacpp-router"),
        ("llamaswap", "openai", "llamaswap"),
        ("vllm", "openai", "vllm"),
        ("generic", "openai", "text-server"),
    ]
    for fake, kind, called in cases:
        async with serving(fake) as server:
            told = await found(server.url)
        assert (told.kind, told.called, told.trouble) == (kind, called, ""), fake
        assert "alpha" in told.models, fake


async def test_comfyui_is_known_with_its_memory() -> None:
    """The memory of a GPU on another machine would have to be looked up."""
    async with FakeComfyUI() as server:
        told = await found(server.url)
    assert (told.kind, told.called, told.trouble) == ("comfyui", "comfyui", "")
    assert told.total_mb


async def test_an_image_server_is_known() -> None:
    """A server that draws would be asked for texts; LocalAI does both, and counts as a text one."""
    cases: list[tuple[str, str, str]] = [
        ("sdcpp", "images", "sdcpp"),
        ("swarmui", "images", "swarmui"),
        ("localai", "openai", "localai"),
    ]
    for fake, kind, called in cases:
        async with painting(fake) as server:
            told = await found(server.url)
        assert (told.kind, told.called) == (kind, called), fake


async def test_a_server_that_wants_a_token_is_known_once_it_has_it() -> None:
    """A person would be told that no server is there."""
    async with serving("lmstudio", token="canary-1") as server:
        told = await found(server.url)
        assert told.wants_token
        assert told.trouble
        told = await found(server.url, token="canary-1")
    assert (told.kind, told.trouble, told.token) == ("lmstudio", "", "canary-1")


async def test_nothing_is_found_where_nothing_listens() -> None:
    """The scan would fail, or wait, at each usual port without a server."""
    told = await found(f"http://127.0.0.1:{port_of(test_nothing_is_found_where_nothing_listens)}")
    assert told.trouble
    assert not told.wants_token


async def _hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def _redirects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(f"{request.path}x"[:100])


async def _never_ends(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    await answer.write(b'{"data": [')
    while True:
        await answer.write(b'{"id": "x", "owned_by": "me"},' * 10_000)


async def _says_nonsense(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>a page</html>", content_type="text/html")


@pytest.mark.parametrize("handler", [_hangs, _redirects, _never_ends, _says_nonsense])
async def test_a_server_that_means_harm_costs_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, handler: Handler
) -> None:
    """A program on a usual port could keep the set-up busy forever."""
    runs_out(monkeypatch, scan, "TRY_S")
    async with answering(handler) as url, asyncio.timeout(60):
        told = await found(url)
    assert told.trouble
    assert told.models == ()


async def test_what_a_server_says_is_one_short_harmless_line() -> None:
    """A model's name could clear the screen, or become a line of the configuration."""
    hostile = "x\x1b[2J\nadmins: [telegram:1]\u202e" + "y" * 500

    async def lists(request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": hostile, "owned_by": hostile}]})
        if request.path == "/version":
            return web.json_response({"version": hostile})
        raise web.HTTPNotFound

    async with answering(lists) as url:
        told = await found(url)
    assert told.trouble == ""
    for text in (told.description, *told.models):
        assert text.isprintable()
        assert len(text) <= 80
