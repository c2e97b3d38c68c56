"""How the bytes of text servers' answers are understood.

Each file of `streams/` has the bytes as they are `sent`, packet by packet, and their meaning:
`text`, `reasoning`, `refusal`, `calls` and the finish `reason`, or an `error` and its `problem`. A
packet that is null breaks the connection. What a `program` gets is listed if a chat gets something
else. An answer that is `unfinished` is one that llama-cpp-python would only send if it was
interrupted. The part of a file's name before the first dash is the kind of the oddity.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import JsonValue

from backends.common.http_replies import AnswerLines
from backends.openai.backend import OpenAI
from backends.openai.chat.completion import CompletionCall, stream_answer
from backends.openai.flavours.flavour import Flavour
from backends.openai.flavours.lmstudio import LMStudio3, LMStudio4
from backends.openai.flavours.server import FLAVOURS
from queueing.core.errors import BackendError, Unavailable, problem_of
from queueing.core.requests import Output
from queueing.core.specs import Timeouts
from tests.backends.openai.asking import ALL, connected, model, work
from tests.backends.openai.heard import Heard, in_every_form, of_chunks, of_message
from tests.bot.api.whole_api import running
from tests.fakes.llm.llm import serving
from tests.fakes.llm.llm_script import Model
from tests.samples import in_turn
from tests.wild.cases import read_case

CASES = sorted(Path(__file__).with_name("streams").glob("*.json"))
SHORT = 5_000  # bytes of an answer that is sent byte by byte
EVERY: Sequence[type[Flavour]] = (*(FLAVOURS[name] for name in FLAVOURS), LMStudio3, LMStudio4)
# Those whose answers are read in different ways.
DIFFERENT = tuple({(kind.interrupts, kind.exact): kind for kind in EVERY}.values())
Packets = Sequence[bytes | None]


def text_of(told: Any) -> str:
    """Return a text, which may be written as parts that are repeated."""
    if isinstance(told, str):
        return told
    parts = told if isinstance(told, list) else [told]
    return "".join(p if isinstance(p, str) else p["text"] * p["times"] for p in parts)


def packets(odd: Mapping[str, Any]) -> Packets:
    return [
        None if p is None else bytes.fromhex(p["hex"]) if "hex" in p else text_of(p).encode()
        for p in odd["sent"]
    ]


def meant(odd: Mapping[str, Any]) -> Heard | str:
    """Return what an answer means, or the error and the problem."""
    if "error" in odd:
        return f"{odd['error']} {odd['problem']}"
    return Heard(
        text=text_of(odd.get("text", "")),
        thought=odd.get("reasoning", ""),
        refusal=odd.get("refusal", ""),
        calls=tuple((name, arguments) for name, arguments in odd.get("calls", ())),
        reason=odd.get("reason", "stop"),
    )


def for_a_program(odd: Mapping[str, Any]) -> Heard | str:
    told = odd.get("program")
    return meant(odd if told is None else {**_without_error(odd), **told})


def _without_error(odd: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in odd.items() if name not in {"error", "problem"}}


class Packeted:
    """A response whose body arrives in packets."""

    headers: Mapping[str, str] = {}

    def __init__(self, sent: Packets) -> None:
        self._rest = [packet for packet in sent if packet != b""]

    @property
    def content(self) -> "Packeted":
        return self

    async def read(self, most: int) -> bytes:
        if not self._rest:
            return b""
        packet = self._rest.pop(0)
        if packet is None:
            raise Unavailable("the connection broke")
        if len(packet) > most:
            self._rest.insert(0, packet[most:])
        return packet[:most]


class Sent:
    """A connection on which a server answers with the same packets each time."""

    def __init__(self, sent: Packets) -> None:
        self._sent = sent

    @asynccontextmanager
    async def stream_lines(self, *_: Any, **__: Any) -> AsyncIterator[AnswerLines]:
        yield AnswerLines(cast("Any", Packeted(self._sent)))

    async def post_json(self, *_: Any, **__: Any) -> None:
        """Answer with nothing to a request that is not streamed."""


async def chat(sent: Packets, flavour: Flavour) -> Heard | str:
    """Return what a chat is told."""
    try:
        return Heard(text=(await answered(sent, flavour))[1].text)
    except BackendError as error:
        return f"{type(error).__name__} {problem_of(error).what}"


async def program(sent: Packets, flavour: Flavour) -> Heard | str:
    """Return what a program is told, which is the same in each form."""
    try:
        chunks, output = await answered(sent, flavour, passed_on=True)
    except BackendError as error:
        return f"{type(error).__name__} {problem_of(error).what}"
    return the_same(in_every_form(chunks, output))


def the_same(forms: Mapping[str, Heard]) -> Heard:
    first = next(iter(forms.values()))
    assert forms == dict.fromkeys(forms, first)
    return first


async def answered(
    sent: Packets, flavour: Flavour, *, passed_on: bool = False
) -> tuple[Sequence[str], Output]:
    question = CompletionCall(
        body={},
        path="/v1/chat/completions",
        model_id="alpha",
        timeouts=Timeouts(),
        look_up=cast("Any", None),
        passed_on=passed_on,
    )
    chunks: list[str] = []
    http = cast("Any", Sent(sent))
    output = await stream_answer(
        http, flavour, question, lambda progress: chunks.extend(progress.chunks)
    )
    return chunks, output


def as_a_chat(told: Heard | str) -> Heard | str:
    """Return what people see of an answer: its text, or why there is none."""
    if isinstance(told, str):
        return told
    only = "only_calls" if told.reason != "length" else "only_thoughts"
    return Heard(text=told.text.strip()) if told.text else f"Rejected {only}"


def flavours(odd: Mapping[str, Any], kinds: Sequence[type[Flavour]]) -> Iterator[Flavour]:
    """Yield one of each kind that accepts this answer as a whole one."""
    for kind in kinds:
        if not (odd.get("unfinished") and kind.interrupts):
            yield kind()


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(DIFFERENT, id="different"),
        pytest.param(EVERY, id="every", marks=pytest.mark.thorough),
    ],
)
@in_turn("case", CASES)
async def test_people_get_the_text_and_programs_openais_form(
    case: Path, kinds: Sequence[type[Flavour]]
) -> None:
    """A person would read half of it, or a program get merged calls, or JSON it cannot parse."""
    odd = read_case(case)
    for flavour in flavours(odd, kinds):
        assert await chat(packets(odd), flavour) == as_a_chat(meant(odd)), flavour.name
        assert await program(packets(odd), flavour) == for_a_program(odd), flavour.name


@in_turn("case", CASES)
async def test_bytes_mean_the_same_however_they_arrive(case: Path) -> None:
    """Networks split answers anywhere, even in the middle of a character."""
    odd = read_case(case)
    sent = packets(odd)
    broken, whole = sent[-1:] == [None], b"".join(p for p in sent if p is not None)
    if broken or len(whole) > SHORT:
        return
    ways: dict[str, Packets] = {
        "at once": [whole],
        "byte by byte": [bytes((byte,)) for byte in whole],
        "CRLF": [whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")],
    }
    for name, way in ways.items():
        assert await chat(way, Flavour()) == as_a_chat(meant(odd)), name
        assert await program(way, Flavour()) == for_a_program(odd), name


KINDS = [next(cases) for _, cases in groupby(CASES, lambda case: case.stem.partition("-")[0])]
of_kinds = pytest.mark.parametrize(
    "cases",
    [
        pytest.param(KINDS, id="one-of-each-kind"),
        pytest.param(
            [case for case in CASES if case not in KINDS], id="others", marks=pytest.mark.thorough
        ),
    ],
)


@of_kinds
@pytest.mark.parametrize("kind", ALL)
async def test_each_kind_of_server_may_answer_so(kind: str, cases: Sequence[Path]) -> None:
    """What works in the reader could be lost between the connection and the caller."""
    for case in cases:
        odd = read_case(case)
        if odd.get("unfinished") and kind == "llama-cpp-python":
            continue
        async with serving(kind, [Model("alpha")]) as server, connected(server) as backend:
            await backend.load(model())
            server.sent = packets(odd)
            assert await asked(backend) == as_a_chat(meant(odd)), case.stem
            assert await asked(backend, passed_on=True) == for_a_program(odd), case.stem


async def asked(backend: OpenAI, *, passed_on: bool = False) -> Heard | str:
    """Return what a backend makes of an answer, for a chat or for a program."""
    chunks: list[str] = []
    body: dict[str, JsonValue] = {"messages": [{"role": "user", "content": "Hi"}]}
    job = work("Hi", passed_on={"body": body} if passed_on else None)
    try:
        fetch = await backend.run(model(), job, lambda progress: chunks.extend(progress.chunks))
        output = await fetch()
    except BackendError as error:
        return f"{type(error).__name__} {problem_of(error).what}"
    return the_same(in_every_form(chunks, output)) if passed_on else Heard(text=output.text)


CONFIG = """
hosts:
  box:
    vram: 24GB
    backends:
      studio: {kind: openai, url: URL}
models:
  alpha: {backends: [studio], vram: 7GB, max_attempts: 1}
chats: {}
api: {port: 0, open: true}
"""
ANSWERS = [case for case in CASES if not isinstance(for_a_program(read_case(case)), str)]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([case for case in KINDS if case in ANSWERS], id="one-of-each-kind"),
        pytest.param(ANSWERS, id="all", marks=pytest.mark.thorough),
    ],
)
async def test_the_api_answers_in_openais_form(cases: Sequence[Path], tmp_path: Path) -> None:
    """What works in a backend could be lost between the queue and the program."""
    body = {"model": "alpha", "messages": [{"role": "user", "content": "Hi"}]}
    async with (
        serving("generic", [Model("alpha")]) as server,
        running(tmp_path, CONFIG.replace("URL", server.url)) as api,
    ):
        for case in cases:
            odd = read_case(case)
            server.sent = packets(odd)
            whole = (await api.post("/chat/completions", body))["choices"][0]
            events, _ = await api.stream("/chat/completions", body)
            sent = "".join(f"data: {json.dumps(e)}\n\n" for e in events if e != "[DONE]")
            heard = of_message(whole["message"], whole["finish_reason"])
            assert heard == of_chunks(sent.encode()) == for_a_program(odd), case.stem
