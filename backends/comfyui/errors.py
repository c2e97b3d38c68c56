"""Maps ComfyUI's refusals and failures to errors that say whose fault it is. Pure.

People never see the server's own messages, which contain file lists, paths and other people's
texts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from backends.comfyui.answers import Ended, NodeFailure
from backends.comfyui.workflow.graph.analysis import loaded_by
from backends.comfyui.workflow.graph.nodes import FILES, FOLLOWS, WORDS, Asked
from backends.comfyui.workflow.template import Template, blame
from backends.common.error_rules import NO_MAIN_MEMORY, OUT_OF_MEMORY, judged_answer, says
from backends.common.http_replies import HttpFailed, HttpRefused, parse_json
from queueing.core.bounded_json import BoundedRecord
from queueing.core.errors import (
    BackendError,
    BadModel,
    Interrupted,
    ModelCrashed,
    OutOfMemory,
    Problem,
    ProblemKind,
    Rejected,
    ShortOfMemory,
    UnreadableAnswer,
    problem,
)
from queueing.core.requests import Generation

MISCONFIGURED = problem(ProblemKind.MISCONFIGURED)
UNREADABLE_IMAGE = problem(ProblemKind.BAD_START)
STEP_FAILED = problem(ProblemKind.STEP_FAILED)

_IMAGES = FILES - {"audio"}
BAD_PROMPT = 400
# Exceptions of the runtime. Their messages are matched from the start, because other nodes quote
# people's texts in their errors.
_OF_RUNTIME = ("RuntimeError", "AcceleratorError")
# After these errors the process fails every prompt until it is restarted.
_SICK = re.compile(r"(cuda|hip) error|(an )?illegal memory access|device-side assert")


class _NodeFault(BoundedRecord):
    type: str = ""
    message: str = ""
    details: str = ""
    extra_info: dict[str, Any] = Field(default_factory=dict)


class _NodeFaults(BoundedRecord):
    errors: list[_NodeFault] = Field(default_factory=list)
    class_type: str = ""


class _Refusal(BoundedRecord):
    error: _NodeFault | str | None = None
    node_errors: dict[str, _NodeFaults] | list[Any] = Field(default_factory=dict)


def refusal(body: JsonValue, workflow: Template, request: Asked) -> BackendError:
    """Return the error for a prompt that was rejected completely or in part."""
    try:
        read = _Refusal.model_validate(body)
    except ValidationError:
        return Rejected(f"refused: {str(body)[:200]!a}", problem=STEP_FAILED)
    asked = {word for word in WORDS if _asks(request, word)} | FILES
    for node_id, fault in _faults(read):
        guilty = blame(workflow, node_id, str(fault.extra_info.get("input_name"))) & asked
        if guilty:
            word = min(guilty)
            return Rejected(f"node {node_id}: {_short(fault)}", problem=_wish(word, request))
    return BadModel(f"{workflow.name}: {_summary(read)}", problem=MISCONFIGURED)


def refused_prompt(refused: HttpRefused, workflow: Template, request: Asked) -> BackendError:
    """Return the error for a rejected request: the prompt's, a proxy's or the server's."""
    if refused.status != BAD_PROMPT:
        return judged_answer((), refused)
    try:
        return refusal(parse_json(refused.body), workflow, request)
    except UnreadableAnswer:
        return Rejected(str(refused), problem=STEP_FAILED)


@contextmanager
def answered() -> Iterator[None]:
    """Raise the actual error for a bad status inside the block, instead of `Unavailable`."""
    try:
        yield
    except HttpFailed as failed:
        raise judged_answer((), failed) from failed


def accepted_in_part(body: JsonValue) -> bool:
    """Return whether a 200 answer lists invalid outputs, so that only the others would run."""
    return not isinstance(body, dict) or bool(body.get("node_errors"))


def failure(failed: NodeFailure, workflow: Template) -> BackendError:
    """Return the error for an attempt in which a node raised an exception."""
    cause = (
        f"{workflow.name}: node {failed.node_id} ({failed.node_type}): {failed.exception_type}: "
        f"{failed.exception_message.strip()[:300]!a}"
    )
    message = failed.exception_message.strip().casefold()
    of_runtime = failed.exception_type.endswith(_OF_RUNTIME)
    no_room = of_runtime and says(message, OUT_OF_MEMORY)
    if no_room or failed.exception_type.endswith("OutOfMemoryError"):
        return OutOfMemory(cause)
    if failed.exception_type == "MemoryError" or (of_runtime and says(message, NO_MAIN_MEMORY)):
        return ShortOfMemory(cause)
    if of_runtime and _SICK.match(message):
        return ModelCrashed(cause)
    if _IMAGES & _placeholders(workflow, failed.node_id):
        return Rejected(cause, problem=UNREADABLE_IMAGE)
    if is_loader(workflow, failed.node_id):
        return BadModel(cause, problem=MISCONFIGURED)
    return Rejected(cause, problem=STEP_FAILED)


def raise_if_failed(workflow: Template, ended: Ended) -> None:
    """Raise the error of an attempt that failed or was interrupted."""
    if ended.failure is not None:
        raise failure(ended.failure, workflow)
    if ended.interrupted:
        raise Interrupted("interrupted on the server by another user")


def is_loader(workflow: Template, node_id: str) -> bool:
    """Return whether a node loads one of the template's models."""
    node = workflow.nodes.get(node_id)
    return node is not None and not workflow.marks.isdisjoint(loaded_by(node))


def emptied(workflow: Template, ended: Ended) -> bool:
    """Return whether a failed prompt emptied the memory: after an OOM the server unloads all."""
    if ended.failure is None:
        return False
    error = failure(ended.failure, workflow)
    return isinstance(error, OutOfMemory | ShortOfMemory) or is_loader(
        workflow, ended.failure.node_id
    )


def _asks(request: Asked, word: str) -> bool:
    return getattr(request, FOLLOWS.get(word, word), None) is not None


def _wish(word: str, request: Asked) -> Problem:
    if word in _IMAGES:
        return UNREADABLE_IMAGE
    if word == "lora" and isinstance(request, Generation):
        return problem(ProblemKind.NO_LORA, name=", ".join(lora.name for lora in request.lora)[:80])
    return problem(ProblemKind.NOT_TAKEN, field=FOLLOWS.get(word, word))


def _placeholders(workflow: Template, node_id: str) -> frozenset[str]:
    node = workflow.nodes.get(node_id)
    names = node.inputs if node else ()
    return frozenset[str]().union(*(blame(workflow, node_id, name) for name in names))


def _faults(read: _Refusal) -> Iterator[tuple[str, _NodeFault]]:
    if isinstance(read.node_errors, dict):
        for node_id, faults in read.node_errors.items():
            for fault in faults.errors:
                yield node_id, fault


def _summary(read: _Refusal) -> str:
    lines = [f"node {node_id}: {_short(fault)}" for node_id, fault in _faults(read)]
    if isinstance(read.error, _NodeFault) and not lines:
        lines = [f"{read.error.message} {read.error.details}".strip()]
    return "; ".join(lines) or str(read.error)


def _short(fault: _NodeFault) -> str:
    return f"{fault.message}: {fault.details[:200]}"
