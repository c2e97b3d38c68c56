"""A person at a separate terminal, in which a program runs."""

import asyncio
import os
import signal
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from fcntl import ioctl

from tests.fakes.process import ROOT
from tests.processes.installation import until

CTRL_C = "\x03"


class Typist:
    """The person; `seen` is all that the program ever wrote."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._seen = bytearray()
        self._read_to = 0

    @property
    def seen(self) -> str:
        with suppress(BlockingIOError, OSError):  # the latter once the program has ended
            while piece := os.read(self._terminal, 65536):
                self._seen.extend(piece)
        return self._seen.decode(errors="replace")

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    async def sees(self, words: str) -> None:
        """Wait until a text appears that was not there before the last answer."""
        await until(lambda: words in self.seen[self._read_to :])

    async def types(self, question: str, answer: str, end: str = "\n") -> None:
        await self.sees(question)
        self._read_to = len(self.seen)
        os.write(self._terminal, f"{answer}{end}".encode())

    async def ended(self) -> int | None:
        # Read meanwhile: a terminal takes some kilobytes, and the program waits for room.
        await until(lambda: self.seen and self.process.returncode is not None)
        return self.process.returncode


def _as_from_a_shell() -> None:
    """Take over the terminal, and Ctrl-C, which may be ignored where the tests run."""
    ioctl(1, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def at_terminal(
    command: Sequence[str], environ: Mapping[str, str], *, typing: bool = True
) -> AsyncIterator[Typist]:
    """Start a command as a shell does; without `typing` its input is no terminal."""
    ours, its = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=its if typing else asyncio.subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        env=dict(environ),
        start_new_session=True,
        preexec_fn=_as_from_a_shell,
    )
    os.set_blocking(ours, False)
    try:
        yield Typist(process, ours)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(its)
        os.close(ours)
