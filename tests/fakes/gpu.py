"""A GPU's memory as several processes share it: one file that says who holds how much.

It replaces a GPU. A process that takes more than is left runs out of memory, as on a real GPU, and
every change is recorded, so that a test can see afterwards what was in memory together.
"""

import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class SharedGpu:
    """The file at `path`; every process makes its own of these. Sizes are MB."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def make(cls, path: Path, total_mb: int) -> "SharedGpu":
        path.write_text(json.dumps({"total_mb": total_mb, "held": {}, "log": []}))
        return cls(path)

    def take(self, holder: str, mb: int) -> bool:
        """Take memory; return False, and take none, if there is not enough."""
        with self._open() as gpu:
            fits: bool = sum(gpu["held"].values()) + mb <= gpu["total_mb"]
            if fits:
                gpu["held"][holder] = mb
            self._note(gpu, f"{'take' if fits else 'oom'} {holder}")
        return fits

    def give(self, holder: str) -> None:
        """Give memory back. Idempotent."""
        with self._open() as gpu:
            if gpu["held"].pop(holder, None) is not None:
                self._note(gpu, f"give {holder}")

    def note(self, text: str) -> None:
        """Record an event that concerns the GPU."""
        with self._open() as gpu:
            self._note(gpu, text)

    @property
    def total_mb(self) -> int:
        return int(self._read()["total_mb"])

    @property
    def free_mb(self) -> int:
        gpu = self._read()
        return int(gpu["total_mb"] - sum(gpu["held"].values()))

    @property
    def held(self) -> Mapping[str, int]:
        return dict(self._read()["held"])

    @property
    def log(self) -> list[tuple[float, str, dict[str, int]]]:
        """Return what happened: (UNIX seconds, what, who held what afterwards)."""
        return [(at, what, held) for at, what, held in self._read()["log"]]

    @staticmethod
    def _note(gpu: dict[str, Any], text: str) -> None:
        gpu["log"].append((time.time(), text, dict(gpu["held"])))

    def _read(self) -> dict[str, Any]:
        with self._path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            gpu: dict[str, Any] = json.load(file)
        return gpu

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            gpu = json.load(file)
            yield gpu
            file.seek(0)
            file.truncate()
            json.dump(gpu, file)
