"""Compares the HTTP API with the server behind it, in the same run.

`python -m benchmarks.api [--json] [--tokens 1000] [--llama-cpp URL]`: a stand-in server, Usher and this
client run as three processes, and each call passes through all of Usher: admission without a key,
durable acceptance and the queue. Calls to the server itself and by Usher take turns. The JSON has these keys:

- `ttft_ms`: the median time to the first word, of calls that begin evenly over time, while 1, 8 or 64
  streams of 50 tokens a second are open; {"direct": {"1", "8", "64"}, "usher": {…}}.
- `tokens_per_s`: the rate of all streams together, if the server writes as fast as it is read; likewise.
- `requests_per_s`: short answers, with 50 callers.
- `embeddings_per_s`: single texts of a document, each a call of its own, with 50 callers and vectors of
  1024 numbers; {"direct", "usher"}.
- `rss_mb`: the memory of Usher with 500 streams waiting in line.
- `llama_cpp`: `ttft_ms` and `tokens_per_s` of the llama.cpp server at that address and its first model,
  as fast as it writes; null without one.

Without `--json`, `cpu_us_per_token` is printed as well: the processor time of Usher over all streams
of `tokens_per_s`.
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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.api_client import Client

STREAMS = (1, 8, 64)
ROUNDS = 3
PROBES = 12  # in each round
PROBE_EVERY_S = 0.1124  # no multiple of the 20 ms between two tokens, so probes meet all phases
SPREAD_S = 0.02
CALLERS = 50
SHORT_S = 5.0
WAITING = 500
REAL_TOKENS = 64
ROOT = Path(__file__).resolve().parent.parent
TEXTS = "capabilities: [text-to-text], vram: 1GB"
CONFIG = """
hosts:
  box: {{vram: 24GB, backends: {{server: {{kind: openai, url: "{server}", parallel: 256}}}}}}
models: {{{models}}}
limits: {{open_per_person: 2000, in_line_per_person: 2000, embeddings_open: 2000}}
chats: {{}}
api: {{port: {usher}, open: true}}
"""
STAND_IN = f"""
  fast: {{backends: [server], {TEXTS}, parallel: 256}},
  paced: {{backends: [server], {TEXTS}, parallel: 256}},
  held: {{backends: [server], {TEXTS}, parallel: 1, max_waiting: 2000}},
  words: {{backends: [server], capabilities: [embedding], vram: 1GB, parallel: 256}}
"""
REAL = f"""
  real: {{model: "MODEL", backends: [server], {TEXTS}, parallel: 256}}
"""
Figure = Callable[[Client, int], Awaitable[float]]


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


async def tokens_per_s(client: Client, streams: int, tokens: int) -> float:
    """Return the rate of all streams together."""
    began = time.perf_counter()
    words = await asyncio.gather(*(client.read(client.fast, tokens) for _ in range(streams)))
    return sum(words) / (time.perf_counter() - began)


async def ttft_ms(client: Client, streams: int) -> float:
    """Return the median time to the first word while that many streams are open."""
    others = []
    for _ in range(streams - 1):
        others.append(asyncio.create_task(client.go_on()))
        await asyncio.sleep(SPREAD_S / streams)  # their tokens come evenly over time, too
    await asyncio.sleep(1.0)
    waits = []
    for _ in range(PROBES):
        waits.append(asyncio.create_task(client.first_word_ms()))
        await asyncio.sleep(PROBE_EVERY_S)
    found = await asyncio.gather(*waits)
    for other in others:
        other.cancel()
    for failed in await asyncio.gather(*others, return_exceptions=True):
        if not isinstance(failed, asyncio.CancelledError):
            raise SystemExit(f"a stream ended: {failed!r}")
    return statistics.median(found)


async def in_turns(clients: Mapping[str, Client], figure: Figure) -> dict[str, dict[str, float]]:
    """Return a figure by client and number of streams: the median of rounds that take turns."""
    found: dict[str, dict[str, float]] = {name: {} for name in clients}
    for streams in STREAMS:
        rounds = [
            {name: await figure(client, streams) for name, client in clients.items()}
            for _ in range(ROUNDS)
        ]
        for name in clients:
            found[name][str(streams)] = statistics.median(each[name] for each in rounds)
    return found


async def requests_per_s(client: Client) -> float:
    """Return how many short answers fifty callers get per second."""
    ends = time.perf_counter() + SHORT_S
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await client.read(client.fast, 1)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def embeddings_per_s(clients: Mapping[str, Client]) -> dict[str, float]:
    """Return how many texts fifty callers get embedded per second, of each client in turns."""
    rounds = [
        {name: await _embedded_per_s(client) for name, client in clients.items()}
        for _ in range(ROUNDS)
    ]
    return {name: statistics.median(each[name] for each in rounds) for name in clients}


async def _embedded_per_s(client: Client) -> float:
    began = time.perf_counter()
    ends = began + SHORT_S / ROUNDS
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await client.embed("The cat sleeps on the warm sofa while it rains outside. " * 18)
            done += 1

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


class Compared:
    """A server and Usher in front of it, as processes, with a client for each."""

    def __init__(self, clients: Mapping[str, Client], usher_pid: int) -> None:
        self.clients = clients
        self.usher = clients["usher"]
        self.usher_pid = usher_pid

    async def both(self, tokens: int) -> dict[str, Any]:
        """Return the figures that are compared."""
        return {
            "ttft_ms": await in_turns(self.clients, ttft_ms),
            "tokens_per_s": await in_turns(
                self.clients, lambda client, streams: tokens_per_s(client, streams, tokens)
            ),
        }


def client_of(session: aiohttp.ClientSession, address: str, model: str | None) -> Client:
    """Return a client of the stand-in, or of a real model."""
    if model is None:
        return Client(session, address)
    return Client(session, address, paced=model, fast=model, long=REAL_TOKENS)


@asynccontextmanager
async def compared(server: str, model: str | None = None) -> AsyncIterator[Compared]:
    """Run Usher in front of a server until the block ends: the stand-in, or one with a real model."""
    models = STAND_IN if model is None else REAL.replace("MODEL", model)
    port = free_port()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            text = CONFIG.format(server=server, models=models, usher=port)
            config.write_text(text, encoding="utf-8")
            with process("-m", "bot", "run", "-c", str(config)) as usher:
                by_usher = f"http://127.0.0.1:{port}"
                clients = {
                    "direct": client_of(session, server, model),
                    "usher": client_of(session, by_usher, model and "real"),
                }
                for client in clients.values():
                    await client.up()
                    await client.read(client.fast, 10)
                yield Compared(clients, usher.pid)


async def of_stand_in(tokens: int) -> tuple[dict[str, Any], float]:
    """Return all figures of the stand-in, and the processor time of Usher per token in µs."""
    port = free_port()
    with process("-m", "benchmarks.api_server", str(port)):
        async with compared(f"http://127.0.0.1:{port}") as pair:
            figures = await pair.both(tokens)
            before = cpu_s(pair.usher_pid)
            await tokens_per_s(pair.usher, max(STREAMS), tokens)
            used_us = (cpu_s(pair.usher_pid) - before) * 1e6 / (max(STREAMS) * tokens)
            figures["requests_per_s"] = await requests_per_s(pair.usher)
            figures["embeddings_per_s"] = await embeddings_per_s(pair.clients)
            figures["rss_mb"] = await rss_mb(pair.usher, pair.usher_pid)
    return figures, used_us


async def of_llama_cpp(server: str) -> dict[str, Any]:
    """Return the compared figures of a real server."""
    async with aiohttp.ClientSession() as session:
        model = (await Client(session, server).up())[0]
    async with compared(server, model) as pair:
        return await pair.both(REAL_TOKENS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tokens", type=int, default=1000, help="number of tokens of each stream")
    parser.add_argument("--llama-cpp", metavar="URL", help="the address of a llama.cpp server")
    options = parser.parse_args(arguments)
    figures, used_us = asyncio.run(of_stand_in(options.tokens))
    address = options.llama_cpp
    figures["llama_cpp"] = asyncio.run(of_llama_cpp(address.rstrip("/"))) if address else None
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in (*figures.items(), ("cpu_us_per_token", used_us)):
        print(f"{name:<18}", json.dumps(value))


if __name__ == "__main__":
    main()
