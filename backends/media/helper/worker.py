"""The helper process: carries out one order and exits. Its input may be hostile.

It runs at low priority with fixed limits on memory and processor time, confines itself before it
reads the file, and exits when its parent process does.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO

from backends.common.file_types import PDF
from backends.media.helper.protocol import Answer, Faulty, MediaTask, Order
from backends.media.helper.sandbox import confine

Work = Callable[[Order, bytes], tuple[Answer, bytes]]

MEMORY = 3 * 2**30  # bytes of address space; the libraries alone use a sixth
PROCESSOR_S = 600
# Limits for tasks a person waits for: bytes of address space, and seconds.
_SOONER: Mapping[MediaTask, tuple[int, int]] = {
    MediaTask.READ: (3 * 2**29, 25),
    MediaTask.WAV: (MEMORY, 90),
    MediaTask.VOICE: (MEMORY, 90),
    MediaTask.ENCODE: (MEMORY, 90),
    MediaTask.FRAMES: (MEMORY, 45),
    MediaTask.IMAGE: (MEMORY, 45),
}
_NICE = 15
_OPEN_MOST = 64  # files: fonts, mostly

_WORKS: Mapping[MediaTask, tuple[str, str]] = {
    MediaTask.CLEAN: ("backends.media.helper.containers", "cleaned"),
    MediaTask.SOUNDTRACK: ("backends.media.helper.containers", "silenced"),
    MediaTask.IMAGE: ("backends.media.helper.pixels", "converted"),
    MediaTask.LOOK: ("backends.media.helper.video_frames", "looked"),
    MediaTask.FRAMES: ("backends.media.helper.video_frames", "extracted"),
    MediaTask.FIT: ("backends.media.helper.video_encoding", "fitted"),
    MediaTask.WAV: ("backends.media.helper.audio", "converted"),
    MediaTask.VOICE: ("backends.media.helper.audio", "converted"),
    MediaTask.ENCODE: ("backends.media.helper.audio", "encoded"),
    MediaTask.READ: ("backends.media.helper.office", "read"),  # PDFs: see `_work`
}


def main() -> None:
    """Read an order and its bytes from standard input, and answer on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library must not corrupt the answer
    asked = sys.stdin.buffer
    order = Order.read(asked.readline())
    answer, made = _answered(order, asked)
    answers.write(answer.line())
    answers.write(made)
    answers.flush()
    os._exit(0)  # there is nothing to clean up, and the watcher thread cannot be stopped


def _answered(order: Order, asked: BinaryIO) -> tuple[Answer, bytes]:
    try:
        work = _work(order)  # before the sandbox hides the libraries' files
        _bound(*_SOONER.get(order.task, (MEMORY, PROCESSOR_S)))
        confine()
        return work(order, _received(asked, order.size))
    except Faulty as fault:
        return Answer(error=str(fault), fault=str(fault)), b""
    except Exception as error:  # noqa: BLE001  a hostile file can make the libraries raise anything
        return Answer(error=f"{type(error).__name__}: {error}"[:500]), b""


def _received(asked: BinaryIO, size: int) -> bytes:
    data = asked.read(size)
    if len(data) < size:
        raise EOFError("the parent process is gone")
    threading.Thread(target=_exit_with_parent, args=(asked,), daemon=True).start()
    return data


def _work(order: Order) -> Work:
    """Return the function for an order. Imports libraries, which may be missing."""
    if order.task is MediaTask.READ and order.mime == PDF:
        module, name = "backends.media.helper.pdf", "read"
    else:
        module, name = _WORKS[order.task]
    found: Work = getattr(import_module(module), name)
    return found


def _bound(memory: int, processor_s: int) -> None:
    with suppress(OSError):
        os.nice(_NICE)
    try:
        import resource  # noqa: PLC0415  # not on Windows, where only time is bounded
    except ImportError:
        return
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_MOST),
    ):
        with suppress(OSError, ValueError):  # a tighter limit is already set
            resource.setrlimit(what, (most, most))


def _exit_with_parent(asked: BinaryIO) -> None:
    asked.read(1)  # returns when the parent closes its end
    os._exit(1)


if __name__ == "__main__":
    main()
