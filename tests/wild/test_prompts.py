"""Prompts as other programs write them: LoRA tags and blocks of parameters.

Each file of `prompts/` has a prompt as it is `written`, and the `prompt`, `loras`, `options` and
`unused` names that are in it, or is `refused`.
"""

import asyncio
from pathlib import Path

import pytest

from bot.core.refusals import Declined
from bot.requests.creation import Creation, DrawingOptions
from bot.requests.shared_prompts import applied, read
from queueing.core.jobs import Job
from queueing.core.requests import LoraWeight, TextToImage
from tests.bot.api.whole_api import running
from tests.bot.commands.admin.test_admin_commands import say
from tests.samples import in_turn
from tests.simulation.bot_installation import played
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time
from tests.wild.cases import cases, read_case

CASES = cases("prompts")
BLOCK = (
    "cat\nNegative prompt: dog\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 256x256"
)


@in_turn("case", CASES)
def test_a_shared_prompt_is_taken_apart(case: Path) -> None:
    """Tags and parameters would be drawn as words."""
    odd = read_case(case)
    drawing = Creation(prompt=odd["written"])
    if odd.get("refused"):
        with pytest.raises(Declined):
            applied(drawing, read(odd["written"]), None)
        return
    made, unused = applied(drawing, read(odd["written"]), None)
    assert made.prompt == odd["prompt"]
    found = made.options.given
    loras = tuple(LoraWeight(name=name, weight=weight) for name, weight in odd.get("loras", ()))
    assert found.get("lora", ()) == loras
    options = odd.get("options", {})
    if "size" in options:
        options["size"] = tuple(options["size"])
    assert {name: value for name, value in found.items() if name != "lora"} == options
    assert list(unused) == odd.get("unused", [])


def test_a_flood_of_words_is_left_to_the_limit_on_words() -> None:
    """Reading it would take long, and everybody would wait."""
    flood = "<lora:ink:1> " * 10_000
    assert read(flood).prompt == flood


def test_explicit_options_come_first_and_ignored_ones_are_named() -> None:
    own = DrawingOptions(seed=7, lora=(LoraWeight(name="Ink", weight=2),))
    shared = read(f"<lora:ink:1> <lora:glow:1> {BLOCK}")
    made, unused = applied(Creation(prompt="", options=own), shared, {"seed", "steps", "lora"})
    assert made.options.seed == 7
    assert [lora.name for lora in made.options.lora or ()] == ["Ink", "glow"]
    assert made.options.given.keys() == {"seed", "steps", "lora"}
    assert set(unused) == {"--negative", "--size", "--guidance", "Sampler"}


@in_virtual_time
async def test_a_chat_draws_and_says_what_had_no_effect() -> None:
    """The words of the tags would be in the image, and its seed would be another."""
    installation = Installation.of([image_model("flux", vram_mb=16000)], [host("gpu-1", "comfy")])
    async with played(installation) as running:
        for text in (
            f"/image flux <lora:glow:0.7> {BLOCK}",
            f"/image flux --raw {BLOCK}",
            f"/edit 1 fox <lora:ink:0.5>\n{BLOCK.partition(chr(10))[2]}",
            "/vary --id 1 a fox <lora:ink:0.5>",
        ):
            await say(running, text, "fake:1")
            await asyncio.sleep(60)
        jobs = [await running.queue.jobs.get(n) for n in range(1, 5)]
    drawn, raw, edited, varied = [as_image(job) for job in jobs]
    assert (drawn.prompt, drawn.negative, drawn.steps, drawn.seed) == ("cat", "dog", 20, 42)
    assert (drawn.width, drawn.height, drawn.guidance) == (256, 256, 7)
    assert drawn.lora == (LoraWeight(name="glow", weight=0.7),)
    assert raw.prompt == BLOCK
    assert (edited.prompt, edited.seed) == ("fox", 42)
    assert edited.lora == varied.lora == (LoraWeight(name="ink", weight=0.5),)
    assert varied.prompt == "a fox"
    told = [shown.text for shown in running.chat.messages.values()]
    assert sum("No effect here: Sampler." in text for text in told) == 2, told


def as_image(job: Job | None) -> TextToImage:
    assert job is not None
    assert isinstance(job.request, TextToImage)
    return job.request


async def test_a_program_is_told_what_had_no_effect(tmp_path: Path) -> None:
    """A program would silently get an image with other parameters."""
    async with running(tmp_path) as api:
        body = {"model": "flux", "prompt": BLOCK}
        told = await api.post("/jobs", body, status=202)
        job = await api.parts.queue.jobs.get(told["id"])
    assert told["unused"] == ["Sampler"]
    assert job is not None
    drawn = as_image(job)
    assert (drawn.prompt, drawn.negative, drawn.seed) == ("cat", "dog", 42)
