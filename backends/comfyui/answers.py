"""Parses a ComfyUI server's responses and file lists into plain values. Pure.

It reads only the fields that are used. A response of any other shape means that the server is not
working properly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from backends.comfyui.workflow.graph.analysis import Marks, all_marks, is_plain
from backends.comfyui.workflow.graph.nodes import Node
from queueing.core.bounded_json import BoundedRecord, StopsEarly
from queueing.core.errors import UnreadableAnswer

T = TypeVar("T")

_MB = 1024 * 1024


class Stage(StrEnum):
    """The state of an unfinished attempt on the server."""

    WAITING = "waiting"
    RUNNING = "running"
    UNKNOWN = "unknown"  # never arrived, deleted from the queue, or lost in a restart


class ServerFile(BoundedRecord):
    """A file that the server wrote; the three fields are the parameters of /view."""

    model_config = ConfigDict(frozen=True)

    filename: str
    subfolder: str = ""
    type: str = "output"


class NodeFailure(BoundedRecord):
    """A node's exception. Its message is only for the log: it may contain paths and prompts."""

    node_id: str = ""
    node_type: str = ""
    exception_type: str = ""
    exception_message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """An attempt that has ended on the server: its files, or why it has none.

    With `told`, the result comes from websocket messages. It is only used if the server's history
    has been cleared.
    """

    files: tuple[ServerFile, ...] = ()
    failure: NodeFailure | None = None
    interrupted: bool = False
    told: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerPrompt:
    """A prompt the server ran or is running: its id and all marks of its graph."""

    id: str
    marks: Marks

    @property
    def weightless(self) -> bool:
        """Whether it loads no model and leaves the memory as it is."""
        return is_plain(self.marks)


class _Status(BoundedRecord):
    messages: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)


class _Node(BoundedRecord):
    class_type: str = ""
    inputs: dict[str, JsonValue] = Field(default_factory=dict)


class _History(BoundedRecord):
    prompt: list[Any]
    outputs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    status: _Status | None = None


class _Queue(BoundedRecord):
    queue_running: list[list[Any]]
    queue_pending: list[list[Any]]


class _Job(BoundedRecord):
    status: str


class _Upload(BoundedRecord):
    name: str
    subfolder: str = ""


class _Device(BoundedRecord):
    type: str = ""
    vram_total: int = 0
    vram_free: int = 0
    torch_vram_total: int = 0


class _System(BoundedRecord):
    comfyui_version: str = "of an unknown version"


class Stats(BoundedRecord):
    """The server's version and memory; the first device is the one that computes."""

    system: _System
    devices: list[_Device] = Field(min_length=1)

    @property
    def total_mb(self) -> int:
        """The GPU's memory, or the host's if it runs on a CPU."""
        return self.devices[0].vram_total // _MB

    @property
    def free_mb(self) -> int:
        """The free part of `total_mb`."""
        return self.devices[0].vram_free // _MB

    @property
    def held_mb(self) -> int:
        """The GPU memory this server holds; 0 on a CPU, where it is unknown."""
        device = self.devices[0]
        return 0 if device.type == "cpu" else device.torch_vram_total // _MB


_JOBS = TypeAdapter(_Job)
_QUEUES = TypeAdapter(_Queue)
_HISTORIES = TypeAdapter(Annotated[dict[str, _History], StopsEarly])
_GRAPHS = TypeAdapter(Annotated[dict[str, _Node], StopsEarly])
_STATS = TypeAdapter(Stats)
_FILES = TypeAdapter(ServerFile)
_UPLOADS = TypeAdapter(_Upload)
_FAILURES = TypeAdapter(NodeFailure)

_IN_JOBS = {"pending": Stage.WAITING, "in_progress": Stage.RUNNING}


def read_job(body: JsonValue) -> Stage | None:
    """Read an attempt's stage from a response of /api/jobs/{id}; None if it has ended."""
    return _IN_JOBS.get(_read(_JOBS, body).status)


def read_queue(body: JsonValue, key: str) -> Stage | None:
    """Read an attempt's stage from a response of /queue; None if it is not listed."""
    queue = _read(_QUEUES, body)
    if any(key in item[1:2] for item in queue.queue_running):
        return Stage.RUNNING
    return Stage.WAITING if any(key in item[1:2] for item in queue.queue_pending) else None


def read_ahead(body: JsonValue, key: str) -> int:
    """Read from a response of /queue how many prompts are ahead of a waiting one."""
    queue = _read(_QUEUES, body)
    own = next((item[0] for item in queue.queue_pending if key in item[1:2]), None)
    if own is None:
        return 0
    before = [item for item in queue.queue_pending if item and item[0] < own]
    return len(queue.queue_running) + len(before)


def read_running(body: JsonValue) -> ServerPrompt | None:
    """Read the running prompt from a response of /queue."""
    for item in _read(_QUEUES, body).queue_running:
        return _prompt(item)
    return None


def read_ended(body: JsonValue, key: str) -> Ended | None:
    """Read how an attempt ended from a response of /history/{id}; None if it is not listed."""
    entry = _read(_HISTORIES, body).get(key)
    return _ended(entry) if entry else None


def read_newest(body: JsonValue) -> list[tuple[ServerPrompt, Ended]]:
    """Read the latest ended prompts, newest first, from a response of /history."""
    entries = reversed(_read(_HISTORIES, body).values())
    return [(_prompt(entry.prompt), _ended(entry)) for entry in entries]


def read_stats(body: JsonValue) -> Stats:
    """Read version and memory from a response of /system_stats."""
    return _read(_STATS, body)


def read_upload(body: JsonValue) -> str:
    """Return the name by which a graph refers to an uploaded image."""
    file = _read(_UPLOADS, body)
    return f"{file.subfolder}/{file.name}" if file.subfolder else file.name


def _ended(entry: _History) -> Ended:
    messages = dict(entry.status.messages) if entry.status else {}
    error = messages.get("execution_error")
    return Ended(
        files=files_of(entry.outputs.values()),
        failure=_read(_FAILURES, error) if error is not None else None,
        interrupted="execution_interrupted" in messages,
    )


def files_of(outputs: Iterable[Mapping[str, Any]]) -> tuple[ServerFile, ...]:
    """Return the files that nodes saved, without duplicates, whatever key a node lists them under.

    Omits previews, which are temporary, and entries without a file name.
    """
    items = [
        item
        for output in outputs
        for made in output.values()
        if isinstance(made, list)
        for item in made
    ]
    files = dict.fromkeys(filter(None, map(_file, items)))
    return tuple(file for file in files if file.type == "output")


def _file(item: object) -> ServerFile | None:
    try:
        return _FILES.validate_python(item)
    except ValidationError:
        return None


def _prompt(item: list[Any]) -> ServerPrompt:
    try:
        key, graph = str(item[1]), _GRAPHS.validate_python(item[2])
    except (IndexError, ValidationError):
        raise UnreadableAnswer("the server's queue has an unknown format") from None
    return ServerPrompt(
        id=key,
        marks=all_marks(
            {k: Node(class_type=node.class_type, inputs=node.inputs) for k, node in graph.items()}
        ),
    )


def _read(adapter: TypeAdapter[T], body: Any) -> T:
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise UnreadableAnswer(f"unexpected answer: {where}: {fault['msg']}") from None


FILES_MOST = 20_000  # files in a folder
NAME_MOST = 4_096  # characters, including folders
READ = ("modelspec.architecture", "ss_base_model_version")
"""The metadata fields that are read."""
_LONGEST = 200  # characters of a field


class _Listed(BoundedRecord):
    name: str
    size: int = 0


_NAMES = TypeAdapter(Annotated[list[str], Field(max_length=FILES_MOST), StopsEarly])
_SIZES = TypeAdapter(Annotated[list[_Listed], Field(max_length=FILES_MOST), StopsEarly])
_METADATA = TypeAdapter(Annotated[dict[str, Any], StopsEarly])


def read_names(body: JsonValue) -> tuple[str, ...]:
    """Return the distinct names of a folder's files. Omits names that no disk can store."""
    names: list[str] = _read_list(_NAMES, body)
    return tuple(dict.fromkeys(name for name in names if len(name) <= NAME_MOST))


def read_sizes(body: JsonValue) -> Mapping[str, int]:
    """Return a folder's file sizes in bytes by name; names always have forward slashes."""
    return {each.name: each.size for each in _read_list(_SIZES, body)}


def read_metadata(body: JsonValue) -> Mapping[str, str]:
    """Return the `READ` fields of a model file's metadata, which may also contain workflows."""
    told = _read_list(_METADATA, body)
    return {
        key: value
        for key in READ
        if isinstance(value := told.get(key), str) and len(value) <= _LONGEST
    }


def _read_list(adapter: TypeAdapter[T], body: JsonValue) -> T:
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        raise UnreadableAnswer(f"invalid list of models: {error.error_count()} errors") from None
