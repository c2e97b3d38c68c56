"""The kinds of backends by name. To add a kind, add a folder and an entry in `KINDS`."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from backends.comfyui.backend import ComfyUI
from backends.demo.backend import Demo
from backends.images.backend import IMAGE_FLAVOURS, Images
from backends.openai.backend import OpenAI
from backends.openai.flavours.server import FLAVOURS
from backends.openai.lmstudio import LMStudio
from queueing.core.errors import BadModel
from queueing.core.ports import Backend
from queueing.core.requests import Capability
from queueing.core.specs import BackendSpec


class BackendKind(Protocol):
    """A class of backends: creates one from a spec and states the defaults of its servers.

    `ports` are the usual ports of its servers, which `usher init` probes. `serial`,
    `max_models`, `offloads` and `parallel` are the defaults of these fields in `BackendSpec`.
    """

    needs_url: bool
    ports: tuple[int, ...]
    serial: bool
    max_models: int | None
    offloads: bool
    parallel: int
    capabilities: frozenset[Capability]

    def __call__(self, spec: BackendSpec) -> Backend:
        """Return a backend without opening a connection. Raises `BadModel` naming the setting."""


KINDS: Mapping[str, BackendKind] = {
    "comfyui": ComfyUI,
    "lmstudio": LMStudio,
    "openai": OpenAI,
    "images": Images,
    "demo": Demo,
}
"""Every kind of backend, by its name in the configuration.

If several kinds recognise a server, the first one wins.
"""


FLAVOURS_OF: Mapping[str, Iterable[str]] = {"openai": FLAVOURS, "images": IMAGE_FLAVOURS}
"""The flavours of the kinds that support several servers, as named in the setting `flavour`."""


def kinds_of(server: str) -> list[str]:
    """Return the kinds that support a server, given its project: for llama.cpp, `openai`."""
    named = _letters(server)
    return [
        kind
        for kind, flavours in FLAVOURS_OF.items()
        if named in {_letters(each) for each in flavours}
    ]


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def connect(spec: BackendSpec) -> Backend:
    """Return the backend that a spec describes, without opening a connection.

    Raises `BadModel` naming the invalid setting.
    """
    kind = KINDS.get(spec.kind)
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise BadModel(f"backends.{spec.name}.kind: unknown kind (known: {known})")
    return kind(spec)
