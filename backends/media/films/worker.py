"""The helper process: carries out one order and ends. Its input may be hostile, so it is bounded.

It runs at low priority, has fixed limits of memory and processor time, writes no files, and ends
with the process that started it.
"""

import os
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from backends.media.films.order import Answer, MediaTask, Order

MEMORY = 3 * 2**30  # bytes of address space; the libraries alone take a sixth of it
PROCESSOR_S = 600
_NICE = 15


def main() -> None:
    """Read an order and its bytes from standard input, answer on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that a library that prints something does not corrupt the answer
    _bound()
    asked = sys.stdin.buffer
    order = Order.read(asked.readline())
    data = asked.read(order.size)
    threading.Thread(target=_end_with_asker, args=(asked,), daemon=True).start()
    answer, made = _answered(order, data)
    answers.write(answer.line())
    answers.write(made)
    answers.flush()
    os._exit(0)  # nothing to tidy up, and the watching thread cannot be stopped


def _answered(order: Order, data: bytes) -> tuple[Answer, bytes]:
    try:
        return _done(order, data)
    except Exception as error:  # noqa: BLE001  a hostile file can make the libraries raise anything
        return Answer(error=f"{type(error).__name__}: {error}"[:500]), b""


def _done(order: Order, data: bytes) -> tuple[Answer, bytes]:
    # Imported here, so that missing libraries are reported as an answer.
    match order.task:
        case MediaTask.CLEAN:
            from backends.media.films.remux import clean  # noqa: PLC0415

            return Answer(mime=order.mime), clean(data, order.mime)
        case MediaTask.LOOK:
            from backends.media.films.look import look  # noqa: PLC0415

            looks, still = look(data, order.mime)
            return Answer(mime="image/jpeg" if still else "", looks=looks), still
        case MediaTask.FIT:
            from backends.media.films.encode import fit  # noqa: PLC0415

            made = fit(data, order.mime, order.limit)
            if made is None:
                return Answer(error="cannot be made to fit"), b""
            return Answer(mime=made[1]), made[0]


def _bound() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    try:
        import resource  # noqa: PLC0415  # not on Windows, where only time is bounded
    except ImportError:
        return
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, PROCESSOR_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # a tighter limit is set already
            resource.setrlimit(what, (most, most))


def _end_with_asker(asked: BinaryIO) -> None:
    asked.read(1)  # returns when the other end is closed
    os._exit(1)


if __name__ == "__main__":
    main()
