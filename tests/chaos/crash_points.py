"""The real program, made to die: `python -m tests.chaos.crash_points run -c FILE`.

Everything is imported once, which takes longer than most runs; then every line of input begins a
run: a separate process, whose id is printed when it begins and whose status when it has ended. A
line names the commit point ("after complete 2": right after the second completion was stored) where
that process kills itself as by kill -9, says that it will be told to stop in order, or is empty.

The environment variable `USHER_DISCORD_AT` is the address of a Discord, as discord.py has no
setting for it. Only this module reads it.
"""

import inspect
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import discord.gateway
import discord.http
import httpcore  # noqa: F401  imported by the first request, in each run
import httpx
import yarl

from backends.comfyui.backend import ComfyUI
from backends.comfyui.server import ComfyUIServer
from backends.openai.lmstudio import LMStudio
from bot.api.routes.jobs import JobRoutes
from bot.api.runs.answers import AnswerSender
from bot.api.runs.attendance import StoredAttendance
from bot.api.runs.submitter import Submitter
from bot.app import setup
from bot.cli import main as cli
from bot.delivery.records import MessageRecords
from bot.platforms.discord.interactions import InteractionReply
from bot.platforms.discord.platform import Discord
from bot.platforms.telegram.platform import Telegram
from bot.platforms.telegram.updates import Updates
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.page_connection import PageConnection
from bot.platforms.web.platform import Web
from bot.requests.enhancer import Enhancer
from queueing.core.jobs import JobEvent
from queueing.engine.attempt_sender import AttemptSender
from queueing.store.jobs.job_store import JobStore
from queueing.store.sqlite.connection import Worker
from tests.fakes import media_helper

DISCORD = "USHER_DISCORD_AT"
IN_ORDER = "in order"
GRACE_S = 0.2  # an image takes half a second here, and longer than the grace on many GPUs


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A call that makes something true outside the process.

    `owner` and `name` identify the function; `event` narrows it to one change of a job's state.
    """

    owner: Any
    name: str
    event: JobEvent | None = None


def _change(event: JobEvent) -> Point:
    return Point(owner=JobStore, name="apply", event=event)


POINTS: Mapping[str, Point] = {
    "transaction": Point(owner=Worker, name="_transaction"),
    "accept": Point(owner=JobStore, name="add"),
    "start": _change(JobEvent.START),
    "complete": _change(JobEvent.COMPLETE),
    "retry": _change(JobEvent.RETRY),
    "cancel": _change(JobEvent.CANCEL),
    "say": Point(owner=Telegram, name="_reply"),
    "note-message": Point(owner=MessageRecords, name="note_message"),
    "edit": Point(owner=Telegram, name="edit"),
    "answer-call": Point(owner=InteractionReply, name="_respond_or_post"),
    "post": Point(owner=Discord, name="send"),
    "edit-post": Point(owner=Discord, name="edit"),
    "line": Point(owner=Calls, name="_store_line"),
    "take-line": Point(owner=Calls, name="say"),
    "take-press": Point(owner=Calls, name="press"),
    "post-on-page": Point(owner=Web, name="_post"),
    "edit-on-page": Point(owner=Web, name="edit"),
    "to-page": Point(owner=PageConnection, name="_send"),
    "ask-for-prompt": Point(owner=Enhancer, name="_see_through"),
    "better-prompt": Point(owner=JobStore, name="replace_request"),
    "accept-call": Point(owner=Submitter, name="_accepted"),
    "answer-program": Point(owner=AnswerSender, name="output_of"),
    "record-answer": Point(owner=StoredAttendance, name="answer"),
    "confirm-answer": Point(owner=StoredAttendance, name="confirm"),
    "show-job": Point(owner=JobRoutes, name="_view"),
    "begin-part": Point(owner=MessageRecords, name="begin_part"),
    "end-part": Point(owner=MessageRecords, name="end_part"),
    "acknowledge": Point(owner=JobStore, name="acknowledge"),
    "confirm": Point(owner=Updates, name="_look"),
    "prompt": Point(owner=ComfyUIServer, name="send"),
    "download": Point(owner=ComfyUIServer, name="download"),
    "fetch": Point(owner=AttemptSender, name="fetch"),
    "text": Point(owner=LMStudio, name="run"),
    "load-image-model": Point(owner=ComfyUI, name="load"),
    "load-text-model": Point(owner=LMStudio, name="load"),
    "note-residency": Point(owner=JobStore, name="note_residency"),
}
"""Every point at which a promise is made or kept, by its label."""


def arm(where: str) -> None:
    """Have this process kill itself at a point: "before complete 2", "after say 1"."""
    when, label, number = where.split()
    point = POINTS[label]
    original = getattr(point.owner, point.name)
    dies = _countdown(point, int(number))
    crashing = (_crashing_async if inspect.iscoroutinefunction(original) else _crashing)(
        original, dies, after=when == "after"
    )
    setattr(point.owner, point.name, crashing)


def _countdown(point: Point, number: int) -> Callable[[tuple[Any, ...]], bool]:
    calls = count(1)

    def dies(args: tuple[Any, ...]) -> bool:
        if point.event is not None and args[2] is not point.event:
            return False
        return next(calls) == number

    return dies


def _crashing(original: Any, dies: Callable[[tuple[Any, ...]], bool], *, after: bool) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        doomed = dies(args)
        if doomed and not after:
            die()
        result = original(*args, **kwargs)
        if doomed:
            die()
        return result

    return call


def _crashing_async(original: Any, dies: Callable[[tuple[Any, ...]], bool], *, after: bool) -> Any:
    async def call(*args: Any, **kwargs: Any) -> Any:
        doomed = dies(args)
        if doomed and not after:
            die()
        result = await original(*args, **kwargs)
        if doomed:
            die()
        return result

    return call


def die() -> None:
    """End as by kill -9: nothing is flushed or closed, and nobody told."""
    os.kill(os.getpid(), signal.SIGKILL)


def find_discord(url: str) -> None:
    """Have discord.py call a Discord at this address."""
    discord.http.Route.BASE = f"{url}/api/v10"
    gateway = yarl.URL(f"{url}/gateway".replace("http", "ws", 1))
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway


def lighten() -> None:
    """Spare each run what shows nothing: reading certificates, and drawing large demo images.

    A video that needs longer than a run would be started again in each.
    """
    media_helper.lighten()
    ssl.create_default_context = cache(ssl.create_default_context)  # type: ignore[assignment]
    ssl.create_default_context()
    httpx.create_ssl_context()


def live(where: str, arguments: list[str]) -> int:
    """Be the program, with at most one commit point to die at."""
    if where == IN_ORDER:
        setup.GRACE_S = GRACE_S
    elif where:
        arm(where)
    if url := os.environ.get(DISCORD):
        find_discord(url)
    return cli.main(arguments)


def begin_runs(arguments: list[str]) -> int:
    """Begin a run for every line, and report how it ended."""
    lighten()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the next line is for the next run
            os.dup2(2, 1)
            return live(line.strip(), arguments)
        print(f"began {child}", flush=True)
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(begin_runs(sys.argv[1:]))
