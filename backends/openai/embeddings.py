"""Embeds a batch on a text server piece by piece, and checks each response.

A response must have one vector for each input. All vectors must have the same length (the requested
one, if any) and contain only finite numbers.
"""

from array import array
from binascii import a2b_base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from time import perf_counter
from typing import Any, TypeAlias

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import JSON_LIMIT, parse_json
from backends.common.server_replies import ServerReply, ask
from backends.common.vectors import Vector, texts_file, unpacked, vectors_file
from backends.openai.chat.completion import require_same, silence_s
from backends.openai.chat.request import data_url
from backends.openai.flavours.errors import (
    NO_DIMENSIONS,
    NO_IMAGE_EMBEDDINGS,
    NO_TOKENS,
    classified,
    classify,
)
from backends.openai.flavours.flavour import KEPT, EmbeddingForm, Flavour, ImageForm, Served
from queueing.core.bounded_json import parsed
from queueing.core.errors import BackendError, Rejected, UnreadableAnswer
from queueing.core.ports import Report
from queueing.core.requests import Embed, EmbedInput, File, ImageInput, Output, Progress
from queueing.core.specs import Timeouts


class Marked(ServerReply):
    """GET /props of llama.cpp: the marker for an image in a text."""

    media_marker: str = "<__media__>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Inputs for one model: its requested name, and `look_up` to ask the server for it again."""

    request: Embed
    files: Sequence[File]
    model_id: str
    timeouts: Timeouts
    look_up: Callable[[], Awaitable[Served]]
    kept: bool = False  # keep it loaded without expiry
    at_once: dict[str, int] = field(
        default_factory=dict
    )  # by model: how many inputs it answers within `SOON_S`


async def body_of(
    http: Http, form: EmbeddingForm, batch: Batch, piece: Sequence[EmbedInput]
) -> JsonValue:
    """Return the body for a piece of a batch. Raises `Rejected` for unsupported inputs."""
    if not form.tokens and any(isinstance(given, tuple) for given in piece):
        raise Rejected("the server does not accept tokens", problem=NO_TOKENS)
    body: dict[str, JsonValue] = {"model": batch.model_id}
    images = [given for given in piece if isinstance(given, ImageInput)]
    if images and form.images is ImageForm.NONE:
        raise Rejected("the server cannot embed images", problem=NO_IMAGE_EMBEDDINGS)
    if images and form.images is ImageForm.MESSAGES:
        body["messages"] = [await _message(images[0], batch.files)]
    else:
        marker = await _marker(http) if images else ""
        body["input"] = [await _one(given, batch.files, marker) for given in piece]
    if form.own:  # refuse long texts instead of cutting them
        body |= {"truncate": False, **({"keep_alive": KEPT} if batch.kept else {})}
    else:
        body["encoding_format"] = "base64"  # decimal numbers take ten times as long to parse
    if batch.request.dimensions is not None:
        body["dimensions"] = batch.request.dimensions
    return body


async def _one(given: EmbedInput, files: Sequence[File], marker: str) -> JsonValue:
    match given:
        case str():
            return given
        case ImageInput():
            data = (await data_url(files, given.image)).partition(",")[2]
            return {"prompt_string": f"{marker}{given.text}", "multimodal_data": [data]}
    return list(given)


async def _message(given: ImageInput, files: Sequence[File]) -> JsonValue:
    parts: list[JsonValue] = [
        {"type": "image_url", "image_url": {"url": await data_url(files, given.image)}}
    ]
    if given.text:
        parts.append({"type": "text", "text": given.text})
    return {"role": "user", "content": parts}


async def _marker(http: Http) -> str:
    props = await ask(http, "/props", Marked)
    return props.media_marker if props else Marked().media_marker


INPUTS_AT_ONCE = 32  # the limit of some servers
SIZE_AT_ONCE = 100_000  # characters or tokens
SOON_S = 1.0  # longest time for a larger piece, for progress and prompt cancellation
ANSWER_SIZE = 8_000_000  # bytes of base64 in one answer
_FLOAT = 4  # bytes
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_KNOWN = bytes(each if each in _LETTERS else ord("!") for each in range(256))
# Three floats are 16 base64 letters. A non-finite float has one of these letters at one of these
# positions, because all bits of its exponent are set.
_EXPONENTS = ((4, b"f/"), (10, b"89+/"), (15, b"/"))
Row: TypeAlias = "bytes | Vector"
"""A vector as validated base64 text or as numbers."""


async def embed(http: Http, flavour: Flavour, batch: Batch, report: Report) -> Output:
    """Return the vectors of a batch, reporting each piece.

    Cancelling closes the connection, which stops the server's work. Raises `BackendError`s.
    """
    form, request = flavour.embedding, batch.request
    rows: list[Row] = []
    tokens, most, grows = 0, batch.at_once.get(batch.model_id, INPUTS_AT_ONCE), True
    while len(rows) < len(request.inputs):
        piece = next_piece(request.inputs, len(rows), form, most)
        began = perf_counter()
        try:
            told = await _request(http, flavour, batch, piece)
        except BackendError:
            if len(piece) <= INPUTS_AT_ONCE:
                raise
            most, grows = INPUTS_AT_ONCE, False  # the piece may have been too large
            batch.at_once.pop(batch.model_id, None)
            continue
        rows += told.rows
        tokens += told.tokens
        _require_length([*rows[:1], *told.rows], request.dimensions)
        if grows and len(piece) >= INPUTS_AT_ONCE:
            most = _most(told.rows, perf_counter() - began)
            batch.at_once[batch.model_id] = most
        report(Progress(fraction=len(rows) / len(request.inputs)))
    return Output(files=(_file(rows),), answer=f'{{"prompt_tokens": {tokens}}}')


async def _request(
    http: Http, flavour: Flavour, batch: Batch, piece: Sequence[EmbedInput]
) -> "VectorAnswer":
    form = flavour.embedding
    body = await body_of(http, form, batch, piece)
    with classified():
        answer = await http.post_for_bytes(
            form.path, body, timeout_s=silence_s(batch.timeouts), limit=JSON_LIMIT
        )
        told = await parsed(lambda data: _read(parse_json(data), form, len(piece)), answer)
        if told.model is not None:
            await require_same(flavour, batch.model_id, batch.look_up, told.model)
    return told


def next_piece(
    inputs: Sequence[EmbedInput], at: int, form: EmbeddingForm, most: int
) -> Sequence[EmbedInput]:
    """Return the next piece of a batch: at most `most` inputs, to be sent in one call."""
    piece: list[EmbedInput] = []
    size = 0
    for given in islice(inputs, at, at + most):
        alone = isinstance(given, ImageInput) and form.images is ImageForm.MESSAGES
        size += 0 if isinstance(given, ImageInput) else len(given)
        if piece and (alone or size > SIZE_AT_ONCE):
            break
        piece.append(given)
        if alone:
            break
    return piece


def _most(rows: Sequence[Row], took_s: float) -> int:
    """Return how many inputs the server can answer within `SOON_S`, judging by the time for `rows`.

    Pieces do not grow for servers that send decimal numbers, which are slow to parse.
    """
    if not isinstance(rows[0], bytes):
        return INPUTS_AT_ONCE
    soon = int(len(rows) * SOON_S / max(took_s, 0.001))
    return max(INPUTS_AT_ONCE, min(soon, ANSWER_SIZE // len(rows[0])))


def _file(rows: Sequence[Row]) -> File:
    """Return the vectors as a file: base64 if all came as base64, or else floats."""
    texts = [row for row in rows if isinstance(row, bytes)]
    if len(texts) == len(rows):
        return texts_file(texts)
    return vectors_file(unpacked(a2b_base64(r)) if isinstance(r, bytes) else r for r in rows)


# ---------------------------------------------------------------- answers


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorAnswer:
    """One response: vectors in the order of the inputs, the tokens read, and the model."""

    rows: Sequence[Row]
    tokens: int = 0
    model: str | None = None


def _read(answer: JsonValue, form: EmbeddingForm, count: int) -> VectorAnswer:
    if not isinstance(answer, dict):
        raise _unexpected("not an object")
    if answer.get("error") or answer.get("object") == "error":  # old versions of vLLM
        raise classify(200, answer)
    rows = answer.get("embeddings") if form.own else _in_order(answer.get("data"))
    if not isinstance(rows, list) or len(rows) != count:
        raise _unexpected(f"{len(rows) if isinstance(rows, list) else 'no'} vectors for {count}")
    usage = answer.get("usage")
    tokens = answer.get("prompt_eval_count") if form.own else _field(usage, "prompt_tokens")
    model = answer.get("model")
    return VectorAnswer(
        rows=[_checked(row) for row in rows],
        tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0,
        model=model if isinstance(model, str) and model else None,
    )


def _in_order(data: JsonValue) -> list[JsonValue]:
    """Return the vectors of OpenAI's form by index, or in order of appearance without one."""
    if not isinstance(data, list):
        raise _unexpected("no data")
    found: dict[int, JsonValue] = {}
    for at, row in enumerate(data):
        index = _field(row, "index")
        found[index if isinstance(index, int) else at] = _field(row, "embedding")
    if sorted(found) != list(range(len(data))):
        raise _unexpected("the vectors' indexes do not match the inputs")
    return [found[index] for index in range(len(data))]


def _checked(row: JsonValue) -> Row:
    """Return a validated vector; servers without base64 support send numbers."""
    given: Any = row  # raises for anything but a list of numbers
    try:
        if isinstance(row, str):
            given = row.encode("ascii")
            whole, finite = _is_base64(given), _is_finite(given)
        else:
            given = array("f", given)
            whole, finite = len(given) > 0, isfinite(sum(given))
    except (TypeError, OverflowError, ValueError):
        raise _unexpected("a vector contains something other than numbers") from None
    if not whole or not finite:
        raise _unexpected("a vector is empty or contains a number that is not finite")
    checked: Row = given
    return checked


def _is_base64(row: bytes) -> bool:
    """Return whether a text is base64 of whole floats; decoding it would take twice as long."""
    letters = row.rstrip(b"=")
    size = len(letters) * 6 // 8
    whole = len(row) % 4 == 0 and len(row) - len(letters) <= 2 and size % _FLOAT == 0
    return whole and size > 0 and b"!" not in letters.translate(_KNOWN)


def _is_finite(row: bytes) -> bool:
    """Return whether all numbers are finite; decodes them only if one may not be."""
    for at, letters in _EXPONENTS:
        part = row[at::16]
        if any(letter in part for letter in letters):
            return isfinite(sum(unpacked(a2b_base64(row))))
    return True


def _require_length(rows: Sequence[Row], dimensions: int | None) -> None:
    lengths = set(map(_length, rows))
    if len(lengths) > 1:
        raise _unexpected("the vectors differ in length")
    if dimensions is not None and lengths != {dimensions}:
        cause = f"asked for {dimensions} dimensions, got {lengths.pop()}"
        raise Rejected(cause, problem=NO_DIMENSIONS)


def _length(row: Row) -> int:
    if isinstance(row, bytes):
        return (len(row) // 4 * 3 - row.count(b"=", -2)) // _FLOAT
    return len(row)


def _field(value: JsonValue, name: str) -> JsonValue:
    return value.get(name) if isinstance(value, dict) else None


def _unexpected(cause: str) -> UnreadableAnswer:
    return UnreadableAnswer(f"unexpected answer: {cause}")
