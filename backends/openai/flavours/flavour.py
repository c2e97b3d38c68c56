"""What a flavour is: how one kind of text server lists, loads, unloads and identifies itself.

A flavour uses only these control calls; answering is the same everywhere. Flavours hold no state:
what is loaded is asked, not remembered.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from backends.common.http import Http
from backends.common.model_server import LoadWish, ServedModel
from backends.common.replies import ask
from backends.openai.flavours.form import AudioForm
from backends.openai.flavours.replies import Listing, listing

KEPT = -1  # Ollama: without expiry; a request without this would end that


PICTURES = frozenset({"JPEG", "PNG", "WEBP"})


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
    embeds_pictures: bool | None = None
    hears: bool | None = None
    speaks: bool | None = None
    voices: tuple[str, ...] = ()
    parallel: int | None = None
    context: int | None = None
    size_mb: int | None = None
    taken_mb: int | None = None
    instances: tuple[str, ...] = ()


class PictureForm(StrEnum):
    """How a server takes a picture to embed; `NONE` takes none."""

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
    pictures: PictureForm = PictureForm.NONE


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
    pictures: ClassVar[frozenset[str]] = PICTURES  # the kinds of pictures it can read in a message
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
