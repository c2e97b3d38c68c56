"""Speech servers for the backend contract: fakes of each kind, and real ones if named.

`USHER_WHISPER_SERVER` names a `whisper-server` and `USHER_WHISPER_MODEL` a model for it. With a
temperature of 1 it does not try a recording twice, so that a model of random weights ends soon.
`USHER_LLAMA_SERVER` names a `llama-server` and `USHER_LLAMA_EAR` a folder with one folder in it,
which holds a model and the encoder of its sounds (`mmproj…`).
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.registry import connect
from queueing.core.errors import Unavailable
from queueing.core.ports import Backend
from queueing.core.requests import Capability, File, SpeechToText, TextToSpeech
from queueing.core.specs import BackendSpec, ModelSpec
from tests.contracts.backend.backend_harness import FORM, Harness, Opens, Server, until
from tests.fakes.ports import free_port
from tests.fakes.servers.real_server import kill, running
from tests.fakes.servers.speech import HEARING, SPEAKING, FakeSpeech, speech
from tests.fakes.servers.speech_script import wav

SERVER = os.environ.get("USHER_WHISPER_SERVER", "")
MODEL = os.environ.get("USHER_WHISPER_MODEL", "")
LLAMA = os.environ.get("USHER_LLAMA_SERVER", "")
EARS = os.environ.get("USHER_LLAMA_EAR", "")
EMPTY = File(name="x", mime="text/plain", data=b"x")
RECORDING = (File(name="voice.wav", mime="audio/wav", data=wav()),)
HEARS, SPEAKS = Capability.SPEECH_TO_TEXT, Capability.TEXT_TO_SPEECH


def model(does: Capability, name: str, **options: str | int) -> ModelSpec:
    return ModelSpec(name=name, backends=("b",), capabilities=frozenset({does}), options=options)


@asynccontextmanager
async def _hearing(kind: str) -> AsyncIterator[Harness]:
    async with speech(kind) as server:
        server.pace_s = 0.01  # for a word that may occur
        async with _opened(server, model(HEARS, "ear")) as harness:
            yield harness


@asynccontextmanager
async def _speaking(kind: str) -> AsyncIterator[Harness]:
    async with speech(kind) as server:
        server.pace_s = 0.01  # for a word
        async with _opened(server, model(SPEAKS, "kokoro" if kind == "kokoro" else "mouth")) as it:
            yield it


@asynccontextmanager
async def _opened(server: FakeSpeech, spec: ModelSpec) -> AsyncIterator[Harness]:
    backend = connect(BackendSpec(name="b", kind="openai", url=server.url))
    hears = HEARS in spec.capabilities
    (does,) = spec.capabilities

    async def busy() -> bool:
        return server.running > 0

    await backend.load(spec)
    yield Harness(
        backend=backend,
        model=spec,
        quick=SpeechToText() if hears else TextToSpeech(text="Hello there."),
        long=SpeechToText(prompt="word " * 2000)
        if hears
        else TextToSpeech(text="A long sentence. " * 2000),
        files=RECORDING if hears else (),
        busy=busy,
        absent=None if server.kind == "whispercpp" else model(does, "gamma"),
        unusable=model(does, spec.name, max_tokens=-1),
        die=server.stop,
    )
    await backend.aclose()


@asynccontextmanager
async def _whisper() -> AsyncIterator[Harness]:
    port = free_port()
    async with running(port, SERVER, "-m", MODEL, "-t", "1") as process:
        backend = connect(BackendSpec(name="b", kind="openai", url=f"http://127.0.0.1:{port}"))
        await until(partial(answers, backend))

        yield Harness(
            backend=backend,
            model=model(HEARS, "large-v3"),
            quick=SpeechToText(temperature=1.0),
            long=SpeechToText(),
            files=RECORDING,
            busy=partial(listens, port),
            unusable=model(HEARS, "ear", max_tokens=-1),
            die=partial(kill, process),
        )
        await backend.aclose()


async def listens(port: int) -> bool:
    """Return whether a whisper.cpp works: it handles one call at a time, so another has to wait."""
    server = Http(f"http://127.0.0.1:{port}")
    try:
        await server.post_multipart("/inference", field="no", file=EMPTY, timeout_s=0.3)
    except HttpRefused:
        return False
    except Unavailable:
        return True
    finally:
        await server.aclose()
    return False


async def answers(backend: Backend) -> bool:
    """Return whether a server is up."""
    try:
        await backend.probe()
    except Unavailable:
        return False
    return True


def _ears() -> tuple[str, ...]:
    """Return the name of llama.cpp's model, and the arguments that start it."""
    folder = next(Path(EARS).iterdir())
    (encoder,) = folder.glob("mmproj*")
    (weights,) = (file for file in folder.glob("*.gguf") if file != encoder)
    files = ("-m", str(weights), "--mmproj", str(encoder))
    return folder.name, *files, "--alias", folder.name


@asynccontextmanager
async def _llama(*, router: bool) -> AsyncIterator[Harness]:
    port, (name, *one) = free_port(), _ears()
    command = (
        LLAMA,
        *(("--models-dir", EARS) if router else one),
        "--parallel",
        "2",
        "-c",
        "2048",
        "-t",
        "1",
    )
    async with running(port, *command) as process:
        backend = connect(BackendSpec(name="b", kind="openai", url=f"http://127.0.0.1:{port}"))
        server = Http(f"http://127.0.0.1:{port}")
        await until(partial(answers, backend))

        async def busy() -> bool:
            slots = await server.get_json("/slots", params={"model": name})
            assert isinstance(slots, list)
            return any(isinstance(slot, dict) and slot["is_processing"] for slot in slots)

        spec = model(HEARS, name)
        await backend.load(spec)
        yield Harness(
            backend=backend,
            model=spec,
            quick=SpeechToText(),
            long=SpeechToText(),  # as long as the context: models of random weights find no end
            files=RECORDING,
            busy=busy,
            absent=model(HEARS, "gamma"),
            unusable=model(HEARS, "ear", max_tokens=-1),
            die=partial(kill, process),
        )
        await backend.aclose()
        await server.aclose()


# They use other forms of OpenAI's calls than the server without a name.
_FLAVOURS = {"kokoro", "llamacpp", "localai", "speaches", "vllm"}


def _server(kind: str, does: str) -> Server:
    opens = partial(_hearing if does == "hearing" else _speaking, kind)
    if kind in _FLAVOURS:
        return Server(opens=opens, flavour_of=f"generic-{does}", differs=FORM)
    return Server(opens=opens)


HARNESSES = {
    **{f"{kind}-hearing": _server(kind, "hearing") for kind in HEARING},
    **{f"{kind}-speaking": _server(kind, "speaking") for kind in SPEAKING},
}
EXTERNAL: dict[str, Opens] = {"whispercpp-real": _whisper} if SERVER and MODEL else {}
if LLAMA and EARS:
    EXTERNAL["llamacpp-hearing-real"] = partial(_llama, router=False)
    EXTERNAL["llamacpp-router-hearing-real"] = partial(_llama, router=True)
