"""Reads the text of an exported workflow, also from a file that ComfyUI made with it."""

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress
from pathlib import Path

from backends.comfyui.workflow.reading import EXPORT
from backends.common.file_types import mime_of
from queueing.core.errors import BadModel

_BEGINS = re.compile(rb'\{\s*"[^"\\]{1,80}"\s*:\s*(?:\{\s*"(?:inputs|class_type|_meta)"|"\{\s*\\")')
"""The beginning of a graph, or of an object that holds one as a text.

PNG, WebP, JPEG, MP4, Matroska, FLAC and MP3 each contain it in one piece, wherever that is.
"""
_MOST = 4_000_000  # bytes of a graph


def export_in(file: Path) -> str:
    """Return the text of a file. Raises `BadModel` if it is unreadable or not text."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadModel(f"{file}: cannot be read: {error.strerror}") from None
    if mime_of(content):
        return _within(content, file.name)
    try:
        if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # as PowerShell writes it
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadModel(f"{file.name}: not JSON: it is not UTF-8 text") from None


def _within(content: bytes, name: str) -> str:
    """Return the graph that ComfyUI put into a file, in the form that servers run."""
    decoder = json.JSONDecoder()
    for found in _BEGINS.finditer(content):
        text = content[found.start() : found.start() + _MOST].decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            _, end = decoder.raw_decode(text)
            if "class_type" in text[:end]:
                return text[:end]
    raise BadModel(f"{name}: this file contains no workflow that servers can run: {EXPORT}")
