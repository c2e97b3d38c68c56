"""Answers to programs: each chunk in OpenAI's form as it comes, and the whole answer. Pure."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from backends.common.json_template import PROBE, JsonTemplate
from backends.openai.answer_form import AnswerForm, Object, compact
from backends.openai.answer_reader import AnswerReader, parsed, without_thoughts
from backends.openai.passthrough import as_completion

Around = tuple[str, str, str]
"""The kind of a chunk's only text, and what stands before and after it in OpenAI's form."""


@dataclass(slots=True)
class Gathered:
    """A whole answer out of its chunks in OpenAI's form; calls are gathered by `ToolCalls`."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    likely: dict[str, list[JsonValue]] = field(default_factory=dict)

    def add(self, chunk: Object) -> None:
        """Take the next chunk."""
        choice = chunk["choices"][0]
        for kind, said in choice["delta"].items():
            if kind != "tool_calls":
                self.say(kind, said)
        for name, listed in choice.get("logprobs", {}).items():
            self.likely.setdefault(name, []).extend(listed)

    def say(self, kind: str, said: str) -> None:
        """Add the next words of a text."""
        self.texts.setdefault(kind, []).append(said)

    def answer(self, form: AnswerForm, finish_reason: str) -> str:
        """Return the answer as JSON: message, reason for the end, and what was said beside it."""
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
    """Reads the stream of a passed-on answer: keeps each chunk for the program that asked.

    An event that differs from an earlier one in its text alone is not parsed.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        super().__init__(interrupts=interrupts)
        self.gathered = Gathered()
        self._chunks: list[str] = []
        self._known = JsonTemplate(_around)

    @property
    def text(self) -> str:
        """The answer so far without its thoughts, of a conversation or of a prompt."""
        content = "".join(self.gathered.texts.get("content", ()))
        return without_thoughts(content, over=self.finished is not None)

    def take_chunks(self) -> tuple[str, ...]:
        """Return the chunks since the last call."""
        chunks, self._chunks = tuple(self._chunks), []
        return chunks

    @property
    def kept(self) -> int:
        """How many characters all chunks have together."""
        return self._lengths.get("kept", 0)

    def answer(self) -> str:
        """Return the whole answer as JSON."""
        return self.gathered.answer(self.form, self.finished or "stop")

    def _take(self, data: str) -> bool:
        known = None if self.form.waits else self._known.read(data)
        if known is None:
            progress = super()._take(data)
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
    """Reads llama.cpp's own stream of a filled gap as a completion."""

    def _take(self, data: str) -> bool:
        return super()._take(as_completion(data))


def _around(data: str) -> Around | None:
    """Return what stands around the text of a chunk if it holds nothing else of the answer."""
    event, form = parsed(data), AnswerForm()
    chunk = form.take(event)
    if chunk is None or form.finish_reason is not None or "logprobs" in chunk["choices"][0]:
        return None
    delta = chunk["choices"][0]["delta"]
    before, *after = compact(chunk).split(PROBE)
    if list(delta.values()) != [PROBE] or len(after) != 1:
        return None
    return next(iter(delta)), before, after[0]
