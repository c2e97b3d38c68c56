"""Finds the models of a ComfyUI server and offers those whose family has a shipped template."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache

from backends.comfyui.discovery import FOLDERS, Found, ServerFiles, recognised, undecided
from backends.comfyui.families import FAMILIES
from backends.comfyui.model_templates import read_templates
from backends.comfyui.server import ComfyUIServer
from backends.common.http_replies import HttpFailed
from backends.common.naming import catalog_names
from queueing.core.catalog import ModelSpec
from queueing.core.errors import BadModel
from queueing.core.requests import Capability

log = logging.getLogger(__name__)

_BESIDE = sorted({each.folder for family in FAMILIES for each in family.companions})
_TOLD = 20  # sentences for `usher check`
_LOGGED = 200  # of them, in the log at once
_ASKED = 200  # files whose metadata is read at most
_AT_ONCE = 4  # requests to one server


class Discovery:
    """Looks through one server's folders; remembers what it read of its files.

    `notes` tell what was found and passed over the last time, those that are not offered first.
    """

    def __init__(self, backend: str) -> None:
        self.notes: tuple[str, ...] = ()
        self._backend = backend
        self._metadata: dict[tuple[str, str], Mapping[str, str]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._logged = frozenset[str]()

    async def look(self, server: ComfyUIServer, taken: Collection[str]) -> tuple[ModelSpec, ...]:
        """Return a model for each file that a shipped template serves and that is not taken."""
        found = recognised(await self._files(server))
        self._tell([each for each in found if each.file not in taken])
        return discovered(found, self._backend, taken)

    async def _files(self, server: ComfyUIServer) -> ServerFiles:
        folders = [*FOLDERS, *_BESIDE]
        names = {folder: await server.model_files(folder) for folder in folders}
        unclear = [
            (folder, name) for folder in FOLDERS for name in undecided(folder, names[folder])
        ]
        asked = unclear[:_ASKED]
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
        """Read what a file says of itself; one that the server cannot read says nothing yet."""
        if (folder, name) not in self._metadata:
            async with self._gate:
                with suppress(HttpFailed):  # such as a file whose download has not ended
                    self._metadata[folder, name] = await server.metadata(folder, name)

    def _tell(self, found: Sequence[Found]) -> None:
        told = [str(each) for each in sorted(found, key=lambda each: each.offered)]
        for note in [each for each in told if each not in self._logged][:_LOGGED]:
            log.info("%s: %s", self._backend, note)
        self._logged = frozenset(told)
        more = len(told) - _TOLD
        self.notes = (*told[:_TOLD], *([f"… and {more} more."] if more > 0 else []))


def discovered(
    found: Sequence[Found], backend: str, taken: Collection[str] = frozenset()
) -> tuple[ModelSpec, ...]:
    """Return a model, named after its file, for each file that can be offered and is not taken."""
    offered = [each for each in found if each.offered]
    names = catalog_names([each.called for each in offered])
    return tuple(
        _spec(name, backend, each)
        for name, each in zip(names, offered, strict=True)
        if each.file not in taken
    )


def _spec(name: str, backend: str, found: Found) -> ModelSpec:
    template = found.family.template if found.family else ""
    return ModelSpec(
        name=name,
        backends=(backend,),
        capabilities=_abilities(template),
        options={"workflow": template, "values": dict(found.values)},
    )


@cache
def _abilities(template: str) -> frozenset[Capability]:
    """Return what a shipped template can be asked for, with those that come with it."""
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
