"""The bot's process is killed during work, and servers crash on requests.

`usher run` is a real process here, with a real configuration, database and web chat; so are the
servers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queueing.core.errors import Problem, ProblemKind
from queueing.core.jobs import JobState
from queueing.core.specs import HostSpec
from tests.bot.platforms.web.web_client import Tab, text_of
from tests.fakes.ports import port_of
from tests.fakes.process import respawning, serving
from tests.processes.bot_process import BotProcess
from tests.processes.installation import (
    CHECKPOINT,
    backend,
    image,
    image_model,
    installation,
    set_faults,
    text,
    text_model,
    told,
    until,
)

CONFIG = """
database: usher.sqlite
hosts:
  gpu:
    vram: 24GB
    backends:
      comfy: {{kind: comfyui, url: "{comfy}"}}
      studio: {{kind: lmstudio, url: "{studio}"}}
models:
  sdxl:
    backends: [comfy]
    workflow: sdxl.json
    values: {{checkpoint: {checkpoint}}}
    most: {{steps: 150}}
    vram: 8GB
  qwen:
    backends: [studio]
    vram: 4GB
chats:
  web: {{port: {port}}}
"""


class Bot(BotProcess):
    """`usher run` as a process, with a page on it."""

    def __init__(self, folder: Path, comfy: str, studio: str) -> None:
        super().__init__(folder)
        self.configure(
            CONFIG.format(comfy=comfy, studio=studio, checkpoint=CHECKPOINT, port=self.port)
        )

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Tab]:
        url = f"http://127.0.0.1:{self.port}"
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{url}/socket", origin=url) as socket,
        ):
            page = Tab(socket)
            await page.hello()
            yield page


@pytest.fixture
async def comfy() -> AsyncIterator[str]:
    async with serving("comfyui", "--step-s", "0.25") as url:
        yield url


@pytest.fixture
async def studio() -> AsyncIterator[str]:
    async with serving("lmstudio", "--size", "qwen=4000", "--step-s", "5") as url:
        yield url


@pytest.fixture
async def bot(tmp_path: Path, comfy: str, studio: str) -> AsyncIterator[Bot]:
    made = Bot(tmp_path, comfy, studio)
    await made.start()
    yield made
    await made.kill()


async def ask(bot: Bot, words: str) -> None:
    async with bot.page() as page:
        await page.say(words)
        await page.next("taken")


async def shown(bot: Bot, words: str) -> dict[str, Any]:
    """Return the entry of the web chat that finally has this text and nothing pending."""
    async with asyncio.timeout(120):
        while True:
            with suppress(TimeoutError):
                async with bot.page() as page:
                    for entry in (await page.next("messages"))["entries"]:
                        if words in text_of(entry):
                            return dict(entry)
            await asyncio.sleep(0.2)


async def drawing(comfy: str) -> str:
    """Return the id of the running prompt, once it is the image's and not that of its warm-up."""
    found: list[str] = []

    async def runs() -> bool:
        seen = await told(comfy)
        found[:] = [seen["running"]] if len(seen["ran"]) == 2 and seen["running"] else []
        return bool(found)

    await until(runs)
    return found[0]


async def test_an_image_that_still_runs_is_watched_again(bot: Bot, comfy: str) -> None:
    """A crash of the bot would throw away what ComfyUI is drawing, or draw it twice."""
    await ask(bot, "/image sdxl --steps 150 a cat")
    key = await drawing(comfy)
    await set_faults(comfy, step_s=1.0)  # a start may take long on a busy machine
    await bot.kill()
    await bot.start()
    assert (await told(comfy))["running"] == key, "it was over before the bot was back"
    await set_faults(comfy, step_s=0.0)
    entry = await shown(bot, "a cat\n")
    assert entry["shown"]["files"]
    seen = await told(comfy)
    assert seen["ran"][1:] == [key]
    assert not seen["interrupts"]


async def test_an_image_that_finished_meanwhile_is_fetched(bot: Bot, comfy: str) -> None:
    """Work that ComfyUI finished while the bot was dead would be lost, or drawn again."""
    await ask(bot, "/image sdxl --steps 150 a cat")
    key = await drawing(comfy)
    await bot.kill()
    await set_faults(comfy, step_s=0.0)

    async def finished() -> bool:
        return key in (await told(comfy))["ended"]

    await until(finished)
    await bot.start()
    assert (await shown(bot, "a cat\n"))["shown"]["files"]
    assert (await told(comfy))["ran"][1:] == [key]


async def test_an_image_its_server_has_forgotten_is_drawn_again(
    tmp_path: Path, studio: str
) -> None:
    """A power cut of bot and ComfyUI together would lose an image."""
    port = str(port_of(asyncio.get_running_loop()))
    async with serving("comfyui", "--step-s", "0.25", "--port", port) as comfy:
        bot = Bot(tmp_path, comfy, studio)
        await bot.start()
        await ask(bot, "/image sdxl --steps 150 a cat")
        await drawing(comfy)
        await bot.kill()
    async with serving("comfyui", "--port", port) as comfy:
        await bot.start()
        assert (await shown(bot, "a cat\n"))["shown"]["files"]
        assert len((await told(comfy))["ran"]) in {1, 2}, "the image once, perhaps a warm-up"
    await bot.kill()


async def test_a_text_starts_again(bot: Bot, studio: str) -> None:
    """A crash of the bot would leave half an answer forever."""
    await ask(bot, "/ask qwen hello")

    async def answering() -> bool:
        return bool((await told(studio))["running"])

    await until(answering)
    await bot.kill()
    await set_faults(studio, pace_s=0.0)
    await bot.start()
    await shown(bot, "the cat sat on the mat\n")


@pytest.fixture
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queueing.planning.retry.FIRST_PAUSE_S", 0.2)
    monkeypatch.setattr("queueing.engine.health_checker.FIRST_DOWN_S", 0.1)
    monkeypatch.setattr("queueing.engine.health_checker.EVERY_S", 0.5)


@pytest.mark.usefixtures("_no_long_pauses")
async def test_a_question_that_kills_its_server_is_given_up_and_its_neighbours_are_answered(
    tmp_path: Path,
) -> None:
    """One poisonous request would crash the server again and again, with everyone's work."""
    options = ("--size", "qwen=4000", "--step-s", "0.2", "--dies-of", "poison")
    async with respawning("lmstudio", *options) as studio:
        host = HostSpec(
            name="gpu", vram_mb=24_000, backends=(backend("lmstudio", "studio", studio),)
        )
        models = [text_model("qwen", "studio", vram_mb=4_000, parallel=4)]
        async with installation(tmp_path, [host], models) as running:
            poison = text("qwen", words="poison")
            jobs = await running.submit(text("qwen"), poison, text("qwen"), text("qwen"))
            good, bad, *others = await running.ends.of(jobs)
    assert [job.state for job in (good, *others)] == [JobState.COMPLETED] * 3
    assert (bad.state, bad.attempt) == (JobState.FAILED, 3)
    assert bad.error is not None
    assert Problem.read(bad.error) == Problem(what=ProblemKind.AWAY, attempts=3)


@pytest.mark.usefixtures("_no_long_pauses")
async def test_an_image_that_kills_its_server_is_given_up_and_the_line_goes_on(
    tmp_path: Path,
) -> None:
    """A model's queue would stop at the first request that its server cannot survive."""
    async with respawning("comfyui", "--step-s", "0.02", "--dies-of", "poison") as comfy:
        host = HostSpec(name="gpu", vram_mb=24_000, backends=(backend("comfyui", "comfy", comfy),))
        async with installation(tmp_path, [host], [image_model("sdxl", "comfy")]) as running:
            # Its result must be fetched by then: the server takes its files along when it dies.
            (first,) = await running.ends.of(await running.submit(image("sdxl")))
            jobs = await running.submit(image("sdxl", words="poison"), image("sdxl"))
            bad, last = await running.ends.of(jobs)
    assert (first.state, last.state) == (JobState.COMPLETED, JobState.COMPLETED)
    assert (bad.state, bad.attempt) == (JobState.FAILED, 3)
