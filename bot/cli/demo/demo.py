"""`usher demo`: the real bot with stand-in servers, for a page, a transcript or a crowd.

Only the servers are stand-ins, and they say so. The queue, scheduler, presenter and database are
those of `usher run`.
"""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from bot.app import logs, process
from bot.app.app import App, BotParts
from bot.app.process import run_until_signal
from bot.app.setup import BotSetup
from bot.cli.demo.crowd import Crowd
from bot.cli.demo.options import DemoOptions
from bot.cli.demo.transcript import Show, Transcript, display
from bot.config import loader as configuration
from bot.config.loader import Config
from bot.core.errors import ChatRefused
from bot.core.platform import ChatPlatform
from bot.platforms.registry import PlatformParts, platforms
from bot.platforms.web.platform import Web
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobState
from queueing.store.sqlite.file_lock import own

_SUFFIXES = ("", "-wal", "-shm", "-heartbeat")


@contextmanager
def database_of(options: DemoOptions) -> Iterator[Path]:
    """Yield the path of the demo's database, which need not exist yet.

    Raises `StoreError` if `fresh` is set and another process uses the database.
    """
    path = options.database or (None if options.say else _kept(options))
    if path is None:
        with tempfile.TemporaryDirectory(prefix="usher-demo-") as folder:
            yield Path(folder) / "demo.sqlite"
        return
    if options.fresh:
        _empty(path)
    yield path


def kept_path() -> Path:
    """Return the path of the database that this person's demos share. It need not exist."""
    return Path(platformdirs.user_state_path("usher", appauthor=False)) / "demo.sqlite"


def _kept(options: DemoOptions) -> Path | None:
    """Return the shared database; None if another demo uses it or it is not writable."""
    path = kept_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own(path).close()
    except (OSError, StoreError) as error:
        if options.fresh:
            raise StoreError(f"{path} cannot be emptied: {error}") from error
        print(  # the person at the terminal has to know
            f"This demo forgets its jobs when it ends; {path} cannot be used: {error}",
            file=sys.stderr,
        )
        return None
    return path


def _empty(path: Path) -> None:
    """Delete a database. Raises `StoreError` if a process uses it."""
    lock = own(path)
    try:
        for suffix in _SUFFIXES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    finally:
        lock.close()


FAILED = 2
USUAL_PORT, API_PORT = 8080, 8081
_DELIVERY_S = 30.0
_FIRST = "Type /image flux cat, /video a cat, or ask something. Press Ctrl-C to stop."
_OPERATED = "You are its admin. The operator's page is at {url}operator"
_KEPT = "Jobs are kept in {path}, even after kill -9; --fresh deletes them at the start."

CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {{kind: demo}}
  gpu-2:
    vram: 16GB
    backends:
      workshop: {{kind: demo}}
models:
  flux:
    backends: [studio]
    capabilities: [text-to-image, image-to-image]
    vram: 17GB
    parallel: 1
    load_s: {load_s}
    service_s: {image_s}
  sdxl:
    backends: [workshop, studio]
    capabilities: [text-to-image, image-to-image]
    vram: 8GB
    parallel: 1
    load_s: {load_s}
    service_s: {quick_s}
  lens:
    backends: [workshop, studio]
    capabilities: [upscale]
    vram: 2GB
    load_s: {load_s}
    service_s: {quick_s}
  llama:
    aliases: [chat]
    backends: [workshop]
    capabilities: [text-to-text, vision]
    vram: 7GB
    parallel: 2
    load_s: {load_s}
    service_s: {text_s}
  qwen:
    backends: [studio]
    capabilities: [text-to-text]
    vram: 12GB
    parallel: 2
    load_s: {load_s}
    service_s: {text_s}
  kontext:
    backends: [studio, workshop]
    capabilities: [image-edit]
    vram: 12GB
    parallel: 1
    load_s: {load_s}
    service_s: {quick_s}
  wan:
    backends: [studio]
    capabilities: [text-to-video, image-to-video]
    vram: 18GB
    parallel: 1
    load_s: {load_s}
    service_s: {video_s}
  ace:
    aliases: [music]
    backends: [workshop, studio]
    capabilities: [text-to-audio]
    vram: 8GB
    parallel: 1
    load_s: {quick_s}
    service_s: {quick_s}
  kokoro:
    aliases: [voice]
    backends: [workshop, studio]
    capabilities: [text-to-speech]
    vram: 1GB
    parallel: 2
    load_s: {sound_s}
    service_s: {sound_s}
  whisper:
    backends: [workshop, studio]
    capabilities: [speech-to-text]
    vram: 2GB
    parallel: 2
    load_s: {sound_s}
    service_s: {sound_s}
  hashing:
    aliases: [embed]
    backends: [workshop, studio]
    capabilities: [embedding, image-embedding]
    vram: 1GB
    load_s: {quick_s}
    service_s: {embed_s}
styles:
  noir: {{prompt: "{{prompt}}, film noir, hard shadows", size: "3:2"}}
  sketch: {{prompt: pencil sketch}}
defaults: {{image: flux, ask: llama}}
chats: {{web: {{port: {port}}}}}
api: {{port: {api_port}, open: true}}
admins: ["web:local", "demo:you"]
"""


def main(options: DemoOptions) -> int:
    """Run the demo and return its exit status.

    With `say`, the status is 2 if a line was refused, a job failed or a file could not be saved.
    """
    logs.set_up(level="warning", form="text", secrets=frozenset())
    if not options.say and options.port and not _is_free(options.port):
        raise ChatRefused(f"port {options.port} is taken; use --port 0 for any free one")
    if options.out is not None:
        _require_folder(options.out)
    with database_of(options) as database:
        url = f"sqlite:///{database.absolute().as_posix()}"
        if options.say:
            with display() as show:
                return process.run(_headless(options, url, show))
        return run_until_signal(_page(options, url, kept=database == kept_path()))


def _require_folder(path: Path) -> None:
    """Create a folder for results. Raises `ChatRefused` if nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return
    except FileExistsError:
        raise ChatRefused(f"--out: {path} is a file; name a folder") from None
    except OSError as error:
        raise ChatRefused(f"--out: {path} cannot be written: {error.strerror}") from None


def demo_config(options: DemoOptions) -> Config:
    """Return the demo's configuration: two GPUs, one model of each kind, scaled times."""
    times = {"load_s": 6.0, "image_s": 9.0, "quick_s": 5.0, "text_s": 8.0, "embed_s": 0.2}
    times |= {"video_s": 15.0, "sound_s": 2.0}
    divided = {name: max(seconds / options.speed, 0.001) for name, seconds in times.items()}
    port = _free(USUAL_PORT) if options.port is None else options.port
    ports = {"port": port, "api_port": 0 if options.say else _free(API_PORT)}
    return configuration.parse(CONFIG.format(**divided, **ports), {}, file="demo")


def _free(port: int) -> int:
    """Return the port if it is free, otherwise 0 for any free one: a newcomer did not choose it."""
    return port if _is_free(port) else 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if (
            os.name == "posix"
        ):  # as the page itself listens; also works right after another process ended
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _with_crowd(options: DemoOptions, made: Sequence[ChatPlatform]) -> Sequence[ChatPlatform]:
    return (*made, Crowd(options.crowd, speed=options.speed)) if options.crowd else made


# ---------------------------------------------------------------- the page


async def _page(options: DemoOptions, url: str, *, kept: bool) -> None:
    config = demo_config(options)

    def make(fittings: PlatformParts) -> Sequence[ChatPlatform]:
        return _with_crowd(options, platforms(config.chats, fittings))

    async with (
        App(BotSetup(config, database_url=url, make_platforms=make)).running() as parts,
        TaskGroup() as group,
    ):
        said = group.create_task(_announce(parts, kept=kept))
        await parts.queue.run()
        said.cancel()


async def _announce(parts: BotParts, *, kept: bool) -> None:
    for platform in parts.platforms:
        if isinstance(platform, Web):
            await platform.connected.wait()
            print(f"Usher's demo is at {platform.url}", flush=True)
            print(_FIRST, flush=True)
            print(_OPERATED.format(url=platform.url), flush=True)
    if parts.gateway is not None:
        await parts.gateway.connected.wait()
        address = f"http://127.0.0.1:{parts.gateway.port}/v1"
        print(f"Programs reach the API at {address}, without a key.", flush=True)
    if kept:
        print(_KEPT.format(path=kept_path()), flush=True)


# ---------------------------------------------------------------- without a page


async def _headless(options: DemoOptions, url: str, show: Show) -> int:
    transcript = Transcript(options.say, out=options.out, show=show)

    def make(_: PlatformParts) -> Sequence[ChatPlatform]:
        return _with_crowd(options, (transcript,))

    config, watch = demo_config(options), _Watch("demo:")
    async with App(BotSetup(config, database_url=url, make_platforms=make)).running() as parts:
        parts.queue.events.subscribe(watch.on_event)
        routing = asyncio.ensure_future(parts.queue.run())
        work = [
            asyncio.ensure_future(_until_shown(transcript, watch, parts)),
            asyncio.ensure_future(transcript.unread.wait()),
        ]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (*work, routing):
                each.cancel()
            await asyncio.wait([*work, routing])
    if transcript.unread.is_set():
        raise BrokenPipeError
    if not routing.cancelled() and (error := routing.exception()) is not None:
        raise error
    return FAILED if watch.failed or transcript.failed else 0


async def _until_shown(transcript: Transcript, watch: "_Watch", parts: BotParts) -> None:
    await transcript.all_said.wait()
    await watch.all_ended()
    await parts.presenter.settle(_DELIVERY_S, owner="demo:")


class _Watch:
    """Tracks which of one platform's jobs are open, and whether one failed."""

    def __init__(self, owners: str) -> None:
        self._owners = owners
        self._open: set[int] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.failed = False

    def on_event(self, event: Event) -> None:
        if not isinstance(event, JobChanged) or not event.job.owner.startswith(self._owners):
            return
        job = event.job
        if job.state.final:
            self._open.discard(job.id)
            self.failed |= job.state is JobState.FAILED
        else:
            self._open.add(job.id)
        if self._open:
            self._quiet.clear()
        else:
            self._quiet.set()

    async def all_ended(self) -> None:
        await self._quiet.wait()
