"""Demo: a stand-in for an inference server, for trying Usher without one.

It creates images and videos with Pillow, plays tones, answers from a template and hashes words into
vectors. It takes as long as a model would, and every result says that no model was used. It stores
nothing, so after a restart it knows no attempts.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from pydantic import Field

from backends.common.options import read_options
from backends.common.vectors import vectors_file
from backends.demo.audio import compose, listen, speak
from backends.demo.images import draw, enlarge, starting_image, video
from backends.demo.pace import Beat, Pace, known
from backends.demo.texts import NOTE, answer, chunk, continuation, hashed, tokens_of, whole_answer
from backends.media.images import open_image
from queueing.core.errors import NotLoaded, OutOfMemory, Unavailable
from queueing.core.ports import Backend, Fetch, Report, ServerInfo
from queueing.core.requests import (
    Capability,
    Chat,
    Embed,
    File,
    Output,
    Progress,
    Record,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec

EMBED_STEPS, AT_ONCE = 4, 8  # a large batch takes longer
_COMMON = frozenset({"steps", "seed", "negative", "guidance"})
DRAWS = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})
EDITS = frozenset({Capability.IMAGE_EDIT})
VIDEOS = frozenset({Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO})
COMPOSES = frozenset({Capability.TEXT_TO_AUDIO})
TAKES = (  # by capability: all fields except a LoRA
    (DRAWS, _COMMON | {"width", "height", "count", "strength"}),
    (EDITS, _COMMON | {"width", "height", "count", "strength"}),
    (VIDEOS, _COMMON | {"width", "height", "seconds", "fps"}),
    (COMPOSES, _COMMON | {"seconds", "lyrics"}),
    (frozenset({Capability.TEXT_TO_SPEECH}), frozenset({"voice", "speed"})),
    (frozenset({Capability.SPEECH_TO_TEXT}), frozenset({"language", "translate", "prompt"})),
)
OFFERED = {
    "demo-painter": DRAWS,
    "demo-retoucher": EDITS,
    "demo-lens": frozenset({Capability.UPSCALE}),
    "demo-writer": frozenset({Capability.TEXT_TO_TEXT, Capability.VISION}),
    "demo-camera": VIDEOS,
    "demo-organ": COMPOSES,
    "demo-voice": frozenset({Capability.TEXT_TO_SPEECH}),
    "demo-ear": frozenset({Capability.SPEECH_TO_TEXT}),
    "demo-hashing": frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING}),
}
"""The models that `discover` offers: one of each kind."""


class DemoBackendOptions(Record):
    """The demo's behaviour. A model's options override its backend's.

    Times are in seconds; None means the model's own `load_s` and `service_s`. `step_s` is the time
    for one step of an image or one word of a text, and overrides `service_s`. `fail_rate` and
    `oom_rate` are the shares of attempts and loads that fail.
    """

    load_s: float | None = Field(default=None, ge=0)
    service_s: float | None = Field(default=None, ge=0)
    step_s: float | None = Field(default=None, ge=0)
    fail_rate: float = Field(default=0.0, ge=0, le=1)
    oom_rate: float = Field(default=0.0, ge=0, le=1)


class Demo(Backend):
    """A backend without a server; see `queueing.core.ports.Backend` for the contract."""

    needs_url: ClassVar[bool] = False
    ports: ClassVar[tuple[int, ...]] = ()
    serial: ClassVar[bool] = False
    max_models: ClassVar[int | None] = None
    offloads: ClassVar[bool] = False
    parallel: ClassVar[int] = 4

    capabilities = frozenset(Capability)

    def __init__(self, spec: BackendSpec) -> None:
        self._spec = spec
        self._loaded: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._loads = 0
        read_options(DemoBackendOptions, spec.options, f"backends.{spec.name}")

    def check(self, model: ModelSpec) -> None:
        """Raise `BadModel` for unknown options and values out of range."""
        self._options(model)

    def options(self, model: ModelSpec) -> frozenset[str]:
        """Return every field of the model's requests except a LoRA."""
        taken = (fields for able, fields in TAKES if model.capabilities & able)
        return frozenset().union(*taken)

    async def probe(self) -> ServerInfo:
        """Return immediately, because there is no server that could be down."""
        return ServerInfo(
            description="demo stand-in (no model)",
            notes=(
                "Images, videos, sounds and texts are made without a model; use a real server for real ones.",
            ),
        )

    async def verify(self, model: ModelSpec) -> None:
        """Accept every model with valid options."""
        self.check(model)

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Offer a model of each kind."""
        taken = {model.name for model in known}
        return tuple(
            ModelSpec(name=name, backends=(self._spec.name,), capabilities=able, vram_mb=4000)
            for name, able in OFFERED.items()
            if name not in taken
        )

    @property
    def stops_loads(self) -> bool:
        """Always: a cancelled load leaves nothing."""
        return True

    async def load(self, model: ModelSpec) -> None:
        """Take the time of a load; with `oom_rate`, sometimes run out of memory."""
        options = self._options(model)
        async with self._locks.setdefault(model.name, asyncio.Lock()):
            if model.name in self._loaded:
                return
            self._loads += 1
            await asyncio.sleep(model.usual_load_s if options.load_s is None else options.load_s)
            if _chance(f"{model.name} {self._loads}") < options.oom_rate:
                raise OutOfMemory(f"the demo pretends that {model.name} does not fit")
            self._loaded.add(model.name)

    async def unload(self, model: ModelSpec) -> None:
        """Forget the model immediately."""
        self._loaded.discard(model.name)

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str]:
        """Return which of the models were loaded here."""
        return frozenset(model.name for model in models if model.name in self._loaded)

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Create the result of `work.request`, at the configured speed."""
        if model.name not in self._loaded:
            raise NotLoaded(f"{model.name} is not loaded in the demo")
        fails = _chance(work.key) < self._options(model).fail_rate
        pace = Pace(step_s=partial(self._step_s, model), report=partial(_failing, report, fails))
        match work.request:
            case TextToImage(upscale=True):
                return await enlarge(work, pace)
            case TextToImage() as request:
                return await draw(request, work, pace)
            case Chat() as request:
                return await _write(request, work, pace)
            case Embed() as request:
                return await _embed(request, work, pace)
            case request:
                return await _media(request, work, pace)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _options(self, model: ModelSpec) -> DemoBackendOptions:
        options = {**self._spec.options, **model.options}
        return read_options(DemoBackendOptions, options, f"models.{model.name}")

    def _step_s(self, model: ModelSpec, steps: int) -> float:
        options = self._options(model)
        if options.step_s is not None:
            return options.step_s
        return (model.usual_service_s if options.service_s is None else options.service_s) / steps


async def _media(
    request: TextToVideo | TextToAudio | TextToSpeech | SpeechToText, work: Work, pace: Pace
) -> Fetch:
    match request:
        case TextToVideo():
            return await video(request, work, pace)
        case TextToAudio():
            return await compose(request, work, pace)
        case TextToSpeech():
            return await speak(request, pace)
        case SpeechToText():
            return await listen(request, work, pace)


async def _write(request: Chat, work: Work, pace: Pace) -> Fetch:
    passed_on = request.passed_on
    words = (await _words(request, work.files))[: request.max_tokens]
    beat, text = Beat(pace.step_s(len(words))), " ".join(words)
    for count, word in enumerate(words, start=1):
        await beat.step()
        done = count / len(words)
        if passed_on is None:
            pace.report(Progress(fraction=done, text=" ".join(words[:count])))
        else:
            said = chunk(word, count, len(words))
            pace.report(Progress(fraction=done, chunks=(said,)))
    if passed_on is None:
        return partial(known, Output(text=text))
    return partial(known, Output(text=text, answer=whole_answer(request, words)))


async def _embed(request: Embed, work: Work, pace: Pace) -> Fetch:
    files = enumerate(work.files)
    images = {n: await asyncio.to_thread(starting_image, file) for n, file in files}
    vectors = await asyncio.to_thread(hashed, request, images)
    beat, steps = Beat(pace.step_s(EMBED_STEPS)), EMBED_STEPS + len(vectors) // AT_ONCE
    for step in range(1, steps + 1):
        await beat.step()
        pace.report(Progress(fraction=step / steps))
    told = {"prompt_tokens": tokens_of(request.inputs), "note": NOTE}
    output = Output(files=(vectors_file(vectors),), answer=json.dumps(told))
    return partial(known, output)


async def _words(request: Chat, files: Sequence[File]) -> list[str]:
    if request.passed_on is not None and request.passed_on.text:
        return continuation(request.passed_on).split(" ")
    heard = {index for turn in request.messages for index in turn.sounds}
    shown = [file for index, file in enumerate(files) if index not in heard]
    images = [await asyncio.to_thread(open_image, file) for file in shown]
    return answer(request, [image.size for image in images]).split(" ")


def _failing(report: Report, fails: bool, progress: Progress) -> None:
    """Report progress; fail half-way if this attempt should fail."""
    report(progress)
    if fails and (progress.fraction or 0) >= 0.5:
        raise Unavailable("the demo pretends that its server died")


def _chance(word: str) -> float:
    """Return a number from 0 to 1 that depends only on the word, so that runs are repeatable."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") / 2**64
