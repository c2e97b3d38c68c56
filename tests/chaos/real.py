"""Real servers for a trial: a ComfyUI and a llama.cpp, as processes that are killed and restarted.

What they did is read from ComfyUI's own history before each of its deaths, and from the wire before
llama.cpp. An image is recognised by its seed, an answer by its words.
"""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.chaos.people.chats import Seen, Words
from tests.chaos.people.wire import Wire
from tests.chaos.verdict import Queue, Row, Verdict
from tests.fakes.ports import free_port

if TYPE_CHECKING:
    from tests.chaos.installations import Server

SEEDS = 1_000_000  # the seed of request 7 is so many and 7
UP_WITHIN_S = 180.0
_SEED = re.compile(rf"\bseed ({SEEDS // 1_000_000}\d{{6}})\b")
_FACTS = re.compile(r"· (\d+ (s|min|h)|under 1 s)")


class Program:
    """A server's process."""

    def __init__(self, command: Sequence[str], folder: Path | None = None) -> None:
        self._command = command
        self._folder = folder
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it; it listens some seconds later."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._folder,
            # One thread each: more than there are cores would wait for each other most of the time.
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )

    async def kill(self) -> None:
        """End it and all it started, with kill -9."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A prompt of ComfyUI's history; times are UNIX seconds."""

    key: str
    number: int
    run: int
    began_at: float
    whole: bool


class RealComfyUI:
    """A separate ComfyUI process."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.port = free_port()
        flags = ("--cpu", "--listen", "127.0.0.1", "--disable-api-nodes")
        # Not resolved: a virtual environment's Python is known by its own path.
        command = (str(python.absolute()), "main.py", "--port", f"{self.port}", *flags)
        self._program = Program(command, folder)
        self._run = 0
        self.drawn: dict[str, Drawn] = {}

    async def start(self) -> None:
        self._run += 1
        await self._program.start()

    async def kill(self) -> None:
        await self.look()
        await self._program.kill()

    async def get(self, path: str) -> Any:
        """Return what the server answers."""
        timeout = aiohttp.ClientTimeout(total=10)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return await answer.json()

    async def look(self) -> None:
        """Record what it has done in this run; nothing if it does not answer yet."""
        try:
            history = await self.get("/history")
        except (aiohttp.ClientError, TimeoutError):
            return
        for key, entry in history.items():
            if (drawn := _drawn(key, entry, self._run)) is not None:
                self.drawn[key] = drawn


def _drawn(key: str, entry: Any, run: int) -> Drawn | None:
    """Return an entry of the history, or None for images drawn only to load a model."""
    numbers = [
        node["inputs"]["seed"] - SEEDS
        for node in entry["prompt"][2].values()
        if "seed" in node["inputs"]
    ]
    moments = {name: data["timestamp"] / 1000 for name, data in entry["status"]["messages"]}
    if not numbers or not 0 < numbers[0] < SEEDS or "execution_start" not in moments:
        return None
    return Drawn(
        key=key,
        number=numbers[0],
        run=run,
        began_at=moments["execution_start"],
        whole=bool(entry["status"]["completed"]),
    )


class RealLlama:
    """A separate llama-server process, behind a wire."""

    def __init__(self, program: Path, model: Path) -> None:
        self.wire = Wire()
        self.wire.server_port = free_port()
        self.model = model.stem
        place = ("--host", "127.0.0.1", "--port", f"{self.wire.server_port}")
        what = (
            "-m",
            f"{model.resolve()}",
            "--alias",
            self.model,
            "--parallel",
            "2",
            "--threads",
            "1",
        )
        self._program = Program((f"{program.resolve()}", *place, *what))

    async def start(self) -> None:
        await self._program.start()
        await self.wire.listen()

    async def kill(self) -> None:
        await self._program.kill()
        await self.wire.cut()


class RealInstallation:
    """The servers of a trial that really draw and write."""

    slow = 3.0
    takes_programs = False

    def __init__(self, python: Path, folder: Path, llama_server: Path, model: Path) -> None:
        self._comfy = RealComfyUI(python, folder)
        self._llama = RealLlama(llama_server, model)
        self.servers: Sequence[Server] = (self._comfy, self._llama)
        self._checkpoint = ""

    async def __aenter__(self) -> Self:
        for server in self.servers:
            await server.start()
        async with asyncio.timeout(UP_WITHIN_S):
            while not self._checkpoint:
                try:
                    loader = await self._comfy.get("/object_info/CheckpointLoaderSimple")
                except (aiohttp.ClientError, TimeoutError):
                    await asyncio.sleep(0.5)
                else:
                    inputs = loader["CheckpointLoaderSimple"]["input"]["required"]
                    self._checkpoint = inputs["ckpt_name"][0][0]
        return self

    async def __aexit__(self, *error: object) -> None:
        for server in self.servers:
            await server.kill()

    def config(self) -> str:
        return _CONFIG.format(
            comfy=self._comfy.port,
            llama=self._llama.wire.port,
            checkpoint=json.dumps(self._checkpoint),
            model=self._llama.model,
        )

    def words(self, random: Random, number: int) -> Words:
        prompt = f"request number {number}"
        model = random.choice(("plain", "better", "writer"))
        if model == "writer":
            return Words(command="ask", model=model, prompt=prompt)
        return Words(command="image", model=model, prompt=prompt, options={"seed": SEEDS + number})

    def number_of(self, seen: Seen) -> int | None:
        """Return whose result a message shows; 0 for an answer no server is known to have given."""
        if {"Cancel", "Stop"} & set(seen.buttons) or not _FACTS.search(seen.text):
            return None
        if seen.images:
            found = _SEED.search(seen.text)
            return int(found[1]) - SEEDS if found else 0
        if "writer ·" not in seen.text:
            return None
        shown = _bare(seen.text)
        known = self._llama.wire.answers.items()
        fitting = [(len(_bare(t)), n) for n, texts in known for t in texts if _bare(t) in shown]
        return max(fitting, default=(0, 0))[1]  # a short answer may be part of another one

    def completed(self, numbers: set[int]) -> None:
        """Do nothing: the time of storing is compared with the times in the history."""

    async def judge(self, verdict: Verdict, rows: Sequence[Row]) -> None:
        await self._comfy.look()
        drawn = sorted(self._comfy.drawn.values(), key=lambda each: each.began_at)
        for model in ("plain", "better"):
            line = Queue(model=model, held=model == "better")
            began = [(each.number, each.began_at) for each in drawn]
            verdict.order_violations += line.overtaken(rows, began)
        wire = self._llama.wire
        verdict.order_violations += Queue(model="writer", at_once=2).overtaken(rows, wire.began)
        again = _redrawn(drawn, rows)
        verdict.regenerated += again
        whole = [each.number for each in drawn if each.whole]
        verdict.servers = {
            "repeated_texts": sum(len(texts) - 1 for texts in wire.answers.values()),
            "forgotten_by_servers": len(whole) - len(set(whole)) - len(again),
            "prompts_improved": None,
        }


def _redrawn(drawn: Sequence[Drawn], rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each image drawn again that its server had or that was stored."""
    whole = Counter((each.run, each.number) for each in drawn if each.whole)
    stored_at = {row.number: row.finished_at or 0.0 for row in rows if row.state == "completed"}
    again = {number for (_, number), times in whole.items() if times > 1}
    again |= {
        each.number
        for each in drawn
        if each.number in stored_at and each.began_at > stored_at[each.number]
    }
    return [f"{number} was drawn again" for number in sorted(again)]


def _bare(text: str) -> str:
    """Return the letters and digits of an answer, which no formatting changes."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


_CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    margin: 1
    backends:
      comfy: {{kind: comfyui, url: "http://127.0.0.1:{comfy}"}}
  gpu-2:
    vram: 24GB
    margin: 1
    backends:
      llama: {{kind: openai, url: "http://127.0.0.1:{llama}"}}
models:
  plain:
    backends: [comfy]
    workflow: sdxl.json
    values: {{checkpoint: {checkpoint}, steps: 3, width: 64, height: 64}}
    vram: 2GB
    load_s: 5
    service_s: 2
  better:
    backends: [comfy]
    workflow: sdxl.json
    values: {{checkpoint: {checkpoint}, steps: 4, width: 64, height: 64}}
    vram: 2GB
    load_s: 5
    service_s: 2
    enhance: writer
  writer:
    backends: [llama]
    model: {model}
    capabilities: [text-to-text]
    vram: 2GB
    parallel: 2
    max_tokens: 30
    temperature: 1.5
    load_s: 2
    service_s: 2
"""
