"""Whether the job of a model that never ran ends within its first range.

Each model is asked once on a fresh installation: those of the demo, which take what their
configuration says, and three of which it says nothing: they take a fifth of the usual time of
their kind, about that time, and eight times as long.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from benchmarks.truth.promises import Promise
from bot.cli.demo.demo import demo_config
from bot.cli.demo.options import DemoOptions
from queueing.core.jobs import JobState, NewJob
from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    Embed,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from queueing.core.specs import ModelSpec
from queueing.forecast.durations import Durations, size_class
from tests.fakes.servers.backend import IMAGE
from tests.simulation import loop as virtual
from tests.simulation.installation import NO_LIMITS, Installation, ended, host

_CAN = Capability
_REQUESTS: Mapping[Capability, Request] = {
    _CAN.TEXT_TO_IMAGE: TextToImage(prompt="a cat"),
    _CAN.UPSCALE: TextToImage(prompt="", upscale=True),
    _CAN.IMAGE_EDIT: TextToImage(prompt="a hat", edit=True),
    _CAN.TEXT_TO_TEXT: Chat(messages=(ChatMessage(role="user", text="why is the sky blue?"),)),
    _CAN.EMBEDDING: Embed(inputs=("a cat",)),
    _CAN.TEXT_TO_VIDEO: TextToVideo(prompt="a cat"),
    _CAN.TEXT_TO_AUDIO: TextToAudio(prompt="a cat"),
    _CAN.TEXT_TO_SPEECH: TextToSpeech(text="the cat sat on the mat"),
    _CAN.SPEECH_TO_TEXT: SpeechToText(),
}
_OTHERS = ((_CAN.TEXT_TO_TEXT, 0.2), (_CAN.TEXT_TO_IMAGE, 1.0), (_CAN.TEXT_TO_VIDEO, 8.0))
_OF_FILES = {_CAN.UPSCALE, _CAN.IMAGE_EDIT, _CAN.SPEECH_TO_TEXT}
_LONGEST = 4.0  # times the usual load: longer ones are given up
_WANDERS = 0.15


def first_runs(seeds: Iterable[int]) -> Sequence[Promise]:
    """Ask every model once for each seed; return what was told, with the model as its lane."""
    found = []
    for seed in seeds:
        random = Random(seed)
        for model, able, times in _models():
            taken = [seconds * math.exp(random.gauss(0.0, _WANDERS)) for seconds in times]
            found.append(virtual.run(_first(model, _REQUESTS[able], *taken)))
    return found


def _models() -> Iterable[tuple[ModelSpec, Capability, tuple[float, float]]]:
    """Yield every model, what it makes, and the seconds of its load and of its job."""
    for model in demo_config(DemoOptions(port=0)).catalog().models.values():
        able = next(each for each in _REQUESTS if each in model.capabilities)
        yield model, able, (model.load_s or 0.0, model.service_s or 0.0)
    for able, factor in _OTHERS:
        model = ModelSpec(
            name=f"other-{factor:g}",
            backends=("studio",),
            capabilities=frozenset({able}),
            vram_mb=12000,
        )
        usual_s = Durations().service(model, "", size_class(_REQUESTS[able])).median_s
        load_s = Durations().load(model, "").median_s
        yield model, able, (min(factor, _LONGEST) * load_s, factor * usual_s)


async def _first(model: ModelSpec, request: Request, load_s: float, service_s: float) -> Promise:
    installation = Installation.of([model], [host("gpu", *model.backends, vram_mb=24000)])
    for server in installation.servers.values():
        server.load_s, server.service_s, server.progress_every_s = load_s, service_s, 1.0
    async with installation.queue() as queue:
        queue.promises.follow()
        files = (IMAGE,) if model.capabilities & _OF_FILES else ()
        asked = NewJob(model=model.name, request=request, files=files, owner="", key="first")
        job = await queue.submitter.submit(asked, limits=NO_LIMITS)
        await queue.status.decided([job])
        await queue.status.standings([job])
        told = queue.promises.given[job.id]
        done = await ended(queue, job)
        assert done.state is JobState.COMPLETED, done.error
    return Promise(
        lane=model.name,
        at=told.given_at,
        earliest=told.earliest,
        latest=told.latest,
        ended=done.finished_at or 0.0,
        measured=False,
    )
