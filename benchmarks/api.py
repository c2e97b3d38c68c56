"""Compares the HTTP API with the server behind it, in the same run.

`python -m benchmarks.api [--json] [--tokens 2000]`: a stand-in server, Usher and this client run as
three processes, and each call passes through all of Usher: admission without a key, durable acceptance
and the queue. The JSON has these keys:

- `ttft_ms`: the median time to the first word, of calls at even intervals, while 1, 8 or 64 streams of
  50 tokens a second are open; {"direct": {"1", "8", "64"}, "usher": {…}}.
- `tokens_per_s`: the rate of all streams together, if the server writes as fast as it is read; likewise.
- `requests_per_s`: short answers, with 50 callers.
- `rss_mb`: the memory of Usher with 500 streams waiting in line.
- `cpu_us_per_token`: the processor time of Usher per token, over all streams of `tokens_per_s`.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

STREAMS = (1, 8, 64)
PROBES = 25
PROBE_EVERY_S = 0.1
CALLERS = 50
SHORT_S = 5.0
WAITING = 500
ROOT = Path(__file__).resolve().parent.parent
CONFIG = """
hosts:
  box: {{vram: 24GB, backends: {{server: {{kind: openai, url: "http://127.0.0.1:{server}", parallel: 256}}}}}}
models:
  fast: {{backends: [server], capabilities: [text-to-text], vram: 1GB, parallel: 256}}
  paced: {{backends: [server], capabilities: [text-to-text], vram: 1GB, parallel: 256}}
  held: {{backends: [server], capabilities: [text-to-text], vram: 1GB, parallel: 1, max_waiting: 2000}}
limits: {{open_per_person: 2000, in_line_per_person: 2000}}
chats: {{}}
api: {{port: {usher}, open: true}}
"""


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this interpreter with these arguments until the block ends."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    running = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()  # open streams would delay an orderly stop
        running.wait(30)


class Client:
    """Calls one address."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/v1"

    async def up(self) -> None:
        """Wait until the server answers."""
        async with asyncio.timeout(60):
            while True:
                try:
                    async with self._session.get(f"{self._url}/models") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def opened(self, model: str, tokens: int) -> AsyncIterator[aiohttp.ClientResponse]:
        """Begin a stream."""
        said = [{"role": "user", "content": "Go on."}]
        body = {"model": model, "messages": said, "max_tokens": tokens, "stream": True}
        async with self._session.post(f"{self._url}/chat/completions", json=body) as answer:
            if answer.status != 200:
                raise SystemExit(await answer.text())
            yield answer

    async def read(self, model: str, tokens: int) -> int:
        """Read a stream to its end and return the number of its words."""
        words, rest = 0, b""
        async with self.opened(model, tokens) as answer:
            async for data in answer.content.iter_any():
                text = rest + data
                cut = text.rfind(b"\n") + 1
                rest = text[cut:]
                words += text[:cut].count(b'"word ') + text[:cut].count(b'"end"')
        if words != tokens:
            raise SystemExit(f"{words} of {tokens} words came")
        return words

    async def first_word_ms(self) -> float:
        """Return the time to the first word of a paced answer."""
        began = time.perf_counter()
        async with self.opened("paced", 2) as answer:
            async for data in answer.content.iter_any():
                if b'"word ' in data:
                    break
        return (time.perf_counter() - began) * 1000


async def tokens_per_s(client: Client, streams: int, tokens: int) -> float:
    """Return the rate of all streams together."""
    began = time.perf_counter()
    words = await asyncio.gather(*(client.read("fast", tokens) for _ in range(streams)))
    return sum(words) / (time.perf_counter() - began)


async def ttft_ms(client: Client, streams: int) -> float:
    """Return the median time to the first word while that many streams are open."""
    async with AsyncExitStack() as stack:
        answers = [
            await stack.enter_async_context(client.opened("paced", 100_000))
            for _ in range(streams - 1)
        ]
        readers = [asyncio.create_task(_drain(answer)) for answer in answers]
        waits = []
        for _ in range(PROBES):
            waits.append(asyncio.create_task(client.first_word_ms()))
            await asyncio.sleep(PROBE_EVERY_S)
        found = await asyncio.gather(*waits)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return statistics.median(found)


async def _drain(answer: aiohttp.ClientResponse) -> None:
    async for _ in answer.content.iter_any():
        pass


async def requests_per_s(client: Client) -> float:
    """Return how many short answers fifty callers get per second."""
    ends = time.perf_counter() + SHORT_S
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await client.read("fast", 1)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def rss_mb(client: Client, pid: int) -> float:
    """Return the memory of Usher while five hundred streams wait."""
    async with AsyncExitStack() as stack:
        opened = (stack.enter_async_context(client.opened("held", 1)) for _ in range(WAITING + 1))
        await asyncio.gather(*opened)
        await asyncio.sleep(3.0)  # by then, every stream has sent comments
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")  # noqa: ASYNC240
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(ports: tuple[int, int], usher_pid: int, tokens: int) -> dict[str, Any]:
    """Return all figures."""
    figures: dict[str, Any] = {"ttft_ms": {}, "tokens_per_s": {}}
    used_us = 0.0
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        clients = dict(
            zip(("direct", "usher"), (Client(session, port) for port in ports), strict=True)
        )
        for client in clients.values():
            await client.up()
            await client.read("fast", 10)
        for name, client in clients.items():
            figures["ttft_ms"][name] = {str(n): await ttft_ms(client, n) for n in STREAMS}
            before = cpu_s(usher_pid)
            speeds = {str(n): await tokens_per_s(client, n, tokens) for n in STREAMS}
            figures["tokens_per_s"][name] = speeds
            used_us = (cpu_s(usher_pid) - before) * 1e6 / (sum(STREAMS) * tokens)
        figures["cpu_us_per_token"] = used_us
        figures["requests_per_s"] = await requests_per_s(clients["usher"])
        figures["rss_mb"] = await rss_mb(clients["usher"], usher_pid)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tokens", type=int, default=2000, help="number of tokens of each stream")
    options = parser.parse_args(arguments)
    server, usher = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(CONFIG.format(server=server, usher=usher), encoding="utf-8")
        with (
            process("-m", "benchmarks.api_server", str(server)),
            process("-m", "bot", "run", "-c", str(config)) as running,
        ):
            figures = asyncio.run(measured((server, usher), running.pid, options.tokens))
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<18}", json.dumps(value))


if __name__ == "__main__":
    main()
