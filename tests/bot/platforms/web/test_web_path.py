"""The page under a path of its address, whether the proxy removes the path or keeps it."""

import re
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp
import pytest

from bot.config.chats import WebConfig
from bot.platforms.web.routes.assets import page_files
from tests.bot.platforms.web.dashboard.operator_client import TOKEN, Example
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.programs import nginx
from tests.fakes.programs.chromium import running_chromium

_IN_PAGE = re.compile(r'(?:href|src)="([^"#]+)"')
_IN_SCRIPT = re.compile(r'from "([^"]+)"')
_ASKED = re.compile(r'(?:fetch(?:ed)?|socketAddress)\((["`][^"`]+["`])')


def test_no_page_names_a_file_at_the_root_of_its_name() -> None:
    """Under a path, the browser would ask another program for it, and show an unstyled page."""
    for folder in ("page", "dashboard_page"):
        for name, (kind, body) in page_files(folder).items():
            text = body.decode() if kind.startswith("text/") else ""
            named = [*_IN_PAGE.findall(text), *_IN_SCRIPT.findall(text), *_ASKED.findall(text)]
            assert not [each for each in named if each.lstrip('"`').startswith("/")], name
            assert "location.host" not in text, name


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (None, ""),
        ("https://example.org", ""),
        ("https://example.org/", ""),
        ("https://example.org/usher/", "/usher"),
        ("http://example.org:8443/a/b", "/a/b"),
    ],
)
def test_the_path_is_that_of_the_configured_address(url: str | None, path: str) -> None:
    """Invitations would lead to one path, and the page would answer at another."""
    config = WebConfig.model_validate({"url": url, "token": "a-long-token-of-the-page-0815"})
    assert config.path() == path
    assert urlsplit(config.page()).path == f"{path}/"


async def _whole(session: aiohttp.ClientSession, page: str) -> set[str]:
    """Fetch a page with everything that it names, as a browser does; return the paths."""
    found: dict[str, str] = {}
    left = [page]
    while left:
        address = left.pop()
        async with session.get(address) as answer:
            assert answer.status == 200, address
            found[urlsplit(address).path] = text = await answer.text(errors="replace")
        named = _IN_PAGE.findall(text) if "<html" in text else []
        named += _IN_SCRIPT.findall(text) if address.endswith(".js") else []
        there = [urljoin(address, each) for each in named]
        left += [each for each in there if urlsplit(each).path not in found and each not in left]
    return set(found)


async def _works(root: str, path: str) -> None:
    """Open both pages and their sockets under an address that ends with a slash."""
    cookies = {"usher": TOKEN}
    async with aiohttp.ClientSession(cookies=cookies) as session:
        paths = await _whole(session, root) | await _whole(session, f"{root}operator")
        assert {f"{path}/static/app.js", f"{path}/operator/static/app.js"} <= paths
        assert all(each.startswith(f"{path}/") for each in paths), paths
        origin = f"http://{urlsplit(root).netloc}"
        for socket in ("socket", "operator/socket"):
            async with session.ws_connect(root + socket, headers={"Origin": origin}) as opened:
                assert not opened.closed
        for token, there in ((TOKEN, root), ("unknown", f"{root}#refused")):
            address = f"{root}?token={token}"
            async with session.get(address, allow_redirects=False) as answer:
                assert answer.status == 303
                assert urljoin(address, answer.headers["Location"]) == there


@pytest.mark.parametrize("path", ["", "/usher", "/a/b"])
async def test_the_page_works_where_the_proxy_leaves_the_path(path: str) -> None:
    """The operator would have to find out that the proxy must remove it."""
    example = Example(path=path)
    async with running(example.web, ScriptedHandler()) as web:
        root = web.url.rstrip("/")
        await _works(f"{root}{path}/", path)
        await _works(f"{root}/", "")
        if not path:
            return
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{root}{path}?token=1", allow_redirects=False) as answer,
        ):
            assert answer.headers["Location"] == f"{path}/?token=1"


@pytest.mark.skipif(nginx.program() is None, reason=nginx.NOT_INSTALLED)
async def test_the_page_works_where_nginx_removes_the_path() -> None:
    """The browser would ask the root of the name for the page's files."""
    example = Example(path="/usher")
    lines = (
        "proxy_set_header Host $http_host; proxy_http_version 1.1;"
        ' proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";'
    )
    async with running(example.web, ScriptedHandler()) as web:
        with nginx.before({"usher": (urlsplit(web.url).port or 0, lines)}) as port:
            await _works(f"http://127.0.0.1:{port}/usher/", "/usher")


@pytest.mark.browser
async def test_a_browser_uses_the_page_below_a_path(tmp_path: Path) -> None:
    """The page would look right but send nothing, or its buttons would lead elsewhere."""
    example, handler = Example(path="/usher"), ScriptedHandler()
    with running_chromium(tmp_path) as browser:
        async with running(example.web, handler) as web, browser.page() as page:
            root = f"{web.url}usher/"
            await page.goto(f"{root}?token={TOKEN}")
            await page.wait_text("Connected")
            await page.click("#text")
            await page.type("/image flux a cat")
            await page.press("Enter")
            assert (await handler.taken()).text == "flux a cat"
            await page.click("#operate")
            await page.wait(f"location.href === '{root}operator'")
            await page.wait("document.querySelector('#hosts')?.innerText")
            await page.click("#to-chat")
            await page.wait(f"location.href.split('#')[0] === '{root}'")
            await page.wait_text("Connected")
            assert page.errors == []
