"""What a flavour is: how one kind of text server lists, loads, unloads and identifies itself.

A flavour uses only these control calls; answering is the same everywhere. Flavours hold no state:
what is loaded is asked, not remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.model_server import LoadWish, ServedModel
from backends.common.server_replies import ask
from backends.openai.flavours.replies import Listing, listing
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioForm:
    """The paths of a server's calls for speech, None for those it lacks, and what it takes.

    `always` and `told` are form fields of every transcription, and of one whose language is known.
    With `silence` it tells how likely each segment is no speech, so its segments are always asked
    for; otherwise only with `segments`, and only where a request wants them. Without a path for
    translations, `translate` is the field that asks for one. `words` is how words that may occur are
    put into the prompt, `tokens` the field that bounds an answer. `spoken` are fields of every text
    to read aloud, `voice` reads where none is named, and `mixes` tells whether several may read as
    one (`a+b`).
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
"""A server without any call for speech."""


KEPT = -1  # Ollama: without expiry; a request without this would end that


IMAGES = frozenset({"JPEG", "PNG", "WEBP"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Served(ServedModel):
    """A model as its server lists it.

    `instances` are its copies if they have names; `parallel` is how many answers one copy writes at
    once, `context` how many tokens each may have, `size_mb` the size of its weights, `taken_mb` the
    memory that a copy takes now. `hears` tells whether it writes down speech, `speaks` whether it
    reads aloud, in one of its `voices`. None means that the server does not report the value.
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
    """How a server takes an image to embed; `NONE` takes none."""

    NONE = "none"
    MESSAGES = "messages"  # one a call, as a conversation of one message
    MEDIA = "media"  # among the texts, with a mark where it belongs


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingForm:
    """How a kind of server is asked for vectors, and what it takes.

    `own` is the path of its own call where OpenAI's would cut long texts silently.
    """

    path: str = "/v1/embeddings"
    own: bool = False
    tokens: bool = True
    images: ImageForm = ImageForm.NONE


class Flavour:
    """One kind of server; itself any that lists and answers, and of which nothing else is known.

    Methods raise `BackendError`s as `Http` does, `OutOfMemory` in `load`.
    """

    name: ClassVar[str] = "generic"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm()
    can_unload: ClassVar[bool] = False
    # its answers name the requested model, so any other name is a fault
    exact: ClassVar[bool] = False
    # a request loads a model that is not loaded, and may evict others for it
    eager: ClassVar[bool] = False
    chat_path: ClassVar[str] = "/v1/chat/completions"
    text_path: ClassVar[str] = "/v1/completions"
    # where a prompt with a text after the gap is sent
    suffix_path: ClassVar[str | None] = "/v1/completions"
    prompt_tokens: ClassVar[bool] = True  # it takes a prompt of token numbers
    echoes: ClassVar[bool] = True  # it can return the prompt with its log probabilities
    # of a request's fields beside OpenAI's, those it knows
    extra: ClassVar[frozenset[str]] = frozenset({"top_k", "min_p"})
    json_object: ClassVar[bool] = True  # it takes `response_format: json_object`
    text_parts: ClassVar[bool] = True  # it takes a message of several texts
    images: ClassVar[frozenset[str]] = IMAGES  # the kinds of images it can read in a message
    nameless: ClassVar[bool] = False  # it has one model, and does not look at the name in a request
    # an answer that another request broke off ends without a reason
    interrupts: ClassVar[bool] = False
    # how it is asked to write down and to read aloud, as a rule
    sounds: ClassVar[AudioForm] = AudioForm()
    note: ClassVar[str] = (
        "This server cannot load or unload on request, and does not say what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None if it is not of this flavour."""
        return "OpenAI-compatible server" if await ask(http, "/v1/models", Listing) else None

    async def notes(self, http: Http) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """Return what an operator should know about it, for `usher check`."""
        return (self.note,) if self.note else ()

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the server's models; cheap, called often."""
        return tuple(Served(id=entry.id) for entry in await listing(http))

    async def unlisted(self, http: Http) -> tuple[Served, ...]:  # noqa: ARG002 - for others
        """Return what is in memory and is not among the server's models."""
        return ()

    async def details(self, http: Http, served: Served) -> Served:  # noqa: ARG002 - for others
        """Return an entry completed with details that cost a call of their own (vision)."""
        return served

    async def audio(self, http: Http) -> AudioForm:  # noqa: ARG002 - for others
        """Return how it is asked to write down and to read aloud."""
        return self.sounds

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Request a load; may return before it is done."""

    async def unload(self, http: Http, served: Served) -> None:
        """Request that every copy be unloaded; may return before that is done."""


WRITES = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
AUDIBLE = frozenset({Capability.SPEECH_TO_TEXT, Capability.TEXT_TO_SPEECH})
HONOURED = {
    Capability.TEXT_TO_SPEECH: frozenset({"voice", "speed", "instructions", "format"}),
    Capability.SPEECH_TO_TEXT: frozenset(
        {"language", "prompt", "temperature", "translate", "timestamps"}
    ),
}
"""The fields of requests that people choose and servers are told."""
EMBEDS = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})


def honoured(model: ModelSpec) -> frozenset[str]:
    """Return the fields of its requests that a model honours."""
    fields = (HONOURED[each] for each in HONOURED if each in model.capabilities)
    return frozenset[str]().union(*fields)


def able(served: Served) -> frozenset[Capability]:
    """Return what a server reports that a model can do."""
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
    """Return in words what the model is meant to do and the server cannot, None if nothing."""
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
