"""Text servers for the backend contract: fakes of each kind, and a real one if named.

`USHER_OPENAI_URL` names a running OpenAI-compatible server and `USHER_OPENAI_MODEL` one of its
models (default: the first it offers). llama.cpp, alone or behind llama-swap, and vLLM have calls
that tell whether they are busy.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from backends.common.http import Http
from backends.registry import connect
from queueing.core.requests import Capability, Chat, ChatMessage, Embed, Request
from queueing.core.specs import BackendSpec, ModelSpec
from tests.contracts.backend.backend_harness import CONTROL, FORM, Harness, Opens, Server
from tests.fakes.llm.llm import KINDS, FakeLlm, Model, serving

URL = os.environ.get("USHER_OPENAI_URL", "")


def writer(name: str = "alpha", **options: str | int) -> ModelSpec:
    return ModelSpec(
        name=name,
        backends=("b",),
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        options=options,
    )


def ask(max_tokens: int | None = None) -> Chat:
    messages = (ChatMessage(role="user", text="tell me of the cat"),)
    return Chat(messages=messages, max_tokens=max_tokens)


def embedder(name: str = "alpha") -> ModelSpec:
    return ModelSpec(name=name, backends=("b",), capabilities=frozenset({Capability.EMBEDDING}))


@asynccontextmanager
async def _fake_embedder(kind: str) -> AsyncIterator[Harness]:
    async with serving(kind, [Model("alpha", chats=False, embeds=True)]) as server:
        server.pace_s = 0.002
        quick = Embed(inputs=("a cat", "a dog", "a bird"))
        long = Embed(inputs=tuple(f"sentence {n}" for n in range(20_000)))
        async with _opened(kind, server, embedder, quick, long) as harness:
            yield harness


@asynccontextmanager
async def _fake(kind: str) -> AsyncIterator[Harness]:
    async with serving(kind) as server:
        server.words, server.pace_s = ["word"] * 5000, 0.004
        async with _opened(kind, server, writer, ask(3), ask()) as harness:
            yield harness


@asynccontextmanager
async def _opened(
    kind: str, server: FakeLlm, named: Callable[[str], ModelSpec], quick: Request, long: Request
) -> AsyncIterator[Harness]:
    name = "lmstudio" if kind.startswith("lmstudio") else "openai"
    backend = connect(BackendSpec(name="b", kind=name, url=server.url))

    async def busy() -> bool:
        return server.running > 0

    await backend.load(named("alpha"))
    yield Harness(
        backend=backend,
        model=named("alpha"),
        quick=quick,
        long=long,
        busy=busy,
        absent=named("gamma"),
        unusable=writer(max_tokens=-1),
        die=server.stop,
    )
    await backend.aclose()


@asynccontextmanager
async def _real() -> AsyncIterator[Harness]:
    backend = connect(BackendSpec(name="b", kind="openai", url=URL))
    server = Http(URL)
    offered = (await backend.discover())[0].options["model"]
    model = writer("real", model=os.environ.get("USHER_OPENAI_MODEL") or str(offered))

    kind = (await backend.probe()).description

    async def busy() -> bool:
        if "vLLM" in kind:
            return await _busy_vllm(server)
        name = str(model.options["model"])
        return await _busy_llamacpp(server, name, f"/upstream/{name}" if "swap" in kind else "")

    await backend.load(model)
    yield Harness(
        backend=backend,
        model=model,
        quick=ask(8),
        long=ask(1500),
        busy=busy,
        absent=writer("no-such-model"),
        unusable=writer(max_tokens=-1),
    )
    await backend.aclose()
    await server.aclose()


async def _busy_llamacpp(server: Http, model: str, below: str) -> bool:
    slots = await server.get_json(f"{below}/slots", params={"model": model})
    assert isinstance(slots, list)
    return any(isinstance(slot, dict) and slot["is_processing"] for slot in slots)


async def _busy_vllm(server: Http) -> bool:
    figures, _ = await server.get_bytes("/metrics", limit=10_000_000)
    running = [line for line in figures.splitlines() if line.startswith(b"vllm:num_requests_runn")]
    assert running
    return any(float(line.rsplit(b" ", 1)[1]) > 0 for line in running)


_WHOLE = {"lmstudio", "ollama", "generic"}  # tried with every promise
# Answering is the same code for all others (see `backends.openai.flavours.flavour`).
_ANSWERING = CONTROL | {"test_a_run_reports_and_its_output_can_be_fetched_again"}


def _writing(kind: str) -> Server:
    opens = partial(_fake, kind)
    if kind in _WHOLE:
        return Server(opens=opens)
    like = "lmstudio" if kind.startswith("lmstudio") else "generic"
    return Server(opens=opens, flavour_of=like, differs=_ANSWERING)


def _embedding(kind: str) -> Server:
    opens = partial(_fake_embedder, kind)
    if kind == "generic":
        return Server(opens=opens)
    return Server(opens=opens, flavour_of="generic-embeddings", differs=FORM)


HARNESSES = {
    **{kind: _writing(kind) for kind in KINDS},
    **{f"{kind}-embeddings": _embedding(kind) for kind in KINDS},
}
EXTERNAL: dict[str, Opens] = {"openai-real": _real} if URL else {}
