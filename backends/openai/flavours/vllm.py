"""vLLM: one model per process, loaded for the process's lifetime."""

from typing import ClassVar

from backends.common.http import Http
from backends.common.server_replies import ServerReply, ask
from backends.openai.flavours.flavour import (
    AudioForm,
    EmbeddingForm,
    Flavour,
    ImageForm,
    Served,
    listing,
)

BATCH = 4  # it does not report how many answers it writes at once; it can write many


class VllmVersion(ServerReply):
    """GET /version."""

    version: str


class VLlm(Flavour):
    """vLLM: one model per process, loaded for the process's lifetime."""

    name: ClassVar[str] = "vllm"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(images=ImageForm.MESSAGES)
    suffix_path: ClassVar[str | None] = None
    extra: ClassVar[frozenset[str]] = frozenset(
        {
            "top_k",
            "min_p",
            "repetition_penalty",
            "min_tokens",
            "reasoning_effort",
            "chat_template_kwargs",
            "structured_outputs",
            "continue_final_message",
            "add_generation_prompt",
        }
    )
    exact: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(speech=None)
    note: ClassVar[str] = (
        "vLLM keeps its model loaded, so its memory is never free for other models. It refuses"
        " sounds of more than 600 s or 25 MB; Usher sends two minutes at a time if"
        " usher-bot[media] is installed."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /version."""
        answer = await ask(http, "/version", VllmVersion)
        return f"vLLM {answer.version}" if answer else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the listed models; all of them are loaded."""
        return tuple(
            Served(id=entry.id, loaded=True, parallel=BATCH, context=entry.max_model_len)
            for entry in await listing(http)
        )
