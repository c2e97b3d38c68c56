"""An office file as a set of XML files, unpacked within limits. Only for the helper process."""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Protocol
from xml.parsers import expat

from backends.common.file_types import Fault
from backends.media.helper.protocol import Faulty

DEPTH_MOST = 250
BYTES_MOST = 200_000_000  # in one file, unpacked
_PIECE = 64 * 1024


class XmlListener(Protocol):
    """Receives the elements of an XML file; names come without namespaces."""

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        """Enter an element."""

    def end(self, name: str) -> None:
        """Leave an element."""

    def words(self, text: str) -> None:
        """Handle text inside the last opened element."""


def listen(source: IO[bytes], listener: XmlListener) -> None:
    """Parse an XML file. Raises `Faulty`, and anything that the listener raises."""
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    depth = 0

    def start(name: str, fields: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEPTH_MOST:
            raise Faulty(Fault.UNREADABLE)
        listener.start(_plain(name), {_field(key): value for key, value in fields.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        listener.end(_plain(name))

    def refuse(*_: object) -> None:
        raise Faulty(Fault.UNREADABLE)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = listener.words
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    read = 0
    try:
        while piece := source.read(_PIECE):
            read += len(piece)
            if read > BYTES_MOST:
                raise Faulty(Fault.TOO_LARGE)
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Faulty(Fault.UNREADABLE) from error


def _plain(name: str) -> str:
    return name.rpartition("}")[2]


def _field(name: str) -> str:
    """Return an attribute's name; a relationship reference keeps its usual prefix."""
    space, _, plain = name.rpartition("}")
    return f"r:{plain}" if space.endswith("relationships") else plain


_FILES_MOST = 20_000
_RATIO_MOST = 500  # unpacked to packed size; office programs' XML stays below a hundred
_IMAGES = ("word/media/", "ppt/media/", "xl/media/", "Pictures/")
_IMAGE_MOST = 20_000_000  # bytes
_SMALL = 1_000_000  # bytes; unpacked at any ratio
_ALL_MOST = 2 * BYTES_MOST  # in all files that are read


class Package:
    """The files inside an office file. Methods raise `Faulty` for damaged or huge ones."""

    def __init__(self, data: bytes) -> None:
        with _damage():
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._files = {each.filename: each for each in self._zip.infolist()}
        if len(self._zip.infolist()) > _FILES_MOST:
            raise Faulty(Fault.TOO_LARGE)
        self._room = _ALL_MOST

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def hear(self, name: str, listener: XmlListener) -> None:
        """Parse one file as XML; does nothing if it is missing."""
        if name not in self._files:
            return
        info = self._files[name]
        if info.flag_bits & 1:
            raise Faulty(Fault.ENCRYPTED)
        self._room -= info.file_size
        ratio = info.file_size / max(info.compress_size, 1)
        if self._room < 0 or (ratio > _RATIO_MOST and info.file_size > _SMALL):
            raise Faulty(Fault.TOO_LARGE)
        with _damage(), self._zip.open(info) as opened:
            listen(opened, listener)

    def images(self, most: int) -> Iterator[bytes]:
        """Yield candidates for at most `most` images, in the order of their numbers."""
        names = [name for name in self._files if name.startswith(_IMAGES)]
        for name in sorted(names, key=lambda name: (len(name), name))[: 4 * most]:
            info = self._files[name]
            if info.file_size <= _IMAGE_MOST and not info.flag_bits & 1:
                with _damage(), self._zip.open(info) as opened:
                    yield opened.read(_IMAGE_MOST)

    def related(self, name: str) -> Mapping[str, tuple[str, str]]:
        """Return an Open XML file's references: kind and path by reference name."""
        folder, _, own = name.rpartition("/")
        found = _Relations(folder)
        self.hear(f"{folder}/_rels/{own}.rels", found)
        return found.paths


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise Faulty(Fault.UNREADABLE) from error


class _Relations:
    """Collects a file's relationships."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.paths: dict[str, tuple[str, str]] = {}

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        if name == "Relationship" and fields.get("TargetMode") != "External":
            target = fields.get("Target", "")
            path = posixpath.normpath(posixpath.join("/", self._folder, target)).lstrip("/")
            kind = fields.get("Type", "").rpartition("/")[2]
            self.paths[fields.get("Id", "")] = (kind, path)

    def end(self, name: str) -> None:
        """Not used."""

    def words(self, text: str) -> None:
        """Not used."""
