"""Any answer of a server becomes plain values or an error the queue can treat."""

import asyncio
import json
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.comfyui.answers import Ended, NodeFailure, ServerFile
from backends.comfyui.backend import ComfyUI
from backends.comfyui.errors import (
    MISCONFIGURED,
    STEP_FAILED,
    UNREADABLE_IMAGE,
    failure,
    refusal,
)
from backends.comfyui.model_templates import read_templates
from backends.comfyui.progress import Tracker, read_message, read_preview
from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.nodes import Node
from backends.common.error_rules import REFUSED
from backends.common.http import Http
from backends.common.http_replies import ErrorInAnswer
from backends.openai.backend import OpenAI
from backends.openai.chat.answer_reader import AnswerReader
from backends.openai.flavours.errors import RULES, classify
from backends.openai.flavours.server import FLAVOURS
from backends.openai.lmstudio import LMStudio
from bot.commands.call.parser import clean
from queueing.core.catalog import Catalog
from queueing.core.errors import BackendError, ProblemKind, UnreadableAnswer, problem
from queueing.core.requests import Capability, TextToImage
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec
from tests.fuzz.hostile_input import bounded, spoiled, texts, values

if TYPE_CHECKING:
    from pydantic import JsonValue

KEY = "11111111-1111-4111-8111-111111111111"
URL = "http://server.test"
GRAPH = {
    "1": Node(class_type="CheckpointLoaderSimple", inputs={"ckpt_name": "a.ckpt"}),
    "3": Node(class_type="KSampler", inputs={"latent_image": ["4", 0], "steps": 20}),
    "9": Node(class_type="SaveImage", inputs={"images": ["3", 0], "filename_prefix": "x"}),
}

# ---------------------------------------------------------------- ComfyUI's messages

MESSAGES: list[dict[str, Any]] = [
    {"type": "execution_start", "data": {"prompt_id": KEY}},
    {"type": "execution_cached", "data": {"prompt_id": KEY, "nodes": ["1"]}},
    {"type": "executing", "data": {"prompt_id": KEY, "node": "3"}},
    {"type": "progress", "data": {"prompt_id": KEY, "node": "3", "value": 5, "max": 20}},
    {"type": "progress", "data": {"prompt_id": KEY, "node": "3", "value": 0.5, "max": 0.5}},
    {"type": "execution_success", "data": {"prompt_id": KEY}},
    {"type": "executing", "data": {"prompt_id": KEY, "node": None}},
]
messages = st.sampled_from(MESSAGES).flatmap(lambda good: spoiled(good) | st.just(good))


@bounded
@given(st.lists(messages.map(json.dumps) | texts, max_size=8))
def test_comfyui_messages(sent: list[str]) -> None:
    """One odd message would end the listening to an attempt, or show people nonsense."""
    tracker, before = Tracker(KEY, GRAPH), 0.0
    for text in sent:
        message = read_message(text)
        progress = tracker.follow(message) if message else None
        if message:
            message.ends(KEY)
            message.succeeds(KEY)
        if progress is None:
            continue
        assert progress.fraction is not None
        assert before <= progress.fraction <= 1
        before = progress.fraction
        if progress.step:
            assert 0 <= progress.step[0] <= progress.step[1] < 10**6


def framed(kind: int, header: Any, data: bytes, length: int | None = None) -> bytes:
    """Return a frame with a header; `length` is the length stated for it, if not the true one."""
    head = json.dumps(header).encode()
    return struct.pack(">II", kind, len(head) if length is None else length) + head + data


PREVIEW = {"prompt_id": KEY, "image_type": "image/png"}


@bounded
@given(
    st.binary(max_size=80)
    | st.builds(
        framed,
        st.sampled_from([4, 4, 1, 2, 2**32 - 1]),
        spoiled(PREVIEW) | st.just(PREVIEW) | values,
        st.binary(max_size=30),
        st.none() | st.integers(0, 2**32 - 1) | st.integers(40, 90),
    )
)
@example(framed(4, {**PREVIEW, "prompt_id": "22222222-2222-4222-8222-222222222222"}, b"x"))
@example(framed(4, {**PREVIEW, "image_type": "text/html"}, b"x"))
@example(framed(1, PREVIEW, b"x"))
def test_comfyui_frames(frame: bytes) -> None:
    """One odd frame would end the listening, or be shown as an image of another kind or person."""
    preview = read_preview(frame, KEY)
    if preview is not None:
        assert preview.mime in {"image/jpeg", "image/png", "image/webp"}
        assert KEY.encode() in frame
        assert frame[:4] == struct.pack(">I", 4)


# ---------------------------------------------------------------- ComfyUI's answers

ENDED: dict[str, Any] = {
    "prompt": [1, KEY, {"1": {"class_type": "X", "inputs": {"ckpt_name": "a.ckpt"}}}, {}, ["9"]],
    "outputs": {"9": {"images": [{"filename": "a.png", "subfolder": "usher", "type": "output"}]}},
    "status": {
        "status_str": "error",
        "completed": False,
        "messages": [
            ["execution_start", {"prompt_id": KEY}],
            ["execution_error", {"node_id": "3", "node_type": "KSampler", "exception_type": "E"}],
        ],
    },
}
COMFYUI: Mapping[str, Any] = {
    "/system_stats": {
        "system": {"comfyui_version": "0.33"},
        "devices": [{"type": "cuda", "vram_total": 2**34, "vram_free": 2**33}],
    },
    "/queue": {"queue_running": [ENDED["prompt"]], "queue_pending": []},
    "/history": {KEY: ENDED},
    f"/history/{KEY}": {KEY: ENDED},
    f"/api/jobs/{KEY}": {"id": KEY, "status": "in_progress"},
    "/models/checkpoints": ["sdxl-a.ckpt", "b/c.safetensors", "d.safetensors"],
    "/experiment/models/checkpoints": [{"name": "b/c.safetensors", "size": 6_940_000_000}],
    "/view_metadata/checkpoints": {"modelspec.architecture": "stable-diffusion-xl-v1-base"},
}


DRAWS = ModelSpec(
    name="m",
    backends=("comfy",),
    capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
    options={"workflow": "sdxl.json", "values": {"checkpoint": "a.ckpt"}},
)


@asynccontextmanager
async def answering(good: Mapping[str, Any], path: str, bad: Any) -> AsyncIterator[Http]:
    """Serve this client good answers, except for one path."""
    table = {each: _text(answer) for each, answer in good.items()}
    table[path] = _text(bad)
    bodies = {each: text.encode("utf-8", "surrogatepass") for each, text in table.items()}
    async with serving(bodies.get) as http:
        yield http


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


@asynccontextmanager
async def serving(body_of: Callable[[str], bytes | None]) -> AsyncIterator[Http]:
    """Serve this client the body of each path; 404 where there is none."""
    ended: set[asyncio.Future[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.add(end)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                body = body_of(unquote(head.split(b" ")[1].partition(b"?")[0].decode()))
                status, sent = ("404 X", b"Job not found") if body is None else ("200 OK", body)
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(sent)}\r\n\r\n".encode())
                writer.write(sent)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        end.set_result(None)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = Http(f"http://127.0.0.1:{port}")
    try:
        yield http
    finally:
        await http.aclose()
        await _answered(port)
        server.close()
        await asyncio.gather(*ended)  # a connection left open is reported by Python


async def _answered(port: int) -> None:
    """Return once every earlier connection has been accepted, even an abandoned one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await reader.readline()
    writer.close()
    await writer.wait_closed()


def spoiled_answer(good: Mapping[str, Any]) -> st.SearchStrategy[tuple[str, Any]]:
    """Return a path and its answer."""
    return st.sampled_from(sorted(good)).flatmap(
        lambda path: st.tuples(st.just(path), spoiled(good[path]) | values | texts)
    )


async def tried(*asking: Callable[[], Awaitable[Any]]) -> None:
    """Ask; an error that the queue knows is as good as an answer."""
    for ask in asking:
        with suppress(BackendError):
            await ask()


@bounded
@given(spoiled_answer(COMFYUI))
def test_comfyui_answers(spoilt: tuple[str, Any]) -> None:
    """One odd answer would be a bug, and cost the job instead of causing a retry."""
    spec = BackendSpec(name="comfy", kind="comfyui", url=URL)

    async def play() -> None:
        backend = ComfyUI(spec)
        async with answering(COMFYUI, *spoilt) as http:
            backend._server = server = ComfyUIServer(http)

            async def result() -> None:
                ended = await server.look(KEY, said_ended=True)
                for file in getattr(ended, "files", ()):
                    await server.download(file)

            await tried(
                backend.probe,
                lambda: backend.verify(DRAWS),
                lambda: backend.loaded([DRAWS]),
                lambda: server.look(KEY),
                server.running,
                result,
            )
            with suppress(BackendError):
                for found in await backend.discover():
                    _require_usable(found)
            await backend.aclose()

    asyncio.run(play())


async def test_the_good_answers_of_comfyui_are_understood() -> None:
    """The test above would pass if nothing were ever read."""
    async with answering(COMFYUI, "/", "") as http:
        backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=URL))
        backend._server = server = ComfyUIServer(http)
        assert (await backend.probe()).description == "ComfyUI 0.33"
        assert [found.name for found in await backend.discover()] == ["sdxl-a", "c", "d"]
        ended = await server.look(KEY, said_ended=True)
        assert isinstance(ended, Ended)
        assert [file.filename for file in ended.files] == ["a.png"]
        await backend.aclose()


async def test_a_file_name_that_is_no_text_is_the_servers_fault() -> None:
    """A result whose name cannot be requested would be a bug."""
    async with answering({}, "/view", "x") as http:
        with pytest.raises(UnreadableAnswer):
            await ComfyUIServer(http).download(ServerFile(filename="\ud800.png"))


# ---------------------------------------------------------------- text servers' lists

LLM: Mapping[str, Any] = {
    "/v1/models": {
        "data": [
            {
                "id": "qwen/qwen3-8b",
                "aliases": ["q"],
                "status": {"value": "loaded"},
                "meta": {"size": 5 * 2**30, "n_ctx": 8192},
                "architecture": {"input_modalities": ["text", "image"]},
            },
            {"id": "llama"},
        ]
    },
    "/api/v1/models": {
        "models": [
            {
                "type": "llm",
                "key": "qwen3",
                "size_bytes": 5 * 2**30,
                "loaded_instances": [
                    {"id": "qwen3:2", "config": {"context_length": 4096, "parallel": 4}}
                ],
                "capabilities": {"vision": True},
                "variants": ["qwen3@q4"],
            }
        ]
    },
    "/api/v0/models": {"data": [{"id": "qwen3", "type": "vlm", "state": "loaded"}]},
    "/api/tags": {"models": [{"name": "qwen3:latest", "size": 5 * 2**30}]},
    "/api/ps": {"models": [{"name": "qwen3:latest", "context_length": 4096}]},
    "/api/show": {"capabilities": ["completion", "vision"]},
    "/api/version": {"version": "0.12"},
    "/version": {"version": "0.11"},
    "/props": {
        "default_generation_settings": {},
        "role": "model",
        "build_info": "b1",
        "total_slots": 4,
        "modalities": {"vision": True},
    },
    "/running": {"running": [{"model": "llama", "state": "ready"}]},
}
OWN_ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "localai": {
        "/system": {"backends": ["whisper"], "loaded_models": [{"id": "qwen3"}]},
        "/v1/models/capabilities": {
            "data": [
                {"id": "qwen3", "capabilities": ["chat", "vision"]},
                {"id": "whisper", "capabilities": ["transcript"]},
            ]
        },
        "/.well-known/localai.json": {
            "endpoint_groups": {"monitoring": {"backend_load": "/backend/load"}}
        },
    },
    "speaches": {
        "/api/ps": {"models": ["whisper"]},
        "/v1/models": {
            "data": [
                {"id": "whisper", "task": "automatic-speech-recognition"},
                {"id": "kokoro", "task": "text-to-speech", "voices": [{"name": "af_heart"}]},
            ]
        },
    },
    "kokoro": {
        "/v1/models": {"data": [{"id": "kokoro", "owned_by": "kokoro"}]},
        "/v1/audio/voices": {"voices": [{"id": "af_heart"}, "bm_george"]},
    },
    "koboldcpp": {
        "/api/extra/version": {"result": "KoboldCpp", "version": "1.108", "vision": True},
        "/api/extra/true_max_context_length": {"value": 8192},
    },
    "whispercpp": {"/": "<title>Whisper.cpp Server</title><h2>/inference</h2>"},
}
"""What a flavour answers in place of `LLM`, or in addition to it."""
KINDS = (*FLAVOURS, "lmstudio", "lmstudio-0.3")


def lists_of(kind: str) -> dict[str, Any]:
    """Return the answers of a good server of that kind."""
    good: dict[str, Any] = json.loads(json.dumps(LLM))
    if kind == "lmstudio-0.3":
        del good["/api/v1/models"]
    if kind == "llamacpp-router":
        good["/props"]["role"] = "router"
    if kind == "llama-cpp-python":
        for entry in good["/v1/models"]["data"]:
            entry["owned_by"] = "me"
    return {**good, **OWN_ANSWERS.get(kind, {})}


def _require_usable(found: ModelSpec) -> None:
    """Check that people can type a found model's name, and chats and logs can show it."""
    assert found.name
    assert clean(found.name) == found.name
    assert found.name.isprintable()
    assert not set(" =\n") & set(found.name)
    assert found.name[0] not in "-/"
    assert len(found.name) <= 100
    assert found.parallel >= 1
    assert found.vram_mb is None or 0 <= found.vram_mb < 2**31


@cache  # making a connection for each example would take most of the time
def _connected(kind: type[OpenAI], name: str, options: str) -> OpenAI:
    return kind(BackendSpec(name=name, kind="", url=URL, options=json.loads(options)))


def _connect(backend: OpenAI, http: Http) -> None:
    """Let a server be asked through another client."""
    server = backend._server
    server._http = backend._http = http


NAMED_BY = {"id", "key", "name", "model"}


def renamed(value: Any, name: str) -> Any:
    """Return a document in which every model has this name, and something more."""
    if isinstance(value, dict):
        return {
            key: f"{inner}{name}" if key in NAMED_BY else renamed(inner, name)
            for key, inner in value.items()
        }
    return [renamed(inner, name) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
@bounded
@given(st.data())
def test_text_servers_lists(kind: str, data: st.DataObject) -> None:
    """An odd list would stop the bot's start, or offer what no one can type."""
    good = lists_of(kind)
    if data.draw(st.booleans()):
        good = renamed(good, data.draw(texts))
    spoilt = data.draw(spoiled_answer(good))
    lmstudio = kind.startswith("lmstudio")
    options = {} if lmstudio else {"flavour": kind}
    spec = BackendSpec(
        name="b", kind="lmstudio" if lmstudio else "openai", url=URL, options=options
    )
    model = ModelSpec(name="qwen3", backends=("b",), capabilities=frozenset())
    backend = _connected(LMStudio if lmstudio else OpenAI, spec.name, json.dumps(options))

    async def play() -> None:
        backend._server.flavour = None
        async with answering(good, *spoilt) as http:
            _connect(backend, http)
            await tried(
                backend.probe, lambda: backend.verify(model), lambda: backend.loaded([model])
            )
            with suppress(BackendError):
                found = await backend.discover()
                for each in found:
                    _require_usable(each)
                host = HostSpec(name="h", vram_mb=1, backends=(spec,))
                assert set(Catalog(found, [host]).models) == {each.name for each in found}

    asyncio.run(play())


@pytest.mark.parametrize("kind", KINDS)
async def test_the_good_lists_are_understood(kind: str) -> None:
    """The test above would pass if nothing were ever read."""
    lmstudio = kind.startswith("lmstudio")
    good = lists_of(kind)
    backend = _connected(
        LMStudio if lmstudio else OpenAI, "b", json.dumps({} if lmstudio else {"flavour": kind})
    )
    backend._server.flavour = None
    named = {"speaches": "whisper", "kokoro": "kokoro", "whispercpp": "whisper"}.get(kind, "qwen3")
    async with answering(good, "/none", "") as http:
        _connect(backend, http)
        assert named in " ".join(found.name for found in await backend.discover())


# ---------------------------------------------------------------- streamed answers

CHUNK = {
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "cat"}, "finish_reason": None}],
}
LAST = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"total_tokens": 3}}
events = (
    (spoiled(CHUNK) | spoiled(LAST) | st.sampled_from([CHUNK, LAST]) | values)
    .map(json.dumps)
    .map("data: {}".format)
)


@bounded
@given(
    st.lists(
        events
        | texts
        | texts.map("data: {}".format)
        | st.sampled_from(["", ": ping", "data: [DONE]", "event: x", "error: no", "data"]),
        max_size=10,
    )
)
def test_streamed_lines(lines: list[str]) -> None:
    """A malformed line would be a bug, or become text that no chat accepts."""
    reader = AnswerReader()
    with suppress(BackendError, ErrorInAnswer):
        for line in lines:
            reader.feed(line)
        reader.close()
    reader.text.encode()


SECRET = "/home/ada/models, and what somebody else asked"
WORDS = sorted({word for rule in RULES for word in rule.words} | {"", "no"})


@bounded
@given(
    st.sampled_from([200, 400, 401, 404, 413, 429, 500, 503]) | st.integers(100, 599),
    values
    | texts
    | st.sampled_from(WORDS)
    | spoiled({"error": {"message": "no", "type": "x", "code": 404}})
    | st.sampled_from(WORDS).map(lambda word: {"error": {"message": f"{word} {SECRET}"}})
    | st.sampled_from(WORDS).map(lambda word: f"{word} {SECRET}"),
)
@example(400, {"error": {"message": SECRET}})
@example(400, {"error": {"message": f"context size {SECRET}"}})
def test_errors_of_text_servers(status: int, body: Any) -> None:
    """An unreadable error would be a bug, or its text be shown to people."""
    for said in (body, json.dumps(body)):
        error = classify(status, said)
        assert isinstance(error, BackendError)
        assert len(str(error)) < 5000
        assert error.problem in OURS


OURS = (None, REFUSED, *(rule.told for rule in RULES), problem(ProblemKind.TOO_LARGE))


@bounded
@given(
    st.sampled_from(["1", "3", "9", "", "77"]),
    texts | st.just(SECRET),
    texts | st.sampled_from(["torch.OutOfMemoryError", "RuntimeError", SECRET]),
    st.sampled_from(["", "CUDA error: ", "out of memory "]) | texts,
)
def test_failures_of_comfyui(node: str, kind: str, raised: str, said: str) -> None:
    """People would be shown paths of the server, or another person's request."""
    drawing = read_templates(DRAWS).all[0]
    failed = NodeFailure(
        node_id=node,
        node_type=kind,
        exception_type=raised,
        exception_message=f"{said}{SECRET}",
    )
    fault: JsonValue = {"type": kind, "message": said, "details": SECRET}
    bodies: list[JsonValue] = [
        {"error": fault, "node_errors": {node: {"errors": [fault], "class_type": kind}}},
        {"error": SECRET, "node_errors": []},
        SECRET,
    ]
    request = TextToImage(prompt="cat")
    told = [failure(failed, drawing), *(refusal(body, drawing, request) for body in bodies)]
    for error in told:
        assert error.problem in (None, MISCONFIGURED, STEP_FAILED, UNREADABLE_IMAGE)


# ---------------------------------------------------------------- bare bytes


@bounded
@given(
    st.binary(max_size=60)
    | st.integers(1, 30_000).map(lambda depth: b"[" * depth)
    | st.sampled_from([b'{"a":' * 20_000, b"9" * 10_000, b'"\\ud800"', b"\xff\xfe{\0}\0"]),
)
def test_bodies_that_are_no_json(body: bytes) -> None:
    """Depth, length or encoding of an answer would crash the program instead of the request."""

    async def play() -> Any:
        async with serving(lambda _: body) as http:
            with suppress(BackendError):
                value = await http.get_json("/x")
                json.dumps(value, ensure_ascii=False).encode()

    asyncio.run(play())
