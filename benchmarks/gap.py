"""How long a ComfyUI server waits between two jobs of a busy line, seen from the server.

`python -m benchmarks.gap [--json] [--jobs 200] [--url URL …]`. Real queue, store, router,
processor and backend in this process; the server is the loopback fake in a process of its own,
which times itself: from the end of one job until the next one begins. With `--url` it is a real
ComfyUI, whose own moments in its history count. Keys of the JSON: `gap_ms_p50`, `gap_ms_p99`,
`jobs`, `seconds`; beside them, in the same run and with the same adapter, `plain_gap_ms_p50` of a loop
that sends a prompt, waits for it, fetches the picture and goes on, `bare_gap_ms_p50` of one that
fetches nothing, and `own_gap_ms_p50` of the server's own queue, with all prompts sent at once. `flush_ms_p50` is one flush of this disk, which
comes before each start of a queue that loses nothing. A workflow that cannot be run ends it with a
sentence, and status 1.
"""

import argparse
import asyncio
import io
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

import httpx
from PIL import Image

from backends.registry import connect
from queueing.core.catalog import BackendSpec, Catalog, HostSpec, ModelSpec
from queueing.core.clock import SystemClock
from queueing.core.errors import BadModel, Refused
from queueing.core.events import Event, JobChanged, LoadEnded
from queueing.core.jobs import NewJob
from queueing.core.requests import Capability, TextToImage, Work
from queueing.core.storage import Admission
from queueing.service.jobqueue import JobQueue
from queueing.store import JobStore, open_database
from tests.fakes.process import serving

SHIPPED = "sdxl.json"
CHECKPOINT = "checkpoint=sd_xl_base_1.0.safetensors"
SIDE = 1154  # noise of that many pixels a side is a PNG of 4 MB
PATIENCE_S = 600.0
RIVALS: Mapping[str, Mapping[str, bool]] = {
    "plain_gap_ms_p50": {},
    "bare_gap_ms_p50": {"fetches": False},
    "own_gap_ms_p50": {"at_once": True},
}


def noise() -> bytes:
    """Return a PNG of about 4 MB, the same in every run."""
    data = random.Random(1).randbytes(SIDE * SIDE * 3)
    file = io.BytesIO()
    Image.frombytes("RGB", (SIDE, SIDE), data).save(file, "PNG", compress_level=0)
    return file.getvalue()


@asynccontextmanager
async def queue_on(
    url: str, model: ModelSpec, folder: Path
) -> AsyncIterator[tuple[JobQueue, JobStore, asyncio.Task[None]]]:
    """Run a real queue for one server until the block ends. Raises `BadModel`."""
    spec = BackendSpec(name="comfy", kind="comfyui", url=url, serial=True, max_models=1, parallel=1)
    catalog = Catalog([model], [HostSpec(name="gpu", vram_mb=24_000, backends=(spec,))])
    backend = connect(spec)
    try:
        backend.check(model)
    except BadModel:
        await backend.aclose()
        raise
    store = JobStore(await open_database(f"sqlite:///{folder}/gap.sqlite"))
    queue = JobQueue(
        store=store,
        catalog=catalog,
        backends={"comfy": backend},
        clock=SystemClock(),
        runner=uuid.uuid4().hex,
    )
    running = asyncio.create_task(queue.run())
    try:
        yield queue, store, running
    finally:
        running.cancel()
        await asyncio.wait([running])
        await backend.aclose()
        await store.aclose()


class NotDrawn(Exception):
    """The workflow cannot be measured: why is its text."""


async def drive(
    queue: JobQueue,
    running: asyncio.Task[None],
    model: ModelSpec,
    request: TextToImage,
    jobs: int,
) -> None:
    """Ask for that many pictures at once and wait until all are stored. Raises `NotDrawn`."""
    left = jobs
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_event(event: Event) -> None:
        nonlocal left
        if done.done():
            return
        if isinstance(event, LoadEnded) and event.failed:
            done.set_exception(NotDrawn("the workflow was refused when it was loaded: see above"))
        if isinstance(event, JobChanged) and event.job.state.final:
            left -= 1
            if event.job.error is not None:
                done.set_exception(NotDrawn(f"a job failed: {event.job.error}"))
            elif not left:
                done.set_result(None)

    queue.events.subscribe(on_event)
    for number in range(jobs):
        new = NewJob(
            model=model.name,
            request=request.model_copy(update={"seed": number}),
            owner="bench:1",
            key=f"bench:{number}",
        )
        try:
            await queue.submitter.submit(new, limits=Admission())
        except Refused as refused:
            raise NotDrawn(f"a job was refused: {refused}") from refused
    await asyncio.wait({done, running}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    if not done.done():
        why = running.exception() if running.done() else f"not done after {PATIENCE_S:.0f} s"
        raise NotDrawn(f"the queue did not draw: {why}")
    done.result()


async def plainly(
    url: str,
    model: ModelSpec,
    request: TextToImage,
    jobs: int,
    *,
    at_once: bool = False,
    fetches: bool = True,
) -> list[str]:
    """Draw that many pictures one after another, as a bot without a queue does, and return their ids.

    With `at_once` all are sent, and the server's own queue goes from one to the next. What is drawn
    is left with the server unless the loop `fetches`.
    """
    backend = connect(BackendSpec(name="comfy", kind="comfyui", url=url))
    keys = [str(uuid.uuid4()) for _ in range(jobs)]

    async def draw(key: str) -> None:
        seed = int(uuid.UUID(key)) % 2**32
        work = Work(key=key, request=request.model_copy(update={"seed": seed}))
        fetch = await backend.run(model, work, lambda _: None)
        if fetches:
            await fetch()

    if at_once:
        await asyncio.gather(*map(draw, keys))
    else:
        for key in keys:
            await draw(key)
    await backend.aclose()
    return keys


def flush_ms(folder: Path, times: int = 50) -> float:
    """Return how long the disk takes to flush a page, at the median."""
    took = []
    with (folder / "flushed").open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def told(url: str) -> list[float]:
    """Return the gaps the fake measured so far, in seconds."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer: dict[str, Any] = (await client.get(f"{url}/_told")).json()
    return [float(gap) for gap in answer["gaps_s"]]


async def in_history(url: str, keys: Sequence[str]) -> list[float]:
    """Return the gaps by a real server's own moments, which are whole milliseconds."""
    spans = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for key in keys:
            answer = (await client.get(f"{url}/history/{key}")).json()
            moments = {name: data["timestamp"] for name, data in answer[key]["status"]["messages"]}
            spans.append((moments["execution_start"], moments["execution_success"]))
    spans.sort()
    return [(after[0] - before[1]) / 1000 for before, after in pairwise(spans)]


async def measure(options: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one run."""
    shipped = options.workflow == SHIPPED
    values = dict(pair.split("=", 1) for pair in options.value or ([CHECKPOINT] if shipped else []))
    model = ModelSpec(
        name="bench",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        vram_mb=8_000,
        max_waiting=options.jobs,
        options={"workflow": options.workflow, "values": values},
    )
    request = TextToImage(prompt="a lighthouse", width=64, height=64, steps=4)
    more: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        more["flush_ms_p50"] = flush_ms(folder)
        if options.url:
            async with queue_on(options.url, model, folder) as (queue, store, running):
                began = time.perf_counter()
                await drive(queue, running, model, request, options.jobs)
                seconds = time.perf_counter() - began
                jobs = range(1, options.jobs + 1)
                keys = [str(uuid.uuid5(store.database_id, f"{job}:1")) for job in jobs]
                gaps = await in_history(options.url, keys)
            rounds = max(2, options.jobs // 4)
            for rival, manner in RIVALS.items():
                keys = await plainly(options.url, model, request, rounds, **manner)
                more[rival] = statistics.median(await in_history(options.url, keys)) * 1000
        else:
            picture = folder / "noise.png"
            picture.write_bytes(noise())
            async with serving("comfyui", "--picture", str(picture), "--step-s", "0.025") as url:
                async with queue_on(url, model, folder) as (queue, store, running):
                    began = time.perf_counter()
                    await drive(queue, running, model, request, options.jobs)
                    seconds = time.perf_counter() - began
                gaps = (await told(url))[-(options.jobs - 1) :]
                rounds = max(2, options.jobs // 4)
                for rival, manner in RIVALS.items():
                    await plainly(url, model, request, rounds, **manner)
                    theirs = (await told(url))[-(rounds - 1) :]
                    more[rival] = statistics.median(theirs) * 1000
    cuts = statistics.quantiles((gap * 1000 for gap in gaps), n=100, method="inclusive")
    return {
        "gap_ms_p50": cuts[49],
        "gap_ms_p99": cuts[98],
        "jobs": options.jobs,
        "seconds": seconds,
        **more,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--url", help="a real ComfyUI instead of the fake")
    parser.add_argument("--workflow", default=SHIPPED)
    parser.add_argument(
        "--value", action="append", default=[], help=f"NAME=VALUE of a placeholder ({CHECKPOINT})"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    try:
        measured = asyncio.run(measure(options))
    except (NotDrawn, BadModel) as error:
        sys.exit(f"gap: {error}")
    figures = {name: round(value, 3) for name, value in measured.items()}
    print(
        json.dumps(figures) if options.json else "\n".join(f"{k} {v}" for k, v in figures.items())
    )


if __name__ == "__main__":
    main()
