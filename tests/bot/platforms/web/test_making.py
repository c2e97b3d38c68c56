"""The pickers beside the text field: what they offer, and the command line that they write."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.app.app import BotParts
from bot.commands.call.parser import parse
from bot.commands.make.image import COMMAND as IMAGE
from queueing.core.requests import TextToImage
from tests.bot.platforms.web.web_client import image
from tests.bot.whole_bot import on_web
from tests.fakes.programs.chromium import Chromium, Page, running_chromium

SERVED = """
hosts:
  gpu-1:
    vram: 24GB
    backends: {studio: {kind: demo}}
models:
  flux: {backends: [studio], capabilities: [text-to-image], vram: 4GB, load_s: 0.1, service_s: 0.2}
  pen: {backends: [studio], capabilities: [image-edit], vram: 4GB, load_s: 0.1, service_s: 0.2}
  llama: {backends: [studio], capabilities: [text-to-text], vram: 4GB, load_s: 0.1, service_s: 0.2}
styles:
  noir: {prompt: "{prompt}, film noir", model: flux}
"""
PROMPTS = (
    "a lighthouse",
    "flux over water",
    'say "hi" --seed 7',
    "-- two dashes — and --size 3:2",
    "first\n  second\n--count 4",
    "12 cats",
    "--",
    "“so”",
)
KIND, SIZE = "[data-pick=kind] select", "[data-pick=size] select"


async def test_the_choices_are_what_the_models_here_can_do(tmp_path: Path) -> None:
    """A picker would offer a video where no model makes one, or an option that is refused."""
    async with (
        on_web(tmp_path, SERVED) as (url, _),
        aiohttp.ClientSession(url) as browser,
        browser.get("choices", headers={"Accept-Language": "de"}) as answer,
    ):
        found = await answer.json()
    kinds = {kind["name"]: kind for kind in found["kinds"]}
    assert list(kinds) == ["chat", "image", "edit"]
    assert [model["name"] for model in kinds["image"]["models"]] == ["flux"]
    assert (kinds["image"]["usual"], kinds["image"]["usual_with_image"]) == ("flux", None)
    assert {"size", "count", "style", "steps"} <= set(kinds["image"]["models"][0]["takes"])
    options = {option["name"]: option for option in kinds["edit"]["options"]}
    assert not options.keys() & {"strength", "seconds", "voice"}
    assert (options["count"]["least"], options["count"]["most"]) == (1, 4)
    assert found["styles"] == [{"name": "noir", "model": "flux"}]
    assert "wie viele Bilder" in options["count"]["help"]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


async def choose(page: Page, picker: str, value: str) -> None:
    """Choose a row of a native list, which the browser draws outside the page."""
    await page.wait(f"document.querySelector('{picker} option[value={json.dumps(value)}]')")
    node = f"document.querySelector({json.dumps(picker)})"
    await page.evaluate(
        f"{node}.value = {json.dumps(value)}; {node}.dispatchEvent(new Event('change'))"
    )


async def said(page: Page, parts: BotParts, text: str) -> Any:
    """Type a text, send it, and return the request that it becomes."""
    known = len(await parts.queue.jobs.history("web:local", limit=50))
    await page.click("#text")
    await page.type(text)
    await page.press("Enter")
    await page.wait(f"document.querySelectorAll('.message:not(.mine)').length > {known}")
    return (await parts.queue.jobs.history("web:local", limit=1))[0].request


@pytest.mark.browser
async def test_what_is_picked_is_made_and_stays_picked(tmp_path: Path, chromium: Chromium) -> None:
    """People would have to learn commands, or pick everything again for each image."""
    async with on_web(tmp_path, SERVED) as (url, parts), chromium.page() as page:
        await page.goto(url)
        assert type(await said(page, parts, "hello")).__name__ == "Chat"
        await choose(page, KIND, "image")
        await choose(page, SIZE, "portrait")
        await page.wait_text("flux · about", "#making")
        await page.click("[data-pick=more] button")
        await page.click("#making-seed")
        await page.type("7")
        await page.press("Enter")
        await page.wait_text("More · 1", "#making")
        drawn = await said(page, parts, PROMPTS[2])
        assert isinstance(drawn, TextToImage)
        assert (drawn.prompt, drawn.seed) == (PROMPTS[2], 7)
        assert (drawn.width or 0) < (drawn.height or 0)

        await page.reload()
        await page.wait(f"document.querySelector('{SIZE}')?.value === 'portrait'")
        (tmp_path / "cat.png").write_bytes(image().data)
        await page.set_files("#file", tmp_path / "cat.png")
        await page.wait(f"document.querySelector('{KIND}').value === 'edit'")
        await page.wait("document.querySelector('.attached .done') !== null")
        assert (await said(page, parts, "make it red")).edit
        await page.wait(f"document.querySelector('{KIND}').value === 'image'")
        assert type(await said(page, parts, "/ask why?")).__name__ == "Chat"
        assert page.errors == []


@pytest.mark.browser
async def test_a_text_arrives_as_it_was_typed(tmp_path: Path, chromium: Chromium) -> None:
    """A dash, a quotation mark or a model's name in a prompt would change what is made."""
    write = """import('./static/line.js').then((it) => JSON.stringify(TEXTS.map((text) => it.commandLine({
      command: "image", model: MODEL, text, names: new Set(["flux"]),
      options: [["negative", 'no "--seed 9" or ”'], ["count", "2"]] }))))"""
    async with on_web(tmp_path, SERVED) as (url, _), chromium.page() as page:
        await page.goto(url)
        for model in ("", "flux", "the flux"):
            made = write.replace("TEXTS", json.dumps(PROMPTS)).replace("MODEL", json.dumps(model))
            for text, line in zip(PROMPTS, json.loads(await page.evaluate(made)), strict=True):
                values = dict(parse(IMAGE, line.removeprefix("/image "), lambda it: it == "flux"))
                assert values.pop("model", "") == model
                wanted = {"prompt": text, "negative": 'no "--seed 9" or "', "count": 2}
                assert values == wanted, line
