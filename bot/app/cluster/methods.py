"""The calls of the queue by name: how their arguments and results are written."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from bot.app.cluster.json_values import from_json, to_json
from bot.core.admin import ModelPreloads, QueueAdmin
from bot.core.deliveries import Deliveries
from bot.core.erasure import JobEraser
from bot.core.models import ModelReader
from bot.core.queue import JobFiles, JobReader
from bot.core.status import QueueStatus
from bot.core.submitting import JobSubmitter

PARTS: Mapping[str, type] = {
    "submitter": JobSubmitter,
    "jobs": JobReader,
    "deliveries": Deliveries,
    "models": ModelReader,
    "status": QueueStatus,
    "admin": QueueAdmin,
    "preloads": ModelPreloads,
    "erasure": JobEraser,
}
"""The parts of `QueueService` whose calls travel; `events` are pushed, `JobFiles` read where asked."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One awaited call of a part."""

    part: str
    name: str
    signature: inspect.Signature
    arguments_kind: Any
    result_kind: Any

    def arguments_json(self, args: Sequence[object], named: Mapping[str, object]) -> bytes:
        """Return the arguments of a call as JSON, the omitted ones included."""
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        return to_json(tuple(bound.arguments.values()), self.arguments_kind)

    def arguments(self, data: bytes) -> Mapping[str, Any]:
        """Return the arguments by name. Raises `ValueError`."""
        values = from_json(data, self.arguments_kind)
        return dict(zip(self.signature.parameters, values, strict=True))


@cache
def method(part: str, name: str) -> Method:
    """Return a call by the names of its part and itself. Raises `LookupError` if none travels."""
    declared = None if hasattr(JobFiles, name) else getattr(PARTS[part], name, None)
    if name.startswith("_") or not inspect.iscoroutinefunction(declared):
        raise LookupError(f"{part}.{name}")
    whole = inspect.signature(declared)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    hints = get_type_hints(declared)
    kinds = tuple(hints[each] for each in signature.parameters)
    return Method(
        part=part,
        name=name,
        signature=signature,
        arguments_kind=tuple[kinds],  # type: ignore[valid-type]
        result_kind=hints["return"],
    )
