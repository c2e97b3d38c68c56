"""How the tests of text servers connect, ask and check answers."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from PIL import Image
from pydantic import JsonValue

from backends.openai.backend import OpenAI
from backends.registry import connect
from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    File,
    Output,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.fakes.llm.llm import FakeLlm as Fake

ANSWER = "the cat sat on the mat"
TOLD = ("lmstudio", "ollama", "llamacpp-router", "llamaswap")  # those that load and unload
MUTE = ("llama-cpp-python", "generic")  # those that do not report what is loaded
ALL = (*TOLD, "lmstudio-0.3", "llamacpp", "vllm", *MUTE)


def model(name: str = "alpha", **options: JsonValue) -> ModelSpec:
    return ModelSpec(
        name=name,
        backends=("b",),
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        options=options,
    )


def work(text: str = "tell me", *, files: tuple[File, ...] = (), **fields: JsonValue) -> Work:
    images = tuple(range(len(files)))
    message = ChatMessage(role="user", text=text, images=images)
    return Work(
        key="k", request=Chat.model_validate({"messages": (message,), **fields}), files=files
    )


def image(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> File:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return File(name="x", mime="image/x", data=buffer.getvalue())


@asynccontextmanager
async def connected(server: Fake, **options: JsonValue) -> AsyncIterator[OpenAI]:
    kind = "lmstudio" if server.kind.startswith("lmstudio") else "openai"
    backend = connect(BackendSpec(name="b", kind=kind, url=server.url, options=options))
    assert isinstance(backend, OpenAI)
    try:
        yield backend
    finally:
        await backend.aclose()


async def answer(backend: OpenAI, spec: ModelSpec, job: Work) -> Output:
    fetch = await backend.run(spec, job, lambda _: None)
    return await fetch()
