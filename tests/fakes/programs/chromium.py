"""A real Chromium without a window, driven over its DevTools protocol as a person would use it.

Keys and clicks go through the browser's own input handling; nothing here calls the page's code.
"""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
START_S = 120.0
WAIT_S = 60.0
# The first found is taken. A headless shell is the same engine without the windows, menus and
# extensions of a browser: a page takes it a quarter of the processor time.
PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
NAVIGATED = ("navigated", "context", "collected")  # of what the browser says of a page that left
KEYS = {
    "Enter": 13,
    "Tab": 9,
    "Escape": 27,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Backspace": 8,
    "PageUp": 33,
    "PageDown": 34,
    " ": 32,
}
ALT, SHIFT = 1, 8
# Returns where an element's middle is, once that was so the last time as well and nothing covers it.
AIM = """(() => {
  const node = document.querySelector(SELECTOR);
  node?.scrollIntoView({ block: "nearest" });
  const box = node?.getBoundingClientRect();
  const at = box && [box.x + box.width / 2, box.y + box.height / 2];
  const hit = at && document.elementFromPoint(...at);
  const still = at && String(at) === window.aimedBefore;
  window.aimedBefore = String(at);
  if (!still || !hit || !node.contains(hit)) return null;
  window.clicked = false;
  const seen = ({ target }) => (window.clicked ||= node.contains(target));
  addEventListener("click", seen, { capture: true, once: true });
  return at;
})()"""
HIT = "window.clicked !== false"  # a page that was left knows nothing of a click
CLICKS = 5
# A page is loaded before a script has read its texts and listens to anybody.
LISTENS = """document.documentElement.dataset.connection !== undefined
  || document.querySelector("script[type=module]") === null"""


def find_chromium() -> str:
    """Return Chromium's path; skip the calling test where there is none."""
    for name in PROGRAMS:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip("no Chromium on this machine: the page is not tried in a browser")


class PageLeft(AssertionError):
    """The page went to another address, or reloaded, in the middle of a call."""


class Page:
    """One tab of the browser.

    `errors` collects exceptions of the page, errors in its console, and what its content policy
    stopped.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()

    async def listen(self) -> None:
        """Receive what the browser sends, until it goes away."""
        async for frame in self._socket:
            message = json.loads(frame.data)
            if "id" not in message:
                self._notice(message["method"], message["params"])
                continue
            answer = self._answers.pop(message["id"])
            if not answer.done():  # otherwise no one waits for it any more
                answer.set_result(message)
        for answer in self._answers.values():
            answer.set_exception(AssertionError("Chromium went away"))

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        message = await answer
        if "error" in message:
            text = message["error"]["message"]
            left = any(word in text for word in NAVIGATED)
            raise (PageLeft if left else AssertionError)(f"{method}: {text}")
        result: dict[str, Any] = message["result"]
        return result

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method while no task listens, skipping everything else that arrives."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async for frame in self._socket:
            message = json.loads(frame.data)
            if message.get("id") == number:
                answer: dict[str, Any] = message["result"]
                return answer
        raise AssertionError(f"Chromium went away during {method}")

    async def goto(self, url: str) -> None:
        """Open an address and wait until it is loaded and listens."""
        async with self.reloads():
            await self.call("Page.navigate", url=url)

    @asynccontextmanager
    async def reloads(self) -> AsyncIterator[None]:
        """Wait at the end of the block until a page has been loaded in it and listens."""
        self._loaded.clear()
        yield
        async with asyncio.timeout(WAIT_S):
            await self._loaded.wait()
        await self.wait(LISTENS)

    async def reload(self) -> None:
        """Reload the page and wait until it is loaded and listens."""
        async with self.reloads():
            await self.call("Page.reload")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    async def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds, on whatever page the tab shows by then."""
        await self._patiently(f"({condition})", condition)

    async def _patiently(self, expression: str, wanted: str) -> Any:
        """Return an expression's value once it is true, or fail with what the page shows then."""
        look = (
            "new Promise((done) => { const look = () => {"
            f"const seen = {expression}; if (seen) done(seen); else setTimeout(look, 20); }};"
            "look(); })"
        )
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        return await self.evaluate(look)
                    except PageLeft:
                        continue
        except TimeoutError:
            text = await self.text()
            raise AssertionError(
                f"not within {WAIT_S} s: {wanted}\n{text}\n{self.errors}"
            ) from None

    async def wait_text(self, text: str, selector: str = "body") -> None:
        """Wait until an element shows a text."""
        query = f"document.querySelector({json.dumps(selector)})"
        await self.wait(f"{query}?.innerText.includes({json.dumps(text)})")

    async def wait_message(self, message: str) -> None:
        """Wait until the page shows a message, whatever else arrives before it."""
        await self.wait(f"document.querySelector('[data-message={json.dumps(message)}]') !== null")

    async def text(self, selector: str = "body") -> str:
        """Return the text an element shows."""
        return str(await self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False, alt: bool = False) -> None:
        """Press and release a key."""
        text = {"Enter": "\r", "Tab": ""}.get(key, key if len(key) == 1 else "")
        event = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": KEYS.get(key, 0),
            "modifiers": (SHIFT if shift else 0) | (ALT if alt else 0),
        }
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    async def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse, once it does not move and is not covered.

        The element may move between the check and the click because of an event; a click that
        missed it is repeated, as a person would.
        """
        aim = AIM.replace("SELECTOR", json.dumps(selector))
        for _ in range(CLICKS):
            x, y = await self._patiently(aim, f"{selector} is there to be clicked")
            for kind in ("mousePressed", "mouseReleased"):
                await self.call(
                    "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
                )
            try:
                if await self.evaluate(HIT):
                    return
            except PageLeft:
                return
        raise AssertionError(f"{selector} moved away before each of {CLICKS} clicks")

    async def set_files(self, selector: str, *paths: Path) -> None:
        """Choose files in a file input, as its dialog would."""
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.call("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        await self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    async def look(
        self, *, width: int = 1100, height: int = 800, dark: bool = False, phone: bool = False
    ) -> None:
        """Give the page a size in pixels, a colour scheme, and a phone's touch screen."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        await self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path) -> None:
        """Save what the page shows as a PNG."""
        data = (await self.call("Page.captureScreenshot", format="png"))["data"]
        await asyncio.to_thread(path.write_bytes, base64.b64decode(data))


class Chromium:
    """A running browser."""

    def __init__(self, address: str) -> None:
        self._address = address

    @asynccontextmanager
    async def page(self, *permissions: str) -> AsyncIterator[Page]:
        """Open a page with its own cookies, storage and permissions, and close it at the end."""
        async with aiohttp.ClientSession() as session, session.ws_connect(self._address) as ws:
            browser = Page(ws)  # the browser itself speaks the same protocol
            context = await browser.ask("Target.createBrowserContext")
            where = {"url": "about:blank", "browserContextId": context["browserContextId"]}
            target = (await browser.ask("Target.createTarget", **where))["targetId"]
            if permissions:
                granted = {"permissions": permissions, **context}
                await browser.ask("Browser.grantPermissions", **granted)
            root = self._address.partition("/devtools/")[0]
            try:
                async with _open(session, f"{root}/devtools/page/{target}") as page:
                    yield page
            finally:
                await browser.ask("Target.disposeBrowserContext", **context)


@asynccontextmanager
async def _open(session: aiohttp.ClientSession, address: str) -> AsyncIterator[Page]:
    async with session.ws_connect(address, max_msg_size=0) as ws:
        page = Page(ws)
        listener = asyncio.create_task(page.listen())  # no task group: failures stay bare
        try:
            for domain in ("Page", "Runtime", "Log", "DOM"):
                await page.call(f"{domain}.enable")
            await page.look()
            yield page
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)


@contextmanager
def running_chromium(folder: Path) -> Iterator[Chromium]:
    """Start a browser with an empty profile for the length of the block."""
    command = [find_chromium(), *FLAGS, f"--user-data-dir={folder}", "--lang=en-GB", "about:blank"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # its helpers end with it
    )
    try:
        yield Chromium(_address(folder / "DevToolsActivePort", process))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        lines = file.read_text().split() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.02)  # the browser gives no other sign
    raise AssertionError(f"Chromium does not listen; its exit status is {process.poll()}")
