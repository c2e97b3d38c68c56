"""Every job of the whole bot is in the metrics: while it waits, while it runs and after its end."""

import asyncio
from pathlib import Path

from tests.bot.api import whole_api
from tests.bot.monitoring.scraped import scrape

CONFIG = f"{whole_api.CONFIG}metrics: {{port: 0}}\n"
IMAGE = {"model": "flux", "prompt": "a cat"}


async def test_a_job_is_counted_through_its_whole_life(tmp_path: Path) -> None:
    """A graph would show a working bot as idle, or jobs that never end."""
    config = CONFIG.replace("service_s: 0.1", "service_s: 0.4")
    async with whole_api.running(tmp_path, config) as api, asyncio.TaskGroup() as calls:
        before = await scrape(api.parts)
        assert before.of("usher_build_info") == 1
        assert before.of("usher_jobs_total") == 0
        asked = [calls.create_task(api.post("/images/generations", IMAGE)) for _ in range(3)]
        await api.until(lambda jobs: len(jobs) == 3 and any(job.started_at for job in jobs))
        during = await scrape(api.parts)
        assert during.of("usher_jobs_running", model_name="flux", backend="studio") == 1
        assert during.of("usher_jobs_waiting", model_name="flux", lane="normal") == 2
        assert during.of("usher_jobs_waiting") == 2
        await asyncio.wait(asked)
        after = await scrape(api.parts)
    done = {"model_name": "flux", "outcome": "completed", "platform": "api"}
    assert after.of("usher_jobs_total", **done) == after.of("usher_jobs_total") == 3
    assert after.of("usher_attempts_total", outcome="completed") == 3
    assert after.of("usher_job_wait_seconds_count", model_name="flux") == 3
    assert after.of("usher_job_service_seconds_count", model_name="flux") == 3
    assert after.of("usher_job_service_seconds_sum") >= 3 * 0.4
    assert after.of("usher_jobs_running") == after.of("usher_jobs_waiting") == 0
    assert after.of("usher_gpu_busy_seconds_total", host="box") >= 3 * 0.4


async def test_first_words_are_counted_once_for_an_answer(tmp_path: Path) -> None:
    """The first token of a slow model would hide among its later ones."""
    asked = {"model": "llama", "messages": [{"role": "user", "content": "hello"}]}
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.post("/chat/completions", asked)
        await api.post("/images/generations", IMAGE)
        read = await scrape(api.parts)
    assert read.of("usher_time_to_first_token_seconds_count", model_name="llama") == 1
    assert read.of("usher_time_to_first_token_seconds_count") == 1


async def test_a_model_no_one_has_becomes_no_label(tmp_path: Path) -> None:
    """Anyone could fill the operator's database with names."""
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.post("/images/generations", IMAGE | {"model": "s3cr3t"}, status=404)
        read = await scrape(api.parts)
    assert "s3cr3t" not in read.text


async def test_memory_and_servers_are_shown(tmp_path: Path) -> None:
    """An operator would not see a GPU that is full or a server that is away."""
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.post("/images/generations", IMAGE)
        read = await scrape(api.parts)
    giga = 1024**3
    assert read.of("usher_host_memory_bytes", host="box", kind="resident") == 9 * giga
    budget = read.of("usher_host_memory_bytes", host="box", kind="budget")
    assert 16 * giga < budget < 24 * giga
    assert read.of("usher_host_memory_bytes", kind="free") == budget - 9 * giga
    assert read.of("usher_backend_up", host="box", backend="studio") == 1
