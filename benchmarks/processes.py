"""Processes that a benchmark starts and measures from outside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def process(*arguments: str, folder: Path = ROOT) -> Iterator[subprocess.Popen[bytes]]:
    """Run this interpreter with these arguments until the block ends."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    running = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()  # open streams would delay an orderly stop
        running.wait(30)


@contextmanager
def usher(folder: Path, config: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Usher in a folder until the block ends."""
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    with process("-m", "bot", "run", "-c", "config.yaml", folder=folder) as running:
        yield running


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
