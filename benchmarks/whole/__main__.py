"""Measures what a job costs in the whole bot, from the call to the delivered result.

`python -m benchmarks.whole --json` lets 1, 50 and 200 callers ask, each again as soon as the previous
result is shown, while 0, 1,000 and 10,000 others wait in a queue that does not move. Everything in
between is real, including a database on disk; the chat has no limits and the server answers at once.
Each pair runs in a separate process, set up like that of `usher run`. Times are in milliseconds:
`ack_ms` until a call is accepted, `first_ms` until its person sees anything. `--kind ask` asks for
texts instead of images. `--profile` shows for 50 callers what each part of the bot takes of a job,
next to a bare loop that only writes as many changes and shows as many messages; which steps of the
event loop took longer than ten milliseconds, and how long garbage collection took.
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
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from benchmarks.figures import percentiles
from benchmarks.processes import ROOT
from benchmarks.whole.limit import Parts, limit_ms
from benchmarks.whole.profile import Profile
from benchmarks.whole.world import Asked, Chat, Instant
from bot.app import process
from bot.app.app import App
from bot.app.setup import BotSetup
from bot.config.loader import parse

CALLERS = (1, 50, 200)
WAITING = (0, 1_000, 10_000)
CALLS = 4_000  # in each run; a tenth of it with a single caller
WARM_UP = 400
SETTLED_S = 2.0
STRAY = 5  # changes in that time: of the running job and the next ones
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
limits: {{open_per_person: 100000, queued_per_person: 100000}}
chats: {{web: {{port: 18598}}}}
"""
VERBS = {"image": "flux a cat in the rain", "ask": "qwen why is the sky blue?"}


Figures = dict[str, float]


async def _ask_all(chat: Chat, verb: str, callers: int, calls: int) -> list[Asked]:
    """Let callers share the calls, each making the next one when its last is delivered."""
    left = iter(range(calls))
    done: list[Asked] = []

    async def caller(number: int) -> None:
        done.extend([await chat.ask(f"p{number}", verb, VERBS[verb]) for _ in left])

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return done


async def _settled(chat: Chat) -> None:
    """Wait until messages stop changing: thousands of waiting jobs are each shown a new time."""
    seen = -1
    while chat.requests > seen + STRAY:
        seen = chat.requests
        await asyncio.sleep(SETTLED_S)


async def _measured(
    chat: Chat, options: argparse.Namespace, watched: AbstractContextManager[object]
) -> Figures:
    waiting, callers = options.waiting[0], options.callers[0]
    calls = options.calls if callers > 1 else max(1, options.calls // 10)
    for first in range(0, waiting, 200):
        some = range(first, min(first + 200, waiting))
        asking = (chat.ask(f"w{number}", "image", "sdxl a fox", wait=False) for number in some)
        await asyncio.gather(*asking)
    await _ask_all(chat, options.kind, callers, min(calls, WARM_UP))
    await _settled(chat)
    chat.requests, began, began_cpu = 0, time.perf_counter(), time.process_time()
    with watched:
        done = await _ask_all(chat, options.kind, callers, calls)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    times = percentiles("ack_ms", [asked.accepted_s for asked in done])
    times |= percentiles("first_ms", [asked.first_s or 0.0 for asked in done])
    return {
        "callers": callers,
        "waiting": waiting,
        "jobs": len(done),
        "jobs_per_s": round(len(done) / took_s, 1),
        "cpu_ms_per_job": round(cpu_s * 1000 / len(done), 3),
        **{name: round(ms, 1) for name, ms in times.items()},
        "requests_per_job": round(chat.requests / len(done), 2),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


async def _run(
    options: argparse.Namespace, watched: AbstractContextManager[object] | None = None
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
            figures = await _measured(chat, options, watched or nullcontext())
            routing.cancel()
            await asyncio.wait({routing})
    return figures


async def _profiled(options: argparse.Namespace) -> Sequence[str]:
    profile = Profile()
    figures = await _run(options, profile)
    jobs, callers = round(figures["jobs"]), round(figures["callers"])
    tasks, changes = round(profile.tasks / jobs), round(profile.changes / jobs)
    parts = Parts(tasks=tasks, changes=changes, messages=round(figures["requests_per_job"]))
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        bare_ms = await limit_ms(folder, parts, callers=callers, jobs=jobs)
    limit = f"a bare loop: {tasks} tasks, {changes} writes, {parts.messages} messages a job, ms"
    ends = (("a job in the whole bot, ms", figures["cpu_ms_per_job"]), (limit, bare_ms))
    return [
        *profile.lines(figures["cpu_ms_per_job"]),
        *(f"{name:<57}{ms:>8.3f}" for name, ms in ends),
        *profile.steps.lines(jobs),
    ]


def _in_a_process(arguments: Sequence[str], callers: int, waiting: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.whole", *arguments]
    command += ["--callers", str(callers), "--waiting", str(waiting), "--alone"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    found: Figures = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.whole", description=__doc__.splitlines()[0])
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
        print(json.dumps(asyncio.run(_run(options))))
        return
    if options.profile:
        options.callers = [50] if options.callers is CALLERS else options.callers
        print(*asyncio.run(_profiled(options)), sep="\n")
        return
    given = sys.argv[1:] if arguments is None else arguments
    runs = [_in_a_process(given, c, w) for w in options.waiting for c in options.callers]
    if options.json:
        by_key = {f"callers={r.pop('callers')},waiting={r.pop('waiting')}": r for r in runs}
        print(json.dumps(by_key))
        return
    for name in runs[0]:
        print(f"{name:<18}", *(f"{run[name]:>10g}" for run in runs))


if __name__ == "__main__":
    process.settle()  # as `usher run` does
    main()
