"""The messages of a chat in another process are left to that process."""

import asyncio
from pathlib import Path

from bot.core.answers import Task
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import bot, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time


@in_virtual_time
async def test_a_job_of_a_chat_served_elsewhere_is_left_to_that_process(tmp_path: Path) -> None:
    """Two processes would each send the image, or none."""
    given = Installation.of(
        [image_model("flux", service_s=20.0)],
        [host("gpu-1", "comfy")],
        url=f"sqlite:///{tmp_path}/usher.sqlite",
    )
    here, there = FakeChat("here"), FakeChat("there")
    async with bot(given, here) as running:
        for chat in (here, there):
            await running.dispatcher.call(chat.call("/image flux cat"))
        await asyncio.sleep(60)
        (untold,) = await running.queue.deliveries.to_tell(0, 10)
        assert '"platform":"there"' in untold.reply_to
    assert len(here.messages) == 1
    assert there.messages == {}
    async with bot(given, there) as running:
        await quiet(running)
    assert [len(chat.messages) for chat in (here, there)] == [1, 1]


@in_virtual_time
async def test_what_a_message_owes_is_shown_by_the_process_that_serves_its_chat(
    tmp_path: Path,
) -> None:
    """Two processes would load the model, or none would say that it is loaded."""
    given = Installation.of(
        [image_model("flux", load_s=20.0)],
        [host("gpu-1", "comfy")],
        url=f"sqlite:///{tmp_path}/usher.sqlite",
    )
    here, there = FakeChat("here"), FakeChat("there")
    async with bot(given, here) as running:
        task = Task(command="preload", model="flux", language="en")
        await running.records.updates.begin("there", "2", None, task, running.clock.now())
    async with bot(given, here) as running:
        await asyncio.sleep(600)
        assert len(await running.records.updates.all()) == 1
    assert here.messages == {}
    async with bot(given, there) as running:
        await asyncio.sleep(600)
        assert await running.records.updates.all() == []
    assert [message.chat for message in there.messages.values()] == ["2"]
