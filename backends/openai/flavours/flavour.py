"""Base class of text server flavours: how to identify one kind of server and manage its models.

Flavours implement only these control calls; answers are read in the same way for all. They keep no
state and always ask the server which models are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.model_server import LoadWish, ServedModel
from backends.common.server_replies import ServerReply, ask, read, require_key
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec


class Chunk(ServerReply):
    """A whole answer, of which only the number of choices is used."""

    choices: tuple[JsonValue, ...] | None = None


MB = 1024 * 1024


class Listed(ServerReply):
    """An entry of /v1/models, including llama.cpp's additions."""

    class Status(ServerReply):
        """llama.cpp's router and llama-swap: unloaded, loading, loaded, sleeping."""

        value: str = ""
        failed: bool = False
        exit_code: int | None = None

    class Architecture(ServerReply):
        """llama.cpp's router: accepted inputs."""

        input_modalities: tuple[str, ...] = ()

    class Meta(ServerReply):
        """llama.cpp: `size` of the weights in bytes, `n_ctx` the context of each slot."""

        size: int | None = None
        n_ctx: int | None = None

    id: str
    aliases: tuple[str, ...] | None = None
    owned_by: str | None = None
    status: Status | None = None
    architecture: Architecture | None = None
    meta: Meta = Meta()
    max_model_len: int | None = None  # the context of vLLM and SGLang
    context_length: int | None = None  # the same of gateways

    @property
    def context(self) -> int | None:
        """The context in tokens, if the server reports it."""
        return self.max_model_len or self.context_length or self.meta.n_ctx


class Listing(ServerReply):
    """GET /v1/models."""

    data: tuple[Listed, ...]


async def listing(http: Http) -> tuple[Listed, ...]:
    """Return the entries of GET /v1/models, which every server supports."""
    return read(Listing, await http.get_json("/v1/models")).data


async def post_settled(http: Http, path: str, body: JsonValue, settled: str) -> None:
    """POST and ignore the response. An error containing `settled` means nothing is to be done."""
    try:
        async with http.stream_lines(path, body, read_s=60.0):  # llama-swap's answer is not JSON
            pass
    except HttpRefused as error:
        if settled not in error.body:
            raise


def in_mb(size: int | None) -> int | None:
    """Return a size in bytes as MB; None if unknown."""
    return None if size is None else round(size / MB)


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioForm:
    """The paths of a server's speech calls, None for those it lacks, and the fields they accept.

    - `always`: form fields of every transcription.
    - `any_language`: sent as the language if none is requested.
    - `segments`: whether the server can send segments, which are requested when needed.
    - `silence`: request segments always, because they show how likely each one is silent.
    - `translate`: the field that requests a translation, if there is no path for it.
    - `words`: the template that puts expected words into the prompt.
    - `tokens`: the field that limits the length of an answer.
    - `spoken`: fields of every text to read aloud.
    - `voice`: the default voice.
    - `mixes`: whether voices can be combined (`a+b`).
    """

    transcriptions: str | None = "/v1/audio/transcriptions"
    translations: str | None = "/v1/audio/translations"
    speech: str | None = "/v1/audio/speech"
    always: Mapping[str, str] = field(default_factory=dict)
    any_language: str | None = None
    segments: bool = True
    silence: bool = False
    translate: str | None = None
    words: str = "{}"
    tokens: str | None = None
    voice: str | None = None
    mixes: bool = False
    spoken: Mapping[str, JsonValue] = field(default_factory=dict)


SILENT = AudioForm(transcriptions=None, translations=None, speech=None)
"""A server without speech calls."""


KEPT = -1  # Ollama: no expiry; a request without it would reset the expiry


IMAGES = frozenset({"JPEG", "PNG", "WEBP"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Served(ServedModel):
    """A model as its server lists it. None means that the server does not report the value.

    - `instances`: the names of its copies, if they have names.
    - `parallel`: how many answers one copy writes at once.
    - `context`: the context length in tokens of each answer.
    - `size_mb`, `taken_mb`: the size of the weights, and the memory that a copy uses.
    - `hears`: whether it transcribes speech.
    - `speaks`: whether it reads aloud, in one of its `voices`.
    """

    vision: bool | None = None
    chats: bool = True
    embeds: bool | None = None
    embeds_images: bool | None = None
    hears: bool | None = None
    speaks: bool | None = None
    voices: tuple[str, ...] = ()
    parallel: int | None = None
    context: int | None = None
    size_mb: int | None = None
    taken_mb: int | None = None
    instances: tuple[str, ...] = ()


class ImageForm(StrEnum):
    """How a server accepts an image to embed; `NONE` means that it does not."""

    NONE = "none"
    MESSAGES = "messages"  # one image per call, as a conversation of one message
    MEDIA = "media"  # among the texts, with a marker for each image's position


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingForm:
    """How a kind of server embeds, and which inputs it accepts.

    `own` means that `path` is a call of the server's own API, used because OpenAI's call would
    silently cut long texts.
    """

    path: str = "/v1/embeddings"
    own: bool = False
    tokens: bool = True
    images: ImageForm = ImageForm.NONE


class Flavour:
    """One kind of server. The base class handles any server that lists models and answers requests.

    Methods raise the `BackendError`s of `Http`; `load` also raises `OutOfMemory`.
    """

    name: ClassVar[str] = "generic"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm()
    can_unload: ClassVar[bool] = False
    stops_loads: ClassVar[bool] = False
    # whether its answers name the requested model, so any other name is an error
    exact: ClassVar[bool] = False
    # whether a request loads an unloaded model, possibly evicting others
    eager: ClassVar[bool] = False
    chat_path: ClassVar[str] = "/v1/chat/completions"
    text_path: ClassVar[str] = "/v1/completions"
    # path for a prompt with a text after the gap; None if unsupported
    suffix_path: ClassVar[str | None] = "/v1/completions"
    prompt_tokens: ClassVar[bool] = True  # accepts a prompt of token numbers
    echoes: ClassVar[bool] = True  # can return the prompt with its log probabilities
    # the request fields it knows in addition to OpenAI's
    extra: ClassVar[frozenset[str]] = frozenset({"top_k", "min_p"})
    json_object: ClassVar[bool] = True  # accepts `response_format: json_object`
    text_parts: ClassVar[bool] = True  # accepts a message of several texts
    images: ClassVar[frozenset[str]] = IMAGES  # image formats it can read in a message
    nameless: ClassVar[bool] = False  # has one model and ignores the model name in a request
    # whether an answer that another request interrupts ends without a finish reason
    interrupts: ClassVar[bool] = False
    # whether it silently cuts what exceeds its context
    cuts: ClassVar[bool] = False
    # its speech calls
    sounds: ClassVar[AudioForm] = AudioForm()
    note: ClassVar[str] = (
        "This server cannot load or unload on request, and does not report what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None if it is not of this flavour."""
        return "OpenAI-compatible server" if await ask(http, "/v1/models", Listing) else None

    async def admit(self, http: Http) -> None:
        """Try the key where questions are sent, because a list of models may be public."""
        await require_key(http, self.chat_path)

    async def notes(self, http: Http) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """Return notes for the operator, for `usher check`."""
        return (self.note,) if self.note else ()

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the server's models. Must be cheap, because it is called often."""
        return tuple(Served(id=each.id, context=each.context) for each in await listing(http))

    async def unlisted(self, http: Http) -> tuple[Served, ...]:  # noqa: ARG002 - for others
        """Return models that are in memory but not listed by `served`."""
        return ()

    async def details(self, http: Http, served: Served) -> Served:  # noqa: ARG002 - for others
        """Return the entry with details that need a separate call, such as vision."""
        return served

    async def audio(self, http: Http) -> AudioForm:  # noqa: ARG002 - for others
        """Return the server's speech calls."""
        return self.sounds

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Request a load; may return before it is complete."""

    async def unload(self, http: Http, served: Served) -> None:
        """Request the unload of every copy; may return before it is complete."""


WRITES = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
AUDIBLE = frozenset({Capability.SPEECH_TO_TEXT, Capability.TEXT_TO_SPEECH})
HONOURED = {
    Capability.TEXT_TO_SPEECH: frozenset({"voice", "speed", "instructions", "format"}),
    Capability.SPEECH_TO_TEXT: frozenset(
        {"language", "prompt", "temperature", "translate", "timestamps"}
    ),
}
"""The request fields that people choose and that are sent to speech servers."""
EMBEDS = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})


def honoured(model: ModelSpec) -> frozenset[str]:
    """Return the request fields that a model honours."""
    fields = (HONOURED[each] for each in HONOURED if each in model.capabilities)
    return frozenset[str]().union(*fields)


def able(served: Served) -> frozenset[Capability]:
    """Return the capabilities that a server reports for a model."""
    reported = {
        Capability.TEXT_TO_TEXT: served.chats,
        Capability.VISION: served.chats and served.vision,
        Capability.EMBEDDING: served.embeds,
        Capability.IMAGE_EMBEDDING: served.embeds and served.embeds_images,
        Capability.SPEECH_TO_TEXT: served.hears,
        Capability.TEXT_TO_SPEECH: served.speaks,
    }
    return frozenset(each for each, told in reported.items() if told)


def lacks(model: ModelSpec, served: Served, flavour: Flavour) -> str | None:
    """Return a configured capability that the server's model lacks, in words, or None."""
    meant = model.capabilities
    if Capability.VISION in meant and served.vision is False:
        return "see images"
    if meant & EMBEDS and served.embeds is False:
        return "make embeddings"
    if Capability.SPEECH_TO_TEXT in meant and served.hears is False:
        return "transcribe"
    if Capability.TEXT_TO_SPEECH in meant and served.speaks is False:
        return "read aloud"
    takes_none = served.embeds_images is False or flavour.embedding.images is ImageForm.NONE
    return "embed images" if Capability.IMAGE_EMBEDDING in meant and takes_none else None
