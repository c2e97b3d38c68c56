"""Demo: an honest stand-in for an inference server, for trying Usher without one.

It draws with Pillow, writes from a template, hashes words into vectors, takes as long as a model would, and states in every
result that no model was used. It stores nothing: after a restart it knows no attempt.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from PIL import Image
from pydantic import Field

from backends.common.options import read_options
from backends.demo.art import CANVAS, Painting
from backends.demo.text import answer, chunk, continuation, whole_answer
from backends.demo.vectors import NOTE, hashed, tokens_of
from backends.media.pictures import as_jpeg, as_png, open_picture
from queueing.core.catalog import BackendSpec, ModelSpec
from queueing.core.errors import NotLoaded, OutOfMemory, Rejected, Unavailable
from queueing.core.ports import Fetch, Recorded, Report, ServerInfo, at_once
from queueing.core.problems import What, problem
from queueing.core.requests import (
    Capability,
    Chat,
    Embed,
    File,
    Output,
    Progress,
    Record,
    TextToImage,
    Work,
)
from queueing.core.vectors import vectors_file

SIDE = 768  # pixels, if neither the request nor its picture sets a size
USUAL_PIXELS = 1024 * 1024  # a picture of another size takes longer or shorter in proportion
STEPS = 20
PREVIEWS = 8  # per picture
UPSCALE, UPSCALE_STEPS = 2, 4
EMBED_STEPS, AT_ONCE = 4, 8  # a large batch takes longer
TAKES = frozenset(
    {"width", "height", "steps", "seed", "negative", "count", "guidance", "strength"}
)  # all but a LoRA
DRAWS = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})


class DemoBackendOptions(Record):
    """What the demo pretends. A model's options override its backend's.

    Times are in seconds; None uses the model's own `load_s` and `service_s`. `step_s` is the time
    of one step of a picture or one word of a text and overrides `service_s`. `fail_rate` and
    `oom_rate` are the shares of attempts and loads that fail.
    """

    load_s: float | None = Field(default=None, ge=0)
    service_s: float | None = Field(default=None, ge=0)
    step_s: float | None = Field(default=None, ge=0)
    fail_rate: float = Field(default=0.0, ge=0, le=1)
    oom_rate: float = Field(default=0.0, ge=0, le=1)


class Demo:
    """A backend without a server; see `queueing.core.ports.Backend` for the obligations."""

    needs_url: ClassVar[bool] = False
    serial: ClassVar[bool] = False
    max_models: ClassVar[int | None] = None
    offloads: ClassVar[bool] = False
    parallel: ClassVar[int] = 4

    capabilities = frozenset(
        {
            Capability.TEXT_TO_IMAGE,
            Capability.IMAGE_TO_IMAGE,
            Capability.UPSCALE,
            Capability.TEXT_TO_TEXT,
            Capability.VISION,
            Capability.EMBEDDING,
            Capability.IMAGE_EMBEDDING,
        }
    )
    unloads_together = False
    can_unload = True

    def __init__(self, spec: BackendSpec) -> None:
        self._spec = spec
        self._loaded: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._loads = 0
        read_options(DemoBackendOptions, spec.options, f"backends.{spec.name}")

    def check(self, model: ModelSpec) -> None:
        """Refuse unknown options and values out of range."""
        self._options(model)

    def options(self, model: ModelSpec) -> frozenset[str]:
        """Return every option but a LoRA for a model that draws."""
        return TAKES if model.capabilities & DRAWS else frozenset()

    def weightless(self, model: ModelSpec) -> bool:  # noqa: ARG002 - the port's signature
        """Return False: every model stands for one that needs memory."""
        return False

    def own_name(self, model: ModelSpec) -> str:
        """Return the name."""
        return model.name

    async def probe(self) -> ServerInfo:
        """Return at once: there is no server that could be away."""
        return ServerInfo(
            description="demo stand-in (no model)",
            notes=(
                "Pictures and texts are made without a model; use a real server for real ones.",
            ),
        )

    async def gone(self) -> None:
        """Never return."""
        await asyncio.get_running_loop().create_future()

    async def verify(self, model: ModelSpec) -> None:
        """Accept every model whose options are right."""
        self.check(model)

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Offer one model that draws, one that writes and one that embeds."""
        writes = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
        embeds = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})
        offered = {"demo-painter": DRAWS, "demo-writer": writes, "demo-hashing": embeds}
        taken = {model.name for model in known}
        return tuple(
            ModelSpec(name=name, backends=(self._spec.name,), capabilities=able, vram_mb=4000)
            for name, able in offered.items()
            if name not in taken
        )

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:  # noqa: ARG002 - the port's signature
        """Return nothing: the demo has no LoRAs."""
        return ()

    async def load(self, model: ModelSpec) -> None:
        """Take the time of a load; with `oom_rate`, sometimes run out of memory."""
        options = self._options(model)
        async with self._locks.setdefault(model.name, asyncio.Lock()):
            if model.name in self._loaded:
                return
            self._loads += 1
            await asyncio.sleep(model.load_s if options.load_s is None else options.load_s)
            if _chance(f"{model.name} {self._loads}") < options.oom_rate:
                raise OutOfMemory(f"the demo pretends that {model.name} does not fit")
            self._loaded.add(model.name)

    async def unload(self, model: ModelSpec) -> None:
        """Forget the model at once."""
        self._loaded.discard(model.name)

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str]:
        """Return which of the models were loaded here."""
        return frozenset(model.name for model in models if model.name in self._loaded)

    async def run(
        self, model: ModelSpec, work: Work, report: Report, recorded: Recorded = at_once
    ) -> Fetch:
        """Draw, write or hash what `Work.request` asks for, at the speed the options set."""
        await recorded()
        if model.name not in self._loaded:
            raise NotLoaded(f"{model.name} is not loaded in the demo")
        fails = _chance(work.key) < self._options(model).fail_rate
        match work.request:
            case TextToImage(upscale=True):
                return await self._enlarge(model, work, partial(_failing, report, fails))
            case TextToImage() as request:
                return await self._draw(model, request, work, partial(_failing, report, fails))
            case Chat() as request:
                return await self._write(model, request, work, partial(_failing, report, fails))
            case Embed() as request:
                return await self._embed(model, request, work, partial(_failing, report, fails))
            case request:
                raise Rejected(f"the demo has no stand-in for {request.kind}")

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:  # noqa: ARG002 - the port's signature
        """Return None: a restart of Usher restarts the demo as well."""
        return None

    def leave(self) -> bool:
        """Return False: its work ends with Usher."""
        return False

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _options(self, model: ModelSpec) -> DemoBackendOptions:
        options = {**self._spec.options, **model.options}
        return read_options(DemoBackendOptions, options, f"models.{model.name}")

    async def _draw(
        self, model: ModelSpec, request: TextToImage, work: Work, report: Report
    ) -> Fetch:
        base = await asyncio.to_thread(_base, work.files[0]) if work.files else None
        steps, size = request.steps or STEPS, _size(request, base)
        step_s = self._step_s(model, STEPS) * (_share(size) if request.width else 1.0)
        total = steps * request.count
        paintings: list[Painting] = []
        for number in range(request.count):
            paintings.append(await asyncio.to_thread(_painting, request, number, base))
            for step in range(1, steps + 1):
                await asyncio.sleep(step_s)
                preview = await asyncio.to_thread(_paint, paintings[-1], step, steps)
                done = number * steps + step
                report(Progress(fraction=done / total, step=(done, total), preview=preview))
        return partial(_pictures, work.key, paintings)

    async def _enlarge(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        if not work.files:
            raise Rejected("nothing to enlarge", problem=problem(What.NOTHING_TO_ENLARGE))
        step_s = self._step_s(model, UPSCALE_STEPS)
        for step in range(1, UPSCALE_STEPS + 1):
            await asyncio.sleep(step_s)
            report(Progress(fraction=step / UPSCALE_STEPS, step=(step, UPSCALE_STEPS)))
        return partial(_enlarged, work.key, work.files[0])

    async def _write(self, model: ModelSpec, request: Chat, work: Work, report: Report) -> Fetch:
        passed_on = request.passed_on
        words = (await _words(request, work.files))[: request.max_tokens]
        word_s, text = self._step_s(model, len(words)), " ".join(words)
        for count, word in enumerate(words, start=1):
            await asyncio.sleep(word_s)
            done = count / len(words)
            if passed_on is None:
                report(Progress(fraction=done, text=" ".join(words[:count])))
            else:
                said = chunk(word, count, len(words), text=passed_on.text)
                report(Progress(fraction=done, chunks=(said,)))
        if passed_on is None:
            return partial(_output, Output(text=text))
        return partial(_output, Output(text=text, answer=whole_answer(request, words)))

    async def _embed(self, model: ModelSpec, request: Embed, work: Work, report: Report) -> Fetch:
        pictures = {n: await asyncio.to_thread(_base, file) for n, file in enumerate(work.files)}
        vectors = await asyncio.to_thread(hashed, request, pictures)
        step_s, steps = self._step_s(model, EMBED_STEPS), EMBED_STEPS + len(vectors) // AT_ONCE
        for step in range(1, steps + 1):
            await asyncio.sleep(step_s)
            report(Progress(fraction=step / steps))
        told = {"prompt_tokens": tokens_of(request.inputs), "note": NOTE}
        output = Output(files=(vectors_file(vectors),), answer=json.dumps(told))
        return partial(_output, output)

    def _step_s(self, model: ModelSpec, steps: int) -> float:
        options = self._options(model)
        if options.step_s is not None:
            return options.step_s
        return (model.service_s if options.service_s is None else options.service_s) / steps


async def _words(request: Chat, files: Sequence[File]) -> list[str]:
    if request.passed_on is not None and request.passed_on.text:
        return continuation(request.passed_on).split(" ")
    pictures = [await asyncio.to_thread(open_picture, file) for file in files]
    return answer(request, [picture.size for picture in pictures]).split(" ")


def _failing(report: Report, fails: bool, progress: Progress) -> None:
    """Report progress; fail half-way if this attempt is meant to fail."""
    report(progress)
    if fails and (progress.fraction or 0) >= 0.5:
        raise Unavailable("the demo pretends that its server died")


def _paint(painting: Painting, step: int, steps: int) -> File | None:
    painting.paint(step - 1, steps)
    if step % max(1, steps // PREVIEWS):
        return None
    data = as_jpeg(painting.preview(step, steps), quality=80)
    return File(name="preview.jpg", mime="image/jpeg", data=data)


def _base(file: File) -> Image.Image:
    """Return the picture to start from, no larger than the canvas."""
    picture = open_picture(file)
    picture.thumbnail((CANVAS, CANVAS))
    return picture


def _painting(request: TextToImage, number: int, base: Image.Image | None) -> Painting:
    return Painting(
        request.prompt,
        request.seed + number,
        _size(request, base),
        base=base,
        strength=0.6 if request.strength is None else request.strength,
    )


def _size(request: TextToImage, base: Image.Image | None) -> tuple[int, int]:
    """Return the requested size; a picture to start from sets its own shape otherwise."""
    width, height = (SIDE, SIDE) if base is None else base.size
    shrink = SIDE / max(width, height)
    return (
        request.width or max(64, round(width * shrink)),
        request.height or max(64, round(height * shrink)),
    )


def _share(size: tuple[int, int]) -> float:
    """Return how much longer a picture of that size takes than a usual one."""
    return size[0] * size[1] / USUAL_PIXELS


async def _pictures(key: str, paintings: Sequence[Painting]) -> Output:
    """Finish and encode the painting, in place of a real server's download."""
    files: list[File] = []
    for number, painting in enumerate(paintings, start=1):
        data = await asyncio.to_thread(_finished, painting)
        files.append(File(name=f"demo-{key[:8]}-{number}.png", mime="image/png", data=data))
    return Output(files=tuple(files))


def _finished(painting: Painting) -> bytes:
    return as_png(painting.finish())


async def _enlarged(key: str, file: File) -> Output:
    data = await asyncio.to_thread(_twice, file)
    return Output(files=(File(name=f"demo-{key[:8]}.png", mime="image/png", data=data),))


def _twice(file: File) -> bytes:
    picture = open_picture(file)
    size = picture.width * UPSCALE, picture.height * UPSCALE
    return as_png(picture.resize(size, Image.Resampling.LANCZOS))


async def _output(output: Output) -> Output:
    return output


def _chance(word: str) -> float:
    """Return a number from 0 to 1 that depends on the word alone, so that runs repeat."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") / 2**64
