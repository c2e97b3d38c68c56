"""Measures what a job costs in the whole bot, from the call to the delivered result.

`python -m benchmarks.whole --json` lets 1, 50 and 200 callers ask, each again as soon as the result
before is shown, while 0, 1,000 and 10,000 others wait in a line that does not move. Everything
between is real, the database on a disk included; the chat has no limits and the server answers at
once. Each pair runs in a process of its own, prepared like that of `usher run`. Times are milliseconds: `ack_ms` until a call is
accepted, `first_ms` until its person sees anything. `--kind ask` asks for texts instead of pictures.
`--profile` shows for 50 callers what each part of the bot takes of a job, beside a bare loop that
only writes as many changes and shows as many messages; which steps of the event loop took longer
than ten milliseconds, and what the search for garbage took.
"""

import argparse
import asyncio
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks.whole_limit import Cost, limit_ms
from benchmarks.whole_profile import Profile, table
from benchmarks.whole_steps import Steps
from benchmarks.whole_world import Asked, Chat, Instant
from bot.config.load import parse
from bot.runtime import process
from bot.runtime.app import App
from bot.runtime.setup import BotSetup

CALLERS = (1, 50, 200)
WAITING = (0, 1_000, 10_000)
CALLS = 4_000  # in all, in each run; a tenth of it where one caller asks alone
WARM_UP = 400
SETTLED_S = 2.0
STRAY = 5  # changes in that time: of the job that runs, of the next ones
AT_ONCE = 64
CONFIG = f"""\
hosts:
  home:
    vram: 24GB
    backends:
      quick: {{kind: demo, parallel: {AT_ONCE}}}
      stuck: {{kind: demo, parallel: 1}}
models:
  flux: {{backends: [quick], vram: 8GB, parallel: {AT_ONCE}, max_waiting: 100000, capabilities: [text-to-image]}}
  qwen: {{backends: [quick], vram: 4GB, parallel: {AT_ONCE}, max_waiting: 100000, capabilities: [text-to-text]}}
  sdxl: {{backends: [stuck], vram: 4GB, max_waiting: 100000, capabilities: [text-to-image]}}
limits: {{open_per_person: 100000, in_line_per_person: 100000}}
chats: {{web: {{port: 18598}}}}
"""
VERBS = {"image": "flux a cat in the rain", "ask": "qwen why is the sky blue?"}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one run showed."""

    callers: int
    waiting: int
    jobs: int
    jobs_per_s: float
    cpu_ms_per_job: float
    ack_ms_p50: float
    ack_ms_p95: float
    first_ms_p50: float
    first_ms_p95: float
    requests_per_job: float
    rss_mb: int


async def _ask_all(chat: Chat, verb: str, callers: int, calls: int) -> list[Asked]:
    """Let so many callers make so many calls, each the next one when the last is delivered."""
    left = iter(range(calls))
    done: list[Asked] = []

    async def caller(number: int) -> None:
        done.extend([await chat.ask(f"p{number}", verb, VERBS[verb]) for _ in left])

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return done


async def _settled(chat: Chat) -> None:
    """Wait until no message changes any more: a line of thousands is told its moments once again."""
    seen = -1
    while chat.requests > seen + STRAY:
        seen = chat.requests
        await asyncio.sleep(SETTLED_S)


async def _measured(
    chat: Chat, options: argparse.Namespace, beside: AbstractContextManager[object]
) -> Figures:
    waiting, callers = options.waiting[0], options.callers[0]
    calls = options.calls if callers > 1 else max(1, options.calls // 10)
    for first in range(0, waiting, 200):
        line = range(first, min(first + 200, waiting))
        asking = (chat.ask(f"w{number}", "image", "sdxl a fox", wait=False) for number in line)
        await asyncio.gather(*asking)
    await _ask_all(chat, options.kind, callers, min(calls, WARM_UP))
    await _settled(chat)
    chat.requests, began, began_cpu = 0, time.perf_counter(), time.process_time()
    with beside:
        done = await _ask_all(chat, options.kind, callers, calls)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    acks = _percentiles([asked.accepted_s for asked in done])
    firsts = _percentiles([asked.first_s or 0.0 for asked in done])
    return Figures(
        callers=callers,
        waiting=waiting,
        jobs=len(done),
        jobs_per_s=round(len(done) / took_s, 1),
        cpu_ms_per_job=round(cpu_s * 1000 / len(done), 3),
        ack_ms_p50=acks[0],
        ack_ms_p95=acks[1],
        first_ms_p50=firsts[0],
        first_ms_p95=firsts[1],
        requests_per_job=round(chat.requests / len(done), 2),
        rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile in milliseconds."""
    cuts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [*seconds] * 19
    return round(cuts[9] * 1000, 1), round(cuts[18] * 1000, 1)


async def _run(
    options: argparse.Namespace, beside: AbstractContextManager[object] | None = None
) -> Figures:
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        chat = Chat()
        app = App(
            BotSetup(
                parse(CONFIG, {}),
                database_url=f"sqlite:///{folder}/whole.sqlite",
                make_platforms=lambda _fittings: (chat,),
                make_backend=Instant,
            )
        )
        async with app.running() as parts:
            routing = asyncio.create_task(parts.queue.run())
            figures = await _measured(chat, options, beside or nullcontext())
            routing.cancel()
            await asyncio.wait({routing})
    return figures


async def _profiled(options: argparse.Namespace) -> Sequence[str]:
    profile, steps = Profile(), Steps()
    figures = await _run(options, _both(profile, steps))
    tasks, changes = (round(n / figures.jobs) for n in (profile.tasks, profile.changes))
    messages = round(figures.requests_per_job)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        cost = Cost(tasks=tasks, changes=changes, messages=messages)
        bare_ms = await limit_ms(folder, cost, callers=figures.callers, jobs=figures.jobs)
    limit = f"a bare loop: {tasks} tasks, {changes} writes, {messages} messages a job, ms"
    parts = table(profile.seconds, figures.cpu_ms_per_job, (limit, bare_ms))
    return [*parts, *steps.lines(figures.jobs)]


@contextmanager
def _both(profile: Profile, steps: Steps) -> Iterator[None]:
    with steps, profile:
        yield


def _in_a_process(options: argparse.Namespace, callers: int, waiting: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.whole", "--json", "--kind", options.kind]
    command += ["--callers", str(callers), "--waiting", str(waiting), "--alone"]
    command += ["--calls", str(options.calls)]
    command += ["--dir", options.dir] if options.dir else []
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=root)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--callers", type=int, nargs="*", default=CALLERS)
    parser.add_argument("--waiting", type=int, nargs="*", default=WAITING)
    parser.add_argument("--calls", type=int, default=CALLS, help="in each run")
    parser.add_argument("--kind", choices=sorted(VERBS), default="image")
    parser.add_argument("--dir", help="where the database is; by default a temporary folder")
    parser.add_argument("--profile", action="store_true", help="show what each part of it costs")
    parser.add_argument("--alone", action="store_true", help="measure one pair in this process")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    if options.alone:
        print(json.dumps(asdict(asyncio.run(_run(options)))))
        return
    if options.profile:
        options.callers = [50] if options.callers is CALLERS else options.callers
        print(*asyncio.run(_profiled(options)), sep="\n")
        return
    runs = [_in_a_process(options, c, w) for w in options.waiting for c in options.callers]
    if options.json:
        by_key = {f"callers={r.pop('callers')},waiting={r.pop('waiting')}": r for r in runs}
        print(json.dumps(by_key))
        return
    for name in runs[0]:
        print(f"{name:<18}", *(f"{run[name]:>10g}" for run in runs))


if __name__ == "__main__":
    process.settle()  # as `usher run` does
    main()
