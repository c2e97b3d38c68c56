"""The kinds of backends by name. A new kind is a folder and a line here."""

from collections.abc import Mapping
from typing import Protocol

from backends.comfyui.backend import ComfyUI
from backends.demo.backend import Demo
from backends.images.backend import Images
from backends.openai.backend import OpenAI
from backends.openai.lmstudio import LMStudio
from queueing.core.catalog import BackendSpec
from queueing.core.errors import BadModel
from queueing.core.ports import Backend
from queueing.core.requests import Capability


class BackendKind(Protocol):
    """A class of backends: makes one from a specification and knows what its servers are like."""

    needs_url: bool
    serial: bool
    max_models: int | None
    offloads: bool
    parallel: int
    capabilities: frozenset[Capability]

    def __call__(self, spec: BackendSpec) -> Backend:
        """Return a backend without opening a connection. Raises `BadModel` naming the setting."""


KINDS: Mapping[str, BackendKind] = {
    "comfyui": ComfyUI,
    "demo": Demo,
    "images": Images,
    "lmstudio": LMStudio,
    "openai": OpenAI,
}
"""Every kind of backend by its name in the configuration."""


def connect(spec: BackendSpec) -> Backend:
    """Return the backend a specification describes, without opening a connection.

    Raises `BadModel` naming the setting that cannot work.
    """
    kind = KINDS.get(spec.kind)
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise BadModel(f"backends.{spec.name}.kind: unknown kind (known: {known})")
    return kind(spec)
