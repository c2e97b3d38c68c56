"""A text or speech server: the flavours it may have, its models, their contexts and memory."""

from collections.abc import Mapping, Sequence

from backends.common.http import Http
from backends.common.model_server import ModelList, ModelServer, plain
from backends.openai.flavours.flavour import Flavour, Served
from backends.openai.flavours.koboldcpp import KoboldCpp
from backends.openai.flavours.llamacpp import LlamaCpp, LlamaCppPython, LlamaCppRouter, LlamaSwap
from backends.openai.flavours.localai import LocalAiServer
from backends.openai.flavours.ollama import Ollama
from backends.openai.flavours.speech_servers import Kokoro, Speaches, WhisperCpp
from backends.openai.flavours.vllm import VLlm

FLAVOURS: Mapping[str, type[Flavour]] = {
    flavour.name: flavour
    for flavour in (
        LlamaSwap,
        LocalAiServer,  # also answers like Ollama and vLLM
        KoboldCpp,  # also answers like Ollama
        Ollama,
        LlamaCppRouter,
        LlamaCpp,
        VLlm,
        Speaches,
        Kokoro,
        LlamaCppPython,
        WhisperCpp,
        Flavour,
    )
}
"""By the name in the option `flavour`, in detection order. A server that also answers the calls of
other flavours comes before them. `Flavour` comes last.
"""


WEIGHTS_TO_VRAM = (
    1.2  # memory of a copy relative to its weights, including context and working memory
)
OVERHEAD_MB = 512


class TextServer(ModelServer[Flavour, Served]):
    """A model server that remembers the context length of each listed model."""

    def __init__(
        self, http: Http, backend: str, flavours: Sequence[Flavour], *, stranger: str
    ) -> None:
        super().__init__(http, backend, flavours, stranger=stranger)
        self._contexts: dict[str, int | None] = {}

    async def listed(self) -> ModelList[Served]:
        """Return the server's models."""
        listed = await super().listed()
        for served in listed.all:
            names = (served.id, *served.names, plain(served.id)) if served.context else ()
            self._contexts |= dict.fromkeys(names, served.context)
        return listed

    def context(self, name: str) -> int | None:
        """Return the context length that was last reported for a model; None if there was none."""
        return self._contexts.get(name) or self._contexts.get(plain(name))


def taken_mb(served: Served) -> int:
    """Return a copy's memory as reported, or else estimated from its weights; 0 if unknown."""
    if served.taken_mb is not None:
        return served.taken_mb
    return estimated_mb(served) or 0


def estimated_mb(served: Served) -> int | None:
    """Return the memory of a copy as estimated from its weights; None if they are unknown."""
    return round(served.size_mb * WEIGHTS_TO_VRAM) + OVERHEAD_MB if served.size_mb else None
