"""Rules on the page: its pickers, panels, gallery, microphone and typed requests."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.requests.options import SHAPES, SIZES
from queueing.core.jobs import NewJob, SubmitLimits
from queueing.core.requests import TextToImage
from tests.bot.platforms.web.web_client import opened
from tests.bot.whole_bot import on_web
from tests.fakes.servers.speech_script import wav
from tests.security.hostile_requests import found_routes
from tests.simulation.installation import ended

SERVED = """
hosts: {gpu-1: {vram: 24GB, backends: {studio: {kind: demo}}}}
models:
  flux:
    backends: [studio]
    capabilities: [text-to-image, image-to-image]
    vram: 1GB
    load_s: 0.01
    service_s: 0.02
    most: {steps: 50}
  pen: {backends: [studio], capabilities: [text-to-image], vram: 1GB, load_s: 0.01}
  whisper: {backends: [studio], capabilities: [speech-to-text], vram: 1GB, load_s: 0.01}
  llama: {backends: [studio], capabilities: [text-to-text], vram: 1GB, load_s: 0.01}
rules:
  - who: [web:local]
    where: [web:local]
    models: [flux]
    kinds: [image]
    most: {steps: 9, pixels: 500000}
    spoiler: true
  - {}
"""


TRIED = frozenset({"/choices", "/panels/{panel}", "/dictation/{key}", "/socket", "/gallery"})
"""The routes of the page that offer something or take requests, each tried below."""
OTHERS = frozenset(
    {
        *("/", "/static/{name}", "/texts/{locale}.json", "/signout", "/upload", "/files/{file}"),
        *("/past/{job}", "/originals/{job}/{number}/{until}/{seal}", "/panels/act", "/{name}"),
        *("/gallery/{job}", "/gallery/{job}/{number}", "/gallery/{job}/{number}/favourite"),
    }
)
"""The other routes: the page itself, and files and results that a person already has."""


async def test_every_route_of_the_page_has_its_place_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A route that is added later could be an unnoticed way round the rules."""
    with found_routes(monkeypatch) as places:
        async with on_web(tmp_path, SERVED):
            served = {each.path for each in places if not each.path.startswith("/operator")}
            assert served == TRIED | OTHERS


async def test_the_page_offers_and_takes_what_its_persons_rule_allows(tmp_path: Path) -> None:
    """A picker, the microphone or a typed command would be a way round the rules."""
    async with on_web(tmp_path, SERVED) as (url, parts):
        headers = {"Origin": url.rstrip("/")}
        async with aiohttp.ClientSession(url, headers=headers) as browser, opened(url) as tab:
            offered = await _json(browser.get("choices"))
            assert [kind["name"] for kind in offered["kinds"]] == ["image"]
            assert [model["name"] for model in offered["kinds"][0]["models"]] == ["flux"]
            options = {each["name"]: each for each in offered["kinds"][0]["options"]}
            assert options["steps"]["most"] == 9
            assert not offered["hears"]
            assert offered["shapes"] == list(SHAPES)
            shown = await _json(browser.get("panels/models"))
            assert [model["name"] for model in shown["models"]] == ["flux"]
            rows = {
                each["name"]: each
                for each in (await _json(browser.get("panels/settings")))["settings"]
            }
            sizes = [each["value"] for each in rows["size"]["choices"]]
            assert {"reset", "wide", "3:2"} <= {*sizes} <= {*SIZES, "reset"} - {"1024x1024"}
            assert [each["value"] for each in rows["image"]["choices"]] == ["reset", "flux"]
            said = await _json(browser.post("dictation/0123456789abcdef", data=wav()))
            assert "can't use this here" in said["why"]
            commands = {each["name"] for each in (await tab.hello())["commands"]}
            assert {"image", "status", "help"} <= commands
            assert commands.isdisjoint({"ask", "transcribe"})
            await tab.send(type="suggest", id=1, command="image", param="model", typed="")
            assert (await tab.next("values"))["values"] == ["flux"]
            for line, told in (
                ("/image pen a cat", "You can't use pen here"),
                ("/ask why?", "You can't use this here"),
                ("/image a cat --steps 10", "at most 9 steps"),
            ):
                await tab.say(line)
                await tab.entry(told)
            await tab.say("/image a cat")
            async with asyncio.timeout(60):
                while not (found := await _json(browser.get("gallery")))["items"]:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert found["hidden"]
            assert not {"video", "edit-image", "upscale"} & set(found["items"][0]["actions"])
            drawn = NewJob(
                model="pen", request=TextToImage(prompt="a cat"), owner="web:ada", key="ada"
            )
            job = await parts.queue.submitter.submit(drawn, limits=SubmitLimits())
            await ended(parts.queue, job)
            report = parts.queue.status.snapshot()
            assert any(model.copies for model in report.models if model.name == "pen")
            state = await _json(browser.get("panels/status"))
            assert "pen" not in str(state)
            await tab.hello()
            assert [row["model"] for row in (await tab.next("overview"))["queues"]] == ["flux"]
            (job,) = await parts.queue.jobs.history("web:local", limit=9)
            assert job.request.model_dump()["steps"] in {None, 9}


async def _json(asked: Any) -> Any:
    async with asked as answer:
        return await answer.json()
