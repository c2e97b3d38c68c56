"""The servers of a trial, their configuration, and how their work is recognised."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Protocol, Self

from tests.chaos.people.chats import Seen, Words
from tests.chaos.people.program_media import MODELS, VIDEOS
from tests.chaos.people.programs import VECTORS
from tests.chaos.servers import CountingComfyUI, CountingLlm, ServerRecords, shown_number
from tests.chaos.verdict import Queue, Row, Verdict

VIDEO_KINDS = 0.06  # of what is asked in chats; encoding takes long
SERVER_DIES = 0.25  # of the program's deaths: a server dies around then, too


class Server(Protocol):
    """A server that can be killed and started again at the same address."""

    async def kill(self) -> None:
        """End it at once; it forgets what it had."""

    async def start(self) -> None:
        """Start it; returns when it listens or is about to."""


class Installation(Protocol):
    """All servers of a trial."""

    servers: Sequence[Server]
    slow: float
    """By how much longer everything takes than with servers that only pretend."""
    takes_programs: bool
    """Whether a result is known again without the words that chats show beside it."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    def config(self) -> str:
        """Return the hosts and models of the configuration."""

    def words(self, random: Random, number: int) -> Words:
        """Return a person's prompt for the request of that number."""

    def number_of(self, seen: Seen) -> int | None:
        """Return the number of the request whose result a message shows."""

    def completed(self, numbers: set[int]) -> None:
        """Take note of a stored result: no server may begin with it again."""

    async def judge(self, verdict: Verdict, rows: Sequence[Row]) -> None:
        """Count what the servers did."""


class Outages:
    """Kills servers now and then, and starts them again."""

    def __init__(self, servers: Sequence[Server], random: Random, slow: float) -> None:
        self._servers = servers
        self._random = random
        self._slow = slow
        self._away: set[Server] = set()
        self._deaths: list[asyncio.Task[None]] = []
        self.kills = 0

    def perhaps(self) -> None:
        """Let a server die about now, or none."""
        server = self._random.choice(self._servers)
        if self._random.random() < SERVER_DIES and server not in self._away:
            self._away.add(server)
            self._deaths.append(asyncio.create_task(self._die(server)))

    async def over(self) -> None:
        """Wait until all servers are back."""
        await asyncio.gather(*self._deaths)

    async def _die(self, server: Server) -> None:
        await asyncio.sleep(self._random.uniform(0.0, 2.0) * self._slow)
        await server.kill()
        self.kills += 1
        await asyncio.sleep(self._random.uniform(0.0, 2.0) * self._slow)
        await server.start()
        self._away.remove(server)


class FakeInstallation:
    """Two ComfyUI and an LM Studio, all fakes, that record everything they do."""

    slow = 1.0
    takes_programs = True
    _IMAGES = ("schnell", "sdxl", "pony")
    _TEXTS = ("llama", "mistral")
    _OVERFLOW = frozenset({"telegram:1", "telegram:2", "discord:3"})

    def __init__(self) -> None:
        self._records = ServerRecords()
        self._comfy_1 = CountingComfyUI(self._records, "comfy-1", step_s=0.1, load_s=0.1)
        self._comfy_2 = CountingComfyUI(self._records, "comfy-2", step_s=0.07, load_s=0.1)
        self._studio = CountingLlm(self._records, self._TEXTS, embeds=VECTORS, pace_s=0.04)
        self.servers: Sequence[Server] = (self._comfy_1, self._comfy_2, self._studio)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._comfy_1)
        await self._stack.enter_async_context(self._comfy_2)
        await self._studio.start()
        self._stack.push_async_callback(self._studio.stop)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def config(self) -> str:
        return _CONFIG.format(
            comfy_1=self._comfy_1.url,
            comfy_2=self._comfy_2.url,
            studio=self._studio.url,
            media=MODELS,
        )

    def words(self, random: Random, number: int) -> Words:
        model = random.choice((*self._IMAGES, *self._TEXTS))
        if random.random() < VIDEO_KINDS:
            video = {"seconds": 1, "steps": 4}
            prompt = f"request number {number}"
            return Words(command="video", model=VIDEOS, prompt=prompt, options=video)
        command = "image" if model in self._IMAGES else "ask"
        return Words(command=command, model=model, prompt=f"request number {number}")

    def number_of(self, seen: Seen) -> int | None:
        return shown_number(seen)

    def completed(self, numbers: set[int]) -> None:
        self._records.finished_before = numbers.__contains__

    async def judge(self, verdict: Verdict, rows: Sequence[Row]) -> None:
        records = self._records
        for line in self._lines():
            verdict.order_violations += line.overtaken(rows, records.began)
        verdict.regenerated += [f"{number} was made again" for number in records.again]
        verdict.regenerated += [f"{number} was drawn again" for number in records.redrawn]
        verdict.regenerated += [f"{number} was begun again" for number in records.begun_again]
        verdict.servers = {
            "repeated_texts": records.repeated_texts,
            "forgotten_by_servers": records.forgotten,
            "prompts_improved": self._studio.improved,
        }

    def _lines(self) -> list[Queue]:
        at_once: Mapping[str, int] = {"mistral": 4}
        return [
            Queue(
                model=model,
                at_once=at_once.get(model, 1),
                held=model == "pony",
                overflow=self._OVERFLOW,
            )
            for model in (*self._IMAGES, *self._TEXTS)
        ]


_CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    margin: 1
    backends:
      comfy-1: {{kind: comfyui, url: "{comfy_1}"}}
  gpu-2:
    vram: 24GB
    margin: 1
    backends:
      comfy-2: {{kind: comfyui, url: "{comfy_2}"}}
  gpu-3:
    vram: 24GB
    margin: 1
    backends:
      studio: {{kind: lmstudio, url: "{studio}"}}
  gpu-4:
    vram: 10GB
    margin: 1
    backends:
      stand-ins: {{kind: demo}}
models:{media}  schnell:
    {{backends: [comfy-1], workflow: flux-schnell.json, vram: 17GB, load_s: 1, service_s: 1}}
  sdxl:
    {{backends: [comfy-2], workflow: sdxl.json, values: {{steps: 6}}, vram: 9GB, load_s: 1, service_s: 1}}
  pony:
    backends: [comfy-2]
    workflow: sdxl.json
    values: {{checkpoint: "sub/dreams v2.ckpt", steps: 6}}
    vram: 9GB
    load_s: 1
    service_s: 1
    enhance: mistral
  llama:
    {{backends: [studio], capabilities: [text-to-text], vram: 8GB, parallel: 1, load_s: 1, service_s: 1}}
  mistral:
    {{backends: [studio], capabilities: [text-to-text], vram: 8GB, parallel: 4, load_s: 1, service_s: 1}}
  vectors:
    {{backends: [studio], capabilities: [embedding], vram: 1GB, parallel: 4, load_s: 1, service_s: 1}}
roles:
  many: {{members: ["telegram:1", "telegram:2", "discord:3"], queued_per_person: 2}}
"""
