"""Inference servers: one file a kind. Know no chat and no store."""

from collections.abc import Mapping

from backends.demo import Demo
from queueing.catalog import BackendSpec
from queueing.errors import BadModel
from queueing.ports import Backend

Kind = type[Demo]

KINDS: Mapping[str, Kind] = {
    "demo": Demo,
}
"""Every kind of backend by its name in the configuration.

Each class carries the defaults its servers have: `serial`, `parallel` and `max_models`.
"""


def connect(spec: BackendSpec) -> Backend:
    """Return the backend a specification describes; opens no connection yet.

    Raises `BadModel` naming the setting that cannot work.
    """
    kind = KINDS.get(spec.kind)
    if kind is None:
        raise BadModel(
            f"backends.{spec.name}.kind: unknown kind (known: {', '.join(sorted(KINDS))})"
        )
    return kind(spec)
