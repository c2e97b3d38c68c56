"""After any stop, pending updates are shown: a command's outcome, or that its job was deleted."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.errors import ChatMoved, ChatUnavailable, MessageGone, SlowDown
from tests.fakes.chat import LIMITS, FakeChat
from tests.simulation.bot_installation import ADMIN, Bot, bot
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time, run

STARTED = "📦 Loading sdxl …"
LOADED = "✅ sdxl is loaded on gpu-1 (comfy) and stays loaded."
UNLOADING, UNLOADED = "Unloading sdxl …", "✅ sdxl was unloaded from gpu-1 (comfy)."


def installation(tmp_path: Path) -> Installation:
    models = [image_model("sdxl", load_s=20.0), image_model("flux", service_s=60.0)]
    return Installation.of(
        models, [host("gpu-1", "comfy")], url=f"sqlite:///{tmp_path}/usher.sqlite"
    )


def last(chat: FakeChat) -> str:
    return list(chat.messages.values())[-1].text


async def owed(running: Bot) -> int:
    return len(await running.records.updates.all())


@pytest.mark.parametrize("after_s", [0.0, 0.5, 5.0, 19.0, 21.0])
def test_a_preload_that_a_restart_came_into_says_what_became_of_it(
    after_s: float, tmp_path: Path
) -> None:
    """The admin would rely on a message that never says whether the load was done."""
    chat = FakeChat()

    async def scenario() -> None:
        world = installation(tmp_path)
        async with bot(world, chat) as running:
            await running.dispatcher.call(chat.call("/preload sdxl", user=ADMIN))
            await asyncio.sleep(after_s)
        async with bot(world, chat) as running:
            if not chat.messages:
                return  # stopped before anything was said or begun
            await until(lambda: last(chat) == LOADED, within_s=120)
            await asyncio.sleep(1)
            assert await owed(running) == 0

    run(scenario())
    assert len(chat.messages) <= 1, "the outcome belongs into the message that is there"


@in_virtual_time
async def test_an_unload_whose_outcome_could_not_be_told_is_told_after_a_restart(
    tmp_path: Path,
) -> None:
    """After one refused edit and a stop, the message said that it was unloading forever."""
    chat = FakeChat()
    world = installation(tmp_path)
    async with bot(world, chat) as running:
        await running.dispatcher.call(chat.call("/preload sdxl", user=ADMIN))
        await until(lambda: chat.messages and last(chat) == LOADED)
        await running.dispatcher.call(chat.call("/unload sdxl", user=ADMIN))
        await until(lambda: last(chat) == UNLOADING)
        chat.fail_when = lambda _chat: ChatUnavailable("cut")
        await asyncio.sleep(40)
    chat.fail_when = lambda _chat: None
    async with bot(world, chat):
        await until(lambda: last(chat) == UNLOADED, within_s=30)


@in_virtual_time
async def test_a_command_that_keeps_ending_the_process_is_not_begun_for_ever(
    tmp_path: Path,
) -> None:
    """A load that crashes the machine would crash it at every start."""
    chat = FakeChat()
    world = installation(tmp_path)
    async with bot(world, chat) as running:
        await running.dispatcher.call(chat.call("/preload sdxl", user=ADMIN))
        await until(lambda: chat.messages)
    async with bot(world, chat):
        await asyncio.sleep(2)
    async with bot(world, chat) as running:
        await until(lambda: "was restarted twice" in last(chat), within_s=5)
        await asyncio.sleep(1)
        assert await owed(running) == 0


@pytest.mark.parametrize(
    "refusal", [MessageGone("deleted"), SlowDown(300.0, old_message=True), ChatMoved("g2")]
)
@in_virtual_time
async def test_an_outcome_whose_message_cannot_be_edited_comes_beneath(
    refusal: Exception, tmp_path: Path
) -> None:
    """A drain may take hours, and its message may be gone by then, or too old to be edited."""
    chat = FakeChat()
    async with bot(installation(tmp_path), chat) as running:
        await running.dispatcher.call(chat.call("/preload sdxl", user=ADMIN, chat="g1"))
        await until(lambda: chat.messages)
        chat.failures.append(refusal)  # type: ignore[arg-type]
        await until(lambda: last(chat) == LOADED, within_s=60)
    first, second = chat.messages.values()
    assert (first.text, second.text) == (STARTED, LOADED)


stops = st.lists(st.floats(0.01, 15.0), max_size=4)


@settings(max_examples=5)
@given(stops, st.integers(1, 8))
@in_virtual_time
async def test_after_forget_me_no_message_stays_half_true(
    tmp_path_factory: pytest.TempPathFactory, lives_s: list[float], jobs: int
) -> None:
    """Messages would say "#6 in line" forever for jobs that are deleted."""
    chat = FakeChat(limits=LIMITS)
    tmp_path = tmp_path_factory.mktemp("forget")
    world = installation(tmp_path)
    async with bot(world, chat) as running:
        for _ in range(jobs):
            await running.dispatcher.call(chat.call("/image flux cat", chat="g1"))
        await until(lambda: len(chat.messages) == jobs, within_s=60)
        await running.dispatcher.call(chat.call("/forget me --sure", chat="g1"))
        await asyncio.sleep(lives_s[0] if lives_s else 200)
    for life_s in lives_s[1:]:
        async with bot(world, chat):
            await asyncio.sleep(life_s)
    async with bot(world, chat) as running:
        await asyncio.sleep(200)
        assert await owed(running) == 0
        assert await running.queue.jobs.open_jobs() == []
    shown = {each.text for each in chat.messages.values()}
    assert shown == {"Cancelled and deleted."}


@in_virtual_time
async def test_an_answer_does_not_wait_for_all_the_messages_that_are_emptied(
    tmp_path: Path,
) -> None:
    """A person who forgets a hundred jobs would block the channel for two minutes."""
    chat = FakeChat()
    waited: list[float] = []
    loop = asyncio.get_running_loop()
    async with bot(installation(tmp_path), chat) as running:
        for _ in range(8):
            await running.dispatcher.call(chat.call("/image flux cat", chat="g1"))
        await until(lambda: len(chat.messages) == 8, within_s=60)
        await asyncio.sleep(60)
        await running.dispatcher.call(chat.call("/forget me --sure", chat="g1"))
        await asyncio.sleep(1)
        said, at = len(chat.private), loop.time()
        await running.dispatcher.call(chat.call("/queue", chat="g1"))
        await until(lambda: len(chat.private) > said)
        waited.append(loop.time() - at)
    assert waited[0] < 5.0
