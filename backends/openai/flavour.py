"""What a flavour is: how one kind of text server lists, loads, unloads and identifies itself.

A flavour uses only these control calls; answering is the same everywhere. Flavours hold no state:
what is loaded is asked, not remembered. `Generic` is the flavour that knows nothing more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from backends.common.http import Http
from backends.common.replies import ask
from backends.openai.audio.form import AudioForm
from backends.openai.replies import Listing, listing

PICTURES = frozenset({"JPEG", "PNG", "WEBP"})
SUFFIX = re.compile(r"(:latest|:\d+|@[\w-]+|\.gguf)$")  # tag, LM Studio's instance or variant, file


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A model as its server lists it.

    `names` are all names it answers to, `instances` its copies if they have names. `failed` is why
    its last load failed; `parallel` how many answers one copy writes at once, `context` how many
    tokens each may have, `size_mb` the size of its weights, `taken_mb` the memory that a copy takes now. `hears` tells whether it writes down
    speech, `speaks` whether it reads aloud, in one of its `voices`. None means that the server does
    not report the value.
    """

    id: str
    names: frozenset[str] = frozenset()
    loaded: bool | None = None
    failed: str | None = None
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


class ModelNames:
    """Finds a listed model by name: exactly, otherwise by what distinguishes models.

    With `nameless`, any name means the server's one model.
    """

    def __init__(self, listed: Sequence[Served], *, nameless: bool = False) -> None:
        known = [(name, served) for served in listed for name in (served.id, *served.names)]
        self._only = listed[0] if nameless and listed else None
        self._by_name = {plain(name): served for name, served in known} | dict(known)

    def find(self, name: str) -> Served | None:
        """Return the model of that name, or None."""
        return self._only or self._by_name.get(name) or self._by_name.get(plain(name))


def plain(name: str) -> str:
    """Return a name in comparable form: no folder, no case, no suffix that means the same model."""
    return SUFFIX.sub("", name.rpartition("/")[2].casefold())


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


@dataclass(frozen=True, slots=True)
class LoadWish:
    """How a model is to be loaded: with how many tokens of context, and whether to stay.

    Unless it is to be `kept`, the server drops it when it wants.
    """

    context_length: int | None = None
    kept: bool = False


class Flavour(Protocol):
    """One kind of server. Methods raise `BackendError`s as `Http` does, `OutOfMemory` in `load`.

    `load` and `unload` only send the request: the caller holds the model's lock, has checked first,
    and polls `served` until it has happened.
    """

    name: ClassVar[str]
    embedding: ClassVar[EmbeddingForm]
    can_unload: ClassVar[bool]
    exact: ClassVar[bool]  # its answers name the requested model, so any other name is a fault
    eager: ClassVar[bool]  # a request loads a model that is not loaded, and may evict others for it
    chat_path: ClassVar[str]
    text_path: ClassVar[str]
    suffix_path: ClassVar[str | None]  # where a prompt with a text after the gap is sent
    prompt_tokens: ClassVar[bool]  # it takes a prompt of token numbers
    echoes: ClassVar[bool]  # it can return the prompt with its log probabilities
    extra: ClassVar[frozenset[str]]  # of a request's fields beside OpenAI's, those it knows
    json_object: ClassVar[bool]  # it takes `response_format: json_object`
    text_parts: ClassVar[bool]  # it takes a message of several texts
    pictures: ClassVar[frozenset[str]]  # the kinds of pictures it can read in a message
    interrupts: ClassVar[bool]  # an answer that another request broke off ends without a reason
    sounds: ClassVar[AudioForm]  # how it is asked to write down and to read aloud, as a rule
    nameless: ClassVar[bool]  # it has one model, and does not look at the name in a request

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None if it is not of this flavour."""

    async def notes(self, http: Http) -> tuple[str, ...]:
        """Return what an operator should know about it, for `usher check`."""

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the server's models; cheap, called often."""

    async def unlisted(self, http: Http) -> tuple[Served, ...]:
        """Return what is in memory and is not among the server's models."""

    async def details(self, http: Http, served: Served) -> Served:
        """Return an entry completed with details that cost a call of their own (vision)."""

    async def audio(self, http: Http) -> AudioForm:
        """Return how it is asked to write down and to read aloud."""

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Request a load; may return before it is done."""

    async def unload(self, http: Http, served: Served) -> None:
        """Request that every copy be unloaded; may return before that is done."""


class Generic:
    """Any compatible server: it lists and answers, and nothing else is known about it."""

    name: ClassVar[str] = "generic"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm()
    can_unload: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    chat_path: ClassVar[str] = "/v1/chat/completions"
    text_path: ClassVar[str] = "/v1/completions"
    suffix_path: ClassVar[str | None] = "/v1/completions"
    prompt_tokens: ClassVar[bool] = True
    echoes: ClassVar[bool] = True
    extra: ClassVar[frozenset[str]] = frozenset({"top_k", "min_p"})
    json_object: ClassVar[bool] = True
    text_parts: ClassVar[bool] = True
    pictures: ClassVar[frozenset[str]] = PICTURES
    nameless: ClassVar[bool] = False
    interrupts: ClassVar[bool] = False
    sounds: ClassVar[AudioForm] = AudioForm()
    note: ClassVar[str] = (
        "This server cannot load or unload on request, and does not say what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Return a name for any server that lists its models."""
        return "OpenAI-compatible server" if await ask(http, "/v1/models", Listing) else None

    async def notes(self, http: Http) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's signature
        """Return the note, if there is one."""
        return (self.note,) if self.note else ()

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the list, without knowing what is loaded."""
        return tuple(Served(id=entry.id) for entry in await listing(http))

    async def unlisted(self, http: Http) -> tuple[Served, ...]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: what such a server has in memory is among its models."""
        return ()

    async def details(self, http: Http, served: Served) -> Served:  # noqa: ARG002 - the protocol's signature
        """Return the entry: nothing more can be asked."""
        return served

    async def audio(self, http: Http) -> AudioForm:  # noqa: ARG002 - the protocol's signature
        """Return the usual form."""
        return self.sounds

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Do nothing: the server loads when it wants."""

    async def unload(self, http: Http, served: Served) -> None:
        """Do nothing: the server has no such call."""
