"""An operator's page as the server sees it, and a web chat whose admin is "web:local"."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiohttp

from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.operator.dashboard import DashboardData, LogLines
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.dashboard.examples import ExampleJobs, ExampleRecords
from tests.bot.platforms.web.web_client import WAIT_S
from tests.fakes.memory_log import web_chat

TOKEN, ADAS = "the-admins-own-long-token", "adas-equally-long-token"


class Example:
    """A web chat with an operator's page: "web:local" is an admin, "web:ada" is not."""

    def __init__(self, *, path: str = "", log: LogLines = lambda _: ()) -> None:
        at = time.time()
        self.records, self.jobs = ExampleRecords(at), ExampleJobs(at)
        self.admins = {"web:local"}
        self.web = web_chat(
            port=0,
            path=path,
            token=TOKEN,
            people=FixedPeople({ADAS: WebPerson(id="ada", name="Ada")}),
            is_admin=lambda user: user in self.admins,
            operator=DashboardData(self.records, self.jobs, log=log),
        )


class OperatorTab:
    """One open page of an operator."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.unread: list[dict[str, Any]] = []

    async def act(self, command: str, *, job: int | None = None, **values: str) -> str:
        """Press a button and return the act's key."""
        key = uuid4().hex
        frame = {"type": "submit", "key": key, "command": command, "job": job, "values": values}
        await self.socket.send_json(frame)
        return key

    async def next(self, kind: str) -> dict[str, Any]:
        """Return the next frame of that type; others are kept for later."""
        for kept in self.unread:
            if kept["type"] == kind:
                self.unread.remove(kept)
                return kept
        async with asyncio.timeout(WAIT_S):
            while True:
                frame: dict[str, Any] = json.loads(await self.socket.receive_str())
                if frame["type"] == kind:
                    return frame
                self.unread.append(frame)

    async def until(self, kind: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the body of the first frame of that type that fulfils a condition."""
        async with asyncio.timeout(WAIT_S):
            while True:
                body: dict[str, Any] = (await self.next(kind))["body"]
                if wanted(body):
                    return body

    async def answer(self, command: str, *, job: int | None = None, **values: str) -> str:
        """Press a button and return the text of its first answer."""
        key = await self.act(command, job=job, **values)
        async with asyncio.timeout(WAIT_S):
            while True:
                answer = await self.next("answer")
                if answer["key"] == key:
                    return "".join(part.get("text", "") for part in answer["body"])

    async def closed(self) -> int | None:
        """Wait until the server closes the page and return the code."""
        async with asyncio.timeout(WAIT_S):
            while not self.socket.closed:
                await self.socket.receive()
        return self.socket.close_code


@asynccontextmanager
async def operator_tab(web: Web, token: str = TOKEN) -> AsyncIterator[OperatorTab]:
    """Open an operator's page."""
    async with operator_tab_at(web.url, token) as page:
        yield page


@asynccontextmanager
async def operator_tab_at(url: str, token: str = "") -> AsyncIterator[OperatorTab]:
    """Open the operator's page of a web chat at an address."""
    headers = {"Cookie": f"usher={token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{url}operator/socket", origin=url.rstrip("/"), headers=headers
        ) as socket,
    ):
        yield OperatorTab(socket)
