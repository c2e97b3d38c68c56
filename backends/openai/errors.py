"""Classifies a text server's errors for the queue and for the person. Pure.

Servers differ in status, shape and words, so the words decide first; statuses cannot be trusted (LM
Studio answers errors with 200, llama.cpp a refused picture with 500).
"""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from queueing.core.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    OutOfMemory,
    Rejected,
    Unavailable,
)
from queueing.core.problems import Problem, What, problem

TOO_LONG = problem(What.TOO_LONG)
NO_PICTURES = problem(What.BLIND)
NO_MODEL = problem(What.NO_MODEL)
REFUSED = problem(What.REFUSED)
NO_EMBEDDINGS = problem(What.NO_EMBEDDINGS)
NO_PICTURE_EMBEDDINGS = problem(What.NO_PICTURE_EMBEDDINGS)
NO_TOKENS = problem(What.NO_TOKENS)
NO_DIMENSIONS = problem(What.NO_DIMENSIONS)
NO_SUFFIX = problem(What.NO_SUFFIX)
NO_SPEECH = problem(What.NO_SPEECH)
NO_HEARING = problem(What.NO_HEARING)
NO_TRANSLATION = problem(What.NO_TRANSLATION)
NOTHING_SAID = problem(What.NOTHING_SAID)
BAD_SOUND = problem(What.BAD_SOUND)
LONG_SOUND = problem(What.LONG_SOUND)
NO_VOICE = problem(What.NO_VOICE)
CAUSE_LIMIT = 300  # characters of a server's words that reach the log

Kind = type[BackendError]

MEMORY = (
    "insufficient system resources",
    "out of memory",
    "failed to allocate",
    "unable to allocate",
    "requires more system memory",
    "cudamalloc failed",
    "sigabrt",
    "model_load_failed",
    "failed to load",
    "model limit reached",  # llama.cpp's router: every model it may keep is busy
)
CONTEXT = (
    "exceed_context_size",
    "context_length_exceeded",
    "context size",
    "context length",
    "context window",
    "context the overflows",  # LM Studio's own words
    "input length exceeds",
    "too large to process",  # llama.cpp: an embedding must fit into one physical batch
)
PICTURES = (
    "does not support image",
    "image input is not supported",
    "must be a base64 encoded image",
    "not a multimodal model",
    "failed to load image",
)
EMBEDS = (
    "does not support embedding",
    "not support the embeddings api",
    "not an embedding model",
    "is not embedding",
    "pooling type 'none'",
)
DIMENSIONS = ("matryoshka", "output dimensions")
SUFFIX = (
    "infill is not supported",
    "does not support insert",
    "suffix is not currently supported",
    "unsupported param: suffix",
)
DEAF = (
    "does not support audio",
    "audio input is not supported",
    "does not support transcriptions",
    "does not support translations",
)
BAD_SOUNDS = (
    "failed to read audio",
    "failed to decode audio",
    "failed to read wav",
    "invalid or unsupported audio",
    "unsupported audio",
)
LONG_SOUNDS = (
    "maximum file size",
    "maximum content size",
    "clip duration",
    "audio duration",
    "audio file is too",
)
VOICES = (
    "available voices",
    "voice name",
    "voice not found",
    "voice profile",
    "unknown voice",
    "invalid voice",
    "unsupported voice",
)
AWAY = (
    "no models loaded",
    "model is not loaded",
    "model not loaded",
    "model unloaded",
    "has been unloaded",
    "was unloaded",
)
TOKEN = ("invalid_api_key", "api token is required", "invalid api key", "unauthorized")
CRASHED = ("has crashed", "channel error", "engine process", "llama runner process")
TEMPLATE = ("jinja", "chat template", "prompt template", "roles must alternate")
UNKNOWN = (
    "model_not_found",
    "not found",
    "not installed",
    "does not exist",
    "no such model",
    "unsupported model",
    "unexpected endpoint",
)
# The first row with one of its words in the answer decides, so the order matters: "No models
# loaded" carries the code "model_not_found", a refused token may speak of a model.
RULES: Sequence[tuple[tuple[str, ...], Kind, Problem | None]] = (
    (EMBEDS, Rejected, NO_EMBEDDINGS),
    (DIMENSIONS, Rejected, NO_DIMENSIONS),
    (PICTURES, Rejected, NO_PICTURES),
    (SUFFIX, Rejected, NO_SUFFIX),
    (DEAF, Rejected, NO_HEARING),
    (LONG_SOUNDS, Rejected, LONG_SOUND),
    (BAD_SOUNDS, Rejected, BAD_SOUND),
    (VOICES, Rejected, NO_VOICE),
    (MEMORY, OutOfMemory, None),
    (TOKEN, Unavailable, None),
    (CONTEXT, Rejected, TOO_LONG),
    (CRASHED, Unavailable, None),  # not NotLoaded: a request that crashes an engine must be charged
    (AWAY, NotLoaded, None),
    (TEMPLATE, Rejected, REFUSED),
    (UNKNOWN, BadModel, NO_MODEL),
)
BY_STATUS: Mapping[int, Kind] = {
    401: Unavailable,
    403: Unavailable,
    408: Unavailable,
    429: Unavailable,
}


def classify(status: int, body: JsonValue) -> BackendError:
    """Return the error a server's answer stands for; `body` is its text or parsed JSON."""
    said = words_of(body)
    cause = f"status {status}: {said[:CAUSE_LIMIT]!a}"
    folded = said.casefold()
    for words, kind, told in RULES:
        if kind is BadModel and status >= 500:
            continue  # a broken server lacks files of its own
        if any(word in folded for word in words):
            return kind(cause, problem=told)
    if 400 <= status < 500 and status not in BY_STATUS:
        return Rejected(cause, problem=REFUSED)
    return Unavailable(cause)


def wants_token(status: int, body: JsonValue) -> bool:
    """Return whether a server refuses because the right token is missing."""
    return status in {401, 403} or any(word in words_of(body).casefold() for word in TOKEN)


def words_of(body: JsonValue) -> str:
    """Return a server's own description: message, type and code of an error object, or text."""
    if isinstance(body, str):
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            return body
        return words_of(parsed) if isinstance(parsed, dict) else body
    if isinstance(body, dict) and isinstance(error := body.get("error", body), dict):
        parts = [error.get(key) for key in ("message", "type", "code")]
        said = " ".join(str(part) for part in parts if part)
        return said or json.dumps(error)
    return words_of(body["error"]) if isinstance(body, dict) else json.dumps(body)
