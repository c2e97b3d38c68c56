"""A process that has lost its role: what it hears and would show is left to the next holder."""

import asyncio
from itertools import chain, repeat
from pathlib import Path

import pytest

from bot.core.platform import ChatLease, Invocation
from queueing.core.errors import Fenced
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import Bot, bot, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time


def installation(tmp_path: Path) -> Installation:
    return Installation.of(
        [image_model("flux", service_s=20.0)],
        [host("gpu-1", "comfy")],
        url=f"sqlite:///{tmp_path}/usher.sqlite",
    )


class Looks(ChatLease):
    """A role that is held as the answers say, in turn, and then as the last one says."""

    def __init__(self, *answers: bool) -> None:
        self._answers = chain(answers, repeat(answers[-1]))

    @property
    def held(self) -> bool:
        return next(self._answers)


async def left(running: Bot, call: Invocation) -> None:
    """Make a call, and assert that it has no effect."""
    calling = asyncio.ensure_future(running.dispatcher.call(call))
    await asyncio.sleep(600)
    assert calling.done() is not call.comes_again, "it would be confirmed, and come no more"
    calling.cancel()
    assert await running.queue.deliveries.to_tell(0, 10) == []
    assert running.chat.messages == {}
    assert running.chat.private == []


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("answers", [(False,), (True, False)])
@in_virtual_time
async def test_a_call_that_comes_after_the_post_is_over_is_left_to_the_next_holder(
    answers: tuple[bool, ...], again: bool, tmp_path: Path
) -> None:
    """One process would draw the result, and two would answer."""
    async with bot(installation(tmp_path), lease=Looks(*answers)) as running:
        await left(running, running.chat.call("/image flux cat", comes_again=again))


@in_virtual_time
async def test_a_call_that_the_database_refuses_to_a_former_holder_is_left_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process would tell the person that nothing is accepted, and the other "#1"."""

    async def refused(_user: str) -> None:
        raise Fenced("another process took the role")

    async with bot(installation(tmp_path)) as running:
        monkeypatch.setattr(running.people, "get", refused)
        await left(running, running.chat.call("/image flux cat"))


@in_virtual_time
async def test_a_result_of_a_former_holder_is_not_counted_as_undeliverable(tmp_path: Path) -> None:
    """The next holder would wait for minutes before it shows an image in a working chat."""
    async with bot(installation(tmp_path)) as running:
        await running.dispatcher.call(running.chat.call("/image flux cat"))
        await asyncio.sleep(10)
        shown = len(running.chat.messages["1"].contents)
        running.chat.lease = Looks(False)
        await asyncio.sleep(3600)
        assert len(running.chat.messages["1"].contents) == shown
        assert await running.records.unreachable() == {}
    chat = FakeChat()
    chat.messages = running.chat.messages
    async with bot(installation(tmp_path), chat) as running:
        await quiet(running)
        assert len(chat.messages["1"].contents) > shown
