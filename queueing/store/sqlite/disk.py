"""Disk: whether there is space for what accepted jobs still have to write."""

from pathlib import Path
from shutil import disk_usage

_RESERVE = 64 * 1024 * 1024  # bytes: some dozens of pictures
_SHARE = 16  # at most a sixteenth of a small disk is reserved


def is_short(file: Path) -> bool:
    """Return whether so little space is left that it is reserved for jobs accepted before.

    Every change needs some: on a disk filled by acceptances, no job could be cancelled and nothing
    could be deleted. The contents of the log beside the file go into it later and may make it as
    much larger.
    """
    log = file.with_name(file.name + "-wal")
    try:
        disk = disk_usage(file.parent)
        coming = log.stat().st_size if log.exists() else 0
    except OSError:
        return False  # unknown; the change itself may still fail
    return disk.free < coming + min(_RESERVE, disk.total // _SHARE)
