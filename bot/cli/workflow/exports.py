"""Reads the text of an exported workflow, from a text file or from an image that ComfyUI saved."""

import struct
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path

from backends.comfyui.workflow.reading import EXPORT
from queueing.core.errors import BadModel

_PNG = b"\x89PNG\r\n\x1a\n"
_PLAIN, _INTERNATIONAL = b"tEXt", b"iTXt"
_UNPACKED = b"\0\0"  # the flag "uncompressed" and the compression method 0


def export_in(file: Path) -> str:
    """Return the text of a file. Raises `BadModel` if it is unreadable or not text."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadModel(f"{file}: cannot be read: {error.strerror}") from None
    if content.startswith(_PNG):
        return _of_picture(content, file.name)
    try:
        if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # as PowerShell writes it
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadModel(f"{file.name}: not JSON: it is not UTF-8 text") from None


def _of_picture(content: bytes, name: str) -> str:
    """Return the graph that ComfyUI put into an image, in the form that servers run."""
    found = dict(_texts_in(content)).get("prompt")
    if found is None:
        raise BadModel(f"{name}: this image contains no workflow that servers can run: {EXPORT}")
    return found


def _texts_in(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names and texts in a PNG, without compressed ones."""
    at = len(_PNG)
    while at + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        name, _, data = content[at + 8 : at + 8 + size].partition(b"\0")
        if kind == _PLAIN:
            yield name.decode("latin-1"), data.decode("latin-1")
        elif kind == _INTERNATIONAL and data.startswith(_UNPACKED):
            text = data[len(_UNPACKED) :].split(b"\0", 2)[-1]  # after its language and name
            yield name.decode("latin-1"), text.decode("utf-8", "replace")
        at += 12 + size
