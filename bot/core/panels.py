"""What the web page's panels show: the data behind `/models`, `/settings`, `/status` and `/history`.

Words are in the reader's language. A `Content` holds a text that may contain moments.
"""

from dataclasses import dataclass

from bot.core.content import Content
from queueing.core.snapshot import Residency
from queueing.core.status import Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUse:
    """A command that uses a model. `chosen`: the model is the person's default for it."""

    command: str
    kind: str
    chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """A model: what it can do, where it is, its queue, and what hinders it.

    `memory` is None if it is in no memory; a model that `needs_memory` can be loaded ahead. While it
    loads, `ready_at` is when that is expected to end.
    """

    name: str
    aliases: tuple[str, ...]
    abilities: tuple[str, ...]
    place: str
    memory: Residency | None
    needs_memory: bool
    vram: str
    waiting: int
    running: int
    took: str
    ready_at: float | None
    ends: Estimate | None
    notes: Content
    uses: tuple[ModelUse, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsPanel:
    """All models, those in use first. If the reader `operates`, they may load and unload them."""

    models: tuple[ModelEntry, ...]
    operates: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A value of a setting, and its words."""

    value: str
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingRow:
    """A setting with its value now. If it is `free`, other values than the choices are possible."""

    name: str
    label: str
    value: str
    choices: tuple[Choice, ...]
    free: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsPanel:
    """A person's settings, their lane, and the GPU time they used today."""

    settings: tuple[SettingRow, ...]
    lane: str
    gpu: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenJobRow:
    """A waiting or running job of the reader. `told` is the text of its status message."""

    job: int
    model: str
    words: str
    running: bool
    fraction: float | None
    told: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyRow:
    """A model in a GPU's memory. It loads `ahead` if nobody has requested it yet."""

    model: str
    backend: str
    state: Residency
    ahead: bool
    running: int
    pinned: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRow:
    """A host. `told` is its line of `/status`, and `servers` are the lines of its servers."""

    name: str
    total_mb: int
    usable_mb: int
    used_mb: int
    told: Content
    copies: tuple[CopyRow, ...]
    servers: tuple[Content, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusPanel:
    """The reader's open jobs, oldest first, and the hosts. `more` counts the jobs left out."""

    jobs: tuple[OpenJobRow, ...]
    more: int
    hosts: tuple[GpuRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastJobRow:
    """A job of the reader. If it `shows`, `/show` sends its result again."""

    job: int
    model: str
    state: str
    state_words: str
    words: str
    at: float
    has_image: bool
    shows: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryPanel:
    """Jobs of the reader, newest first. `before` continues the list; None at its end."""

    jobs: tuple[PastJobRow, ...]
    before: int | None


Panel = ModelsPanel | SettingsPanel | StatusPanel | HistoryPanel
