"""Measures what metrics cost: a scrape of a long line, and counting in a busy bot.

`python -m benchmarks.metrics --json` lets 10,000 jobs of 50 models wait and reads `/metrics` over
HTTP; then 50 callers ask, each again as soon as the result before is shown, and every call that
counts is timed. Times are of the processor. `loop_ms` is the part of a scrape that keeps the event
loop busy; the rest is written in a thread. `counting_share` is the part of the bot's processor time
that counting takes; at most 0.01 was asked.
"""

import argparse
import asyncio
import json
import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import aiohttp

from benchmarks.whole_world import Chat, Instant
from bot.config.load import parse
from bot.metrics.delivery_counts import DeliveryCounts
from bot.metrics.instruments import Instruments
from bot.metrics.job_counts import JobCounts
from bot.metrics.load_counts import LoadCounts
from bot.runtime import process
from bot.runtime.app import App, BotParts
from bot.runtime.metering import Meters
from bot.runtime.setup import BotSetup
from queueing.core.events import JobChanged
from queueing.core.jobs import NewJob
from queueing.core.requests import TextToImage
from queueing.core.storage import Admission

WAITING, MODELS, CALLERS, CALLS, SCRAPES = 10_000, 50, 50, 2_000, 21
WARM_UP = 200
IDLE_CALLS = 2_000
LIMITS = Admission()


def configuration(models: int) -> str:
    """Return a configuration with a quick model and others that never move."""
    held = "\n".join(
        f"  m{number}: {{backends: [stuck], vram: 4GB, max_waiting: 1000000,"
        " capabilities: [text-to-image]}"
        for number in range(models)
    )
    return f"""\
hosts:
  home: {{vram: 24GB, backends: {{quick: {{kind: demo, parallel: 64}}}}}}
  away: {{vram: 24GB, backends: {{stuck: {{kind: demo, parallel: 1}}}}}}
models:
  flux: {{backends: [quick], vram: 8GB, parallel: 64, capabilities: [text-to-image]}}
{held}
limits: {{open_per_person: 100000, in_line_per_person: 100000}}
chats: {{web: {{port: 18597}}}}
metrics: {{port: 0}}
"""


class Stopwatch:
    """Times what counts, by what is counted.

    The median of each kind of call counts for all of them: other programs interrupt some.
    """

    def __init__(self) -> None:
        self._took: defaultdict[object, list[float]] = defaultdict(list)

    def timed(self, counted: Callable[..., None]) -> Callable[..., None]:
        """Return a function that does the same and is timed."""

        def call(*given: Any) -> None:
            began = time.thread_time()
            counted(*given)
            took = time.thread_time() - began
            last = given[-1]
            kind = getattr(last, "event", None) if isinstance(last, JobChanged) else type(last)
            self._took[counted, kind].append(took)

        return call

    def reset(self) -> None:
        """Forget what was timed so far."""
        self._took.clear()

    @property
    def calls(self) -> int:
        """How many calls were timed."""
        return sum(map(len, self._took.values()))

    @property
    def spent_s(self) -> float:
        """What all of them took, without the timing itself."""
        timing_s = self._timing_s()
        return sum(len(each) * max(0.0, median(each) - timing_s) for each in self._took.values())

    @staticmethod
    def _timing_s() -> float:
        """Return what is measured of a call that does nothing: about a quarter of one that counts."""
        idle = Stopwatch()
        call = idle.timed(lambda _: None)
        for _ in range(IDLE_CALLS):
            call(idle)
        (took,) = idle._took.values()
        return median(took)


@contextmanager
def watched(stopwatch: Stopwatch) -> Iterator[None]:
    """Time all that counts until the block ends."""
    usual = []
    for owner, names in (
        (JobCounts, ("on_event",)),
        (LoadCounts, ("on_event",)),
        (DeliveryCounts, ("edited", "delivered")),
    ):
        for name in names:
            usual.append((owner, name, getattr(owner, name)))
            setattr(owner, name, stopwatch.timed(getattr(owner, name)))
    try:
        yield
    finally:
        for owner, name, method in usual:
            setattr(owner, name, method)


async def fill(parts: BotParts, waiting: int, models: int) -> None:
    """Let jobs wait in lines that do not move."""

    async def one(number: int) -> None:
        new = NewJob(
            model=f"m{number % models}",
            request=TextToImage(prompt="a fox"),
            owner=f"web:p{number % 500}",
            key=f"w{number}",
        )
        await parts.queue.submitter.submit(new, limits=LIMITS)

    for first in range(0, waiting, 500):
        await asyncio.gather(*(one(n) for n in range(first, min(first + 500, waiting))))


def observed(instruments: Instruments, models: int) -> None:
    """Give every model a history, so that each of its series is shown."""
    for number in range(models):
        name = f"m{number}"
        for histogram in (
            instruments.wait,
            instruments.service,
            instruments.load,
            instruments.first_token,
        ):
            histogram(name).observe(number)
        instruments.jobs(name, "completed", "telegram").inc()


async def scrapes(meters: Meters, times: int) -> dict[str, float]:
    """Read the metrics so often; return the medians."""
    url = f"http://127.0.0.1:{meters.endpoint.port}/metrics"
    whole, in_loop, sizes, text = [], [], [], ""
    async with aiohttp.ClientSession() as session:
        for _ in range(times):
            began = time.process_time()
            async with session.get(url) as answer:
                text = await answer.text()
            whole.append(time.process_time() - began)
            sizes.append(len(text))
            began = time.thread_time()
            meters.instruments.now()
            in_loop.append(time.thread_time() - began)
            await asyncio.sleep(0.2)
    return {
        "scrape_ms": round(1000 * median(whole), 1),
        "loop_ms": round(1000 * median(in_loop), 1),
        "samples": sum(not line.startswith("#") for line in text.splitlines()),
        "shown_jobs": sum(
            float(line.split()[-1])
            for line in text.splitlines()
            if line.startswith(("usher_jobs_waiting{", "usher_jobs_running{"))
        ),
        "kilobytes": round(median(sizes) / 1024),
    }


async def busy(chat: Chat, callers: int, calls: int) -> None:
    """Let so many callers make so many calls, each the next one when the last is delivered."""
    left = iter(range(calls))

    async def caller(number: int) -> None:
        for _ in left:
            await chat.ask(f"p{number}", "image", "flux a cat")

    await asyncio.gather(*(caller(number) for number in range(callers)))


async def measured(options: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one bot."""
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder, watched(stopwatch):
        chat = Chat()
        app = App(
            BotSetup(
                parse(configuration(options.models), {}),
                database_url=f"sqlite:///{folder}/metrics.sqlite",
                make_platforms=lambda _fittings: (chat,),
                make_backend=Instant,
            )
        )
        async with app.running() as parts:
            meters = parts.meters
            if meters is None:
                raise RuntimeError("metrics are off")
            parts.database.time_commits(stopwatch.timed(meters.instruments.commit.observe))
            routing = asyncio.create_task(parts.queue.run())
            await meters.endpoint.connected.wait()
            await busy(chat, options.callers, WARM_UP)
            stopwatch.reset()
            began = time.process_time()
            await busy(chat, options.callers, options.calls)
            spent_s = time.process_time() - began
            figures = {
                "jobs": options.calls,
                "cpu_ms_per_job": round(1000 * spent_s / options.calls, 3),
                "counting_us_per_job": round(1e6 * stopwatch.spent_s / options.calls, 1),
                "counted_calls_per_job": round(stopwatch.calls / options.calls, 1),
                "counting_share": round(stopwatch.spent_s / spent_s, 4),
            }
            await fill(parts, options.waiting, options.models)
            observed(meters.instruments, options.models)
            figures |= {"waiting": options.waiting, "models": options.models}
            figures |= await scrapes(meters, options.scrapes)
            routing.cancel()
            await asyncio.wait({routing})
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--callers", type=int, default=CALLERS)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--scrapes", type=int, default=SCRAPES)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    figures = asyncio.run(measured(options))
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<22} {figure:>10g}")


if __name__ == "__main__":
    process.settle()  # as `usher run` does
    main()
