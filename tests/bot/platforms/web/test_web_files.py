"""Files over HTTP: whole or a range, in pieces, and never more than a piece each in memory."""

import asyncio
import contextlib
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import Self
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from bot.app.setup import MIGRATIONS
from bot.core.content import Content
from bot.http.files import AT_ONCE_EACH, PIECE, DownloadSlots, FileSender, Sendable, sendable
from bot.people.web_people import WebPerson
from bot.platforms.web.chat import calls
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.chat_log import ChatLog
from bot.platforms.web.platform import Web
from queueing.core.requests import File
from queueing.store.engines import open_database
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler

FILE = File(name="video.bin", mime="video/mp4", data=random.Random(3).randbytes(3 * PIECE + 17))
SIZE = len(FILE.data)
WAIT_S = 60.0


class Installation:
    """A server with one file, on a loopback port; counts what is read from the file."""

    def __init__(self, sender: FileSender, file: Sendable | None = None) -> None:
        self.sender = sender
        self.file = file or sendable(FILE, tag="tag")
        self.read = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/file", self._answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        port = self.runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/file"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        async def piece(start: int, length: int) -> bytes | None:
            data = await self.file.piece(start, length)
            self.read += len(data or b"")
            return data

        counted = Sendable(
            name=self.file.name,
            mime=self.file.mime,
            size=self.file.size,
            tag=self.file.tag,
            piece=piece,
        )
        return await self.sender.send(request, counted, whose="ada", headers={"X-Mine": "yes"})

    def unread(self) -> socket.socket:
        """Ask for the file and never read the answer."""
        asked = socket.socket()
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        asked.connect(("127.0.0.1", URL(self.url).port))
        asked.sendall(b"GET /file HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return asked


async def test_a_range_is_exactly_that_part() -> None:
    """A player could not seek, and a broken download could not be continued."""
    cases: list[tuple[str | None, int, tuple[int, int] | None]] = [
        (None, 200, (0, SIZE)),
        ("bytes=0-", 206, (0, SIZE)),
        ("bytes=0-9", 206, (0, 10)),
        (f"bytes={PIECE - 1}-{2 * PIECE}", 206, (PIECE - 1, 2 * PIECE + 1)),
        (f"bytes={SIZE - 1}-{10**30}", 206, (SIZE - 1, SIZE)),
        ("bytes=-5", 206, (SIZE - 5, SIZE)),
        (f"bytes={SIZE}-", 416, None),
        ("bytes=9-3", 200, (0, SIZE)),
        ("bytes=0-1,5-6", 200, (0, SIZE)),
        ("lines=1-2", 200, (0, SIZE)),
    ]
    async with Installation(FileSender()) as installation, aiohttp.ClientSession() as session:
        for asked, status, part in cases:
            headers = {"Range": asked} if asked else {}
            async with session.get(installation.url, headers=headers) as answer:
                told, body = answer.headers, await answer.read()
            assert answer.status == status, asked
            if part is None:
                assert told["Content-Range"] == f"bytes */{SIZE}", asked
                continue
            assert body == FILE.data[slice(*part)], asked
            assert (told["Accept-Ranges"], told["X-Mine"]) == ("bytes", "yes"), asked
            if status == 206:
                assert told["Content-Range"] == f"bytes {part[0]}-{part[1] - 1}/{SIZE}", asked


async def test_a_part_of_another_version_is_the_whole_of_this_one() -> None:
    """Two versions of a file would be joined into one that is neither."""
    async with Installation(FileSender()) as installation, aiohttp.ClientSession() as session:
        for tag, status in (('"tag"', 206), ('"other"', 200)):
            headers = {"Range": "bytes=5-9", "If-Range": tag}
            async with session.get(installation.url, headers=headers) as answer:
                assert answer.status == status


async def test_what_a_browser_has_is_not_sent_again_and_a_head_has_no_body() -> None:
    """Each time the page is opened, all images would be downloaded again."""
    async with Installation(FileSender()) as installation, aiohttp.ClientSession() as session:
        async with session.get(installation.url, headers={"If-None-Match": '"tag"'}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with session.head(installation.url) as answer:
            assert answer.headers["Content-Length"] == str(SIZE)
        assert installation.read == 0


async def test_downloads_that_nobody_reads_hold_a_piece_each_and_are_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Sixty unread downloads of 25 MB took three gigabytes, for as long as they liked."""
    data = bytes(40 * PIECE)
    large = sendable(File(name="a", mime="b", data=data), tag="t")
    async with Installation(FileSender(piece_s=3.0), large) as installation:
        unread = [installation.unread() for _ in range(2 * AT_ONCE_EACH)]
        try:
            # Its turn comes when those before it were ended for not reading.
            async with (
                asyncio.timeout(WAIT_S),
                aiohttp.ClientSession() as session,
                session.get(installation.url) as answer,
            ):
                assert await answer.read() == data
        finally:
            for each in unread:
                each.close()
        # What the kernel holds for a connection comes on top of the piece.
        assert installation.read - len(data) < len(unread) * 15 * PIECE
    assert not [record for record in caplog.records if record.exc_info]


async def test_so_many_downloads_run_at_once() -> None:
    """Each takes memory; one person could use up everyone's."""
    turns = DownloadSlots(each=2, overall=3)
    holding = contextlib.AsyncExitStack()
    for whose in ("ada", "ada", "ben"):
        await holding.enter_async_context(turns.of(whose))

    async def next_one(whose: str) -> str:
        async with turns.of(whose):
            return whose

    waiting = [asyncio.create_task(next_one(whose)) for whose in ("ada", "cyd")]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    await holding.aclose()
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.gather(*waiting) == ["ada", "cyd"]


async def test_a_file_that_goes_while_it_is_sent_is_cut_not_short() -> None:
    """Half an image would be regarded as the whole one."""
    left = [FILE.data[:PIECE]]

    async def piece(_start: int, _length: int) -> bytes | None:
        return left.pop() if left else None

    file = Sendable(name="a", mime="b", size=SIZE, tag="t", piece=piece)
    async with (
        Installation(FileSender(), file) as installation,
        aiohttp.ClientSession() as session,
        session.get(installation.url) as answer,
    ):
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_files_of_the_page_come_from_the_database_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reader would cause the whole file to be read into memory."""
    database = await open_database(f"sqlite:///{tmp_path}/a.sqlite", migrations=(MIGRATIONS,))
    log = ChatLog(database)
    monkeypatch.setattr(log, "file", None)  # which reads the whole of it
    async with running(Web(port=0, log=log), ScriptedHandler()) as page:
        ref = await page.send("local", Content(files=(FILE,)))
        entry = await log.get("local", ref.message)
        assert entry is not None
        assert entry.shown is not None
        url = f"{page.url}files/{entry.shown.files[0].id}"
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as answer:
                assert await answer.read() == FILE.data
            async with session.get(url, headers={"Range": "bytes=7-8"}) as answer:
                assert (answer.status, await answer.read()) == (206, FILE.data[7:9])
    await database.aclose()


def test_uploads_of_one_person_do_not_push_out_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who attaches much would delete others' files before they send their message."""
    monkeypatch.setattr(calls, "UPLOADS_KEPT_BYTES", 100)
    made = Calls(
        platform="web",
        handler=ScriptedHandler(),
        log=Mock(),
        clock=Mock(),
        respond=Mock(),
        posted=Mock(),
    )
    ada, bob = WebPerson(id="ada", name="Ada"), WebPerson(id="bob", name="Bob")
    first = made.upload(ada, replace(FILE, data=bytes(40)))
    others = [made.upload(bob, replace(FILE, data=bytes(30))) for _ in range(3)]
    assert list(made._uploads) == [("ada", first), *(("bob", each) for each in others[1:])]
