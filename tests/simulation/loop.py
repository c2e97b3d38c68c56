"""A virtual-time event loop: waiting costs nothing, the order of things is the same every time.

Its selector adds the timeout to `loop.time()` instead of waiting. Work for other threads is
done at once in this one, or time would jump past it; databases therefore run inline.
"""

import asyncio
import io
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(AssertionError):
    """Every task waits and no timer is left: nothing would ever happen again."""


class _JumpingSelector(selectors.BaseSelector):
    """Reports what is ready at once and passes the time that it should have waited."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready:
            return ready
        if timeout is None:
            raise Deadlock(_stacks())
        self.now += max(0.0, timeout)
        return []

    def register(
        self,
        fileobj: Any,
        events: int,
        data: Any = None,
    ) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at zero and jumps to the next timer."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do a thread's work at once: the clock must not run on while it is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it goes to the one who awaits
            future.set_exception(error)
        return future


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time and return what it returns.

    Raises `Deadlock`, with the stacks of all tasks, when nothing could ever wake it.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def _stacks() -> str:
    text = io.StringIO("every task waits and no timer is left\n")
    text.seek(0, io.SEEK_END)
    for task in asyncio.all_tasks(asyncio.get_running_loop()):
        task.print_stack(file=text)
    return text.getvalue()
