"""A fake of speech servers, over a loopback socket.

whisper.cpp, Speaches, LocalAI, Kokoro-FastAPI, vLLM, llama.cpp and a plain one with OpenAI's API.
They answer as their sources say (whisper.cpp as recorded), and misbehave on demand: each call for
speech takes the next of `faults`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.ports import port_of
from tests.fakes.servers.speech_calls import failure, model_of, routes_of, transcript
from tests.fakes.servers.speech_script import SOUNDS

HEARING = ("whispercpp", "speaches", "localai", "vllm", "llamacpp", "generic")
SPEAKING = ("speaches", "localai", "kokoro", "generic")


class SpeechFault(StrEnum):
    """What goes wrong with one call for speech."""

    NONE = "none"
    EMPTY = "empty"
    ERROR_200 = "error-200"
    HTML = "html"
    BUSY = "busy"
    TOO_LONG = "too-long"
    UNREADABLE = "unreadable"
    DEAF = "deaf"  # a model without ears
    NO_SEGMENTS = "no-segments"  # of this model, so `verbose_json` is refused
    OTHER_KIND = "other-kind"  # of sound than was asked for
    SILENCE = "silence"
    NO_TEXT = "no-text"
    NO_VOICE = "no-voice"


@dataclass
class CallHeard:
    """One call as it came in."""

    path: str
    fields: dict[str, Any]
    file: bytes = b""


class FakeSpeech:
    """One server. `url` is set once it runs; `calls` are those for speech, in order."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.faults: deque[SpeechFault] = deque()
        self.calls: list[CallHeard] = []
        self.loaded: set[str] = set()
        self.loads: list[str] = []
        self.in_use: set[str] = set()  # by another program
        self.unload_allowed = True
        self.old = False  # a version without newer calls
        self.path = "/inference"  # of whisper.cpp
        self.page = True
        self.forms: dict[str, str] = {}  # what is sent instead of a form that is asked for
        self.hold = asyncio.Event()
        self.hold.set()
        self.pace_s = 0.0
        self.running = 0
        self.url = ""
        self._port = port_of(self)
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024**2)
        for method, path, handler in routes_of(self):
            app.router.add_route(method, path, handler)
        usual = ("/v1/audio/transcriptions", "/v1/audio/translations")
        for path in (self.path,) if self.kind == "whispercpp" else usual:
            if self.kind in HEARING:
                app.router.add_post(path, self._hear)
        if self.kind in SPEAKING:
            app.router.add_post("/v1/audio/speech", self._speak)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def until_running(self, count: int) -> None:
        await self._until(lambda: self.running >= count)

    async def until_idle(self) -> None:
        await self._until(lambda: not self.running)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def _note(self, change: int) -> None:
        self.running += change
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def _working(self, words: int) -> None:
        self._note(1)
        try:
            await asyncio.sleep(self.pace_s * words)
            await self.hold.wait()
        finally:
            self._note(-1)

    async def _hear(self, request: web.Request) -> web.Response:
        fields: dict[str, Any] = {}
        file = b""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if part.name == "file":
                file = bytes(await part.read())
            else:
                fields[str(part.name)] = await part.text()
        self.calls.append(CallHeard(request.path, fields, file))
        fault = self.faults.popleft() if self.faults else SpeechFault.NONE
        refusal = model_of(self, str(fields.get("model")), hears=True)
        refusal = refusal or failure(self.kind, fault.value, fields)
        if refusal is not None:
            return refusal
        await self._working(len(str(fields.get("prompt", "")).split()))
        return transcript(self.kind, fields, fault.value, request.path)

    async def _speak(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append(CallHeard(request.path, body))
        fault = self.faults.popleft() if self.faults else SpeechFault.NONE
        refusal = model_of(self, str(body.get("model")), hears=False)
        refusal = refusal or failure(self.kind, fault.value, body)
        if refusal is not None:
            return refusal
        await self._working(len(body["input"].split()))
        wanted = body.get("response_format", "mp3")
        sent = "flac" if fault is SpeechFault.OTHER_KIND else self.forms.get(wanted, wanted)
        data = b"" if fault is SpeechFault.EMPTY else SOUNDS[sent]
        return web.Response(body=data, content_type="audio/opus")  # whatever it is


@asynccontextmanager
async def speech(kind: str, **settings: Any) -> AsyncIterator[FakeSpeech]:
    """Run a fake server for the length of the context."""
    server = FakeSpeech(kind)
    for name, value in settings.items():
        setattr(server, name, value)
    await server.start()
    try:
        yield server
    finally:
        server.hold.set()
        await server.stop()
