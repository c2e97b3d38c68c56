"""Reads ComfyUI's websocket messages, and how far an attempt has come. Pure.

Messages are hints: failures and results are read from the server over HTTP, unless it has
forgotten them.
"""

import json
import struct
from collections.abc import Collection

from pydantic import Field, JsonValue

from backends.comfyui.workflow.graph import Graph, upstream_of
from backends.comfyui.workflow.graph_analysis import planned_steps
from queueing.core.bounded_json import BoundedRecord, require_few_values
from queueing.core.requests import File, Progress

HANDSHAKE = json.dumps({"type": "feature_flags", "data": {"supports_preview_metadata": True}})
"""The first frame of every connection: asks for previews that name their prompt."""

_LABELLED_PREVIEW = 4  # the frame kind of a picture with a JSON header
_SAMPLER_WEIGHT = 30  # the sampler takes most of the time; every other node counts 1
_STEPS_MOST = 100_000  # a server that reports more reports nonsense
_SUFFIXES = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


class MessageData(BoundedRecord):
    """The fields of all messages that are used here; unknown fields are ignored."""

    prompt_id: str | None = None
    node: str | None = None
    nodes: list[str] | None = None
    value: float | None = Field(default=None, ge=0, le=_STEPS_MOST)
    max: float | None = Field(default=None, ge=0, le=_STEPS_MOST)
    output: JsonValue = None


class Message(BoundedRecord):
    """One text message from the server."""

    type: str
    data: MessageData

    def ends(self, key: str) -> bool:
        """Whether the server has finished this attempt and written its history."""
        return self.type == "executing" and self.data.prompt_id == key and self.data.node is None

    def begins(self, key: str) -> bool:
        """Whether this attempt begins: what its nodes make is reported from now on."""
        return self.type == "execution_start" and self.data.prompt_id == key

    def made(self, key: str) -> dict[str, JsonValue]:
        """Return what a node of this attempt reports to have made; empty for other messages."""
        mine = self.type == "executed" and self.data.prompt_id == key
        return self.data.output if mine and isinstance(self.data.output, dict) else {}

    def succeeds(self, key: str) -> bool:
        """Whether every node of this attempt has run; its history is not written yet."""
        return self.type == "execution_success" and self.data.prompt_id == key


class _PreviewHeader(BoundedRecord):
    prompt_id: str
    image_type: str = "image/jpeg"


def read_message(text: str) -> Message | None:
    """Return a text message; None for other kinds and for garbage."""
    try:
        require_few_values(text.encode(errors="replace"))
        return Message.model_validate_json(text)
    except ValueError:  # TooManyValues, or a ValidationError
        return None


def read_preview(frame: bytes, key: str) -> File | None:
    """Return the picture in a binary frame that belongs to this attempt, or None.

    Unlabelled frames are dropped: the server broadcasts previews of other people's prompts in them.
    """
    try:
        kind, length = struct.unpack_from(">II", frame)
        require_few_values(frame[8 : 8 + length])
        header = _PreviewHeader.model_validate_json(frame[8 : 8 + length])
    except (struct.error, ValueError):
        return None
    suffix = _SUFFIXES.get(header.image_type)
    if kind != _LABELLED_PREVIEW or header.prompt_id != key or suffix is None:
        return None
    return File(name=f"preview.{suffix}", mime=header.image_type, data=frame[8 + length :])


class Tracker:
    """Follows one attempt through its graph; neither its fraction nor its steps ever fall.

    The steps of all samplers count together: the second expert of a film goes on where the first
    one ended.
    """

    def __init__(self, key: str, graph: Graph) -> None:
        self._key = key
        self._graph = graph
        self._steps = planned_steps(graph)  # of each sampler; 0 until it is known
        self._knows_samplers = bool(self._steps)
        self._weights = {
            node_id: _SAMPLER_WEIGHT if node_id in self._steps else 1 for node_id in graph
        }
        self._done: set[str] = set()
        self._current: str | None = None
        self._fraction = 0.0
        self._made = 0  # steps reported

    def follow(self, message: Message) -> Progress | None:
        """Return this attempt's progress from a message, or None."""
        data = message.data
        if data.prompt_id != self._key:
            return None
        match message.type:
            case "execution_start":
                return self._progress()
            case "execution_cached":
                self._done.update(data.nodes or ())
                return self._progress()
            case "executing" if data.node is not None:
                self._enter(data.node)
                total = sum(self._steps.values())
                between = 0 < self._made < total  # two samplers
                return self._progress(step=(self._made, total) if between else None)
            case "progress" if data.value is not None and data.max:
                self._enter(data.node)
                steps = max(int(data.max), 1)  # some nodes count in parts of one
                return self._stepped(data.node, min(int(data.value), steps), steps)
            case _:
                return None

    def _stepped(self, node: str | None, made: int, steps: int) -> Progress:
        slow = steps > 1 and not self._knows_samplers
        if node is not None and node in self._weights and slow:
            self._steps[node], self._weights[node] = steps, _SAMPLER_WEIGHT
        if node is None or node not in self._steps:
            return self._progress(within=made / steps)
        self._steps[node] = steps  # the server knows better
        earlier = sum(self._steps[each] for each in self._done & self._steps.keys() - {node})
        total = sum(self._steps.values())
        self._made = max(self._made, min(earlier + made, total))
        return self._progress(within=made / steps, step=(self._made, max(total, self._made)))

    def _enter(self, node: str | None) -> None:
        if node == self._current:
            return
        if self._current is not None:
            self._done.add(self._current)
        self._current = node
        if node is not None:  # messages before the first one received may be missing
            self._done |= upstream_of(self._graph, node)

    def _progress(self, *, within: float = 0.0, step: tuple[int, int] | None = None) -> Progress:
        current = self._weigh({self._current} - self._done)
        done = self._weigh(self._done) + min(within, 1.0) * current
        total = sum(self._weights.values()) or 1
        self._fraction = max(self._fraction, min(done / total, 1.0))
        return Progress(fraction=self._fraction, step=step if step and step[1] > 1 else None)

    def _weigh(self, nodes: Collection[str | None]) -> float:
        return sum(self._weights.get(node, 0) for node in nodes if node is not None)
