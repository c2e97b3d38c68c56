"""Panels show the same as the commands of their names, to the same people."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bot.core.panels import HistoryPanel, ModelsPanel, Panel, SettingsPanel, StatusPanel
from bot.core.refusals import Declined, RefusalKind
from bot.requests.options import Style
from bot.requests.rules import Rule
from bot.texts.catalogue import plain
from tests.bot.results import ask, bot_with, done, in_bot
from tests.simulation.bot_installation import ADMIN, Bot
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time

FLUX, SDXL = image_model("flux", service_s=20.0), image_model("sdxl", service_s=20.0)


async def read(
    running: Bot, panel: str, user: str = "fake:1", text: str = "", **options: int
) -> Any:
    """Return a panel as a person's page reads it."""
    call = replace(running.chat.call(f"/{panel}", user=user), text=text, options=options)
    shown: Panel = await running.dispatcher.panel(call)
    return shown


@in_bot(FLUX, service_s=20.0)
async def test_a_panel_holds_only_its_readers_jobs_and_finds_them(running: Bot) -> None:
    """People would read each other's prompts, or scroll through a year of their own."""
    for number in range(34):
        await done(running, f"/image flux boat {number}")
    await done(running, "/image flux a secret boat", user="fake:2")
    await ask(running, "/image flux an owl")
    await asyncio.sleep(1)
    status: StatusPanel = await read(running, "status")
    (job,) = status.jobs
    assert (job.words, job.running) == ("an owl", True)
    assert (await read(running, "status", "fake:2")).jobs == ()
    history: HistoryPanel = await read(running, "history")
    assert (len(history.jobs), history.jobs[0].words) == (30, "an owl")
    assert history.before is not None
    older: HistoryPanel = await read(running, "history", id=history.before)
    assert [row.words for row in older.jobs] == [f"boat {number}" for number in range(4, -1, -1)]
    assert older.before is None
    found: HistoryPanel = await read(running, "history", text="FLUX boat 33")
    assert [row.words for row in found.jobs] == ["boat 33"]
    assert (await read(running, "history", text="secret")).jobs == ()


@in_bot(FLUX, SDXL)
async def test_a_default_is_shown_and_only_admins_may_load(running: Bot) -> None:
    """A star would not say which model is used, or a button be refused."""
    await ask(running, "/settings --image sdxl --size 640x480")
    settings: SettingsPanel = await read(running, "settings")
    values = {row.name: row.value for row in settings.settings}
    assert values["image"] == "sdxl"
    assert values["size"] == "640x480"
    assert values["style"] == values["language"] == "reset"
    assert "edit" not in values  # no model here can edit
    models: ModelsPanel = await read(running, "models")
    chosen = {model.name: [use.chosen for use in model.uses] for model in models.models}
    assert chosen == {"flux": [False], "sdxl": [True]}
    assert not models.operates
    assert (await read(running, "models", ADMIN)).operates
    await ask(running, "/ban fake:1 floods", user=ADMIN)
    with pytest.raises(Declined) as refused:
        await read(running, "history")
    assert refused.value.refusal.kind is RefusalKind.BANNED


@in_virtual_time
async def test_a_panel_offers_what_a_rule_allows() -> None:
    """People would pick models that are refused, or see another lane than theirs."""
    rule = Rule(
        models=frozenset({"sdxl"}),
        loras=frozenset({"sketch"}),
        limits={"lane": "guests", "gpu_seconds_per_day": 600},
    )
    styles = {"ink": Style(prompt="<lora:ink:1> {prompt}"), "bare": Style(prompt="{prompt}, bare")}
    async with bot_with(FLUX, SDXL, rules=[rule], styles=styles) as running:
        models: ModelsPanel = await read(running, "models")
        assert [model.name for model in models.models] == ["sdxl"]
        settings: SettingsPanel = await read(running, "settings")
        image = next(row for row in settings.settings if row.name == "image")
        assert [choice.value for choice in image.choices] == ["reset", "sdxl"]
        assert settings.lane == "guests"
        assert "of 10 min" in plain(settings.gpu.body)
        await running.people.change("fake:1", image_model="flux", style="ink")
        settings = await read(running, "settings")
        shown = {row.name: row for row in settings.settings}
        assert (shown["image"].value, shown["style"].value) == ("reset", "reset")
        assert [choice.value for choice in shown["image"].choices] == ["reset", "sdxl"]
        assert [choice.value for choice in shown["style"].choices] == ["reset", "bare"]
        for line in ("/settings --style ink", "/image a cat --style ink"):
            await ask(running, line)
            await asyncio.sleep(1)
            assert running.chat.answers[-1] == "You can't use the LoRA “ink” here."
        await ask(running, "/image a cat --style inc")
        await asyncio.sleep(1)
        assert running.chat.answers[-1] == "There's no style called “inc”. Available: bare."


@in_virtual_time
async def test_a_model_that_nobody_asked_for_is_loading_ahead() -> None:
    """A person would wonder whose request fills the GPU."""
    models = [image_model(name, vram_mb=16000, service_s=1.0) for name in ("flux", "sdxl")]
    gpu = replace(host("gpu-1", "comfy"), loads_ahead=True)
    async with bot_with(installation=Installation.of(models, [gpu])) as running:
        for name in ("flux", "flux", "flux", "sdxl"):
            await done(running, f"/image {name} a boat")

        def is_ahead() -> bool:
            models = running.queue.status.snapshot().models
            return [copy.ahead for model in models for copy in model.copies] == [True]

        await until(is_ahead)
        (gpu_1,) = (await read(running, "status")).hosts
        assert [(copy.model, copy.backend, copy.ahead) for copy in gpu_1.copies] == [
            ("flux", "comfy", True)
        ]
        shown: ModelsPanel = await read(running, "models")
        flux = next(model for model in shown.models if model.name == "flux")
        assert flux.place == "loading ahead on gpu-1"
        assert flux.ready_at is not None
        await until(lambda: not is_ahead())
        (gpu_1,) = (await read(running, "status")).hosts
        assert [(copy.model, copy.ahead) for copy in gpu_1.copies] == [("flux", False)]
