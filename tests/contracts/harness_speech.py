"""Servers that hear and speak for the backend contract: fakes of each kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from backends.registry import connect
from queueing.core.catalog import BackendSpec, ModelSpec
from queueing.core.requests import Capability, File, SpeechToText, TextToSpeech
from tests.contracts.backend_harness import Harness, Opens
from tests.fakes.speech import HEARING, SPEAKING, FakeSpeech, speech
from tests.fakes.speech_script import wav

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


HARNESSES: dict[str, Opens] = {
    **{f"{kind}-hearing": partial(_hearing, kind) for kind in HEARING},
    **{f"{kind}-speaking": partial(_speaking, kind) for kind in SPEAKING},
}
