"""What programs ask, what chats are sent and how the process performs are in the metrics."""

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatMoved,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.monitoring.delivery_meter import counted
from bot.monitoring.metrics import DeliveryCounts, Metrics, watch_loop
from tests.bot.api import whole_api
from tests.bot.monitoring.scraped import scrape
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_telegram
from tests.fakes.telegram.telegram import FakeTelegram
from tests.simulation.loop import in_virtual_time

CONFIG = f"{whole_api.CONFIG}metrics: {{port: 0}}\n"
TELEGRAM = "chats:\n  telegram: {token: '${TELEGRAM_TOKEN}', api_url: '${TELEGRAM_API}'}\n"


async def test_requests_are_counted_by_route_and_never_by_address(tmp_path: Path) -> None:
    """Callers choose the addresses: they contain names of models, numbers of jobs, anything."""
    async with whole_api.running(tmp_path, CONFIG) as api:
        await api.get("/models/llama")
        await api.get("/models/s3cr3t", status=404)
        await api.get("/s3cr3t", status=404)
        loose = api.url.removesuffix("/v1")
        async with api.session.get(f"{loose}/models") as answer:
            assert answer.status == 200
        async with api.session.put(f"{api.url}/models") as answer:
            assert answer.status == 405
        read = await scrape(api.parts)
    count = "usher_api_requests_total"
    assert read.of(count, path="/v1/models/{name}", status="200") == 1
    assert read.of(count, path="/v1/models/{name}", status="404") == 1
    assert read.of(count, path="/v1/models", status="200") == 1
    assert read.of(count, path="none", status="404") == 1
    assert read.of(count, status="405") == 1
    assert read.of(count) == 5
    assert "s3cr3t" not in read.text


async def test_a_caller_who_hangs_up_is_counted(tmp_path: Path) -> None:
    """Clients that give up too early would not be seen anywhere."""
    config = CONFIG.replace("service_s: 0.1", "service_s: 60")
    async with whole_api.running(tmp_path, config) as api, aiohttp.ClientSession() as session:
        body = {"model": "flux", "prompt": "a cat"}
        asking = asyncio.ensure_future(session.post(f"{api.url}/images/generations", json=body))
        await api.until(lambda jobs: len(jobs) == 1)
        asking.cancel()
        await api.until(lambda jobs: not jobs)
        read = await scrape(api.parts)
    left = {"path": "/v1/images/generations", "status": "499"}
    assert read.of("usher_api_requests_total", **left) == 1


async def test_edits_deliveries_and_commits_of_a_chat_are_measured(tmp_path: Path) -> None:
    """An operator would not see that a chat, or the disk, slows the bot down."""
    config = f"{DRAWS_AND_WRITES.replace('IMAGE_S', '2')}{TELEGRAM}metrics: {{port: 0}}\n"
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, config) as parts:
        person = fake.person(7, "Ada")
        person.says("/image a cat")
        await fake.wait_for(lambda: any(m.file for m in person.chat.from_bot))
        await parts.presenter.settle(10)
        read = await scrape(parts)
    assert read.of("usher_edits_total", platform="telegram", outcome="shown") >= 1
    assert read.of("usher_delivery_seconds_count", platform="telegram") == 1
    assert 0 < read.of("usher_delivery_seconds_sum") < 60
    assert read.of("usher_jobs_total", platform="telegram", outcome="completed") == 1
    assert read.of("usher_estimates_given_total", lane="normal") == 1
    assert read.of("usher_store_commit_seconds_count") >= 3
    assert read.of("usher_store_commit_seconds_sum") > 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (SlowDown(1.0), "slowed"),
        (ContentRefused(""), "refused"),
        (TooLarge(""), "refused"),
        (MessageGone(""), "gone"),
        (ChatGone(""), "gone"),
        (ChatMoved("x"), "gone"),
        (ChatUnavailable(""), "failed"),
    ],
)
async def test_an_edit_that_fails_is_counted_by_its_failure(error: ChatError, outcome: str) -> None:
    """A chat that refuses every edit would look like one that shows them."""
    instruments = Metrics("")

    async def edit() -> None:
        raise error

    with pytest.raises(type(error)):
        await counted(DeliveryCounts(instruments), "web", edit())
    counted_as = {
        (each.labels["outcome"], each.value)
        for metric in instruments.now().collect()
        for each in metric.samples
        if each.name == "usher_edits_total"
    }
    assert counted_as == {(outcome, 1.0)}


def test_a_loop_that_is_kept_busy_is_late() -> None:
    """Everything would be slow, and no figure would show it."""
    late: list[float] = []

    async def scenario() -> None:
        heard = asyncio.Event()

        def hear(seconds: float) -> None:
            late.append(seconds)
            heard.set()

        watching = asyncio.ensure_future(watch_loop(hear))
        await asyncio.sleep(0)
        time.sleep(1.0)  # noqa: ASYNC251  # what must not be done, to see it measured
        await heard.wait()
        watching.cancel()

    asyncio.run(scenario())
    assert late[0] > 0.2


@in_virtual_time
async def test_a_loop_that_does_little_is_on_time() -> None:
    """An idle bot would seem late."""
    late: list[float] = []
    watching = asyncio.ensure_future(watch_loop(late.append))
    await asyncio.sleep(60)
    watching.cancel()
    assert len(late) >= 100
    assert max(late) < 0.001
