"""Reads ComfyUI's websocket messages, and how far an attempt has come. Pure.

Messages are hints: failures and results are always read from the server over HTTP.
"""

import json
import struct
from collections.abc import Collection

from pydantic import BaseModel, Field, ValidationError

from backends.comfyui.workflow.graph import Graph, upstream_of
from queueing.core.requests import File, Progress

HANDSHAKE = json.dumps({"type": "feature_flags", "data": {"supports_preview_metadata": True}})
"""The first frame of every connection: asks for previews that name their prompt."""

_LABELLED_PREVIEW = 4  # the frame kind of a picture with a JSON header
_SAMPLER_WEIGHT = 30  # the sampler takes most of the time; every other node counts 1
_STEPS_MOST = 100_000  # a server that reports more reports nonsense
_SUFFIXES = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


class MessageData(BaseModel):
    """The fields of all messages that are used here; unknown fields are ignored."""

    prompt_id: str | None = None
    node: str | None = None
    nodes: list[str] | None = None
    value: float | None = Field(default=None, ge=0, le=_STEPS_MOST)
    max: float | None = Field(default=None, ge=0, le=_STEPS_MOST)


class Message(BaseModel):
    """One text message from the server."""

    type: str
    data: MessageData

    def ends(self, key: str) -> bool:
        """Whether the server has finished this attempt and written its history."""
        return self.type == "executing" and self.data.prompt_id == key and self.data.node is None

    def succeeds(self, key: str) -> bool:
        """Whether every node of this attempt has run; its history is not written yet."""
        return self.type == "execution_success" and self.data.prompt_id == key


class _PreviewHeader(BaseModel):
    prompt_id: str
    image_type: str = "image/jpeg"


def read_message(text: str) -> Message | None:
    """Return a text message; None for other kinds and for garbage."""
    try:
        return Message.model_validate_json(text)
    except ValidationError:
        return None


def read_preview(frame: bytes, key: str) -> File | None:
    """Return the picture in a binary frame that belongs to this attempt, or None.

    Unlabelled frames are dropped: the server broadcasts previews of other people's prompts in them.
    """
    try:
        kind, length = struct.unpack_from(">II", frame)
        header = _PreviewHeader.model_validate_json(frame[8 : 8 + length])
    except (struct.error, ValidationError):
        return None
    suffix = _SUFFIXES.get(header.image_type)
    if kind != _LABELLED_PREVIEW or header.prompt_id != key or suffix is None:
        return None
    return File(name=f"preview.{suffix}", mime=header.image_type, data=frame[8 + length :])


class Tracker:
    """Follows one attempt through its graph; the fraction it reports never falls."""

    def __init__(self, key: str, graph: Graph) -> None:
        self._key = key
        self._graph = graph
        self._weights = {
            node_id: _SAMPLER_WEIGHT if "latent_image" in node.inputs else 1
            for node_id, node in graph.items()
        }
        self._knows_heavy = _SAMPLER_WEIGHT in self._weights.values()
        self._done: set[str] = set()
        self._current: str | None = None
        self._fraction = 0.0

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
                return self._progress()
            case "progress" if data.value is not None and data.max:
                self._enter(data.node)
                steps = max(int(data.max), 1)  # some nodes count in parts of one
                if steps > 1 and not self._knows_heavy and data.node in self._weights:
                    self._weights[data.node] = _SAMPLER_WEIGHT  # slow nodes count by their steps
                return self._progress((min(int(data.value), steps), steps))
            case _:
                return None

    def _enter(self, node: str | None) -> None:
        if node == self._current:
            return
        if self._current is not None:
            self._done.add(self._current)
        self._current = node
        if node is not None:  # messages before the first one received may be missing
            self._done |= upstream_of(self._graph, node)

    def _progress(self, step: tuple[int, int] | None = None) -> Progress:
        within = min(step[0] / step[1], 1.0) if step else 0.0
        done = self._weigh(self._done) + within * self._weigh({self._current})
        total = sum(self._weights.values()) or 1
        self._fraction = max(self._fraction, min(done / total, 1.0))
        return Progress(fraction=self._fraction, step=step if step and step[1] > 1 else None)

    def _weigh(self, nodes: Collection[str | None]) -> float:
        return sum(self._weights.get(node, 0) for node in nodes if node is not None)
