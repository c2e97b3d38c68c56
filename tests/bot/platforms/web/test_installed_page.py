"""The page as an installed app in a real Chromium: offline, after an upgrade, in the background."""

import pytest
from aiohttp.web import Request, Response

from bot.core.content import Button, Content
from bot.platforms.web.platform import Web
from bot.platforms.web.routes import shell
from bot.platforms.web.routes.assets import Assets, page_files
from tests.bot.platforms.web.test_web_page import Stage, chromium, stage
from tests.bot.platforms.web.web_client import running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat
from tests.fakes.ports import port_of
from tests.fakes.programs.chromium import Chromium

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = [pytest.mark.browser, pytest.mark.thorough]

WORKS = "navigator.serviceWorker.ready.then(() => caches.keys()).then((names) => names.join())"
KEPT = """caches.keys().then((names) => caches.open(names[0])).then((cache) => cache.keys())
  .then((keys) => keys.map(({ url }) => url))"""
CANCEL = Button(command="cancel", job_id=7, label="Cancel", danger=True)


async def test_the_page_opens_without_its_server_and_comes_back(
    chromium: Chromium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phone would show an error page or keep a person's words, or an upgrade not arrive."""
    log, handler = MemoryLog(), ScriptedHandler()
    port = port_of(handler)

    def web_below_a_path() -> Web:
        return Web(port=port, log=log, path="/usher")

    async with chromium.page() as page:
        async with running(web_below_a_path(), handler) as web:
            root = f"{web.url}usher/"
            await page.goto(root)
            await page.wait_text("Connected")
            await web.send("local", Content(body=("a secret",)))
            await page.wait_text("a secret")
            first = await page.evaluate(WORKS)
            kept = await page.evaluate(KEPT)
            assert {f"{root}", f"{root}static/app.js", f"{root}texts/de.json"} <= set(kept)
            assert all(url == root or "/static/" in url or "/texts/" in url for url in kept)
        await page.reload()
        await page.wait_text("Connection lost. Reconnecting…")
        await page.wait_text("Not connected", "#empty")
        assert "a secret" not in await page.text()
        await page.click("#text")
        await page.type("written without a server")
        await page.press("Enter")
        await page.wait_text("waiting for the connection", ".message.mine")
        page.errors.clear()  # the browser reports each request that found no server
        files = page_files()
        page_2 = files["index.html"][1].replace(b"<title>Usher", b"<title>Newer")
        newer = files | {"index.html": ("text/html", page_2)}
        monkeypatch.setattr(shell, "page_files", lambda: newer)
        async with running(web_below_a_path(), handler):
            await page.wait_text("Connected")
            await page.wait_text("a secret")
            assert (await handler.taken()).text == "written without a server"
            await page.reload()
            await page.wait("document.title === 'Newer'")
            look = f"{WORKS}.then((names) => (window.kept = names))"
            await page.wait(f"({look}, window.kept && !window.kept.includes({first!r}))")
            asked: list[str] = []
            _record(monkeypatch, asked)
            await page.reload()
            await page.wait_text("a secret")
            assert set(asked) - {"sw.js"} == {"index.html"}


def _record(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    """Record the names of the files that browsers get from the server."""
    answer = Assets.answer

    def noted(assets: Assets, request: Request, name: str) -> Response:
        asked.append(name)
        return answer(assets, request, name)

    monkeypatch.setattr(Assets, "answer", noted)


async def test_a_result_notifies_those_who_asked_for_it(chromium: Chromium) -> None:
    """People would watch the page to see when their image is done."""
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        chromium.page("notifications") as page,
    ):
        await page.goto(web.url)
        await page.wait_text("Connected")
        await page.click("#bell")
        await page.wait("document.getElementById('bell').getAttribute('aria-pressed') === 'true'")
        await page.evaluate(WORKS)
        await page.evaluate(HIDE)
        ref = await web.send("local", Content(body=("#2 in line",), buttons=((CANCEL,),)))
        await web.edit(ref, Content(body=("step 4/8",), buttons=((CANCEL,),)))
        await page.wait_text("step 4/8")
        assert await page.evaluate("document.title") == "Usher"
        await web.edit(ref, Content(body=("a cat\nflux",)))
        await page.wait("document.title === '(1) Usher'")
        await page.wait("window.notified.length > 0")
        assert await page.evaluate("window.notified") == ["Your result is ready: a cat\nflux"]
        elsewhere = "0123456789abcdef"
        await web.send(f"local/{elsewhere}", Content(body=("a fox",)))
        await page.wait("window.notified.length === 2")
        assert await page.evaluate("window.leadsTo") == elsewhere
        await web.send(f"local/{elsewhere}", Content(body=("another fox",)))
        await page.wait("window.notified.length === 3")
        await page.evaluate(
            f"({CLICKED})({{ conversation: window.leadsTo }})"
        )  # as the worker does
        await page.wait(f"location.hash === '#chat/{elsewhere}'")
        await page.wait_text("a fox", "#messages")
        await page.click("#bell")
        await web.send(f"local/{elsewhere}", Content(body=("another",)))
        await page.wait("document.title === '(3) Usher'")
        assert await page.evaluate("window.notified.length") == 3
        async with tab(web, greet=False) as other:  # another device, on which two of them are read
            await other.send(type="hello", conversation=elsewhere)
            await other.send(type="seen")
            await page.wait("document.title === '(1) Usher'")


async def test_a_page_whose_worker_was_not_installed_notifies_by_itself(chromium: Chromium) -> None:
    """Notifications would be on, but none ever come: a failed worker is never ready."""
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        chromium.page("notifications") as page,
    ):
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=NO_WORKER)
        await page.goto(web.url)
        await page.wait_text("Connected")
        await page.click("#bell")
        await page.wait("document.getElementById('bell').getAttribute('aria-pressed') === 'true'")
        await page.evaluate(HIDE)
        await web.send("local/0123456789abcdef", Content(body=("a fox",)))
        await page.wait("window.told?.body === 'a fox'")
        await page.evaluate("window.told.onclick()")
        await page.wait("location.hash === '#chat/0123456789abcdef'")
        assert page.errors == []


async def test_a_browser_that_refuses_notifications_says_so(stage: Stage) -> None:
    """The bell button would do nothing, and nobody would know why."""
    await stage.page.click("#bell")
    await stage.page.wait_text("Your browser blocks notifications", "#toast")


NO_WORKER = """
  navigator.serviceWorker.register = async () => ({ active: null });
  window.Notification = class extends Notification {
    constructor(...given) { super(...given); window.told = this; }
  };"""
CLICKED = """({ conversation }) => navigator.serviceWorker.dispatchEvent(
  new MessageEvent("message", { data: { conversation } }))"""
# `getNotifications` is no witness: Chromium forgets a notification that is looked for too early.
HIDE = """Object.defineProperty(document, "hidden", { value: true });
  document.hasFocus = () => false;
  window.notified = [];
  const { showNotification } = ServiceWorkerRegistration.prototype;
  ServiceWorkerRegistration.prototype.showNotification = async function (title, options) {
    await showNotification.call(this, title, options);
    window.notified.push(`${title}: ${options.body}`);
    window.leadsTo = options.data;
  };
  undefined"""
