"""Asks a text server for vectors, one piece of a batch after the other, and checks what comes back.

An answer is never passed on as it came: it must have one vector for each input, all of one length,
of finite numbers, and of the length that was asked for.
"""

import sys
from array import array
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any

from pydantic import JsonValue

from backends.common.http import Http
from backends.openai.answer import classified, require_same, silence_s
from backends.openai.embedding_body import Batch, body_of
from backends.openai.errors import NO_DIMENSIONS, classify
from backends.openai.flavour import EmbeddingForm, Flavour, PictureForm
from queueing.core.errors import Rejected, UnreadableAnswer
from queueing.core.ports import Report
from queueing.core.requests import EmbedInput, Output, PictureInput, Progress
from queueing.core.vectors import Vector, vectors_file

INPUTS_AT_ONCE = 32
SIZE_AT_ONCE = 100_000  # characters or tokens


async def embed(http: Http, flavour: Flavour, batch: Batch, report: Report) -> Output:
    """Return the vectors of a batch, reporting each piece.

    Cancelling closes the connection, which stops the server's work. Raises `BackendError`s.
    """
    form, request = flavour.embedding, batch.request
    vectors: list[Vector] = []
    tokens = 0
    for piece in pieces(request.inputs, form):
        body = await body_of(http, form, batch, piece)
        with classified():
            path, limit_s = form.path, silence_s(batch.timeouts)
            answer = await http.post_json(path, body, timeout_s=limit_s)
            told = _read(answer, form, len(piece))
            if told.model is not None:
                await require_same(flavour, batch.model_id, batch.look_up, told.model)
        vectors += told.vectors
        tokens += told.tokens
        _require_length([*vectors[:1], *told.vectors], request.dimensions)
        report(Progress(fraction=len(vectors) / len(request.inputs)))
    return Output(files=(vectors_file(vectors),), answer=f'{{"prompt_tokens": {tokens}}}')


def pieces(inputs: Sequence[EmbedInput], form: EmbeddingForm) -> Iterator[list[EmbedInput]]:
    """Yield a batch in pieces that a server answers soon; each is one call."""
    piece: list[EmbedInput] = []
    size = 0
    for given in inputs:
        alone = isinstance(given, PictureInput) and form.pictures is PictureForm.MESSAGES
        length = 0 if isinstance(given, PictureInput) else len(given)
        if piece and (alone or len(piece) == INPUTS_AT_ONCE or size + length > SIZE_AT_ONCE):
            yield piece
            piece, size = [], 0
        piece.append(given)
        size += length
        if alone:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


# ---------------------------------------------------------------- answers


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorAnswer:
    """The vectors of one answer in the order of its inputs, the tokens read, and who answered."""

    vectors: Sequence[Vector]
    tokens: int = 0
    model: str | None = None


def _read(answer: JsonValue, form: EmbeddingForm, count: int) -> VectorAnswer:
    if not isinstance(answer, dict):
        raise _unexpected("no object")
    if answer.get("error") or answer.get("object") == "error":  # old versions of vLLM
        raise classify(200, answer)
    rows = answer.get("embeddings") if form.own else _in_order(answer.get("data"))
    if not isinstance(rows, list) or len(rows) != count:
        raise _unexpected(f"{len(rows) if isinstance(rows, list) else 'no'} vectors for {count}")
    usage = answer.get("usage")
    tokens = answer.get("prompt_eval_count") if form.own else _field(usage, "prompt_tokens")
    model = answer.get("model")
    return VectorAnswer(
        vectors=[_vector(row) for row in rows],
        tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0,
        model=model if isinstance(model, str) and model else None,
    )


def _in_order(data: JsonValue) -> list[JsonValue]:
    """Return the vectors of OpenAI's form by their index; without one, in order of appearance."""
    if not isinstance(data, list):
        raise _unexpected("no data")
    found: dict[int, JsonValue] = {}
    for at, row in enumerate(data):
        index = _field(row, "index")
        found[index if isinstance(index, int) else at] = _field(row, "embedding")
    if sorted(found) != list(range(len(data))):
        raise _unexpected("the indexes of the vectors are not those of the inputs")
    return [found[index] for index in range(len(data))]


def _vector(row: JsonValue) -> Vector:
    """Return a vector: servers that know no base64 send its numbers."""
    vector: Vector = array("f")
    numbers: Any = row  # anything but a list of numbers raises
    try:
        if isinstance(row, str):
            vector.frombytes(b64decode(row, validate=True))
            if sys.byteorder == "big":
                vector.byteswap()
        else:
            vector = array("f", numbers)
    except (TypeError, OverflowError, ValueError):
        raise _unexpected("a vector holds something other than numbers") from None
    if not vector or not _is_finite(vector):
        raise _unexpected("a vector is empty, or holds a number that is not finite")
    return vector


def _is_finite(vector: Vector) -> bool:
    """Return whether all numbers are finite; adding them takes long, and is rarely needed."""
    data = vector.tobytes()
    high = data[3::4] if sys.byteorder == "little" else data[::4]  # sign and most of the exponent
    return not (b"\x7f" in high or b"\xff" in high) or isfinite(sum(vector))


def _require_length(vectors: Sequence[Vector], dimensions: int | None) -> None:
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise _unexpected("the vectors differ in length")
    if dimensions is not None and lengths != {dimensions}:
        cause = f"asked for {dimensions} dimensions, got {next(chain(lengths))}"
        raise Rejected(cause, problem=NO_DIMENSIONS)


def _field(value: JsonValue, name: str) -> JsonValue:
    return value.get(name) if isinstance(value, dict) else None


def _unexpected(cause: str) -> UnreadableAnswer:
    return UnreadableAnswer(f"unexpected answer: {cause}")
