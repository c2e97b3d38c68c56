"""Originals that are too large for a chat can be fetched with a signed link, and not without."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config import loader as configuration
from bot.core.content import Content
from bot.core.errors import ContentRefused
from bot.people.links import Links
from bot.platforms.registry import PlatformParts
from bot.platforms.web.platform import Web
from queueing.core.jobs import Job, JobState
from queueing.core.ports import SystemClock
from tests.fakes.chat import LIMITS, FakeChat

CONFIG = """
hosts: {gpu-1: {vram: 24GB, backends: {studio: {kind: demo, load_s: 0, service_s: 0, step_s: 0}}}}
models: {flux: {backends: [studio], capabilities: [text-to-image], vram: 7GB}}
chats: {web: {port: 0, url: "https://usher.example", token: "correct-horse-battery-staple"}}
admins: ["fake:9"]
retention: {days: 2}
"""
SMALL = replace(LIMITS, upload=4000, chat_every_s=0.01, edit_every_s=0.01)
WAIT_S = 60.0


class Later:
    """The machine's clock, which can be set forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return SystemClock().now() + self.ahead_s


class WatchedChat(FakeChat):
    """A chat that signals when it shows something new."""

    def __init__(self) -> None:
        super().__init__(limits=SMALL)
        self.changed = asyncio.Event()

    def _show(self, number: str, content: Content) -> None:
        super()._show(number, content)
        self.changed.set()


@dataclass
class Installation:
    parts: BotParts
    chat: WatchedChat
    web: Web
    clock: Later

    async def says(self, text: str, user: str = "fake:1", **fields: Any) -> None:
        await self.parts.dispatcher.call(self.chat.call(text, user=user, **fields))

    async def drawn(self) -> tuple[Job, str]:
        """Draw an image that is too large for the chat; return its job and what the chat shows."""
        await self.says("/image flux a cat --size 512x512")
        await self.until(lambda: "Original: " in self.last())
        told = self.last()
        (job,) = await self.parts.queue.jobs.history("fake:1", limit=1)
        assert job.state is JobState.COMPLETED
        return job, told

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait until the chat shows something new that fulfils a condition."""
        async with asyncio.timeout(WAIT_S):
            while not there():
                self.chat.changed.clear()
                await self.chat.changed.wait()

    def last(self) -> str:
        return list(self.chat.messages.values())[-1].text if self.chat.messages else ""

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.web.url.rstrip("/") + path, headers=headers) as answer,
        ):
            return answer.status, await answer.read(), dict(answer.headers)


@asynccontextmanager
async def installation(folder: Path, text: str = CONFIG) -> AsyncIterator[Installation]:
    chat, clock, webs = WatchedChat(), Later(), list[Web]()

    def chats(fittings: PlatformParts) -> list[WatchedChat | Web]:
        webs.append(
            Web(
                port=0,
                token="x" * 20,
                originals=fittings.originals,
                results=fittings.results,
                gallery=fittings.gallery,
                catalog=fittings.catalog,
                live=fittings.live,
                log=fittings.chat_log,
            )
        )
        return [chat, *webs]

    config = configuration.parse(text, {}, folder=folder)
    url = f"sqlite:///{folder}/usher.sqlite"
    app = App(BotSetup(config, database_url=url, clock=clock, make_platforms=chats))
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        await webs[0].connected.wait()
        yield Installation(parts, chat, webs[0], clock)
        working.cancel()


def path_in(told: str) -> str:
    found = re.search(r"Original: https://usher\.example(/originals/\S+)", told)
    assert found is not None, told
    return found[1]


async def test_a_link_brings_the_original_as_it_was_made(tmp_path: Path) -> None:
    """People could only ever get a chat's smaller form."""
    async with installation(tmp_path) as usher:
        job, told = await usher.drawn()
        output = await usher.parts.queue.jobs.output(job)
        assert output is not None
        (made,) = output.files
        path = path_in(told)
        status, data, headers = await usher.get(path)
        assert (status, data) == (200, made.data)
        assert headers["Content-Type"] == "image/png"
        assert headers["Content-Disposition"] == "inline"
        assert headers["Cache-Control"] == "private, no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "sandbox" in headers["Content-Security-Policy"]
        status, data, _ = await usher.get(path, Range="bytes=10-19")
        assert (status, data) == (206, made.data[10:20])
        shown = list(usher.chat.messages.values())[-1].contents[-1]
        assert len(shown.files[0].data) <= SMALL.upload


async def test_a_link_that_was_changed_brings_nothing(tmp_path: Path) -> None:
    """A guess or a changed number would open other people's files."""
    async with installation(tmp_path) as usher:
        _, told = await usher.drawn()
        path = path_in(told)
        _, _, job, number, until, seal = path.split("/")
        for changed in (
            f"{job}/{number}/{until}/{'A' * len(seal)}",
            f"{job}/{number}/{until}/{seal[:-1]}",
            f"{job}/{number}/{int(until) + 1}/{seal}",
            f"{job}/0/{until}/{seal}",
            f"{job}/2/{until}/{seal}",
            f"{int(job) + 1}/{number}/{until}/{seal}",
            f"{job}/{number}/{'9' * 30}/{seal}",
            f"{job}/{number}/-1/{seal}",
            f"{job}/%D9%A1/{until}/{seal}",
            f"{job}/{number}/{until}/%ff%00",
        ):
            assert (await usher.get(f"/originals/{changed}"))[0] == 404
        assert (await usher.get(path))[0] == 200


@pytest.mark.parametrize("how", ["delete", "forget", "ban", "time"])
async def test_a_link_ends_with_what_it_is_for(tmp_path: Path, how: str) -> None:
    """A file that was deleted, or whose person is banned, could still be fetched."""
    async with installation(tmp_path) as usher:
        job, told = await usher.drawn()
        path = path_in(told)
        assert (await usher.get(path))[0] == 200
        if how == "delete":
            await usher.says(f"/delete {job.id}")
        elif how == "forget":
            await usher.says("/forget me --sure")
        elif how == "ban":
            sent = await usher.parts.records.message(job.id)
            assert sent is not None
            await usher.says("/ban", user="fake:9", replied_to=sent.ref)
        else:
            usher.clock.ahead_s = 2 * 24 * 3600
        assert (await usher.get(path))[0] == 404
        if how == "delete":  # the result is kept, and shown again it has a new link
            await usher.says(f"/show {job.id}")
            await usher.until(lambda: path_in_or_none(usher.last()) not in {None, path})
            assert (await usher.get(path_in(usher.last())))[0] == 200
            assert (await usher.get(path))[0] == 404


def path_in_or_none(told: str) -> str | None:
    return path_in(told) if "Original: " in told else None


async def test_links_stay_good_over_a_restart(tmp_path: Path) -> None:
    """Every link in every chat would break with each update."""
    async with installation(tmp_path) as usher:
        _, told = await usher.drawn()
    async with installation(tmp_path) as usher:
        assert (await usher.get(path_in(told)))[0] == 200


async def test_without_an_address_the_page_is_named(tmp_path: Path) -> None:
    """People elsewhere would be sent a link to localhost."""
    async with installation(
        tmp_path, CONFIG.replace('url: "https://usher.example", ', "")
    ) as usher:
        await usher.says("/image flux a cat --size 512x512")
        await usher.until(lambda: "original is" in usher.last())
        assert re.search(r"The original is on the web page: /show \d", usher.last())
        assert "http" not in usher.last()


async def test_a_chat_that_takes_no_files_gets_the_link(tmp_path: Path) -> None:
    """Where the bot may not attach anything, the result could not be fetched."""
    async with installation(tmp_path) as usher:
        usher.chat.refuse = lambda content: ContentRefused("no files") if content.files else None
        _, told = await usher.drawn()
        assert "doesn't accept the files" in told
        assert (await usher.get(path_in(told)))[0] == 200


async def test_a_file_that_is_no_image_is_only_offered_as_a_download(tmp_path: Path) -> None:
    """A page that a model wrote would be opened under Usher's address."""
    async with installation(tmp_path) as usher:
        job, told = await usher.drawn()

        def change(connection: object) -> None:
            connection.execute(  # type: ignore[attr-defined]
                "UPDATE outputs SET data = ?, mime = 'image/png' WHERE job_id = ? AND number = 1",
                (b"<html><script>alert(1)</script>", job.id),
            )

        await usher.parts.records._database.write(change)
        status, _, headers = await usher.get(path_in(told))
        assert status == 200
        assert headers["Content-Type"] == "application/octet-stream"
        assert headers["Content-Disposition"].startswith("attachment")


@given(st.binary(min_size=1, max_size=64), st.integers(0, 2**40), st.integers(0, 9))
def test_no_two_links_have_one_seal(key: bytes, number: int, more: int) -> None:
    """The signature of one file would open another."""
    links = Links.__new__(Links)
    links.key = key
    seals = {
        links._seal(number, more, 1, 0),
        links._seal(number + 1, more, 1, 0),
        links._seal(number, more + 1, 1, 0),
        links._seal(number, more, 2, 0),
        links._seal(number, more, 1, 1),
    }
    assert len(seals) == 5
