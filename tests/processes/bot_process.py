"""`usher run` as a process, which can be killed and started again."""

import asyncio
from contextlib import suppress
from pathlib import Path

from tests.fakes.fork_server import Child, start_usher
from tests.fakes.ports import port_of
from tests.processes.installation import until


class BotProcess:
    """One installation; `port` is the port that shows it is up when it listens."""

    def __init__(self, folder: Path) -> None:
        self.port = port_of(self)
        self._config = folder / "config.yaml"
        self._log = folder / "log"
        self._process: Child | None = None

    def configure(self, text: str) -> None:
        self._config.write_text(text)

    async def start(self) -> None:
        self._process = await start_usher(["run", "-c", str(self._config)], self._log)
        await until(self._answers)

    async def kill(self) -> None:
        """End it as a power failure would: nothing of it runs any more."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self._log.read_text()
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            await writer.wait_closed()
            return True
        return False
