"""Starts the bot on a database with a million waiting jobs and measures how it copes.

    python -m benchmarks.million --jobs 1000000 --json

The jobs are written into the file, far beyond what the bot itself would accept. Measured at a real
process: until the page answers (`ready_s`), until `/queue` and a new request are answered on it
(`queue_s`, `image_s`), until it has stopped in order (`stopped_s`), and its memory (`rss_mb`). Beside
each stands the processor time the process took for it (`ready_cpu_s`, …), which other programs on
the machine alter little. Exit status 1 when a time or the memory is beyond its bound.
"""

import argparse
import asyncio
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import aiohttp

from bot.chat.api.origin import Origin
from bot.chat.records.stored_records import MIGRATIONS
from queueing.core.requests import TextToImage
from queueing.store import open_database
from tests.bot.platforms.web.web_client import Tab

ROOT = Path(__file__).parents[1]
PORT = 18_599
CONFIG = f"""\
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in]}}, sdxl: {{backends: [stand-in]}}}}
chats: {{web: {{port: {PORT}}}}}
"""
PEOPLE = 1000
PATIENCE_S = 120.0
REQUEST = TextToImage(prompt="a cat in the rain").model_dump_json(exclude_none=True)
INSERT = (
    "INSERT INTO jobs (model, lane, seq, state, not_before, queued_at, owner, key, reply_to,"
    " request) VALUES (?, 'normal', ?, 'pending', 0, ?, ?, ?, ?, ?)"
)


@dataclass(kw_only=True, slots=True)
class Report:
    """What was measured, in seconds and MB."""

    jobs: int
    ready_s: float = PATIENCE_S
    ready_cpu_s: float = 0.0
    queue_s: float = PATIENCE_S
    queue_cpu_s: float = 0.0
    image_s: float = PATIENCE_S
    image_cpu_s: float = 0.0
    stopped_s: float = PATIENCE_S
    stopped_cpu_s: float = 0.0
    rss_mb: int = 0

    def well(self) -> bool:
        """Return whether every figure is within its bound."""
        times = self.ready_s <= 10 and self.stopped_s <= 10 and self.queue_s <= 2
        return times and self.rss_mb <= 1024


def main() -> int:
    """Make the database, run the bot on it, print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", action="store_true", help="show what the bot writes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(measure(Path(folder), options.jobs, shown=options.log))
    text = json.dumps(asdict(report))
    print(text if options.json else text.replace(", ", "\n").strip("{}"))
    return 0 if report.well() else 1


async def measure(folder: Path, jobs: int, *, shown: bool) -> Report:
    """Run the bot of a folder with so many jobs, once; they are made where it has none."""
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    if not (folder / "usher.sqlite").exists():
        await fill(folder / "usher.sqlite", jobs)
    report = Report(jobs=jobs)
    began = time.monotonic()
    bot = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "run", "-c", str(folder / "config.yaml")),
        cwd=ROOT,
        stderr=None if shown else asyncio.subprocess.DEVNULL,
    )
    try:
        await visit(bot.pid, report, began)
    except (TimeoutError, aiohttp.ClientError) as error:
        print(f"the page did not answer: {error!r}", file=sys.stderr)
    report.rss_mb = max(report.rss_mb, memory_mb(bot.pid))
    began, spent = time.monotonic(), cpu_s(bot.pid)
    bot.terminate()
    await bot.wait()
    report.stopped_s = round(time.monotonic() - began, 2)
    report.stopped_cpu_s = round(ended_cpu_s() - spent, 2)
    return report


async def fill(database: Path, jobs: int) -> None:
    """Make a database with waiting jobs of a thousand people, each waited for in a chat."""
    await (await open_database(f"sqlite:///{database}", migrations=(MIGRATIONS,))).aclose()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(INSERT, rows(jobs))
        connection.commit()


def rows(jobs: int) -> Iterator[tuple[str, int, float, str, str, str, str]]:
    """Yield the rows of waiting jobs, in the order of their places."""
    now = time.time()
    origin = Origin(
        platform="web",
        chat="local",
        group=False,
        user="web:local",
        user_name="You",
        language="en",
        key="the key of the call",
    ).model_dump_json()
    for number in range(jobs):
        model, owner = ("flux", "sdxl")[number % 2], f"web:person-{number % PEOPLE}"
        key = f"{owner}:{number}"
        request = REQUEST.replace("cat", f"cat number {number}")
        yield model, number, now, owner, key, origin.replace("the key of the call", key), request


async def visit(pid: int, report: Report, began: float) -> None:
    """Open the page as soon as it is there, and ask."""
    url = f"http://127.0.0.1:{PORT}/"
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        socket = None
        while socket is None:
            with suppress(aiohttp.ClientConnectionError):
                socket = await session.ws_connect(f"{url}socket", origin=url[:-1])
            await asyncio.sleep(0.05)  # another process: nothing to wait for but its port
        page = Tab(socket)
        await page.hello()
        report.ready_s, report.ready_cpu_s = round(time.monotonic() - began, 2), cpu_s(pid)
        for _ in range(3):
            spent = cpu_s(pid)
            report.queue_s = await answered(page, "/queue", report.queue_s)
            report.queue_cpu_s = max(report.queue_cpu_s, round(cpu_s(pid) - spent, 2))
            report.rss_mb = max(report.rss_mb, memory_mb(pid))
        spent = cpu_s(pid)
        report.image_s = await answered(page, "/image flux a cat", PATIENCE_S)
        report.image_cpu_s = round(cpu_s(pid) - spent, 2)
        await socket.close()


async def answered(page: Tab, line: str, so_far: float) -> float:
    """Say a line and return how long its answer takes; the longest of all, from the second on."""
    asked = time.monotonic()
    key = await page.say(line)
    answer = f"msg-{sha256(f'web:local:{key}'.encode()).hexdigest()[:20]}"  # as the page names it
    async with asyncio.timeout(PATIENCE_S):
        while True:
            message = await page.socket.receive_json()
            if any(entry["message"] == answer for entry in message.get("entries", ())):
                break
    took = round(time.monotonic() - asked, 2)
    return took if so_far == PATIENCE_S else max(took, so_far)


def cpu_s(pid: int) -> float:
    """Return the processor time a process has taken so far, in seconds."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def ended_cpu_s() -> float:
    """Return the processor time the ended child took; there is only one, the bot."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def memory_mb(pid: int) -> int:
    """Return the most memory a process has held so far, in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    sys.exit(main())
