"""Writes files that are not there yet: whole or not at all, and never in the place of another."""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bot.cli.init.terminal import InitFailed

PRIVATE = 0o600
COMMON = 0o644  # less what the umask takes


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file to write; `mode` are its rights from its first byte on."""

    path: Path
    text: str
    mode: int = COMMON


def is_there(path: Path) -> bool:
    """Return whether anything has this name, a link to nothing included."""
    return os.path.lexists(path)


def write_all(files: Sequence[NewFile]) -> None:
    """Write all files or none. Raises `InitFailed`; what was there stays as it is."""
    written: list[Path] = []
    try:
        for file in files:
            _write(file)
            written.append(file.path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _write(file: NewFile) -> None:
    beside = file.path.with_name(f".{file.path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _create(beside, file)
            _name(beside, file)
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError:
        told = f"{file.path} has appeared meanwhile: it stays as it is, and nothing was written."
        raise InitFailed(told) from None
    except OSError as error:
        raise InitFailed(f"{file.path} cannot be written: {error.strerror}.") from None


def _create(path: Path, file: NewFile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, file.mode), "w", encoding="utf-8", newline="\n") as opened:
        opened.write(file.text)
        opened.flush()
        os.fsync(opened.fileno())


def _name(beside: Path, file: NewFile) -> None:
    """Give a whole file its name unless something has it; a link is refused where a rename is not."""
    try:
        os.link(beside, file.path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, such as that of a memory stick
        _copy(file)


def _copy(file: NewFile) -> None:
    """Write under the final name, which is taken first; what is half is removed again."""
    try:
        _create(file.path, file)
    except FileExistsError:
        raise
    except BaseException:
        with suppress(OSError):
            file.path.unlink()
        raise
