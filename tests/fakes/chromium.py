"""A real Chromium without a window, driven over its DevTools protocol as a person would use it.

Keys and clicks go through the browser's own input handling; nothing here calls the page's code.
"""

import asyncio
import base64
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
START_S = 30.0
WAIT_S = 10.0
KEYS = {
    "Enter": 13,
    "Tab": 9,
    "Escape": 27,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Backspace": 8,
    " ": 32,
}
SHIFT = 8


def find_chromium() -> str:
    """Return Chromium's path; skip the calling test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip("no Chromium on this machine: the page is not tried in a browser")


class Page:
    """One tab of the browser.

    `errors` collects what the page threw, what its console reported as an error, and what its
    content policy stopped.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()

    async def listen(self) -> None:
        """Take in what the browser sends, until it goes away."""
        async for frame in self._socket:
            message = json.loads(frame.data)
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
            else:
                self._notice(message["method"], message["params"])

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
            raise AssertionError(f"{method}: {message['error']['message']}")
        result: dict[str, Any] = message["result"]
        return result

    async def goto(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(WAIT_S):
            await self._loaded.wait()

    async def reload(self) -> None:
        """Reload the page and wait until it is loaded."""
        self._loaded.clear()
        await self.call("Page.reload")
        async with asyncio.timeout(WAIT_S):
            await self._loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    async def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds; fail with what the page shows then."""
        look = (
            "new Promise((done) => { const look = () => "
            f"({condition}) ? done(true) : setTimeout(look, 20); look(); }})"
        )
        try:
            async with asyncio.timeout(WAIT_S):
                await self.evaluate(look)
        except TimeoutError:
            text = await self.text()
            raise AssertionError(
                f"not within {WAIT_S} s: {condition}\n{text}\n{self.errors}"
            ) from None

    async def wait_text(self, text: str, selector: str = "body") -> None:
        """Wait until an element shows a text."""
        query = f"document.querySelector({json.dumps(selector)})"
        await self.wait(f"{query}?.innerText.includes({json.dumps(text)})")

    async def text(self, selector: str = "body") -> str:
        """Return the text an element shows."""
        return str(await self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key."""
        text = {"Enter": "\r", "Tab": ""}.get(key, key if len(key) == 1 else "")
        event = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": KEYS.get(key, 0),
            "modifiers": SHIFT if shift else 0,
        }
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    async def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse; fail where something covers it."""
        query = f"document.querySelector({json.dumps(selector)})"
        await self.wait(f"{query} !== null")
        x, y, hit = await self.evaluate(
            f"(() => {{ const node = {query}; node.scrollIntoView({{ block: 'nearest' }});"
            "const box = node.getBoundingClientRect();"
            "const x = box.x + box.width / 2, y = box.y + box.height / 2;"
            "const hit = document.elementFromPoint(x, y);"
            "return [x, y, node === hit || node.contains(hit) || hit?.contains(node)]; })()"
        )
        assert hit, f"{selector} is covered by something else"
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

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


@asynccontextmanager
async def open_chromium(folder: Path) -> AsyncIterator[Page]:
    """Start a Chromium whose profile lies in an empty folder, and give its one page."""
    process = await asyncio.create_subprocess_exec(
        find_chromium(),
        *FLAGS,
        f"--user-data-dir={folder}",
        "--lang=en-GB",
        "about:blank",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    tasks: list[asyncio.Task[None]] = []  # no task group: a failing test should fail bare
    try:
        async with asyncio.timeout(START_S):
            browser = await _address(process.stderr)
        tasks.append(asyncio.create_task(_drain(process.stderr)))
        async with aiohttp.ClientSession() as session:
            target = await _new_target(session, browser)
            root = browser.split("/devtools/")[0]
            async with session.ws_connect(f"{root}/devtools/page/{target}", max_msg_size=0) as ws:
                page = Page(ws)
                tasks.append(asyncio.create_task(page.listen()))
                for domain in ("Page", "Runtime", "Log", "DOM"):
                    await page.call(f"{domain}.enable")
                await page.look()
                yield page
            async with session.ws_connect(browser) as ws:
                await ws.send_json({"id": 1, "method": "Browser.close", "params": {}})
                await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _address(stderr: asyncio.StreamReader) -> str:
    async for line in stderr:
        words = line.decode(errors="replace").split("DevTools listening on ")
        if len(words) == 2:
            return words[1].strip()
    raise AssertionError("Chromium ended before it listened")


async def _drain(stderr: asyncio.StreamReader) -> None:
    # A full pipe would stop the browser.
    while await stderr.read(65536):
        pass


async def _new_target(session: aiohttp.ClientSession, browser: str) -> str:
    async with session.ws_connect(browser) as ws:
        params = {"url": "about:blank"}
        await ws.send_json({"id": 1, "method": "Target.createTarget", "params": params})
        async for frame in ws:
            message = json.loads(frame.data)
            if message.get("id") == 1:
                return str(message["result"]["targetId"])
    raise AssertionError("Chromium opened no page")
