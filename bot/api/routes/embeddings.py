"""`POST /v1/embeddings`: returns a vector for each text, token array or image."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from bot.api.calls.callers import Caller
from bot.api.calls.request_files import RequestImages
from bot.api.openai.embeddings import EmbeddingCall, Given, GivenImage, Vectors, given_in
from bot.api.openai.records import read
from bot.api.runs.answers import AnswerSender
from bot.api.runs.submitter import FindFile, Submitter
from queueing.core.requests import Capability, Embed, EmbedInput, File, ImageInput


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingRoute:
    """Serves embeddings. A batch is one job."""

    submitting: Submitter
    answering: AnswerSender
    images: RequestImages

    async def __call__(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Answer one call. Raises `ApiError`."""
        taken = self.images.of(caller)
        asked = await read(EmbeddingCall, request)
        needs = Capability.IMAGE_EMBEDDING
        find = self.submitting.finding(request, caller, asked.model, [needs], taken.named)
        inputs, files = await with_images(given_in(asked.input), find)
        wanted = Embed(inputs=inputs, dimensions=asked.dimensions)
        job = await self.submitting.submit(request, caller, asked.model, wanted, files)
        packed = asked.encoding_format == "base64"
        vectors = Vectors(model=asked.model, count=len(inputs), packed=packed)
        # These are large and already stored, while the caller may wait for minutes.
        del asked, inputs, wanted, files, find, taken
        return await self.answering.whole(request, job, vectors.whole)


async def with_images(
    given: Sequence[Given], find: FindFile
) -> tuple[tuple[EmbedInput, ...], tuple[File, ...]]:
    """Convert the inputs for the queue, with their images as files. Raises `ApiError`."""
    inputs: list[EmbedInput] = []
    files: list[File] = []
    for each in given:
        if isinstance(each, GivenImage):
            inputs.append(ImageInput(image=len(files), text=each.text))
            files.append(await find(each.url, each.param))
        else:
            inputs.append(each)
    return tuple(inputs), tuple(files)
