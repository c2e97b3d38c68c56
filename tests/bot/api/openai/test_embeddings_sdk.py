"""Embeddings from end to end: OpenAI's package, Usher, and a real model on its own server."""

from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI

from tests.bot.api.whole_api import Api, running

pytest.importorskip("wordllama", reason="the embedding model has no wheel for this Python")
from tests.fakes.servers.embedding_server import DIMENSIONS, MODEL, serving_sentences, vectors

CONFIG = """
hosts:
  box: {{vram: 24GB, backends: {{server: {{kind: openai, url: "{url}"}}}}}}
models:
  sentences:
    backends: [server]
    capabilities: [embedding]
    model: {model}
    vram: 1GB
    aliases: [text-embedding-3-small]
chats: {{}}
api: {{port: 0, open: true}}
"""
KNOWN = [
    "The cat sleeps on the warm sofa.",
    "Interest rates were raised by the central bank.",
    "The graphics GPU ran out of memory.",
    "She baked bread with rye flour.",
]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with (
        serving_sentences() as url,
        running(tmp_path, CONFIG.format(url=url, model=MODEL)) as api,
    ):
        yield api


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=api.url, api_key="none", max_retries=0) as client:
        yield client


def nearest(one: list[float], others: list[list[float]]) -> int:
    likeness = [sum(a * b for a, b in zip(one, other, strict=True)) for other in others]
    return likeness.index(max(likeness))


async def test_the_nearest_sentence_is_found(client: AsyncOpenAI) -> None:
    """Vectors in another order, or of another text, would find another sentence."""
    cases: list[tuple[str, int]] = [
        ("Where is the kitten napping?", 0),
        ("What did the bank do about rates?", 1),
        ("Is there enough memory on the GPU?", 2),
        ("Which flour is in the loaf?", 3),
    ]
    for question, place in cases:
        answer = await client.embeddings.create(model="sentences", input=[*KNOWN, question])
        *known, asked = [row.embedding for row in answer.data]
        assert nearest(asked, known) == place, question


async def test_both_formats_are_the_models_own_numbers(client: AsyncOpenAI) -> None:
    """The package asks for base64 unless told otherwise, and decodes it itself."""
    expected = [array("f", row).tolist() for row in vectors(KNOWN)]
    usual = await client.embeddings.create(model="sentences", input=KNOWN)
    floats = await client.embeddings.create(model="sentences", input=KNOWN, encoding_format="float")
    assert [row.index for row in usual.data] == list(range(len(KNOWN)))
    for answer in (usual, floats):
        got = [array("f", row.embedding).tolist() for row in answer.data]
        for row, wanted in zip(got, expected, strict=True):
            assert row == pytest.approx(wanted, abs=1e-5)
    assert usual.usage.prompt_tokens > len(KNOWN)
    assert usual.model == "sentences"


async def test_a_large_batch_comes_whole_and_in_order(client: AsyncOpenAI) -> None:
    """A batch is sent to the server in pieces, which could be lost or change places."""
    texts = [f"{KNOWN[n % 4]} Number {n}." for n in range(300)]
    answer = await client.embeddings.create(model="text-embedding-3-small", input=texts)
    single = await client.embeddings.create(model="sentences", input=texts[217])
    assert len(answer.data) == 300
    assert answer.data[217].embedding == pytest.approx(single.data[0].embedding, abs=1e-5)


async def test_what_the_server_does_not_take_is_an_error_of_the_package(
    client: AsyncOpenAI,
) -> None:
    """A program would get vectors of something else."""
    with pytest.raises(openai.BadRequestError):
        await client.embeddings.create(model="sentences", input=[[1, 2, 3]])
    with pytest.raises(openai.BadRequestError) as refused:
        await client.embeddings.create(model="sentences", input="a", dimensions=DIMENSIONS // 2)
    assert "length" in refused.value.message
    exact = await client.embeddings.create(model="sentences", input="a", dimensions=DIMENSIONS)
    assert len(exact.data[0].embedding) == DIMENSIONS
    with pytest.raises(openai.NotFoundError, match="sentences"):
        await client.embeddings.create(model="sentence", input="a")
