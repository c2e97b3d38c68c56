"""Models that servers name themselves are known before the first request is accepted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.demo.backend import Demo
from bot.app import app, local_queue
from bot.app.app import ChatParts
from queueing.core.errors import Unavailable
from queueing.core.specs import ModelSpec
from tests.bot.whole_bot import on_telegram
from tests.fakes.telegram.telegram import FakeTelegram
from tests.patience import runs_out

TEXT = """
hosts: {home: {vram: 24GB, backends: {away: {kind: demo}, here: {kind: demo, load_s: 0.1, service_s: 0.1}}}}
chats: {telegram: {token: "${TELEGRAM_TOKEN}", api_url: "${TELEGRAM_API}"}}
"""


async def asked_at_the_start(folder: Path) -> str:
    """Ask before the bot runs, and return its answer."""
    async with FakeTelegram() as fake:
        person = fake.person(7)
        person.says("/ask why is the sky blue")
        async with on_telegram(fake, folder, TEXT):
            await fake.wait_for(lambda: any("sky" in each.shown for each in person.chat.from_bot))
        return person.chat.from_bot[-1].shown


async def test_what_was_asked_while_it_was_off_finds_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first questions after every start would be told that no model can do that."""
    discover, served = Demo.discover, app.chats_served
    offered: list[str] = []

    async def slowly(self: Demo, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        for _ in range(100):
            await asyncio.sleep(0)
        if self._spec.name == "away":
            raise Unavailable("no route")
        found = await discover(self, known)
        offered.extend(each.name for each in found)
        return found

    @asynccontextmanager
    async def listens(*given: Any, **named: Any) -> AsyncIterator[ChatParts]:
        assert offered, "a chat was listened to before any model was known"
        async with served(*given, **named) as chats:
            yield chats

    monkeypatch.setattr(Demo, "discover", slowly)
    monkeypatch.setattr(app, "chats_served", listens)
    assert "No model here" not in await asked_at_the_start(tmp_path)


async def test_a_server_that_hangs_holds_up_the_start_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One faulty server would keep the bot from starting."""

    async def never(*_: object) -> tuple[ModelSpec, ...]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Demo, "discover", never)
    runs_out(monkeypatch, local_queue, "FIRST_LOOK_S")
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, TEXT):
        assert fake.api.polls
