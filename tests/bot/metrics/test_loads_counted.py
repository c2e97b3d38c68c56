"""Loads and what leaves for them are in the metrics."""

from pathlib import Path

from tests.bot.gateway import whole_api
from tests.bot.metrics.scraped import scrape

CONFIG = f"{whole_api.CONFIG}metrics: {{port: 0}}\n".replace("vram: 7GB", "vram: 17GB")
PICTURE = {"model": "flux", "prompt": "a cat"}
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "hello"}]}


async def test_models_that_throw_each_other_out_are_counted(tmp_path: Path) -> None:
    """An operator could not see why everything is slow: a card that does nothing but load."""
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.post("/images/generations", PICTURE)
        await api.post("/chat/completions", CHAT)
        await api.post("/images/generations", PICTURE)
        read = await scrape(api.parts)
    loads = {"host": "box", "why": "request"}
    assert read.of("usher_model_loads_total", model_name="flux", **loads) == 2
    assert read.of("usher_model_loads_total", model_name="llama", **loads) == 1
    assert read.of("usher_model_loads_total") == 3
    assert read.of("usher_model_load_seconds_count", model_name="flux") == 2
    assert read.of("usher_evictions_total", model_name="flux", host="box", why="room") == 1
    assert read.of("usher_evictions_total", model_name="llama", host="box", why="room") == 1
