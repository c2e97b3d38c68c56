"""A virtual-time event loop: waiting costs nothing, and the order of events is always the same.

Its selector adds the timeout to `loop.time()` instead of waiting. Work for other threads is done at
once in this thread, or time would jump past it; databases therefore run inline.
"""

import asyncio
import io
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import wraps
from inspect import Signature, signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

EXACT_WITHIN_S = 1e-6


class Deadlock(AssertionError):
    """Every task waits and no timer is left: nothing would ever happen again."""


class _JumpingSelector(selectors.BaseSelector):
    """Reports what is ready at once and adds the time that it should have waited."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0
        self.next_due: Callable[[], float | None] = lambda: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready:
            return ready
        if timeout is None:
            raise Deadlock(_stacks())
        if timeout > 0:
            self.now = self._moment(self.now + timeout)
        return []

    def _moment(self, about: float) -> float:
        """Return the next timer's own moment: calculating with a timeout loses its last bits."""
        due = self.next_due()
        return due if due is not None and abs(due - about) < EXACT_WITHIN_S else about

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
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
        self._jumping.next_due = self._next_due

    def _next_due(self) -> float | None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers[0].when() if timers else None

    @property
    def _clock_resolution(self) -> float:
        """How early a timer may run: asyncio's nanosecond would let one moment overtake another."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, _real: float) -> None:
        """Ignore the real clock's resolution."""

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._jumping.now

    def stall(self, stalled_s: float) -> None:
        """Let time pass as in a stalled process: what was due in the meantime is due now."""
        self._jumping.now += stalled_s

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do a thread's work at once: the clock must not advance while it is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it goes to the one who awaits
            future.set_exception(error)
        return future


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time and return its result.

    Raises `Deadlock`, with the stacks of all tasks, if nothing could ever wake it.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test's coroutine in virtual time instead of pytest's event loop."""

    @wraps(test)
    def run_test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_test


class Inside(Generic[T]):
    """Runs tests in virtual time within the context `opened`; its value is their first argument."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._opened = opened

    def __call__(
        self, test: Callable[Concatenate[T, P], Coroutine[Any, Any, None]]
    ) -> Callable[P, None]:
        @in_virtual_time
        @wraps(test)
        async def run_test(*args: P.args, **kwargs: P.kwargs) -> None:
            async with self._opened() as opened:
                await test(opened, *args, **kwargs)

        _, *fixtures = signature(test).parameters.values()
        run_test.__signature__ = Signature(fixtures)  # type: ignore[attr-defined]
        return run_test


def _stacks() -> str:
    text = io.StringIO("every task waits and no timer is left\n")
    text.seek(0, io.SEEK_END)
    for task in asyncio.all_tasks(asyncio.get_running_loop()):
        task.print_stack(file=text)
    return text.getvalue()
