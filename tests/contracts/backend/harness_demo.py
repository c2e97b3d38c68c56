"""The demo for the backend contract: a placeholder for every kind of model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from backends.demo.audio import spoken
from backends.demo.backend import Demo
from queueing.core.ports import Fetch, Report
from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    Embed,
    File,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.backends.media.planted import IMAGE, saved
from tests.contracts.backend.backend_harness import MAKING, Harness, Server


class CountingDemo(Demo):
    """Counts what runs; the demo has no server that could be asked."""

    running = 0

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        self.running += 1
        try:
            return await super().run(model, work, report)
        finally:
            self.running -= 1


@asynccontextmanager
async def _demo(
    does: Capability, quick: Request, long: Request, *files: File, step_s: float = 0.001
) -> AsyncIterator[Harness]:
    options = {"load_s": 0, "step_s": step_s}
    backend = CountingDemo(BackendSpec(name="d", kind="demo", options=options))
    model = next(model for model in await backend.discover() if does in model.capabilities)

    async def busy() -> bool:
        return backend.running > 0

    await backend.load(model)
    yield Harness(
        backend=backend,
        model=model,
        quick=quick,
        long=long,
        files=files,
        busy=busy,
        unusable=ModelSpec(
            name="alpha", backends=("d",), capabilities=frozenset(), options={"fail_rate": 7}
        ),
    )
    await backend.aclose()


_drawing = partial(TextToImage, prompt="a cat", width=64, height=64)
_video = partial(TextToVideo, prompt="a cat", width=64, height=64, seconds=0.5)
_music = partial(TextToAudio, prompt="calm")
_question = Chat(messages=(ChatMessage(role="user", text="tell me of the cat"),))
_image = File(name="p.png", mime="image/png", data=saved(IMAGE, "PNG"))
_recording = File(name="r.wav", mime="audio/wav", data=spoken("hello"))
_slow = 200
# Each medium has its own generator; everything else is the same.
_TEXTS = MAKING | {"test_a_recording_that_was_written_down_is_no_image"}


def _medium(
    does: Capability, quick: Request, long: Request, *files: File, step_s: float = 0.001
) -> Server:
    opens = partial(_demo, does, quick, long, *files, step_s=step_s)
    differs = _TEXTS if does == Capability.TEXT_TO_TEXT else MAKING
    return Server(opens=opens, flavour_of="demo-images", differs=differs)


HARNESSES = {
    "demo-images": Server(
        opens=partial(
            _demo, Capability.TEXT_TO_IMAGE, _drawing(steps=3), _drawing(steps=_slow, count=4)
        )
    ),
    "demo-edits": _medium(
        Capability.IMAGE_EDIT,
        _drawing(steps=3, edit=True),
        _drawing(steps=_slow, count=4, edit=True),
        _image,
        _image,
    ),
    "demo-videos": _medium(
        Capability.TEXT_TO_VIDEO, _video(steps=3), _video(steps=_slow, seconds=60)
    ),
    "demo-videos-of-images": _medium(
        Capability.IMAGE_TO_VIDEO,
        _video(steps=3),
        _video(steps=_slow, seconds=60),
        _image,
        _image,
    ),
    "demo-music": _medium(
        Capability.TEXT_TO_AUDIO, _music(seconds=1), _music(seconds=600, steps=_slow)
    ),
    "demo-speech": _medium(
        Capability.TEXT_TO_SPEECH, TextToSpeech(text="hello"), TextToSpeech(text="a word " * 200)
    ),
    "demo-hearing": _medium(
        Capability.SPEECH_TO_TEXT,
        SpeechToText(),
        SpeechToText(timestamps=True),
        _recording,
        step_s=0.01,
    ),
    "demo-texts": _medium(Capability.TEXT_TO_TEXT, _question, _question),
    "demo-embeddings": _medium(
        Capability.EMBEDDING, Embed(inputs=("a cat", (1, 2))), Embed(inputs=((1,),) * 8000)
    ),
}
