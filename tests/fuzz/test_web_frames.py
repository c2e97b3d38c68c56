"""Whatever a client sends over its socket, the page goes on, for it and for everyone else."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.app.setup import MIGRATIONS
from bot.platforms.web.chat.chat_log import ChatLog
from bot.platforms.web.chat.page_connection import FRAMES_BURST
from bot.platforms.web.chat.protocol import FROM_PAGE, MAX_FILES, MAX_TEXT
from bot.platforms.web.platform import Web
from queueing.store.engines import open_database
from tests.bot.platforms.web.web_client import running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fuzz.hostile_input import NASTY, bounded, spoiled, texts, values

KEY = "0123456789abcdef"
FRAMES: list[dict[str, Any]] = [
    {"type": "hello", "log": "x", "since": 0},
    {"type": "say", "key": KEY, "text": "/image cat", "uploads": ["a"], "reply_to": "msg-1"},
    {"type": "press", "key": KEY, "message": "msg-1", "command": "cancel", "job": 7},
    {"type": "submit", "key": KEY, "command": "edit", "job": 7, "values": {"prompt": "cat"}},
    {"type": "suggest", "id": 1, "command": "image", "param": "model", "typed": "f"},
    {"type": "earlier", "before": 5},
    {"type": "hello", "conversation": KEY, "log": "x", "since": 0},
    {"type": "rename", "key": KEY, "conversation": KEY, "name": "cats"},
    {"type": "remove", "key": KEY, "conversation": "first"},
    {"type": "seen"},
    {"type": "list", "most": 80},
    {"type": "find", "id": 1, "text": "cat"},
]


@bounded
@given(st.sampled_from(FRAMES).flatmap(spoiled).map(json.dumps) | values.map(json.dumps) | texts)
def test_frames(frame: str) -> None:
    """A frame of another shape would be carried out, or crash the page's reader."""
    try:
        read = FROM_PAGE.validate_json(frame)
    except (ValidationError, UnicodeEncodeError):
        return
    assert len(getattr(read, "text", "")) <= MAX_TEXT
    assert len(getattr(read, "uploads", ())) <= MAX_FILES
    read.model_dump_json()  # what was read can be stored


NUMBERS = (2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**30, -1, -(2**63), -(2**63) - 1, -(10**30))


async def test_numbers_beyond_all_bounds_are_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A number that the database cannot hold closed the page, with a traceback each time."""
    database = await open_database(f"sqlite:///{tmp_path}/a.sqlite", migrations=(MIGRATIONS,))
    log = ChatLog(database)
    hello = {"type": "hello", "log": log.id, "since": 0}
    whole = [
        {**frame, name: number}
        for frame in (hello, *FRAMES)
        for name, value in frame.items()
        if isinstance(value, int)
        for number in NUMBERS
    ]
    async with running(Web(port=0, log=log), ScriptedHandler()) as web, tab(web) as page:
        for number, frame in enumerate(whole):
            fresh = {"key": f"{number:016}"} if "key" in frame else {}
            await page.send(**frame | fresh)
            if "key" in frame or frame["type"] == "list":
                settled = {"refused", "taken"}
                while (await page.socket.receive_json())["type"] not in settled:
                    pass
        await page.say("still there?")
        await page.next("taken")
    await database.aclose()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_page_survives_what_no_page_sends() -> None:
    """One hostile client would end the web chat for everyone."""
    bad = [
        *NASTY,
        "[" * 1_000,
        *(json.dumps({**frame, name: bad}) for frame in FRAMES for name in frame for bad in NASTY),
    ]
    async with running(web_chat(port=0), ScriptedHandler()) as web, tab(web) as good:
        left = [text.encode(errors="surrogatepass").decode(errors="replace") for text in bad]
        while left:
            async with tab(web) as page:
                now, left = left[: FRAMES_BURST - 20], left[FRAMES_BURST - 20 :]
                for text in now:
                    await page.socket.send_str(text)
                await page.hello()
        for ends in (b"\xff\xfe", "[" * 10_000):
            async with tab(web) as page:
                if isinstance(ends, bytes):
                    await page.socket.send_bytes(ends)
                else:
                    await page.socket.send_str(ends)
                closed = await page.socket.receive(timeout=60)
                while closed.type is aiohttp.WSMsgType.TEXT:
                    closed = await page.socket.receive(timeout=60)
                assert closed.type is aiohttp.WSMsgType.CLOSE
        await good.say("still there?")
        await good.next("taken")
