"""Sends one request to a text server and follows its streamed answer.

Handles everything that does not depend on the server's flavour: progress, the end of an answer,
answers from the wrong model, and streams that break off without an error.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import BadStatus
from backends.common.json_template import PROBE, JsonTemplate
from backends.common.model_server import NO_MODEL, ModelList, plain
from backends.openai.chat.answer_events import EVENT_LIMIT
from backends.openai.chat.answer_form import AnswerForm, Object, compact
from backends.openai.chat.answer_reader import AnswerReader, parsed
from backends.openai.chat.passthrough import INFILL, as_completion
from backends.openai.chat.reasoning import without_thoughts
from backends.openai.chat.request import may_exceed, newest_tokens
from backends.openai.flavours.errors import classified, classify, classify_answer
from backends.openai.flavours.flavour import Flavour, Served
from queueing.core.bounded_json import LARGE, one_at_a_time
from queueing.core.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    ProblemKind,
    Rejected,
    Unavailable,
    UnreadableAnswer,
    problem,
)
from queueing.core.ports import Report
from queueing.core.requests import Output, Progress
from queueing.core.specs import Timeouts

Around = tuple[str, str, str]
"""For a chunk with a single text: its kind, and the JSON before and after it in OpenAI's form."""


@dataclass(slots=True)
class Gathered:
    """A whole answer collected from chunks in OpenAI's form; `ToolCalls` collects tool calls."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    likely: dict[str, list[JsonValue]] = field(default_factory=dict)

    def add(self, chunk: Object) -> None:
        """Add the next chunk."""
        choice = chunk["choices"][0]
        for kind, said in choice["delta"].items():
            if kind != "tool_calls":
                self.say(kind, said)
        for name, listed in choice.get("logprobs", {}).items():
            self.likely.setdefault(name, []).extend(listed)

    def say(self, kind: str, said: str) -> None:
        """Add the next piece of a text."""
        self.texts.setdefault(kind, []).append(said)

    def answer(self, form: AnswerForm, finish_reason: str) -> str:
        """Return the answer as JSON: message, finish reason and metadata."""
        texts = {kind: "".join(pieces) for kind, pieces in self.texts.items()}
        calls = [call.whole() for call in form.calls.calls]
        message: dict[str, JsonValue] = {
            "content": texts.get("content") or (None if calls else ""),
            "refusal": texts.get("refusal"),
        }
        if reasoning := texts.get("reasoning_content"):
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = [*calls]
        tokens: list[JsonValue] = self.likely.get("content", [])
        lists: dict[str, JsonValue] = {name: [*each] for name, each in self.likely.items()}
        whole: dict[str, JsonValue] = {"message": message, "finish_reason": finish_reason}
        return compact({**whole, "logprobs": tokens or lists or None, **form.beside})


class PassedOnReader(AnswerReader):
    """Reads an answer for a program, keeping each chunk in OpenAI's form.

    An event that differs from an earlier one only in its text is not parsed.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        super().__init__(interrupts=interrupts)
        self.gathered = Gathered()
        self._chunks: list[str] = []
        self._known = JsonTemplate(_around_text)

    @property
    def text(self) -> str:
        """The answer so far without reasoning, for a chat or a completion."""
        content = "".join(self.gathered.texts.get("content", ()))
        return without_thoughts(content, over=self.finished is not None)

    def take_chunks(self) -> tuple[str, ...]:
        """Return the chunks since the last call."""
        chunks, self._chunks = tuple(self._chunks), []
        return chunks

    @property
    def kept(self) -> int:
        """The number of characters in all chunks."""
        return self._lengths.get("kept", 0)

    def answer(self) -> str:
        """Return the whole answer as JSON."""
        return self.gathered.answer(self.form, self.finished or "stop")

    def _take(self, data: str) -> bool:
        known = None if self.form.waits else self._known.read(data)
        if known is None:
            progress = super()._take(data)
            if progress:
                self._known.learn(data)
            return progress
        (kind, before, after), said = known
        self._read(None)
        self._pass_on(before + said + after)
        self.gathered.say(kind, said)
        self._say(kind, said)
        return True

    def _keep_chunk(self, chunk: Object) -> None:
        self.gathered.add(chunk)
        self._pass_on(compact(chunk))

    def _pass_on(self, chunk: str) -> None:
        self._chunks.append(chunk)
        self._count("kept", len(chunk))

    def _say(self, kind: str, said: str) -> None:
        self._count(kind, len(said))


class InfillReader(PassedOnReader):
    """Reads llama.cpp's own infill stream as a completion."""

    def _take(self, data: str) -> bool:
        return super()._take(as_completion(data))


def _around_text(data: str) -> Around | None:
    """Return the JSON around a chunk's text, or None if the chunk contains anything else."""
    event, form = parsed(data), AnswerForm()
    chunk = form.take(event)
    if chunk is None or form.finish_reason is not None or "logprobs" in chunk["choices"][0]:
        return None
    delta = chunk["choices"][0]["delta"]
    before, *after = compact(chunk).split(PROBE)
    if list(delta.values()) != [PROBE] or len(after) != 1:
        return None
    return next(iter(delta)), before, after[0]


TURN_S = 0.002
"""How long lines are read before other tasks may run, in seconds."""


class LoopShare:
    """Keeps reading an answer from taking more than half of the event loop's time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._used = 0.0

    def fill(self, feed: Callable[[str], bool], lines: Iterator[str]) -> tuple[bool, bool]:
        """Feed lines for one turn. Returns whether any showed progress and if all were read."""
        began, progress = self._clock(), False
        for line in lines:
            progress |= feed(line)
            if self._clock() - began >= TURN_S:
                self._used += self._clock() - began
                return progress, False
        self._used += self._clock() - began
        return progress, True

    async def pause(self) -> None:
        """Sleep after a turn until this answer has used at most half of the time."""
        if self._used < TURN_S:
            return
        idle = self._clock() - self._since - self._used
        await asyncio.sleep(max(0.0, self._used - idle))
        self._since, self._used = self._clock(), 0.0


log = logging.getLogger(__name__)
REPORT_EVERY_S = 0.1  # a fast server sends thousands of tokens a second
DIAGNOSIS_S = 120.0
SILENT = problem(ProblemKind.SILENT)
ONLY_THOUGHTS = problem(ProblemKind.ONLY_THOUGHTS)
ONLY_CALLS = problem(ProblemKind.ONLY_CALLS)
NO_TEXT = (SILENT, ONLY_THOUGHTS, ONLY_CALLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionCall:
    """A request to a model: its body, its path on the server, and the requested model name.

    `look_up` asks the server for the model again. `unopened` holds the models whose last answer had
    reasoning without an opening mark. `context` is set for a server that silently cuts a longer
    question. With `passed_on`, the answer is for a program: it is collected whole, each chunk is
    reported, and it may consist of tool calls alone.
    """

    body: dict[str, JsonValue]
    path: str
    model_id: str
    timeouts: Timeouts
    look_up: Callable[[], Awaitable[Served]]
    unopened: set[str] = field(default_factory=set)
    context: int | None = None
    passed_on: bool = False


async def stream_answer(
    http: Http, flavour: Flavour, question: CompletionCall, report: Report
) -> Output:
    """Return the whole answer, reporting it as it grows.

    Cancelling closes the connection, which stops the server's work. Raises `BackendError`s.
    """
    with classified():
        reader = await _stream(http, flavour, question, report)
        if reader.silent:
            raise await _why_silent(http, question)
    if reader.odd:
        log.warning(
            "%s: skipped an unreadable part of an answer: %s", question.model_id, reader.odd
        )
    _require_whole(reader)
    _require_read(reader, question)
    if isinstance(reader, PassedOnReader):
        large = reader.kept > LARGE
        answer = await one_at_a_time(reader.answer) if large else reader.answer()
        return Output(text=reader.text, answer=answer)
    if reader.opened_by_template:
        question.unopened.add(question.model_id)
    else:
        question.unopened.discard(question.model_id)
    return Output(text=_text(reader))


async def _stream(
    http: Http, flavour: Flavour, question: CompletionCall, report: Report
) -> AnswerReader:
    """Read the answer. If the reader is `silent`, the stream broke off without an error.

    A connection that breaks after the finish reason is no error, because the answer is complete.
    """
    reader = _reader(question, flavour)
    opened = False
    read_s = silence_s(question.timeouts)
    try:
        async with http.stream_lines(question.path, question.body, read_s=read_s) as lines:
            opened = True
            await _follow(lines, reader, flavour, question, report)
    except Unavailable:
        if not opened or not (reader.silent or reader.finished):
            raise
    reader.close()
    if chunks := reader.take_chunks():
        report(Progress(chunks=chunks))
    return reader


def _reader(question: CompletionCall, flavour: Flavour) -> AnswerReader:
    if question.passed_on:
        kind = InfillReader if question.path.startswith(INFILL) else PassedOnReader
        return kind(interrupts=flavour.interrupts)
    opened = question.model_id in question.unopened
    return AnswerReader(interrupts=flavour.interrupts, opened=opened)


async def _follow(
    lines: AsyncIterator[Sequence[str]],
    reader: AnswerReader,
    flavour: Flavour,
    question: CompletionCall,
    report: Report,
) -> None:
    clock = asyncio.get_running_loop().time
    reported_at, named = -REPORT_EVERY_S, False
    share = LoopShare(clock)
    async for together in lines:
        rest = iter(together)
        while True:
            news, over = share.fill(reader.feed, rest)
            if reader.model and not named:
                named = True
                await require_same(flavour, question.model_id, question.look_up, reader.model)
            if chunks := reader.take_chunks():
                report(Progress(chunks=chunks))
            elif news and clock() - reported_at >= REPORT_EVERY_S:
                reported_at = clock()
                report(Progress(text=reader.text or None))
            if reader.ended:
                return
            await share.pause()
            if over:
                break


async def require_same(
    flavour: Flavour, model_id: str, look_up: Callable[[], Awaitable[Served]], answers: str
) -> None:
    """Raise an error if a model other than the requested one answered.

    LM Studio and llama.cpp answer requests for an unknown name with any loaded model.
    """
    if not flavour.exact or plain(answers) == plain(model_id):
        return
    served = await look_up()
    if ModelList([served]).find(answers):  # the same model under another name
        return
    cause = f"{model_id} was requested, but {answers[:200]} answered"
    raise NotLoaded(cause) if served.loaded is False else BadModel(cause, problem=NO_MODEL)


async def _why_silent(http: Http, question: CompletionCall) -> BackendError:
    """Repeat the request without streaming to find out why the stream was empty.

    llama-cpp-python ends the stream without an error where it would otherwise respond with 400, and
    breaks the connection.
    """
    whole: JsonValue = {**question.body, "stream": False, "max_tokens": 1}
    lost: BackendError = UnreadableAnswer("the server ended the answer without any content")
    for _ in range(2):  # the first may hit the closing connection of the stream
        try:
            answer = await http.post_json(
                question.path, whole, timeout_s=DIAGNOSIS_S, limit=EVENT_LIMIT
            )
        except BadStatus as error:
            return classify_answer(error)
        except (Unavailable, UnreadableAnswer) as error:
            lost = error
            continue
        if isinstance(answer, dict) and answer.get("error"):
            return classify(200, answer)
        break
    return lost


def silence_s(timeouts: Timeouts) -> float | None:
    """Return how long a connection may be silent before it counts as dead.

    The job runner's own timeouts are tighter, so this only detects a peer that has vanished.
    """
    if timeouts.first_s is None or timeouts.idle_s is None:
        return timeouts.total_s
    return max(timeouts.first_s, timeouts.idle_s)


def _require_whole(reader: AnswerReader) -> None:
    """Raise the error for an answer that ended too early or could not be read."""
    if reader.finished is None:
        raise UnreadableAnswer("the server broke off its answer")
    if reader.form.unknown and not reader.said:
        kinds = ", ".join(sorted(reader.form.unknown))
        raise UnreadableAnswer(f"the answer contains only unknown parts: {kinds}")


def _require_read(reader: AnswerReader, question: CompletionCall) -> None:
    """Raise an error if the server cut the question to fit its context."""
    usage = reader.form.beside.get("usage")
    read = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not question.context or not isinstance(read, int):
        return
    # A short question can have such a number by chance, or because a server leaves out what it
    # had cached.
    cut = read in _cut_to(question.context) or read < newest_tokens(question.body)
    if read >= question.context or (cut and may_exceed(question.body, question.context)):
        raise Rejected(
            f"the server has cut the question to its {question.context} tokens",
            problem=problem(ProblemKind.TOO_LONG),
        )


def _cut_to(context_tokens: int) -> Collection[int]:
    """Return how many tokens of a question that exceeds its context Ollama reads.

    Ollama keeps the first 4 (or 5 with the token that begins a text), and the last half of the
    rest.
    """
    return [context_tokens - (context_tokens - kept) // 2 for kept in (4, 5)]


def _text(reader: AnswerReader) -> str:
    """Return the text of a whole answer. Raises `Rejected` if it is empty."""
    if text := reader.text.strip():
        return text
    if reader.form.calls.calls and reader.finished != "length":
        raise Rejected("the model only called tools", problem=ONLY_CALLS)
    thoughts = reader.only_thinks or reader.finished == "length"
    raise Rejected("empty answer", problem=ONLY_THOUGHTS if thoughts else SILENT)
