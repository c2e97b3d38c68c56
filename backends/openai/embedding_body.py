"""Builds the body of a call for vectors: texts and tokens as they are, pictures as servers take them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.replies import ServerReply, ask
from backends.openai.chat_request import data_url
from backends.openai.flavours.errors import NO_PICTURE_EMBEDDINGS, NO_TOKENS
from backends.openai.flavours.flavour import KEPT, EmbeddingForm, PictureForm, Served
from queueing.core.catalog import Timeouts
from queueing.core.errors import Rejected
from queueing.core.requests import Embed, EmbedInput, File, PictureInput


class Marked(ServerReply):
    """GET /props of llama.cpp: what stands in a text for a picture."""

    media_marker: str = "<__media__>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Inputs for a model: the name it is requested by, and how to look it up again."""

    request: Embed
    files: Sequence[File]
    model_id: str
    timeouts: Timeouts
    look_up: Callable[[], Awaitable[Served]]
    kept: bool = False  # in memory for as long as an admin wants
    at_once: dict[str, int] = field(default_factory=dict)  # inputs that a model answers soon


async def body_of(
    http: Http, form: EmbeddingForm, batch: Batch, piece: Sequence[EmbedInput]
) -> JsonValue:
    """Return the body for a piece of a batch. Raises `Rejected` for what the server does not take."""
    if not form.tokens and any(isinstance(given, tuple) for given in piece):
        raise Rejected("the server takes no tokens", problem=NO_TOKENS)
    body: dict[str, JsonValue] = {"model": batch.model_id}
    pictures = [given for given in piece if isinstance(given, PictureInput)]
    if pictures and form.pictures is PictureForm.NONE:
        raise Rejected("the server embeds no pictures", problem=NO_PICTURE_EMBEDDINGS)
    if pictures and form.pictures is PictureForm.MESSAGES:
        body["messages"] = [await _message(pictures[0], batch.files)]
    else:
        marker = await _marker(http) if pictures else ""
        body["input"] = [await _one(given, batch.files, marker) for given in piece]
    if form.own:  # a text that is too long is refused, not cut
        body |= {"truncate": False, **({"keep_alive": KEPT} if batch.kept else {})}
    else:
        body["encoding_format"] = "base64"  # numbers in words take ten times as long to read
    if batch.request.dimensions is not None:
        body["dimensions"] = batch.request.dimensions
    return body


async def _one(given: EmbedInput, files: Sequence[File], marker: str) -> JsonValue:
    match given:
        case str():
            return given
        case PictureInput():
            data = (await data_url(files, given.picture)).partition(",")[2]
            return {"prompt_string": f"{marker}{given.text}", "multimodal_data": [data]}
    return list(given)


async def _message(given: PictureInput, files: Sequence[File]) -> JsonValue:
    parts: list[JsonValue] = [
        {"type": "image_url", "image_url": {"url": await data_url(files, given.picture)}}
    ]
    if given.text:
        parts.append({"type": "text", "text": given.text})
    return {"role": "user", "content": parts}


async def _marker(http: Http) -> str:
    props = await ask(http, "/props", Marked)
    return props.media_marker if props else Marked().media_marker
