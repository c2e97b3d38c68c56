"""A real whisper.cpp server, started, killed and started again by the test.

`USHER_WHISPER_SERVER` names a `whisper-server` and `USHER_WHISPER_MODEL` a model for it (a slow
one: the server must be killed while it transcribes). The tests are skipped where they are not set.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from backends.media.sounds import as_voice
from backends.openai.backend import OpenAI
from queueing.core.errors import BackendError, ProblemKind, Rejected, Unavailable
from queueing.core.requests import Capability, File, Output, SpeechToText, Work
from queueing.core.specs import BackendSpec, ModelSpec
from tests.contracts.backend.backend_harness import until
from tests.contracts.backend.harness_speech import answers, listens
from tests.fakes.ports import free_port
from tests.fakes.servers.real_server import kill, running
from tests.fakes.servers.speech_script import wav

SERVER = os.environ.get("USHER_WHISPER_SERVER", "")
MODEL = os.environ.get("USHER_WHISPER_MODEL", "")
COMMAND = (SERVER, "-m", MODEL, "-t", "1")
EAR = ModelSpec(name="ear", backends=("b",), capabilities=frozenset({Capability.SPEECH_TO_TEXT}))
SOUND = File(name="voice.wav", mime="audio/wav", data=wav(1.0))

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(not (SERVER and MODEL), reason="USHER_WHISPER_SERVER and _MODEL not set"),
]


@asynccontextmanager
async def connected(port: int, path: str = "") -> AsyncIterator[OpenAI]:
    backend = OpenAI(BackendSpec(name="b", kind="openai", url=f"http://127.0.0.1:{port}{path}"))
    try:
        yield backend
    finally:
        await backend.aclose()


async def heard(backend: OpenAI, sound: File = SOUND, **fields: object) -> Output:
    """Ask a server as soon as it is up."""
    await until(partial(answers, backend))
    request = SpeechToText.model_validate({"temperature": 1.0, **fields})
    work = Work(key="k", request=request, files=(sound,))
    return await (await backend.run(EAR, work, lambda _: None))()


async def test_a_server_killed_while_it_listens_is_used_again() -> None:
    """A crash would hang its job, or disable the server until a restart."""
    port = free_port()
    async with connected(port) as backend:
        async with running(port, *COMMAND) as process:
            assert (await heard(backend)).text
            work = Work(key="k", request=SpeechToText(), files=(SOUND,))
            job = asyncio.create_task(backend.run(EAR, work, lambda _: None))
            await until(partial(listens, port))
            await kill(process)
            with pytest.raises(Unavailable):
                await job
            with pytest.raises(Unavailable):
                await backend.probe()
        async with running(port, *COMMAND):
            assert (await heard(backend)).text


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (("--inference-path", "/v1/audio/transcriptions"), ""),
        (("--request-path", "/ears"), "/ears"),
    ],
)
async def test_it_is_found_wherever_its_call_is(settings: tuple[str, ...], url: str) -> None:
    """Every transcription would end with "File Not Found"."""
    port = free_port()
    async with running(port, *COMMAND, *settings), connected(port, url) as backend:
        output = await heard(backend, timestamps=True)
        assert output.text
        answer = json.loads(output.answer)
        assert answer["duration"] == pytest.approx(1.0)
        assert answer["segments"]


async def test_a_voice_message_is_heard_and_what_is_no_sound_refused() -> None:
    """Telegram sends Ogg Opus, which whisper.cpp cannot decode itself."""
    port = free_port()
    async with running(port, *COMMAND), connected(port) as backend:
        voice = (await as_voice(SOUND)).file
        assert (await heard(backend, voice)).text
        assert (await heard(backend, voice, translate=True, language="de")).text
        with pytest.raises(Rejected) as caught:
            await heard(backend, File(name="x.wav", mime="audio/wav", data=b"no sound at all"))
        assert isinstance(caught.value, BackendError)
        assert caught.value.problem is not None
        assert caught.value.problem.what is ProblemKind.BAD_SOUND
