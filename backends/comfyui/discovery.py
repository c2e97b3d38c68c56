"""Finds a ComfyUI server's models and offers those whose family has a shipped template.

A file's family is determined by its name, or else by the metadata in the file, or else, for a
checkpoint, by its size. A file that matches no rule has no family: Usher never guesses.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from pydantic import JsonValue

from backends.comfyui.answers import READ
from backends.comfyui.families import CHECKPOINTS, FAMILIES, MODELS, Family, Value
from backends.comfyui.model_templates import read_templates
from backends.comfyui.server import ComfyUIServer
from backends.common.http_replies import HttpFailed
from backends.common.model_names import catalog_names, comparable
from queueing.core.errors import BadModel
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec

FOLDERS = (CHECKPOINTS, MODELS)
"""The folders whose files are separate models."""

_BY_METADATA: tuple[tuple[str, str], ...] = (
    (r"refiner", "an SDXL refiner"),
    (r"inpaint|-edit$", "an inpainting model"),
    (r"^stable-diffusion-xl|^sdxl|^illustrious|^pony", "SDXL"),
    (r"^stable-diffusion-v1|^sd[_-]?v?1", "Stable Diffusion 1.5"),
    (r"^stable-diffusion-v2|^sd[_-]?v?2", "Stable Diffusion 2"),
    (r"^stable-diffusion-v?3|^sd3", "Stable Diffusion 3 without encoders"),
    (r"^stable-video", "Stable Video Diffusion"),
    (r"^flux[.-]?1-schnell", "Flux.1 schnell"),
    (r"^flux[.-]?1(-dev)?$", "Flux.1 dev"),
)
_BY_SIZE: tuple[tuple[float, float, str], ...] = (
    (1.95e9, 2.25e9, "Stable Diffusion 1.5"),  # half precision
    (4.2e9, 4.4e9, "Stable Diffusion 1.5"),
    (2.5e9, 2.65e9, "Stable Diffusion 2"),
    (5.1e9, 5.3e9, "Stable Diffusion 2"),
    (6.4e9, 7.2e9, "SDXL"),
)
_ENDING = re.compile(r"\.(safetensors|sft|ckpt|pth?|bin|gguf)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFiles:
    """The server's files: names by folder, with the size and metadata of some."""

    names: Mapping[str, Sequence[str]]
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    metadata: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A model file: its family and why, the values for its template, and the files it lacks.

    Without a `family`, the file was not recognised. Without `values`, it cannot be offered.
    """

    file: str
    family: Family | None = None
    why: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether it has a template and every file it needs."""
        return bool(self.family and self.family.template and not self.lacks)

    @property
    def called(self) -> str:
        """The file's name, without the part that distinguishes the two files of an expert pair."""
        if not (self.family and self.family.partner):
            return self.file
        return re.sub(r"[-_ ]?high([-_ ]?noise)?", "", self.file, flags=re.IGNORECASE)

    def __str__(self) -> str:
        """Return a sentence for the operator."""
        if self.family is None:
            return f"{self.file}: unknown family; configure a workflow for it (docs/models.md)."
        told = f"{self.file}: {self.family.title} ({self.why})"
        if not self.family.template:
            return f"{told}; no shipped template; configure a workflow."
        if self.lacks:
            return f"{told}; not offered without {', '.join(self.lacks)}."
        return f"{told}; offered with {self.family.template}."


def recognised(files: ServerFiles) -> tuple[Found, ...]:
    """Identify each model file, in the server's order."""
    return tuple(
        _completed(files, folder, name)
        for folder in FOLDERS
        for name in files.names.get(folder, ())
        if not _is_partner(files, folder, name)
    )


def undecided(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the files that cannot be identified by name, so their metadata must be read."""
    return tuple(name for name in names if _by_name(folder, name) is None)


def family_of(
    folder: str, name: str, *, size: int | None = None, metadata: Mapping[str, str] | None = None
) -> tuple[Family, str] | None:
    """Return a file's family and how it was identified; None if it is unknown."""
    if named := _by_name(folder, name):
        return named, "its name"
    for key in READ:
        told = (metadata or {}).get(key, "").casefold()
        if family := _by_metadata(folder, told):
            return family, f"its metadata: {told}"
    if folder == CHECKPOINTS and size is not None:
        for least, most, title in _BY_SIZE:
            if least <= size <= most:
                return _titled(folder, title), f"its size of {size / 1e9:.1f} GB"
    return None


def stem(name: str) -> str:
    """Normalise a file's name for the rules."""
    bare = name.replace("\\", "/").rpartition("/")[2].casefold()
    return re.sub(r"[\s_]+", "-", _ENDING.sub("", bare))


# ---------------------------------------------------------------- by name and metadata


def _by_name(folder: str, name: str) -> Family | None:
    told = stem(name)
    return next(
        (each for each in FAMILIES if each.folder == folder and re.search(each.name, told)), None
    )


def _by_metadata(folder: str, told: str) -> Family | None:
    if not told or "/" in told:  # "…/lora" is a LoRA in the wrong folder
        return None
    title = next((title for rule, title in _BY_METADATA if re.search(rule, told)), None)
    known = {each.title for each in FAMILIES if each.folder == folder}
    return _titled(folder, title) if title in known else None


def _titled(folder: str, title: str | None) -> Family:
    return next(each for each in FAMILIES if (each.folder, each.title) == (folder, title))


# ---------------------------------------------------------------- with what it needs


def _completed(files: ServerFiles, folder: str, name: str) -> Found:
    key = folder, name
    known = family_of(folder, name, size=files.sizes.get(key), metadata=files.metadata.get(key))
    if known is None:
        return Found(file=name)
    family, why = known
    values: dict[str, Value] = {**family.values}
    if family.word:
        values[family.word] = name
    chosen = dict(_companions(files, folder, name, family))
    lacks = tuple(lack for word, (_, lack) in chosen.items() if lack)
    values |= {word: file for word, (file, lack) in chosen.items() if not lack}
    return Found(file=name, family=family, why=why, values=values, lacks=lacks)


def _companions(
    files: ServerFiles, folder: str, name: str, family: Family
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield a family's other placeholders, each with its file or the name of the missing file."""
    if family.partner:
        partner = _partner_of(files, folder, name)
        yield family.partner, (partner or "", "" if partner else f"{folder}/{_low(name)}")
    for each in family.companions:
        found = _first(files.names.get(each.folder, ()), each.names)
        yield each.word, (found or "", "" if found else f"{each.folder}/{_plain(each.names[0])}")


def _first(names: Sequence[str], rules: Sequence[str]) -> str | None:
    """Return the first name that matches a rule, trying the best rules first."""
    ordered = sorted(names)
    fitting = (name for rule in rules for name in ordered if re.search(rule, stem(name)))
    return next(fitting, None)


def _partner_of(files: ServerFiles, folder: str, name: str) -> str | None:
    wanted = _low(name)
    names = files.names.get(folder, ())
    return next((each for each in names if each.casefold() == wanted.casefold()), None)


def _is_partner(files: ServerFiles, folder: str, name: str) -> bool:
    """Return whether a file is the second of an expert pair whose first file exists."""
    first = re.sub("low", "high", name, flags=re.IGNORECASE)
    if first.casefold() == name.casefold():
        return False
    there = {each.casefold() for each in files.names.get(folder, ())}
    family = _by_name(folder, first)
    return bool(family and family.partner) and first.casefold() in there


def _low(name: str) -> str:
    return re.sub("high", "low", name, flags=re.IGNORECASE)


def _plain(rule: str) -> str:
    """Return a rule as a file name to search for."""
    return re.sub(r"[\^$\\?]|\(.*\)", "", rule) + "*"


log = logging.getLogger(__name__)

_COMPANION_FOLDERS = sorted({each.folder for family in FAMILIES for each in family.companions})
_NOTES_MOST = 20  # sentences in `usher check`
_LOGGED_MOST = 200  # sentences logged at once
_METADATA_MOST = 200  # most files whose metadata is read
_AT_ONCE = 4  # concurrent requests to one server


class Discovery:
    """Searches one server's folders and caches the metadata of its files.

    `notes` describe the files of the last search. Files that are not offered come first.
    """

    def __init__(self, backend: str) -> None:
        self.notes: tuple[str, ...] = ()
        self._backend = backend
        self._metadata: dict[tuple[str, str], Mapping[str, str]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._logged = frozenset[str]()

    async def look(self, server: ComfyUIServer, taken: Collection[str]) -> tuple[ModelSpec, ...]:
        """Return a model for each file that has a shipped template and is not in `taken`."""
        found = recognised(await self._files(server))
        self._note([each for each in found if comparable(each.file) not in taken])
        return discovered(found, self._backend, taken)

    async def _files(self, server: ComfyUIServer) -> ServerFiles:
        folders = [*FOLDERS, *_COMPANION_FOLDERS]
        names = {folder: await server.model_files(folder) for folder in folders}
        unclear = [
            (folder, name) for folder in FOLDERS for name in undecided(folder, names[folder])
        ]
        asked = unclear[:_METADATA_MOST]
        self._metadata = {file: self._metadata[file] for file in asked if file in self._metadata}
        await asyncio.gather(*(self._read_metadata(server, *file) for file in asked))
        sizes = {folder: await server.model_sizes(folder) for folder in dict(unclear)}
        return ServerFiles(
            names=names,
            sizes={
                (folder, name): sizes[folder].get(name.replace("\\", "/"), 0)
                for folder, name in unclear
            },
            metadata=self._metadata,
        )

    async def _read_metadata(self, server: ComfyUIServer, folder: str, name: str) -> None:
        """Read a file's metadata. If the server cannot read it now, the next search tries again."""
        if (folder, name) not in self._metadata:
            async with self._gate:
                with suppress(HttpFailed):  # for example, an unfinished download
                    self._metadata[folder, name] = await server.metadata(folder, name)

    def _note(self, found: Sequence[Found]) -> None:
        told = [str(each) for each in sorted(found, key=lambda each: each.offered)]
        for note in [each for each in told if each not in self._logged][:_LOGGED_MOST]:
            log.info("%s: %s", self._backend, note)
        self._logged = frozenset(told)
        more = len(told) - _NOTES_MOST
        self.notes = (*told[:_NOTES_MOST], *([f"… and {more} more."] if more > 0 else []))


def discovered(
    found: Sequence[Found], backend: str, taken: Collection[str] = frozenset()
) -> tuple[ModelSpec, ...]:
    """Return a model, named after its file, for each offered file that is not in `taken`.

    `taken` are files in a comparable form.
    """
    offered = [each for each in found if each.offered]
    names = catalog_names([each.called for each in offered])
    return tuple(
        _spec(name, backend, each)
        for name, each in zip(names, offered, strict=True)
        if comparable(each.file) not in taken
    )


def _spec(name: str, backend: str, found: Found) -> ModelSpec:
    template = found.family.template if found.family else ""
    values: dict[
        str, JsonValue
    ] = {  # with one separator, so that servers of both kinds share a model
        word: value.replace("\\", "/") if isinstance(value, str) else value
        for word, value in found.values.items()
    }
    return ModelSpec(
        name=name,
        backends=(backend,),
        capabilities=_abilities(template),
        options={"workflow": template, "values": values},
    )


@cache
def _abilities(template: str) -> frozenset[Capability]:
    """Return the capabilities of a shipped template and its variants."""
    return frozenset(able for able in Capability if _serves(template, able))


def _serves(template: str, able: Capability) -> bool:
    spec = ModelSpec(
        name=template,
        backends=(),
        capabilities=frozenset({able}),
        options={"workflow": template},
    )
    try:
        read_templates(spec)
    except BadModel:
        return False
    return True
