"""`POST /v1/embeddings` of a running bot with the demo's placeholder vectors."""

import asyncio
import base64
import io
import json
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from backends.common.vectors import texts_file, vectors_file
from backends.demo.texts import DIMENSIONS, NOTE
from bot.api.calls.errors import ApiError
from bot.api.openai.embeddings import Vectors, given_in
from queueing.core.requests import Capability, Output
from tests.bot.api.whole_api import CONFIG, Api, running

EMBEDDERS = CONFIG.replace(
    "chats: {}",
    """  hashing:
    backends: [studio]
    capabilities: [embedding, image-embedding]
    vram: 1GB
    load_s: 0.01
    service_s: 0.01
    aliases: [text-embedding-3-small]
  words:
    backends: [studio]
    capabilities: [embedding]
    vram: 1GB
    load_s: 0.01
    service_s: 0.01
chats: {}""",
)
PATH = "/embeddings"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path, EMBEDDERS) as api:
        yield api


def image() -> str:
    data = io.BytesIO()
    Image.linear_gradient("L").save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


async def embedded(api: Api, given: Any, **more: Any) -> list[Any]:
    answer = await api.post(PATH, {"model": "hashing", "input": given, **more})
    assert [row["index"] for row in answer["data"]] == list(range(len(answer["data"])))
    return [row["embedding"] for row in answer["data"]]


async def test_an_answer_has_openais_form(api: Api) -> None:
    """A program would fail on a missing field."""
    answer = await api.post(PATH, {"model": "hashing", "input": "a cat on a mat"})
    (row,) = answer["data"]
    assert (row["object"], row["index"], len(row["embedding"])) == ("embedding", 0, DIMENSIONS)
    assert (answer["object"], answer["model"]) == ("list", "hashing")
    assert answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    assert answer["usher"] == {"note": NOTE}


async def test_a_batch_is_one_job_with_the_answers_in_order(api: Api) -> None:
    """A program stores each vector with the text in the same position."""
    texts = [f"text number {n}" for n in range(100)]
    together = await embedded(api, texts)
    assert together == [(await embedded(api, text))[0] for text in texts[:3]] + together[3:]
    assert len({json.dumps(vector) for vector in together}) == len(texts)


async def test_base64_holds_the_same_numbers_as_floats(api: Api) -> None:
    """SDKs ask for base64 by default; openai-node returns nothing if it gets floats."""
    cases: list[Any] = ["a cat", ["a cat", "a dog"]]
    for given in cases:
        floats = await embedded(api, given, encoding_format="float")
        packed = await embedded(api, given, encoding_format="base64")
        assert all(isinstance(each, str) for each in packed), given
        assert [array("f", base64.b64decode(each)).tolist() for each in packed] == floats, given


def test_an_answer_is_the_same_however_its_vectors_are_stored() -> None:
    """A server sends base64 or numbers, and callers ask for either."""
    vectors = [array("f", [0.5, -2.0, 3.25]), array("f", [1.0, 0.0, -0.125])]
    texts = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
    for file in (vectors_file(vectors), texts_file(text.encode() for text in texts)):
        output = Output(files=(file,), answer='{"prompt_tokens": 7, "note": "a note"}')
        for packed in (False, True):
            found = json.loads(Vectors(model="words", count=2, packed=packed).whole(output))
            expected = texts if packed else [vector.tolist() for vector in vectors]
            assert found == {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": value}
                    for index, value in enumerate(expected)
                ],
                "model": "words",
                "usage": {"prompt_tokens": 7, "total_tokens": 7},
                "usher": {"note": "a note"},
            }


async def test_tokens_and_objects_are_inputs(api: Api) -> None:
    """LangChain sends arrays of tokens."""
    cases: list[tuple[Any, int]] = [
        ([1, 2, 3], 1),
        ([[1, 2, 3], [4]], 2),
        (["a cat", [7, 8]], 2),
        ([{"text": "a cat"}], 1),
    ]
    for given, count in cases:
        assert len(await embedded(api, given)) == count, given


async def test_images_are_inputs(api: Api) -> None:
    """A search by image would not be possible."""
    for form in ("url", "base64", "bare", "part", "content"):
        url = f"data:image/png;base64,{image()}"
        given: Any = {
            "url": {"image": url},
            "base64": {"image": image()},
            "bare": url,
            "part": {"type": "image_url", "image_url": {"url": url}},
            "content": {"content": [{"type": "text", "text": "red"}, {"image_url": {"url": url}}]},
        }[form]
        vectors = await embedded(api, ["red", given])
        assert len(vectors) == 2, form
        assert vectors[0] != vectors[1], form


async def test_dimensions_are_as_asked(api: Api) -> None:
    """The program's database would later refuse a vector of another length."""
    assert len((await embedded(api, "a cat", dimensions=64))[0]) == 64


BAD: tuple[tuple[Any, str], ...] = (
    ({}, "model"),
    ({"model": "hashing"}, "input"),
    ({"model": "hashing", "input": ""}, "input"),
    ({"model": "hashing", "input": []}, "input"),
    ({"model": "hashing", "input": None}, "input"),
    ({"model": "hashing", "input": 7}, "input"),
    ({"model": "hashing", "input": True}, "input"),
    ({"model": "hashing", "input": ["a", ""]}, "input.1"),
    ({"model": "hashing", "input": ["a", None]}, "input.1"),
    ({"model": "hashing", "input": ["a", 1]}, "input.1"),
    ({"model": "hashing", "input": [1, "a"]}, "input"),
    ({"model": "hashing", "input": [1.5]}, "input"),
    ({"model": "hashing", "input": [[1], [-1]]}, "input.1"),
    ({"model": "hashing", "input": [[1], [2**31]]}, "input.1"),
    ({"model": "hashing", "input": [[True]]}, "input.0"),
    ({"model": "hashing", "input": [[]]}, "input.0"),
    ({"model": "hashing", "input": [{}]}, "input.0"),
    ({"model": "hashing", "input": [{"image": "https://x.example/a.png"}]}, "input.0"),
    ({"model": "hashing", "input": [{"image": "bm8="}]}, "input.0"),
    ({"model": "hashing", "input": "a", "encoding_format": "int8"}, "encoding_format"),
    ({"model": "hashing", "input": "a", "dimensions": 0}, "dimensions"),
    ({"model": "hashing", "input": "a", "dimensions": "x"}, "dimensions"),
    ({"model": "hashing", "input": ["a"] * 2049}, "input"),
    ({"model": "hashing", "input": "a" * 400_001}, "input"),
)


async def test_what_cannot_be_embedded_is_refused_by_its_name(
    api: Api, subtests: pytest.Subtests
) -> None:
    """A program would be told that something is wrong, but not what."""
    for body, param in BAD:
        with subtests.test(str(body)[:80]):
            answer = await api.post(PATH, body, status=400)
            assert answer["error"]["param"] == param
            assert answer["error"]["type"] == "invalid_request_error"
            assert answer["error"]["message"].endswith(".")


def test_the_inputs_of_one_call_are_bounded_together() -> None:
    """One call would occupy a GPU for an hour, or fill the memory."""
    cases: list[tuple[Any, str]] = [
        (["a" * 400_000] * 11, "characters"),
        ([1] * 300_001, "tokens"),
        ([[1] * 1000] * 301, "tokens"),
        ([{"image": "bm8="}] * 33, "images"),
    ]
    for given, said in cases:
        with pytest.raises(ApiError) as refused:
            given_in(given)
        assert refused.value.param == "input", given
        assert said in refused.value.message, given


async def test_embeddings_have_a_limit_of_their_own(tmp_path: Path) -> None:
    """Open WebUI sends a document as hundreds of calls at once, and retries none."""
    slow = EMBEDDERS.replace("service_s: 0.01", "service_s: 5")
    few = f"limits: {{open_per_person: 1, queued_per_person: 1, embeddings_open: 40, per_hour: 1}}\n{slow}"
    async with running(tmp_path, few) as api, asyncio.TaskGroup() as group:
        body = {"model": "hashing", "input": "a passage"}
        calls = [group.create_task(api.post(PATH, body)) for _ in range(40)]
        await api.until(lambda jobs: len(jobs) == 40)
        error = (await api.post(PATH, body, status=429))["error"]
        assert error["code"] == "too_many_open"
        assert "40" in error["message"]
        said = [{"role": "user", "content": "hi"}]
        await api.post("/chat/completions", {"model": "llama", "messages": said})
        assert [job["model"] for job in (await api.get("/jobs"))["data"]] == ["llama"]
        for call in calls:
            call.cancel()


async def test_time_on_the_gpus_is_limited_here_too(tmp_path: Path) -> None:
    """A program whose owner has used up their time could keep a GPU busy, or retry every second."""
    limited = f"limits: {{gpu_seconds_per_day: 4}}\n{EMBEDDERS.replace('service_s: 0.01', 'service_s: 5')}"
    async with running(tmp_path, limited) as api, asyncio.TaskGroup() as group:
        body = {"model": "hashing", "input": "a passage"}
        calls = [group.create_task(api.post(PATH, body)) for _ in range(2)]
        await api.until(lambda jobs: len(jobs) == 2)
        async with api.session.post(f"{api.url}{PATH}", json=body) as refused:
            error = (await refused.json())["error"]
            assert (refused.status, error["code"]) == (429, "gpu_time_used_up")
            assert 1 <= int(refused.headers["Retry-After"]) <= 25 * 3600
            assert "GPU time for today is used up" in error["message"]
        for call in calls:
            call.cancel()


async def test_a_call_repeated_after_a_restart_gets_the_answer_it_had(tmp_path: Path) -> None:
    """A program would pay for a batch twice, and could get other numbers."""
    body = {"model": "hashing", "input": ["a cat", "a dog"]}
    again = {"Idempotency-Key": "batch-1"}
    async with running(tmp_path, EMBEDDERS) as api:
        first = await api.post(PATH, body, headers=again)
    async with running(tmp_path, EMBEDDERS) as api:
        assert await api.post(PATH, body, headers=again) == first
        packed = await api.post(PATH, {**body, "encoding_format": "base64"}, headers=again)
        assert isinstance(packed["data"][0]["embedding"], str)
        assert await api.open_jobs() == []
        await api.post(PATH, {**body, "input": "another"}, status=422, headers=again)


async def test_a_model_that_writes_names_those_that_embed(api: Api) -> None:
    """A program set up with the wrong name would learn nothing from a 400."""
    error = (await api.post(PATH, {"model": "llama", "input": "a"}, status=400))["error"]
    assert (error["param"], error["code"]) == ("model", "not_capable")
    assert "hashing" in error["message"]
    near = (await api.post(PATH, {"model": "hashng", "input": "a"}, status=404))["error"]
    assert "hashing" in near["message"]


async def test_a_model_that_embeds_names_those_that_write(api: Api) -> None:
    """A program set up with the wrong name would learn nothing from a 400."""
    body = {"model": "hashing", "messages": [{"role": "user", "content": "hi"}]}
    error = (await api.post("/chat/completions", body, status=400))["error"]
    assert error["code"] == "not_capable"
    assert "llama" in error["message"]


async def test_an_image_for_a_model_of_texts_is_refused(api: Api) -> None:
    """Its data URL would be embedded as if it were a text."""
    body = {"model": "words", "input": [f"data:image/png;base64,{image()}"]}
    error = (await api.post(PATH, body, status=400))["error"]
    assert error["code"] == "not_capable"
    assert "hashing" in error["message"]


async def test_the_list_of_models_says_what_they_make(api: Api) -> None:
    """A program that fills a menu of embedding models would show them all."""
    models = {row["id"]: row for row in (await api.get("/models"))["data"]}
    hashing, words = models["text-embedding-3-small"], models["words"]
    assert hashing["usher"]["capabilities"] == ["embedding", "image-embedding"]
    assert hashing["architecture"]["input_modalities"] == ["text", "image"]
    assert words["architecture"] == {
        "input_modalities": ["text"],
        "output_modalities": ["embeddings"],
    }
    assert models["llama"]["architecture"]["output_modalities"] == ["text"]


async def test_no_embedding_model_is_anyones_usual_one(api: Api) -> None:
    """`/ask` would be sent to a model that cannot answer."""
    catalog = api.parts.queue.models.offer.catalog
    for able in set(Capability) - {Capability.EMBEDDING, Capability.IMAGE_EMBEDDING}:
        assert not {"hashing", "words"} & set(catalog.able(able))
