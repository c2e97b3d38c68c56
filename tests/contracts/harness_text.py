"""Text servers and the demo for the backend contract: fakes of each kind, and a real one if named.

`USHER_OPENAI_URL` names a running OpenAI-compatible server, `USHER_OPENAI_MODEL` one of its models
(default: the first it offers); llama.cpp, alone or behind llama-swap, and vLLM tell by calls of their
own whether they are busy.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from backends.common.http import Http
from backends.demo.backend import Demo
from backends.registry import connect
from queueing.core.catalog import BackendSpec, ModelSpec
from queueing.core.ports import Fetch, Recorded, Report, at_once
from queueing.core.requests import Capability, Chat, ChatMessage, TextToImage, Work
from tests.contracts.backend_harness import Harness, Opens
from tests.fakes.llm import KINDS, serving

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


@asynccontextmanager
async def _fake(kind: str) -> AsyncIterator[Harness]:
    async with serving(kind) as server:
        server.words, server.pace_s = ["word"] * 5000, 0.004
        name = "lmstudio" if kind.startswith("lmstudio") else "openai"
        backend = connect(BackendSpec(name="b", kind=name, url=server.url))

        async def busy() -> bool:
            return server.running > 0

        await backend.load(writer())
        yield Harness(
            backend=backend,
            model=writer(),
            quick=ask(3),
            long=ask(),
            busy=busy,
            absent=writer("gamma"),
            unusable=writer(max_tokens=-1),
            die=server.stop,
        )
        await backend.aclose()


class CountingDemo(Demo):
    """Counts what runs; the demo has no server that could be asked."""

    running = 0

    async def run(
        self, model: ModelSpec, work: Work, report: Report, recorded: Recorded = at_once
    ) -> Fetch:
        self.running += 1
        try:
            return await super().run(model, work, report, recorded)
        finally:
            self.running -= 1


@asynccontextmanager
async def _demo(*, draws: bool) -> AsyncIterator[Harness]:
    options = {"load_s": 0, "step_s": 0.001}
    backend = CountingDemo(BackendSpec(name="d", kind="demo", options=options))
    painter, author = await backend.discover()
    model = painter if draws else author

    async def busy() -> bool:
        return backend.running > 0

    await backend.load(model)
    drawing = partial(TextToImage, prompt="a cat", width=64, height=64)
    yield Harness(
        backend=backend,
        model=model,
        quick=drawing(steps=3) if draws else ask(),
        long=drawing(steps=200, count=4) if draws else ask(),
        busy=busy,
        unusable=writer(fail_rate=7),
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


HARNESSES: dict[str, Opens] = {
    "demo-pictures": partial(_demo, draws=True),
    "demo-texts": partial(_demo, draws=False),
    **{kind: partial(_fake, kind) for kind in KINDS},
}
EXTERNAL: dict[str, Opens] = {"openai-real": _real} if URL else {}
