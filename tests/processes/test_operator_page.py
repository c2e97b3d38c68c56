"""The operator's page where one process serves it and another one holds the queue."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.app import control_socket
from bot.app.control_socket import NotRunning
from bot.cli.top import TopReader, TopState
from bot.config.loader import sign_at
from tests.bot.platforms.web.dashboard.operator_client import operator_tab_at
from tests.fakes.programs.postgres_server import PostgresServer
from tests.processes.cluster.cluster import Usher, processes
from tests.processes.installation import until

pytest.importorskip("psycopg")

PAGE = """
chats: {web: {port: 0}}
admins: ["web:local"]
"""
QUEUE, FRONT = ("--roles", "queue"), ("--roles", "web")


async def address(front: Usher) -> str:
    """Return the address at which a process serves its page."""
    await front.logged("the page is at")
    (url,) = re.findall(r"the page is at (http://\S+)", front.log)
    return str(url)


def waiting(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda now: [line["waiting"] for line in now["queues"]] == [count]


async def test_a_page_beside_the_queue_shows_steers_and_remembers_it(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """An admin of a cluster would see an empty page, or press buttons that do nothing."""
    async with processes(tmp_path, postgres, QUEUE, QUEUE, FRONT, more=PAGE) as three:
        front = three.ushers[2]
        url = await address(front)
        holder = await three.holder()
        async with operator_tab_at(url) as page:
            now = await page.until("now", lambda now: bool(now["hosts"]))
            assert holder.is_named(now["cluster"]["queue"])
            assert front.is_named(now["cluster"]["here"])
            assert "llama" in await page.answer("pause", model="llama")
            jobs = await three.ask(4)
            await page.until("now", waiting(4))
            assert str(jobs[0]) in await page.answer("cancel", job=jobs[0])
            await page.until("now", waiting(3))
            await page.answer("resume", model="llama")
            await three.all_done(jobs[1:])
            for usher in (holder, front):
                await until(lambda: _shown_by(usher, done=3))  # noqa: B023
            await holder.end(signal.SIGKILL)
            during = await _top(front)
            assert during is None or during.now.hosts  # a sentence, or the last image
            other = await three.holder()
            await page.until("now", lambda now: other.is_named(now["cluster"]["queue"]))
            await page.answer("preload", model="llama")
            await three.all_done(await three.ask(2))
            done = {"pause", "cancel", "resume", "preload"}
            people = await page.until(
                "people", lambda seen: done <= {act["action"] for act in seen["acts"]}
            )
            assert {act["actor"] for act in people["acts"]} == {"web:local"}
        async with aiohttp.ClientSession() as session:

            async def all_recorded() -> bool:
                async with session.get(f"{url}operator/hours/hour") as answer:
                    models = (await answer.json())["models"]
                return [(each["done"], each["cancelled"]) for each in models] == [(5, 1)]

            await until(all_recorded)
            for usher in (other, front):
                await until(lambda: _shown_by(usher, done=5))  # noqa: B023


async def _top(usher: Usher) -> TopState | None:
    """Return what `usher top` reads from a process, or None while that knows nothing."""
    reader = TopReader(lambda call: control_socket.ask(sign_at(usher.config), call))
    try:
        return await asyncio.to_thread(reader.read)
    except NotRunning:
        return None


async def _shown_by(usher: Usher, *, done: int) -> bool:
    seen = await _top(usher)
    if seen is None or seen.hours is None:
        return False
    return sum(each.done for each in seen.hours.models) == done
