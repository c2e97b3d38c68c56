"""Films, sounds and documents: what they cost, and what the event loop feels of it.

`python -m benchmarks.media --json` makes a film of 832x480 pixels and 81 frames of noise, which no
encoder can shorten, and prints

- `fit_s`: processor seconds in which it is fitted to 10 MB, beside `fit_in_process_s`, the same
  without the helper process, and `fit_carefully_s`, with the encoder that others are fitted with;
- `loop_lag_ms_max`: the longest step of the event loop in processor time, beside the limit of 50;
  `loop_lag_ms` has the longest one of each use, `on_the_loop_ms` what some would take without
  threads. Films of 80 MB are cleaned, looked at and shown on the page as well;
- `rss_mb`: memory of the process that runs the bot's code, and of the largest helper;
- `documents`: processor milliseconds to read each kind, and `alone` without the helper process.

Processor time, not the clock: other programs on the machine do not count.
"""

import argparse
import asyncio
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from backends.media import films, results, sounds
from backends.media.documents import read_document
from backends.media.helper.films import encode
from backends.media.helper.order import MediaTask, Order
from backends.media.helper.worker import _work
from backends.media.metadata.kinds import mime_of
from bot.chat.api.base import ChatLimits, MessageRef
from bot.chat.api.content import Content
from bot.chat.delivery import fitting
from bot.chat.records.chat_log import file_id
from bot.gateway.answering import in_json
from bot.gateway.callers import Caller
from bot.gateway.errors import ApiError
from bot.gateway.openai.data_urls import data_of
from bot.gateway.openai.images import Pictures
from bot.gateway.pictures import CallPictures
from bot.people.users import Person
from bot.platforms.web.platform import _shown
from bot.requests import images
from queueing.core.requests import File, Output
from tests.backends.papers import docx, paragraph, pdf, scanned_pdf, xlsx

SIZE, FRAMES, FPS = (832, 480), 81, 16
LIMIT = 10_000_000
LARGE = 80_000_000
LAG_MS_MOST = 50.0
ROUNDS = 3


def noisy_film(least: int) -> bytes:
    """Return a film of noise, of at least that many bytes."""
    import av  # noqa: PLC0415  only in a process that makes films
    from PIL import Image  # noqa: PLC0415

    chance, out, number = random.Random(1), io.BytesIO(), 0
    with av.open(out, "w", format="mp4") as made:
        target: Any = made
        stream = target.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "crf": "8"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        frame: Any = av.VideoFrame
        while number < FRAMES or out.tell() < least:
            noise = Image.frombytes("RGB", SIZE, chance.randbytes(SIZE[0] * SIZE[1] * 3))
            shown = frame.from_image(noise)
            shown.pts, shown.time_base = number, Fraction(1, FPS)
            target.mux(stream.encode(shown))
            number += 1
        target.mux(stream.encode(None))
    return out.getvalue()


def speech() -> bytes:
    """Return a minute of sound."""
    import wave  # noqa: PLC0415

    out = io.BytesIO()
    with wave.open(out, "wb") as made:
        made.setparams((2, 2, 44_100, 0, "NONE", ""))
        made.writeframes(random.Random(2).randbytes(60 * 44_100 * 4))
    return out.getvalue()


def papers() -> Mapping[str, bytes]:
    """Return a document of each kind with 300,000 characters."""
    words = "The quick brown fox jumps over the lazy dog and has a rest.\n" * 50
    cells = f'<row><c t="inlineStr"><is><t>{words}</t></is></c><c><v>7</v></c></row>'
    return {
        "pdf": pdf([words] * 100),
        "docx": docx(paragraph(words) * 100),
        "xlsx": xlsx(cells * 100),
        "scan": scanned_pdf(8),
    }


# ---------------------------------------------------------------- what is measured


class LoopSteps:
    """Measures the processor time of each step of the event loop, under the name of its use."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self.use = ""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure every step within."""
        run = asyncio.Handle._run  # noqa: SLF001  the one place that all steps go through

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            took = 1000 * (time.thread_time() - began)
            self.longest[self.use] = max(took, self.longest.get(self.use, 0.0))

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]  # noqa: SLF001
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001


class Helpers:
    """Follows how much memory the processes that are started have taken at most."""

    def __init__(self) -> None:
        self.rss_mb = 0.0
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at every child every few milliseconds."""
        watching = threading.Thread(target=self._watch)
        watching.start()
        try:
            yield
        finally:
            self._over.set()
            watching.join()

    def _watch(self) -> None:
        own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        while not self._over.wait(0.02):
            for child in own.read_text().split() if own.exists() else ():
                self.rss_mb = max(self.rss_mb, _peak_mb(child))


def _peak_mb(process: str) -> float:
    try:
        said = Path(f"/proc/{process}/status").read_text()
        program = Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return 0.0
    lines = [line for line in said.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) / 1024 if lines and "helper" in program else 0.0


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _cost(do: Callable[[], Awaitable[Any]]) -> float:
    """Return the least processor seconds that the process and its helpers took for something."""
    costs = []
    for _ in range(ROUNDS):
        began = time.process_time() + _children_s()
        await do()
        costs.append(time.process_time() + _children_s() - began)
    return min(costs)


async def _without_helper(order: Order, data: bytes) -> float:
    costs = []
    for _ in range(ROUNDS):
        began = time.process_time()
        _work(order)(order, data)
        costs.append(time.process_time() - began)
    return min(costs)


def uses(film: File, large: File, spoken: File, read: Mapping[str, File]) -> Mapping[str, Any]:
    """Return everything that is done with files, by name; each call of each is new work."""
    text = "data:video/mp4;base64," + _base64(large.data[: 20 * 10**6])
    small = ChatLimits(
        text=2000,
        caption=1024,
        upload=LIMIT,
        picture=LIMIT,
        download=LIMIT,
        edit_every_s=1.0,
        chat_every_s=1.0,
        overall_per_s=30.0,
    )

    caller = Caller(person=Person(user="api:me"), name="me")

    async def on_the_page() -> None:
        content = Content(body=(), files=(large,))
        await _shown(
            MessageRef(platform="web", chat="web:1", message="msg-1"),
            content,
            quiet=True,
            reply_to=None,
        )

    async def in_a_url() -> None:
        with suppress(ApiError):  # decoded, and then no recording
            await CallPictures(caller, None).heard(text, "input")

    async def in_an_answer() -> None:
        output = Output(text="", files=(film,))
        await in_json(Pictures(created=0).whole, output)

    return {
        "fit": lambda: fitting.fitted(film, small),
        "clean": lambda: results.bare(large.data),
        "clean_upload": lambda: images.bare(large.data),
        "look": lambda: films.looked_at(large),
        "frames": lambda: films.frames(large, 8),
        "wav": lambda: sounds.as_wav(spoken),
        "voice": lambda: sounds.as_voice(spoken),
        "page": on_the_page,
        "data_url": in_a_url,
        "b64_json": in_an_answer,
        **{kind: partial(read_document, file) for kind, file in read.items()},
    }


def _base64(data: bytes) -> str:
    import base64  # noqa: PLC0415

    return base64.b64encode(data).decode()


async def figures(film: File, large: File) -> dict[str, Any]:
    """Return what everything takes."""
    spoken = _file("speech.wav", speech())
    read = {kind: File(name=f"a.{kind}", mime="", data=data) for kind, data in papers().items()}
    steps, helpers = LoopSteps(), Helpers()
    with steps.watched(), helpers.watched():
        for name, use in uses(film, large, spoken, read).items():
            steps.use = name
            await asyncio.sleep(0)
            await asyncio.create_task(use())
            await asyncio.sleep(0)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    limit = LIMIT - 1

    async def fit() -> None:
        nonlocal limit
        limit -= 1  # what was fitted to the same limit is remembered
        made = await films.fitted(film, limit)
        if len(made.data) > limit:
            raise SystemExit("it does not fit")

    order = Order(task=MediaTask.FIT, mime=film.mime, size=len(film.data), limit=LIMIT)
    documents = {}
    for kind, file in read.items():
        mime = "application/pdf" if kind in {"pdf", "scan"} else "application/zip"
        alone = Order(
            task=MediaTask.READ, mime=mime, size=len(file.data), characters=200_000, pictures=8
        )
        documents[kind] = {
            "helper_ms": round(1000 * await _cost(partial(read_document, file))),
            "alone_ms": round(1000 * await _without_helper(alone, file.data)),
        }
    return {
        "film_mb": round(len(film.data) / 1e6, 1),
        "large_mb": round(len(large.data) / 1e6, 1),
        "fit_s": round(await _cost(fit), 2),
        "fit_in_process_s": round(await _without_helper(order, film.data), 2),
        "fit_carefully_s": round(await _carefully(order, film.data), 2),
        "fitted_mb": round(len((await films.fitted(film, limit)).data) / 1e6, 1),
        "loop_lag_ms_max": round(max(steps.longest.values()), 1),
        "loop_lag_ms_limit": LAG_MS_MOST,
        "on_the_loop_ms": _on_the_loop(film, large),
        "loop_lag_ms": {name: round(took, 1) for name, took in steps.longest.items() if name},
        "rss_mb": {"bot": round(rss), "helper": round(helpers.rss_mb)},
        "documents": documents,
    }


async def _carefully(order: Order, data: bytes) -> float:
    """Return what fitting costs with the encoder for films that have few bits."""
    quick = encode._QUICK  # noqa: SLF001
    encode._QUICK = encode._CAREFUL  # noqa: SLF001
    try:
        return await _without_helper(order, data)
    finally:
        encode._QUICK = quick  # noqa: SLF001


def _on_the_loop(film: File, large: File) -> dict[str, float]:
    """Return what the longest uses would hold the event loop up for without threads."""
    text = _base64(large.data[: 20 * 10**6])
    output = Output(text="", files=(film,))
    found = {}
    for name, do in (
        ("page", lambda: file_id("web:1", "msg-1", large)),
        ("data_url", lambda: data_of(text)),
        ("b64_json", lambda: json.dumps(Pictures(created=0).whole(output)).encode()),
    ):
        began = time.process_time()
        do()
        found[name] = round(1000 * (time.process_time() - began), 1)
    return found


def _file(name: str, data: bytes) -> File:
    return File(name=name, mime=mime_of(data), data=data)


def main() -> None:
    """Make the films in another process, whose memory does not count, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--make", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--least", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        Path(options.make).write_bytes(noisy_film(options.least))
        return
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for name, least in (("wan.mp4", 0), ("large.mp4", LARGE)):
            path = Path(folder, name)
            making = ["-m", "benchmarks.media", "--make", str(path), "--least", str(least)]
            subprocess.run([sys.executable, *making], check=True)
            made.append(_file(name, path.read_bytes()))
    found = asyncio.run(figures(*made))
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<18}", json.dumps(value))


if __name__ == "__main__":
    main()
