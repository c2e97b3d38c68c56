"""Several `usher run` on one PostgreSQL database, each a separate process."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.fakes.fork_server import Child, start_usher
from tests.fakes.ports import port_of
from tests.fakes.process import ROOT
from tests.fakes.programs.postgres_server import PostgresServer, end_leases

CONFIG = """
database: {database}
hosts:
  gpu:
    vram: 24GB
    backends:
      studio: {{kind: demo}}
models:
  llama:
    backends: [studio]
    capabilities: [text-to-text]
    vram: 8GB
    load_s: 0.01
    service_s: 0.05
    parallel: 1
limits:
  open_per_person: 1000
api:
  port: {port}
  open: true
"""
PATIENCE_S = 120.0
TRY_S = 3.0


class Usher:
    """`usher run` as a separate process."""

    def __init__(
        self,
        folder: Path,
        config: str,
        port: int,
        options: Sequence[str] = (),
        *,
        within: Sequence[str] = (),
    ) -> None:
        """Take its parts; `within` is the command that runs it somewhere else."""
        folder.mkdir()
        self._within = within
        self.port = port
        self._config = folder / "config.yaml"
        self._config.write_text(config, encoding="utf-8")
        self._options = options
        self._log = folder / "log.txt"
        self.process: asyncio.subprocess.Process | Child | None = None

    async def start(self) -> None:
        arguments = ("run", "-c", str(self._config), *self._options)
        if not self._within:
            self.process = await start_usher(arguments, self._log)
            return
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self._within, sys.executable, "-m", "bot", *arguments),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    @property
    def config(self) -> Path:
        """The path of its configuration."""
        return self._config

    def rewrite(self, old: str, new: str) -> None:
        """Change its configuration, without telling it."""
        text = self._config.read_text(encoding="utf-8")
        self._config.write_text(text.replace(old, new, 1), encoding="utf-8")

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and return the exit status."""
        self.send(number)
        assert self.process is not None
        return await self.process.wait()

    async def check(self) -> str:
        """Return what `usher check` prints."""
        checking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "check", "-c", str(self._config)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        return (await checking.communicate())[0].decode()

    def is_named(self, holder: str) -> bool:
        """Return whether a role's holder is this process."""
        return self.process is not None and f":{self.process.pid}:" in holder

    async def logged(self, words: str) -> None:
        """Wait until a text is in its log."""
        async with asyncio.timeout(PATIENCE_S):
            while words not in self.log:  # noqa: ASYNC110  # another process: nothing signals
                await asyncio.sleep(0.05)

    @property
    def runs(self) -> bool:
        """Whether it is still running."""
        return self.process is not None and self.process.returncode is None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8") if self._log.exists() else ""


@dataclass
class Processes:
    """The processes, and a program that asks them in turn until one answers."""

    ushers: Sequence[Usher]
    session: aiohttp.ClientSession
    server: PostgresServer
    database: str
    asked: int = 0

    async def holder(self, role: str = "queue") -> Usher:
        """Return the running process that holds a role, as soon as one does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert any(usher.runs for usher in self.ushers)
                rows = self.sql(
                    f"SELECT holder FROM roles WHERE name = '{role}'"  # a test's own
                    " AND until > extract(epoch FROM clock_timestamp())"
                )
                for usher in self.ushers:
                    if rows and usher.runs and usher.is_named(str(rows[0][0])):
                        return usher
                await asyncio.sleep(0.05)  # another process: nothing signals

    async def ask(self, count: int) -> list[int]:
        """Submit jobs, each until it is accepted, and return their numbers."""
        return [await self._accepted() for _ in range(count)]

    async def _accepted(self) -> int:
        self.asked += 1
        question = {"role": "user", "content": f"question {self.asked}"}
        body, headers = {"model": "llama", "messages": [question]}, {}
        headers["Idempotency-Key"] = f"{self.asked}"
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for usher in self.ushers:
                    url = f"http://127.0.0.1:{usher.port}/v1/jobs"
                    with suppress(aiohttp.ClientError, TimeoutError):
                        async with self.session.post(url, json=body, headers=headers) as answer:
                            if answer.status == 202:
                                return int((await answer.json())["id"])
                await asyncio.sleep(0.05)

    async def first_words(self, usher: Usher) -> None:
        """Ask a process for a streamed answer, and wait until its first part has come."""
        question = {"role": "user", "content": "a question"}
        body = {"model": "llama", "messages": [question], "stream": True}
        url = f"http://127.0.0.1:{usher.port}/v1/chat/completions"
        patience = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with self.session.post(url, json=body, timeout=patience) as answer:
            await answer.content.readuntil(b'"content":')

    async def all_done(self, jobs: Sequence[int]) -> None:
        """Wait until every job has succeeded; each is read from a process that answers."""
        async with asyncio.timeout(PATIENCE_S):
            for job in jobs:
                while (state := await self._state(job)) != "completed":
                    assert state not in {"failed", "cancelled"}

    async def _state(self, job: int) -> str:
        for usher in self.ushers:
            url = f"http://127.0.0.1:{usher.port}/v1/jobs/{job}?wait=2"
            with suppress(aiohttp.ClientError, TimeoutError):
                async with self.session.get(url) as answer:
                    if answer.status == 200:
                        return str((await answer.json())["state"])
        await asyncio.sleep(0.05)
        return ""

    def end_leases(self) -> None:
        """End the lease of every role, as time would."""
        end_leases(self.server.url(self.database))

    def sql(self, query: str) -> list[tuple[object, ...]]:
        return self.server.sql(query, database=self.database)


@asynccontextmanager
async def processes(
    folder: Path,
    server: PostgresServer,
    *options: Sequence[str],
    more: str = "",
    service_s: float = 0.05,
) -> AsyncIterator[Processes]:
    """Start one process for each list of additional options; kill the remaining ones at the end.

    An answer takes `service_s` to be written.
    """
    database, loop = server.database(), asyncio.get_running_loop()
    ushers = []
    for number, each in enumerate(options):
        port = port_of(loop)
        config = CONFIG.format(database=server.url(database), port=port) + more
        config = config.replace("service_s: 0.05", f"service_s: {service_s}")
        ushers.append(Usher(folder / f"process-{number}", config, port, each))
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=TRY_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        for usher in ushers:
            await usher.start()
        try:
            yield Processes(ushers, session, server, database)
        except BaseException:
            print(*(usher.log for usher in ushers), sep="\n----\n")
            raise
        finally:
            for usher in ushers:
                with suppress(ProcessLookupError):
                    usher.send(signal.SIGCONT)
                    await usher.end()
