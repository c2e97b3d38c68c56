"""Disk: whether it has room for what accepted jobs still have to write."""

from pathlib import Path
from shutil import disk_usage

_RESERVE = 64 * 1024 * 1024  # bytes: some dozens of pictures
_SHARE = 16  # of a small disk, no more than a sixteenth is kept


def is_short(file: Path) -> bool:
    """Return whether so little room is left that it is kept for jobs accepted before.

    Every change needs some: on a disk that acceptances had filled, nobody could cancel a job, and
    nothing could be deleted. What stands in the log beside the file goes into it later and may
    make it as much larger.
    """
    log = file.with_name(file.name + "-wal")
    try:
        disk = disk_usage(file.parent)
        coming = log.stat().st_size if log.exists() else 0
    except OSError:
        return False  # it cannot be told; the change itself may still fail
    return disk.free < coming + min(_RESERVE, disk.total // _SHARE)
