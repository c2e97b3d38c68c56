"""Reads XML from strangers piece by piece, within bounds. In the helper process only.

A document type is refused, since only it can declare entities, which grow a small file without end
or name other files.
"""

from collections.abc import Mapping
from typing import IO, Protocol
from xml.parsers import expat

from backends.common.kinds import Fault
from backends.media.helper.protocol import Faulty

DEPTH_MOST = 250
BYTES_MOST = 200_000_000  # of one file, unpacked
_PIECE = 64 * 1024


class XmlListener(Protocol):
    """Hears what an XML file consists of; names come without their namespaces."""

    def start(self, name: str, fields: Mapping[str, str]) -> None:
        """Enter an element."""

    def end(self, name: str) -> None:
        """Leave it."""

    def words(self, text: str) -> None:
        """Take characters within the element that began last."""


def listen(source: IO[bytes], listener: XmlListener) -> None:
    """Read a file from its beginning. Raises `Faulty`, and whatever the listener raises."""
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
    """Return an attribute's name; a reference to another file keeps its usual prefix."""
    space, _, plain = name.rpartition("}")
    return f"r:{plain}" if space.endswith("relationships") else plain
