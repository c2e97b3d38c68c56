"""Maps text servers' errors to errors for the queue and problems for people. Pure.

Errors that blame the caller are recognised by their words, whatever the status: llama.cpp rejects
an image with 500, and LM Studio sends errors with 200.
"""

from collections.abc import Sequence
from functools import partial

from backends.common.error_rules import (
    ABOUT_MEMORY,
    REFUSED,
    ErrorRule,
    answers_judged,
    judged,
    judged_answer,
)
from backends.common.model_server import NO_MODEL
from queueing.core.errors import (
    BadModel,
    Busy,
    ModelCrashed,
    NotLoaded,
    ProblemKind,
    Rejected,
    problem,
)

TOO_LONG = problem(ProblemKind.TOO_LONG)
NO_IMAGES = problem(ProblemKind.BLIND)
NO_EMBEDDINGS = problem(ProblemKind.NO_EMBEDDINGS)
NO_IMAGE_EMBEDDINGS = problem(ProblemKind.NO_IMAGE_EMBEDDINGS)
NO_TOKENS = problem(ProblemKind.NO_TOKENS)
NO_DIMENSIONS = problem(ProblemKind.NO_DIMENSIONS)
NO_SUFFIX = problem(ProblemKind.NO_SUFFIX)
NO_SPEECH = problem(ProblemKind.NO_SPEECH)
NO_HEARING = problem(ProblemKind.NO_HEARING)
NO_TRANSLATION = problem(ProblemKind.NO_TRANSLATION)
NOTHING_SAID = problem(ProblemKind.NOTHING_SAID)
BAD_SOUND = problem(ProblemKind.BAD_SOUND)
LONG_SOUND = problem(ProblemKind.LONG_SOUND)
NO_VOICE = problem(ProblemKind.NO_VOICE)
CONTEXT = (
    "context size",
    "context length",
    "context window",
    "context the overflows",  # sic, LM Studio
    "input length exceeds",
    "too large to process",  # llama.cpp: an embedding must fit into one physical batch
    "longer than the model's context",  # SGLang
    "greater than max_seq_len",  # TabbyAPI
    "longer than the cache size",  # ExLlama, with status 503
)
IMAGES = (
    "does not support image",
    "image input is not supported",
    "must be a base64 encoded image",
    "not a multimodal model",
    "failed to load image",
    "vision add-on is not loaded",
    "missing data required for image input",
)
EMBEDS = (
    "does not support embedding",
    "not support the embeddings api",
    "not an embedding model",
    "is not embedding",
    "is not oai compatible",  # llama.cpp with the pooling type "none"
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
TEMPLATE = ("jinja", "chat template", "prompt template", "roles must alternate")
# The first match decides, so the order matters: "No models loaded" carries the code
# "model_not_found", which alone means that there is no such model.
RULES: Sequence[ErrorRule] = (
    ErrorRule(
        kind=Rejected,
        told=TOO_LONG,
        codes=frozenset({"exceed_context_size_error", "context_length_exceeded"}),
    ),
    ErrorRule(kind=Rejected, told=NO_EMBEDDINGS, words=EMBEDS),
    ErrorRule(kind=Rejected, told=NO_DIMENSIONS, words=DIMENSIONS),
    ErrorRule(
        kind=Rejected,
        told=NO_IMAGES,
        words=IMAGES,
        sentences=("failed to deserialize .*unknown variant `image_url`.*",),
    ),
    ErrorRule(kind=Rejected, told=NO_SUFFIX, words=SUFFIX),
    ErrorRule(kind=Rejected, told=NO_HEARING, words=DEAF),
    ErrorRule(kind=Rejected, told=LONG_SOUND, words=LONG_SOUNDS),
    ErrorRule(kind=Rejected, told=BAD_SOUND, words=BAD_SOUNDS),
    ErrorRule(kind=Rejected, told=NO_VOICE, words=VOICES),
    *ABOUT_MEMORY,
    ErrorRule(kind=Rejected, told=TOO_LONG, words=CONTEXT),
    # Not `NotLoaded`: a request that crashes an engine must be charged.
    ErrorRule(
        kind=ModelCrashed,
        sentences=(
            "the model has crashed( without [a-z ]+)?[.]?(( the model was unloaded[.])? [(]exit .*)?",
            "channel error",
            "llama runner process (has terminated|no longer running).*",
            "model runner has unexpectedly stopped.*",
            "engine( ?core)? (process|encountered an issue|loop is not running).*",
        ),
    ),
    ErrorRule(kind=Busy, sentences=("server busy[.]?(, please try again.*)?",)),
    ErrorRule(
        kind=NotLoaded,
        sentences=(
            "no models loaded[.]?( please load a model .*)?",
            "model (is )?not loaded[.]?",
            "model unloaded( by the user)?[.]?",
            "the model (has been|was) unloaded[.]?( [(][^{]*)?",
        ),
    ),
    ErrorRule(kind=Rejected, told=REFUSED, words=TEMPLATE),
    ErrorRule(
        kind=BadModel,
        told=NO_MODEL,
        codes=frozenset({"model_not_found"}),
        sentences=(
            "(the )?model ['\"`][^'\"`]*['\"`] (was )?(not found|does not exist)[.,]?( (please|try) .*)?",
            "(the )?model ['\"`][^'\"`]*['\"`] is not installed.*",
            "unsupported model.*",
            "no such model.*",
            "unexpected endpoint or method.*",
        ),
    ),
)

classify = partial(judged, RULES)
classify_answer = partial(judged_answer, RULES)
classified = partial(answers_judged, RULES)
