"""Loads, and the unloads they cause, are in the metrics."""

from pathlib import Path

from tests.bot.api import whole_api
from tests.bot.monitoring.scraped import scrape

CONFIG = f"{whole_api.CONFIG}metrics: {{port: 0}}\n".replace("vram: 7GB", "vram: 17GB")
GPUS = (
    CONFIG.replace("    vram: 24GB", "    gpus: {0: {vram: 24GB}, 1: {vram: 24GB}}")
    .replace("kind: demo", "kind: demo, gpus: [0, 1]")
    .replace("vram: 17GB", "vram: 17GB\n    gpus: [1]")
    .replace("vram: 9GB", "vram: 34GB")
)
IMAGE = {"model": "flux", "prompt": "a cat"}
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "hello"}]}


async def test_models_that_throw_each_other_out_are_counted(tmp_path: Path) -> None:
    """An operator could not see that a GPU is slow because it does little but load."""
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.post("/images/generations", IMAGE)
        await api.post("/chat/completions", CHAT)
        await api.post("/images/generations", IMAGE)
        read = await scrape(api.parts)
    loads = {"host": "box", "why": "request"}
    assert read.of("usher_model_loads_total", model_name="flux", **loads) == 2
    assert read.of("usher_model_loads_total", model_name="llama", **loads) == 1
    assert read.of("usher_model_loads_total") == 3
    assert read.of("usher_model_load_seconds_count", model_name="flux") == 2
    assert read.of("usher_evictions_total", model_name="flux", host="box", why="room") == 1
    assert read.of("usher_evictions_total", model_name="llama", host="box", why="room") == 1


async def test_a_model_over_two_gpus_keeps_both_busy_and_is_counted_once(tmp_path: Path) -> None:
    """One GPU would look idle, or a load count twice, or on a GPU that the model does not use."""
    async with whole_api.running(tmp_path, GPUS) as api:
        await api.post("/images/generations", IMAGE)
        drawn = await scrape(api.parts)
        await api.post("/chat/completions", CHAT)
        await api.post("/images/generations", IMAGE)
        read = await scrape(api.parts)
    for gpu in ("box/0", "box/1"):
        assert drawn.of("usher_gpu_busy_seconds_total", host=gpu) > 0
    flux, llama = {"model_name": "flux", "host": "box/0"}, {"model_name": "llama", "host": "box/1"}
    assert read.of("usher_model_loads_total", **flux) == 2
    assert read.of("usher_model_loads_total", **llama) == 1
    assert read.of("usher_model_loads_total") == 3
    assert (
        read.of("usher_evictions_total", **flux) == read.of("usher_evictions_total", **llama) == 1
    )
