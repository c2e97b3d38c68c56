"""Two processes on one PostgreSQL database: one serves, the other follows it, whatever happens to it."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.ports import port_of
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.process import ROOT

pytest.importorskip("psycopg")

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
cluster:
  lease_s: 3
api:
  port: {port}
  open: true
"""
PATIENCE_S = 120.0
TRY_S = 3.0


class Usher:
    """`usher run` as a process of its own."""

    def __init__(self, folder: Path, database: str, port: int) -> None:
        folder.mkdir()
        self.port = port
        self._config = folder / "config.yaml"
        self._config.write_text(CONFIG.format(database=database, port=port), encoding="utf-8")
        self._log = folder / "log.txt"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bot", "run", "-c", str(self._config)),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

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

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process is not None and self.process.returncode is None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")


@dataclass
class Pair:
    """Two processes, and a program that uses the one that answers."""

    ushers: list[Usher]
    session: aiohttp.ClientSession
    server: PostgresServer
    database: str
    asked: int = 0

    async def leader(self) -> Usher:
        """Return the process that serves the API."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert any(usher.runs for usher in self.ushers)
                for usher in self.ushers:
                    if await self._answers(usher):
                        self.ushers.sort(key=lambda each: each is not usher)  # asked first now
                        return usher

    async def _answers(self, usher: Usher) -> bool:
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self.session.get(f"http://127.0.0.1:{usher.port}/v1/queue") as answer:
                return answer.status == 200
        return False

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
                url = f"http://127.0.0.1:{(await self.leader()).port}/v1/jobs"
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with self.session.post(url, json=body, headers=headers) as answer:
                        if answer.status == 202:
                            return int((await answer.json())["id"])

    async def all_done(self, jobs: Sequence[int]) -> None:
        """Wait until every job has ended well; each is read from the process that serves."""
        async with asyncio.timeout(PATIENCE_S):
            for job in jobs:
                while (state := await self._state(job)) != "completed":
                    assert state not in {"failed", "cancelled"}

    async def _state(self, job: int) -> str:
        url = f"http://127.0.0.1:{(await self.leader()).port}/v1/jobs/{job}?wait=2"
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self.session.get(url) as answer:
                return str((await answer.json())["state"])
        return ""

    def sql(self, query: str) -> list[tuple[object, ...]]:
        return self.server.sql(query, database=self.database)


@asynccontextmanager
async def pair(folder: Path, server: PostgresServer) -> AsyncIterator[Pair]:
    database, loop = server.database(), asyncio.get_running_loop()
    ushers = [Usher(folder / name, server.url(database), port_of(loop)) for name in ("one", "two")]
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=TRY_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        for usher in ushers:
            await usher.start()
        try:
            yield Pair(list(ushers), session, server, database)
        except BaseException:
            print(*(usher.log for usher in ushers), sep="\n----\n")
            raise
        finally:
            for usher in ushers:
                with suppress(ProcessLookupError):
                    usher.send(signal.SIGCONT)
                    await usher.end()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_another_process_goes_on_after_one_ends(
    tmp_path: Path, postgres: PostgresServer, how: signal.Signals
) -> None:
    """The bot would be away for as long as no one starts it again."""
    async with pair(tmp_path, postgres) as both:
        jobs = await both.ask(5)
        first = await both.leader()
        assert await first.end(how) == (0 if how is signal.SIGTERM else -signal.SIGKILL)
        jobs += await both.ask(5)
        second = await both.leader()
        assert second is not first
        assert second.process is not None
        assert f":{second.process.pid} holds the post queue" in await second.check()
        await first.start()
        await second.end(how)
        jobs += await both.ask(5)
        await both.all_done(jobs)
        assert len(set(jobs)) == 15
        ((epoch, count),) = both.sql(
            "SELECT epoch, (SELECT count(*) FROM jobs) FROM posts WHERE name = 'queue'"
        )
        assert (epoch, count) == (3, 15)


async def test_a_process_that_was_frozen_writes_nothing_more(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Two schedulers would start the same jobs, and overwrite each other's results."""
    async with pair(tmp_path, postgres) as both:
        jobs = await both.ask(10)
        first = await both.leader()
        first.send(signal.SIGSTOP)
        jobs += await both.ask(10)
        second = await both.leader()
        assert second is not first
        first.send(signal.SIGCONT)
        jobs += await both.ask(10)
        await both.all_done(jobs)
        async with asyncio.timeout(PATIENCE_S):
            while "no longer holds" not in first.log:
                await both.leader()
        assert await both.leader() is second
        assert (await second.end(signal.SIGTERM), len(set(jobs))) == (0, 30)
        assert await both.leader() is first  # it applied once more
