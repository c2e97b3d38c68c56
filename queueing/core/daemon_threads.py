"""Blocking work that may never end, in threads that neither other work nor the exit waits for.

`asyncio.to_thread` has few threads, six on a machine with two processors. Six calls that hang, such
as look-ups of names while the network is away, would hold up all that is done there, and the
process would wait for them as it ends.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Begin blocking work in a thread of its own; return what it will result in, or raise.

    Cancelling the future ends no thread. An error that is awaited by no one is dropped.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done.add_done_callback(_seen)
    threading.Thread(target=_call, args=(work, done), daemon=True, name=name).start()
    return done


def _call(work: Callable[[], T], done: "asyncio.Future[T]") -> None:
    try:
        settle = partial(_succeed, done, work())
    except Exception as error:  # noqa: BLE001 - raised again where it is awaited
        settle = partial(_fail, done, error)
    with suppress(RuntimeError):  # the loop has ended meanwhile
        done.get_loop().call_soon_threadsafe(settle)


def _succeed(done: "asyncio.Future[T]", value: T) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: "asyncio.Future[T]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _seen(done: "asyncio.Future[T]") -> None:
    """Let the loop not tell of an error that no one awaits any more."""
    if not done.cancelled():
        done.exception()
