"""An orderly stop: messages that are being sent still arrive."""

import asyncio

import pytest

from bot.core.content import Content
from bot.core.platform import MessageRef
from tests.simulation.bot_installation import ADMIN, played
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time


@pytest.mark.parametrize(
    ("words", "patience_s", "ends_after_s"),
    [
        ("/queue", 1.5, 1.0),
        ("/queue", 0.2, 0.2),  # no longer than that
        ("/preload flux", 1.5, 0.0),  # goes on after the start
    ],
)
@in_virtual_time
async def test_a_stop_waits_for_the_answers_on_their_way(
    words: str, patience_s: float, ends_after_s: float
) -> None:
    """A call that Telegram was told is being handled would never be answered."""
    flux = image_model("flux", load_s=60.0)
    async with played(Installation.of([flux], [host("gpu-1", "comfy")])) as running:

        async def slowly(_content: Content, _private: bool) -> MessageRef | None:  # the protocol's
            await asyncio.sleep(1.0)
            return None

        call = running.chat.call(words, user=ADMIN, respond=slowly)
        await running.dispatcher.call(call)
        began_at = asyncio.get_running_loop().time()
        await running.presenter.settle(patience_s)
        took_s = asyncio.get_running_loop().time() - began_at
        assert took_s == pytest.approx(ends_after_s, abs=0.1)
