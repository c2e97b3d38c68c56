"""Maps text servers' errors to errors for the queue and problems for people. Pure.

Errors that blame the caller are recognised by their words, whatever the status: llama.cpp rejects
an image with 500, and LM Studio sends errors with 200.
"""

import re
from collections.abc import Sequence
from functools import partial

from backends.common.error_rules import (
    ABOUT_CONTENT,
    ABOUT_MEMORY,
    NO_ROOM,
    REFUSED,
    ErrorRule,
    answers_judged,
    judged,
    judged_answer,
    words_of,
)
from backends.common.model_server import NO_MODEL
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    ModelCrashed,
    NotLoaded,
    ProblemKind,
    Rejected,
    ShortOfMemory,
    problem,
)

TOO_LONG = problem(ProblemKind.TOO_LONG)
LACKS_ROOM = problem(ProblemKind.NO_ROOM)
NOT_ON_REQUEST = problem(ProblemKind.NOT_ON_REQUEST)
NOTHING_LOADED = ("no models loaded[.]?( please load a model .*)?",)
"""LM Studio's message if it has no model and loads none on request."""
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
    "longer than the maximum model length",  # vLLM
    "inputs` must have less than",  # TGI
    "prompt is too long",  # Anthropic and its gateways
    "prompt too long",  # Ollama
    "exceeds the maximum number of tokens",  # Gemini
    "too many tokens: size limit exceeded",  # Cohere
)
MANY_IMAGES = (
    "image(s) may be provided",  # vLLM
    "supports a single image",  # Ollama, also the next one
    "supports one image",
    "too many images",
    "only one image",
    "multiple images",
    "number of images",
)
IMAGES = (
    "does not support image",
    "image input is not supported",
    "must be a base64 encoded image",
    "not a multimodal model",
    "failed to load image",
    "vision add-on is not loaded",
    "missing data required for image input",
    "support image input",  # OpenRouter: no endpoint does
    "no multimodal support",  # MLX
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
_SETTINGS = ("temperature", "max_tokens")  # of `TextOptions`, each of which is sent if it is set
TEMPLATE = ("jinja", "chat template", "prompt template")
NO_SYSTEM = (
    "system role not supported",
    "system role is not supported",
    "system role isn't supported",
    "system messages are not supported",
    "system message is not supported",
    "does not support system",
    "not support the system role",
    "developer instruction is not enabled",  # Gemini's API, of Gemma
)
_JINJA = 'error rendering prompt with jinja template: "'  # LM Studio; the template's words follow


class SystemRefused(Rejected):
    """The model's chat template refuses the request, perhaps because it has no system role."""


class TooManyImages(Rejected):
    """The model takes fewer images in one request."""


_MOST = re.compile(
    r"(?:at most|up to|maximum(?: is| of|:)?|limit(?: is| of|:)?|supports) (\d{1,2})\b"
)


def images_at_most(error: BackendError) -> int:
    """Return the limit of images that a refusal names, or 1 if it names none."""
    found = _MOST.search(words_of(error.answer).casefold())
    return max(1, int(found[1])) if found else 1


def _about_setting(name: str) -> ErrorRule:
    """Return the rule for a server that does not take a setting, or not its value."""
    return ErrorRule(
        kind=Rejected,
        told=problem(ProblemKind.SETTING, name=name),
        sentences=(
            f"unsupported (value|parameter): '{name}'.*",  # OpenAI
            rf"(litellm[.]\w+: )?\w+ does not support parameters: \['{name}'.*",  # LiteLLM
            f"invalid {name} value.*",  # DeepSeek
            f"[`']?{name}[`']? (is too large|is not supported|must be less than or equal to).*",
        ),
    )


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
        sentences=(
            "at most 0 image.*",  # vLLM
            "failed to deserialize .*unknown variant `image_url`.*",
            "only 'text' content type is supported.*",  # MLX
        ),
    ),
    ErrorRule(kind=TooManyImages, told=problem(ProblemKind.MANY_IMAGES), words=MANY_IMAGES),
    ABOUT_CONTENT,
    *map(_about_setting, _SETTINGS),
    ErrorRule(kind=Rejected, told=NO_SUFFIX, words=SUFFIX),
    ErrorRule(kind=Rejected, told=NO_HEARING, words=DEAF),
    ErrorRule(kind=Rejected, told=LONG_SOUND, words=LONG_SOUNDS),
    ErrorRule(kind=Rejected, told=BAD_SOUND, words=BAD_SOUNDS),
    ErrorRule(kind=Rejected, told=NO_VOICE, words=VOICES),
    *ABOUT_MEMORY,
    # A 4xx is final, and any other status may only be of this moment.
    ErrorRule(kind=ShortOfMemory, told=LACKS_ROOM, sentences=NO_ROOM),
    ErrorRule(kind=Rejected, told=LACKS_ROOM, sentences=NO_ROOM),
    ErrorRule(
        kind=Rejected,
        told=TOO_LONG,
        words=CONTEXT,
        sentences=("(input validation error: )?`inputs` tokens [+] `max_new_tokens` must be.*",),
    ),
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
    ErrorRule(
        kind=Busy,
        sentences=(
            "(the )?(server|model)( is)?( currently)? (busy|overloaded)[.;,]?( please try .*)?",
            "service is too busy[.].*",  # DeepSeek
            "(the )?(server|model)( [^ ]+)? is ((currently|still) )?loading[.;,]?( please .*)?",
            "loading model[.]?",  # llama.cpp
            "no slots? available[.]?",
            "the request queue is full[.]?",  # SGLang
        ),
    ),
    ErrorRule(kind=NotLoaded, told=NOT_ON_REQUEST, sentences=NOTHING_LOADED),
    ErrorRule(
        kind=NotLoaded,
        sentences=(
            "model (is )?not loaded[.]?",
            "model unloaded( by the user)?[.]?",
            "the model (has been|was) unloaded[.]?( [(][^{]*)?",
        ),
    ),
    ErrorRule(
        kind=SystemRefused,
        told=problem(ProblemKind.SETTING, name="system"),
        words=NO_SYSTEM,
        sentences=(f'{_JINJA}[^"]*system (role|messages?)[^"]* not supported[^"]*".*',),
    ),
    ErrorRule(  # the templates of older Mistral models mean the system role, too
        kind=SystemRefused,
        told=REFUSED,
        words=("roles must alternate", "only user and assistant roles"),
        sentences=(f"{_JINJA}(conversation )?roles must alternate.*",),
    ),
    ErrorRule(kind=Rejected, told=REFUSED, words=TEMPLATE),
    ErrorRule(
        kind=BadModel,
        told=NO_MODEL,
        codes=frozenset(
            {
                "model_not_found",
                "model_decommissioned",  # Groq
                "deploymentnotfound",  # Azure
                "key_model_access_denied",  # LiteLLM, whose key is for other models
                "team_model_access_denied",
            }
        ),
        sentences=(
            "(the )?model ['\"`][^'\"`]*['\"`] (was )?(not found|does not exist)[.,]?( (please|try) .*)?",
            "(the )?model ['\"`][^'\"`]*['\"`] is not installed.*",
            "unsupported model.*",
            "no such model.*",
            "unexpected endpoint or method.*",
            "[^ ]+ is not a valid model id[.]?",  # OpenRouter, also the next one
            "no endpoints found for [^ ]+",
        ),
    ),
)

classify = partial(judged, RULES)
classify_answer = partial(judged_answer, RULES)
classified = partial(answers_judged, RULES)
