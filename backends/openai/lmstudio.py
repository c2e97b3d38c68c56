"""LM Studio: a server with an OpenAI-compatible API that loads and unloads models on request."""

from typing import Annotated, ClassVar

from pydantic import Field, SecretStr

from backends.common.options import read_options
from backends.openai.backend import OpenAI
from backends.openai.flavours.flavour import EMBEDS, WRITES
from backends.openai.flavours.lmstudio import LMStudio3, LMStudio4
from queueing.core.requests import Record
from queueing.core.specs import BackendSpec


class LMStudioOptions(Record):
    """A backend's settings: the API token, if the server requires one (0.4 and newer).

    `idle_unload_s` applies to 0.3: how long an unused model stays loaded, or None for LM Studio's
    own setting. Newer versions unload models on request.
    """

    token: SecretStr | None = None
    idle_unload_s: Annotated[int, Field(ge=1)] | None = None


class LMStudio(OpenAI):
    """An LM Studio server; see `queueing.core.ports.Backend` for the contract."""

    ports: ClassVar[tuple[int, ...]] = (1234,)  # also used by stable-diffusion.cpp
    stranger: ClassVar[str] = "no LM Studio 0.3.6 or newer answers at this url"
    capabilities = WRITES | EMBEDS

    def __init__(self, spec: BackendSpec) -> None:
        options = read_options(LMStudioOptions, spec.options, f"backends.{spec.name}")
        self._connect(spec, options.token, [LMStudio4(), LMStudio3(options.idle_unload_s)])
