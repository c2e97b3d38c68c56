"""Prompt enhancement: better prompts if they cost no one a wait, and never a lost image."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.live_settings import ChatSettings, ChatSettingsTable, LiveSettings
from bot.requests import enhancement
from bot.requests.rules import Rule
from queueing.core.jobs import Job, JobEvent, JobState, NewJob
from queueing.core.requests import Capability, Output, TextToImage
from queueing.core.specs import ModelSpec
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.bot.requests.test_recordings import quiet
from tests.fakes.servers.backend import Fate
from tests.simulation.bot_installation import Bot, bot
from tests.simulation.installation import NO_LIMITS, Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time, run

BETTER = "result of a cat"  # what the fake text server answers


def text_model(vram_mb: int = 4000) -> ModelSpec:
    return replace(
        image_model("qwen", "studio", vram_mb=vram_mb, load_s=4.0),
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
    )


def installation(
    url: str = "sqlite://", *, resident: str = "flux qwen", text_mb: int = 4000
) -> Installation:
    """Return a GPU with a ComfyUI and an LM Studio, and the models already in its memory."""
    flux = replace(image_model("flux", vram_mb=16000), enhance="qwen")
    sdxl = image_model("sdxl", vram_mb=16000)
    models = [flux, sdxl, text_model(text_mb)]
    made = Installation.of(models, [host("gpu", "comfy", "studio")], url=url, grace_s=0.0)
    made.servers["studio"].service_s, made.servers["studio"].load_s = 2.0, 4.0
    for model in models:
        if model.name in resident.split():
            server = made.servers[model.backends[0]]
            server.memory.add(model.name)
            made.gpus["gpu"].take(server.name, model.name, model.vram_mb or 0)
    return made


async def asked(running: Bot, text: str) -> None:
    await asyncio.sleep(0.5)  # the servers have been looked at
    await running.dispatcher.call(running.chat.call(text))


def the_one_drawn(gpu: Installation) -> tuple[float, str]:
    """Ask for a cat, and return when drawing began and from which prompt."""

    async def scenario() -> None:
        async with bot(gpu) as running:
            await asked(running, "/image flux a cat")
            await quiet(running)

    run(scenario())
    (one,) = drawn(gpu)
    return one


def drawn(an_installation: Installation) -> list[tuple[float, str]]:
    return [(at, prompt) for at, _, prompt in an_installation.servers["comfy"].starts]


@in_virtual_time
async def test_a_prompt_is_improved_drawn_and_shown_with_the_original() -> None:
    """Enhancement would do nothing, or people would not see what became of their words."""
    gpu = installation()
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        await quiet(running)
        (message,) = running.chat.messages.values()
        assert message.text.startswith(f"a cat\n✨ {BETTER}\nflux")
        assert any("is improving the prompt" in text for text in message.texts)
    ((at, prompt),) = drawn(gpu)
    assert prompt == BETTER
    assert at == pytest.approx(3.0, abs=0.2)  # asked at 0.5, answered in 2, fetched in 0.5


@pytest.mark.parametrize("words", ["/image flux --raw a cat", "/image sdxl a cat"])
@in_virtual_time
async def test_what_was_not_asked_to_be_improved_stays_as_written(words: str) -> None:
    """--raw would mean nothing, or models without `enhance` would get other prompts."""
    gpu = installation(resident="qwen")
    async with bot(gpu) as running:
        await asked(running, words)
        await quiet(running)
    assert [prompt for _, prompt in drawn(gpu)] == ["a cat"]
    assert not gpu.servers["studio"].starts


def test_no_swap_is_made_for_a_prompt() -> None:
    """An image would wait for models to be swapped, which no one asked for."""
    gpu = installation(resident="flux", text_mb=10000)
    at, prompt = the_one_drawn(gpu)
    assert prompt == "a cat"
    assert at == pytest.approx(0.5, abs=0.1)
    assert not gpu.servers["studio"].loads
    assert not gpu.servers["comfy"].unloads


def test_a_text_model_that_fits_beside_everything_is_loaded_for_a_prompt() -> None:
    """Enhancement would never begin after a restart, until a person asks something."""
    gpu = installation(resident="flux")
    at, prompt = the_one_drawn(gpu)
    assert prompt == BETTER
    assert at == pytest.approx(7.0, abs=0.3)


@in_virtual_time
async def test_a_late_answer_is_not_waited_for() -> None:
    """A slow text model would delay images by more than ten seconds."""
    gpu = installation()
    gpu.servers["studio"].service_s = 500.0
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        await quiet(running)
        assert asyncio.get_running_loop().time() < 60
        assert gpu.servers["studio"].cancelled == ["a cat"]
    ((at, prompt),) = drawn(gpu)
    assert prompt == "a cat"
    assert at == pytest.approx(10.5, abs=0.2)


def test_a_failed_enhancement_lets_the_image_go_at_once() -> None:
    """An image would wait until the time limit for an answer that can no longer come."""
    gpu = installation()
    gpu.servers["studio"].fates = lambda _: Fate(service_s=1.0, error=ValueError("no"))
    at, prompt = the_one_drawn(gpu)
    assert prompt == "a cat"
    assert at == pytest.approx(1.5, abs=0.2)


@in_virtual_time
async def test_younger_images_pass_one_whose_prompt_is_improved_and_it_is_next_then() -> None:
    """Enhancement would block the queue, or cost an image its place in it."""
    gpu = installation()
    gpu.servers["studio"].service_s = 4.0
    gpu.servers["comfy"].service_s = 5.0
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        for number in range(3):
            await running.dispatcher.call(running.chat.call(f"/image flux --raw dog {number}"))
        await quiet(running)
    assert [prompt for _, prompt in drawn(gpu)] == ["dog 0", BETTER, "dog 1", "dog 2"]


@in_virtual_time
async def test_a_cancelled_image_takes_its_question_with_it() -> None:
    """Text servers would continue with prompts for images that are no longer wanted."""
    gpu = installation()
    gpu.servers["studio"].service_s = 9.0
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        await until(lambda: gpu.servers["studio"].starts)
        await running.queue.submitter.cancel(1)
        await quiet(running)
        assert asyncio.get_running_loop().time() < 5
    assert not drawn(gpu)
    assert gpu.servers["studio"].cancelled == ["a cat"]


@in_virtual_time
async def test_the_question_counts_against_nobodys_limits() -> None:
    """A person with room for one more job would be refused it."""
    gpu = installation()
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        await until(lambda: gpu.servers["studio"].starts)
        assert [job.id for job in await running.queue.jobs.open_jobs("fake:1")] == [1]
        await quiet(running)


@in_virtual_time
async def test_a_forgotten_image_takes_its_question_with_it() -> None:
    """A person's words would stay in the question about them, whatever was promised."""
    gpu = installation()
    gpu.servers["studio"].service_s = 8.0
    async with bot(gpu) as running:
        await asked(running, "/image flux a cat")
        await until(lambda: gpu.servers["studio"].starts)
        assert await running.queue.jobs.get(2) is not None
        await running.dispatcher.call(running.chat.call("/forget me --sure"))
        await asyncio.sleep(15)
        assert [await running.queue.jobs.get(1), await running.queue.jobs.get(2)] == [
            None,
            None,
        ]

        await asked(running, "/image flux a cat")
        await quiet(running)
        assert await running.queue.jobs.get(4) is not None
        await running.dispatcher.call(running.chat.call("/forget me --sure"))
        await asyncio.sleep(1)
        assert [await running.queue.jobs.get(3), await running.queue.jobs.get(4)] == [
            None,
            None,
        ]


@in_virtual_time
async def test_a_lora_that_a_rule_forbids_is_not_put_into_a_prompt() -> None:
    """People would have the text model write a tag that they may not use."""
    gpu = installation()
    written = Output(text="a cat <lora:secret:1>")
    gpu.servers["studio"].outputs = lambda _: written
    async with bot(gpu, rules=(Rule(loras=frozenset({"ink"})),)) as running:
        await asked(running, "/image flux a cat")
        await quiet(running)
    assert [prompt for _, prompt in drawn(gpu)] == ["a cat"]


@in_virtual_time
async def test_words_a_chat_does_not_want_are_not_put_into_a_prompt() -> None:
    """A text model could add what people of that chat may not ask for."""
    gpu = installation()
    chat_settings = ChatSettingsTable(by_key={"*": ChatSettings(words=("result",))})
    async with bot(gpu, live=LiveSettings(chat_settings=chat_settings)) as running:
        await asked(running, "/image flux a cat")
        await quiet(running)
    ((at, prompt),) = drawn(gpu)
    assert prompt == "a cat"
    assert at == pytest.approx(3.0, abs=0.2)


REQUEST = TextToImage(prompt="a cat")
CALL = NewJob(model="flux", request=REQUEST, owner="fake:1", key="k", delay_s=enhancement.DELAY_S)


async def left_behind(gpu: Installation, *, state: JobState) -> None:
    """Make what a crash leaves between an image's acceptance and its better prompt."""
    store = JobStore(await open_database(gpu.url, inline=True))
    queue = gpu.build(store, gpu.connect())
    image = await queue.submitter.submit(CALL, limits=NO_LIMITS)
    question = enhancement.question(image, REQUEST, "qwen")
    asked_for = await queue.submitter.submit(question, limits=NO_LIMITS)
    now = image.queued_at
    if state is not JobState.PENDING:
        asked_for = (
            await store.apply(asked_for, JobEvent.START, now, runner="dead", backend="studio")
        ).job
    if state is JobState.COMPLETED:
        await store.apply(asked_for, JobEvent.COMPLETE, now, output=Output(text=BETTER))
    await store.aclose()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.PROCESSING, JobState.COMPLETED])
@pytest.mark.parametrize("away_s", [0.0, 60.0])
def test_a_crash_between_the_two_loses_neither(
    tmp_path: Path, state: JobState, away_s: float
) -> None:
    """A crash during enhancement would lose an image, or leave its question forever."""
    gpu = installation(f"sqlite:///{tmp_path}/usher.db")

    async def scenario() -> Job:
        await left_behind(gpu, state=state)
        await asyncio.sleep(away_s)
        async with bot(gpu) as running:
            await until(lambda: gpu.servers["comfy"].finished)
            await asyncio.sleep(15)
            assert [job.id for job in await running.queue.deliveries.unacknowledged()] == [1]
            assert not await running.queue.jobs.open_jobs()
            image = await running.queue.jobs.get(1)
            assert image is not None
            return image

    image = run(scenario())
    assert image.state is JobState.COMPLETED
    ((_, prompt),) = drawn(gpu)
    assert isinstance(image.request, TextToImage)
    assert image.request.prompt == prompt, "what was drawn is what is shown"
    if state is JobState.COMPLETED or not away_s:
        assert prompt == BETTER
        assert image.request.original == "a cat"


@in_virtual_time
async def test_a_call_repeated_after_a_crash_is_seen_through_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Chats repeat unconfirmed calls: two jobs would wait for one prompt, and one would fail."""
    gpu = installation(f"sqlite:///{tmp_path}/usher.db")
    await left_behind(gpu, state=JobState.PENDING)
    async with bot(gpu) as running:
        await running.queue.submitter.submit(CALL, limits=NO_LIMITS)
        await until(lambda: gpu.servers["comfy"].finished)
        await asyncio.sleep(15)
        assert not await running.queue.jobs.open_jobs()
    ((_, prompt),) = drawn(gpu)
    assert prompt == BETTER
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_only_what_can_be_a_prompt_becomes_one() -> None:
    """Quotation marks would be drawn, or a rambling answer would replace a person's words."""
    cases: list[tuple[str, str]] = [
        ('"A cat,\n golden light"', "A cat, golden light"),
        ("", "a cat"),
        ("a cat", "a cat"),
        ("x" * 5000, "a cat"),
    ]
    for answer, prompt in cases:
        request = TextToImage(prompt="a cat", seed=7)
        better = enhancement.improved(request, answer)
        assert (better.prompt, better.seed) == (prompt, 7), answer
        assert better.original == (None if prompt == "a cat" else "a cat"), answer
